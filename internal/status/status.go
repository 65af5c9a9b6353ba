// Package status defines the only error type that crosses packages.
//
// An [Error] is made where the fact is known: partition knows that an etag
// differs, so partition returns PreconditionFailed. The packages between pass it
// on unchanged, and a door translates it once. Every other error is an internal
// error or trouble with the environment, and a door answers it with 500.
//
// Codes and sub-codes are the numbers that Azure Cosmos DB documents; codes.go
// has the complete list. The package knows no protocol: it has no headers, no
// frames and no bodies.
//
// Page: docs/architecture.md, "Floor 0: words".
package status

import (
	"errors"
	"fmt"
	"time"
)

// Error describes a failure in terms on which a client can act.
type Error struct {
	Code       Code
	Sub        Sub           // zero if the code needs no detail
	Message    string        // for people: names the thing, the limit and the remedy
	Reason     Reason        // nil for most; a door may have better words for it than Message
	Quoted     bool          // Message quotes the service; a door for its clients adds the form in which the service sends it
	RetryAfter time.Duration // TooManyRequests and RetryWith only
	Info       string        // machine-readable detail for the client: for CrossPartition, the query plan as JSON
	Cause      error         // never shown to a client
}

// Error returns the message with its code, and the cause for logs.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d", e.Code)
	if e.Sub != 0 {
		text += fmt.Sprintf("/%d", e.Sub)
	}
	text += " " + e.Message
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns an error with a code and a formatted message.
func New(code Code, sub Sub, format string, args ...any) *Error {
	return &Error{Code: code, Sub: sub, Message: fmt.Sprintf(format, args...)}
}

// From returns the Error in err's chain, or nil if there is none.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// CodeOf returns the code of err: zero for nil, and CodeInternal if its chain
// has no Error.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	if e := From(err); e != nil {
		return e.Code
	}
	return CodeInternal
}

// SubOf returns the sub-code of err, zero if it has none.
func SubOf(err error) Sub {
	if e := From(err); e != nil {
		return e.Sub
	}
	return 0
}

// BadRequest returns an error for a request that is wrong whatever is stored.
func BadRequest(format string, args ...any) *Error {
	return New(CodeBadRequest, 0, format, args...)
}

// Service returns an error of a request that is wrong, in the words of Azure Cosmos DB.
// Programs look for these sentences, so [Error.Quoted] is set.
func Service(format string, args ...any) *Error {
	e := BadRequest(format, args...)
	e.Quoted = true
	return e
}

// Unsupported returns an error for a feature that Decan does not have yet. The
// message names the feature; docs/compatibility.md lists it.
func Unsupported(feature string) *Error {
	return New(CodeBadRequest, 0, "%s is not supported by this version of Decan. See docs/compatibility.md.", feature)
}

// PartitionKeyMismatch returns an error for a key that does not fit the document
// or the container's definition. Clients refresh their cached container and
// retry once.
func PartitionKeyMismatch(format string, args ...any) *Error {
	return New(CodeBadRequest, SubPartitionKeyMismatch, format, args...)
}

// CrossPartition returns an error for a query whose results the client must
// merge. plan is the query plan as JSON, which clients read from the error.
func CrossPartition(plan string) *Error {
	e := Because(CodeBadRequest, SubCrossPartitionQuery, QueryNotServed{})
	e.Info = plan
	return e
}

// Unauthorized returns an error for a caller who was not authenticated.
func Unauthorized(sub Sub, format string, args ...any) *Error {
	return New(CodeUnauthorized, sub, format, args...)
}

// Forbidden returns an error for an operation that the caller may not do, or
// that a quota forbids.
func Forbidden(sub Sub, format string, args ...any) *Error {
	return New(CodeForbidden, sub, format, args...)
}

// NotFound returns the error for a resource that does not exist.
func NotFound() *Error {
	return Because(CodeNotFound, 0, Missing{})
}

// OwnerNotFound returns the error for a resource whose database or container
// does not exist. Clients drop what they have cached for its name.
func OwnerNotFound() *Error {
	return New(CodeNotFound, SubOwnerNotFound, "Owner resource does not exist.")
}

// SessionNotAvailable returns the error for a session token with an LSN that
// this partition has not reached.
func SessionNotAvailable() *Error {
	return Because(CodeNotFound, SubReadSessionNotAvailable, SessionAhead{})
}

// Conflict returns the error for a resource whose id exists already.
func Conflict() *Error {
	return New(CodeConflict, 0, "Entity with the specified id already exists in the system.")
}

// PartitionMoved returns the error for a key, range or generation that the
// partition does not serve: take a newer view and retry. The engine handles it,
// and returns it only to requests that name the partition themselves.
func PartitionMoved(sub Sub) *Error {
	return New(CodeGone, sub, "The requested partition key range is no longer available at this server.")
}

// PreconditionFailed returns the error for an etag condition that is false.
func PreconditionFailed() *Error {
	return Because(CodePreconditionFailed, 0, ConditionFailed{})
}

// TooLarge returns an error for a request or document that exceeds its limit.
func TooLarge(format string, args ...any) *Error {
	return New(CodeTooLarge, 0, format, args...)
}

// TooManyRequests returns an error for a budget that is used up. after is how
// long the client must wait before it retries.
func TooManyRequests(sub Sub, after time.Duration, format string, args ...any) *Error {
	e := New(CodeTooManyRequests, sub, format, args...)
	e.RetryAfter = after
	return e
}

// InsufficientStorage returns an error for a request whose rows have no room on the
// disk. The request has had no effect, and a client that repeats it at once is
// refused again.
func InsufficientStorage(format string, args ...any) *Error {
	return New(CodeInsufficientStorage, 0, format, args...)
}

// Unavailable returns an error for an unknown outcome, or for a partition that
// cannot serve now. cause goes only to the log.
func Unavailable(cause error, format string, args ...any) *Error {
	e := New(CodeUnavailable, 0, format, args...)
	e.Cause = cause
	return e
}

// Clip returns text that a client has sent, shortened to charsMax characters, so that
// it does not fill a message.
func Clip(text string, charsMax int) string {
	n := 0
	for i := range text {
		if n++; n > charsMax {
			return text[:i] + "..."
		}
	}
	return text
}
