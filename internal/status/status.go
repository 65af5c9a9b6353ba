// Package status is the only error type that crosses packages.
//
// An [Error] is made where the fact is known (partition knows that an etag
// differs, so partition says PreconditionFailed), is passed on unchanged by the
// floors between, and is translated once, in a door. Everything that is not an
// Error is the world's trouble or ours, and a door answers it with 500.
//
// Codes and sub-codes are the numbers that Azure Cosmos DB documents, as a
// closed list in codes.go. The package knows no protocol: it has no headers, no
// frames and no bodies.
//
// Page: docs/architecture.md, "Floor 0: words".
package status

import (
	"errors"
	"fmt"
	"time"
)

// Error says what went wrong in terms a client may act on.
type Error struct {
	Code       Code
	Sub        Sub           // zero when the code says it all
	Message    string        // for people: names the thing, the limit and the remedy
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

// New makes an error from a code and a formatted message.
func New(code Code, sub Sub, format string, args ...any) *Error {
	return &Error{Code: code, Sub: sub, Message: fmt.Sprintf(format, args...)}
}

// From returns the Error in err's chain, or nil when there is none.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// CodeOf returns the code of err: zero for nil, Internal for an error that
// carries no Error.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	if e := From(err); e != nil {
		return e.Code
	}
	return CodeInternal
}

// SubOf returns the sub-code of err, zero when it has none.
func SubOf(err error) Sub {
	if e := From(err); e != nil {
		return e.Sub
	}
	return 0
}

// BadRequest says that the request itself is wrong, whatever is stored.
func BadRequest(format string, args ...any) *Error {
	return New(CodeBadRequest, 0, format, args...)
}

// Unsupported says that the request asks for a feature that Decan does not
// have yet. The feature's name is part of the message, and
// docs/compatibility.md lists it.
func Unsupported(feature string) *Error {
	return New(CodeBadRequest, 0, "%s is not supported by this version of Decan. See docs/compatibility.md.", feature)
}

// PartitionKeyMismatch says that the key in the request does not fit the
// document or the container's definition. Clients refresh their view of the
// container and try once more.
func PartitionKeyMismatch(format string, args ...any) *Error {
	return New(CodeBadRequest, SubPartitionKeyMismatch, format, args...)
}

// CrossPartition says that a query needs the client to merge partitions. plan
// is the query plan as JSON, which clients read from the error.
func CrossPartition(plan string, format string, args ...any) *Error {
	e := New(CodeBadRequest, SubCrossPartitionQuery, format, args...)
	e.Info = plan
	return e
}

// Unauthorized says that nobody was authenticated.
func Unauthorized(sub Sub, format string, args ...any) *Error {
	return New(CodeUnauthorized, sub, format, args...)
}

// Forbidden says that the caller may not do this, or that a quota forbids it.
func Forbidden(sub Sub, format string, args ...any) *Error {
	return New(CodeForbidden, sub, format, args...)
}

// NotFound says that the resource itself does not exist.
func NotFound() *Error {
	return New(CodeNotFound, 0, "Entity with the specified id does not exist in the system.")
}

// OwnerNotFound says that the database or container above the resource does
// not exist. Clients drop what they remember of its name.
func OwnerNotFound() *Error {
	return New(CodeNotFound, SubOwnerNotFound, "Owner resource does not exist.")
}

// SessionNotAvailable says that the session token names an LSN that this
// partition has not reached.
func SessionNotAvailable() *Error {
	return New(CodeNotFound, SubReadSessionNotAvailable, "The read session is not available for the input session token.")
}

// Conflict says that a resource with this id exists.
func Conflict() *Error {
	return New(CodeConflict, 0, "Entity with the specified id already exists in the system.")
}

// PartitionMoved says that the partition does not serve the key, range or
// generation asked for: take a newer view and try again. The engine handles it
// and shows it only to requests that named the partition themselves.
func PartitionMoved(sub Sub) *Error {
	return New(CodeGone, sub, "The requested partition key range is no longer available at this server.")
}

// PreconditionFailed says that an etag condition did not hold.
func PreconditionFailed() *Error {
	return New(CodePreconditionFailed, 0, "One of the specified pre-condition is not met.")
}

// TooLarge says that the request or the document exceeds its limit.
func TooLarge(format string, args ...any) *Error {
	return New(CodeTooLarge, 0, format, args...)
}

// TooManyRequests says that a budget is used up and when to come back.
func TooManyRequests(sub Sub, after time.Duration, format string, args ...any) *Error {
	e := New(CodeTooManyRequests, sub, format, args...)
	e.RetryAfter = after
	return e
}

// Unavailable says that the outcome is unknown or the partition cannot serve
// now; cause is for the log.
func Unavailable(cause error, format string, args ...any) *Error {
	e := New(CodeUnavailable, 0, format, args...)
	e.Cause = cause
	return e
}
