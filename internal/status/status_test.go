package status

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestErrorsKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("open partition 3: %w", Unavailable(io.ErrUnexpectedEOF, "The partition cannot serve."))
	if CodeOf(wrapped) != CodeUnavailable || SubOf(wrapped) != 0 {
		t.Errorf("got %d/%d, want 503", CodeOf(wrapped), SubOf(wrapped))
	}
	if !errors.Is(wrapped, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
	if strings.Contains(From(wrapped).Message, "EOF") {
		t.Error("the message for clients holds the cause")
	}
	if CodeOf(nil) != 0 || CodeOf(io.EOF) != CodeInternal || From(io.EOF) != nil {
		t.Error("nil is 0 and a foreign error is 500")
	}
}

func TestConstructors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *Error
		code Code
		sub  Sub
		text string
	}{
		{PartitionKeyMismatch("x"), 400, 1001, "BadRequest"},
		{CrossPartition("{}"), 400, 1004, "BadRequest"},
		{Unsupported("JOIN"), 400, 0, "BadRequest"},
		{Unauthorized(SubAuthorizationMissing, "x"), 401, 5000, "Unauthorized"},
		{Forbidden(SubPartitionKeyQuota, "x"), 403, 1014, "Forbidden"},
		{NotFound(), 404, 0, "NotFound"},
		{OwnerNotFound(), 404, 1003, "NotFound"},
		{SessionNotAvailable(), 404, 1002, "NotFound"},
		{Conflict(), 409, 0, "Conflict"},
		{PartitionMoved(SubRangeGone), 410, 1002, "Gone"},
		{PreconditionFailed(), 412, 0, "PreconditionFailed"},
		{TooLarge("x"), 413, 0, "RequestEntityTooLarge"},
		{TooManyRequests(SubRequestRateTooLarge, time.Second, "x"), 429, 3200, "TooManyRequests"},
	} {
		if c.err.Code != c.code || c.err.Sub != c.sub || c.err.Code.String() != c.text || c.err.Message == "" {
			t.Errorf("%v: got %d/%d %s, want %d/%d %s", c.err, c.err.Code, c.err.Sub, c.err.Code, c.code, c.sub, c.text)
		}
	}
	if Code(299).String() != "InternalServerError" {
		t.Error("an unknown code has its own name")
	}
	if !strings.Contains(Unsupported("JOIN").Message, "JOIN") || CrossPartition("{}").Info != "{}" {
		t.Error("the feature or the plan is lost")
	}
}
