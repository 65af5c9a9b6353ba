package cql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	syntax "github.com/decandb/decan/internal/table/cql"
)

func protocolError(format string, args ...any) *frame.Error {
	return &frame.Error{Code: frame.CodeProtocol, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *frame.Error {
	return &frame.Error{Code: frame.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func overloaded() *frame.Error {
	return &frame.Error{Code: frame.CodeOverloaded, Message: "Server is in overloaded state. Cannot accept more requests at this point"}
}

func unprepared(id []byte) *frame.Error {
	return frame.WithDetails(frame.Unprepared{ID: id}, fmt.Sprintf("Prepared query with ID %x not found"+
		" (either the query was not prepared on this host (maybe the host has been restarted?)"+
		" or you have prepared too many queries and it has been evicted from the internal cache)", id))
}

// WriteError is the error of a write of a type. Clients decide by the type whether to try
// again.
type WriteError struct {
	Type frame.WriteType
	Err  error
}

// Error returns the text of the cause.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// failed is the context in which an error is worded.
type failed struct {
	write       bool
	kind        frame.WriteType // of a write; empty means simple
	consistency frame.Consistency
}

func (f failed) writeType() frame.WriteType { return cmp.Or(f.kind, frame.WriteSimple) }

// Of errors: how many replicas take part, as the service counts them.
const (
	replicasRead  = 2
	replicasWrite = 3
)

// word returns an error in the words of the protocol, and whether it is internal: then
// it is logged, since the client learns nothing of it.
func (f failed) word(err error) (worded *frame.Error, internal bool) {
	var own *frame.Error
	var statement *table.Error
	var value *row.Error
	var text *syntax.SyntaxError
	if typed, ok := errors.AsType[*WriteError](err); ok {
		f.write, f.kind = true, typed.Type
	}
	switch {
	case errors.As(err, &own):
		return own, false
	case errors.As(err, &statement):
		return wordTable(statement), false
	case errors.As(err, &text):
		return &frame.Error{Code: frame.CodeSyntax, Message: text.Text}, false
	case errors.As(err, &value):
		return invalid("%s", value.Text), false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return f.timeout(), false
	}
	known := status.From(err)
	if known == nil {
		return &frame.Error{Code: frame.CodeServer, Message: "Internal error. The log of the server says more."}, true
	}
	return f.wordStatus(known), known.Code == status.CodeInternal
}

func wordTable(e *table.Error) *frame.Error {
	switch e.Class {
	case table.Syntax:
		return &frame.Error{Code: frame.CodeSyntax, Message: e.Text}
	case table.Config:
		return &frame.Error{Code: frame.CodeConfig, Message: e.Text}
	case table.Exists:
		return frame.WithDetails(frame.AlreadyExists{Keyspace: e.Keyspace, Table: e.Table}, e.Text)
	case table.Unauthorized:
		return &frame.Error{Code: frame.CodeUnauthorized, Message: e.Text}
	case table.FunctionFailed:
		return frame.WithDetails(frame.FunctionFailure{Keyspace: "system", Function: e.Function, Arguments: e.Arguments}, e.Text)
	case table.Protocol:
		return &frame.Error{Code: frame.CodeProtocol, Message: e.Text}
	case table.Invalid:
	}
	return invalid("%s", e.Text)
}

func (f failed) timeout() *frame.Error {
	const text = "Operation timed out - received only 0 responses."
	if f.write {
		return frame.WithDetails(frame.WriteTimeout{Consistency: f.consistency, BlockFor: replicasWrite, Type: f.writeType()}, text)
	}
	return frame.WithDetails(frame.ReadTimeout{Consistency: f.consistency, BlockFor: replicasRead}, text)
}

// wordStatus words a status as the service maps it to the protocol.
func (f failed) wordStatus(e *status.Error) *frame.Error {
	if e.Code == status.CodeForbidden && e.Sub == status.SubPartitionKeyQuota {
		// The rest of the message is about documents.
		text, _, _ := strings.Cut(e.Message, ". ")
		return f.failure(text)
	}
	switch e.Code {
	case status.CodeBadRequest:
		return invalid("%s", e.Message)
	case status.CodeUnauthorized, status.CodeForbidden:
		return &frame.Error{Code: frame.CodeUnauthorized, Message: e.Message}
	case status.CodeRequestTimeout:
		return f.timeout()
	case status.CodeTooManyRequests:
		// The retry policies for the service divide the text at its commas.
		return &frame.Error{Code: frame.CodeOverloaded, Message: fmt.Sprintf(
			"Request rate is large: ActivityID=%s, RetryAfterMs=%d, Additional details='%s'", newTimeUUID(), max(1, (e.RetryAfter+time.Millisecond-1).Milliseconds()), e.Message)}
	case status.CodeUnavailable, status.CodeInsufficientStorage:
		required := int32(replicasRead)
		if f.write {
			required = replicasWrite
		}
		return frame.WithDetails(frame.Unavailable{Consistency: f.consistency, Required: required}, "Cannot achieve consistency level "+f.consistency.String()+": "+e.Message)
	case status.CodeNotFound, status.CodePreconditionFailed, status.CodeTooLarge, status.CodeLocked, status.CodeRetryWith:
		return f.failure(e.Message)
	case status.CodeInternal:
		return &frame.Error{Code: frame.CodeServer, Message: "Internal error. The log of the server says more."}
	}
	return &frame.Error{Code: frame.CodeServer, Message: e.Message}
}

// failure returns the error of a write, or a read, that was refused by its partition.
func (f failed) failure(text string) *frame.Error {
	failures := []frame.Failure{{Replica: netip.IPv4Unspecified()}}
	if f.write {
		return frame.WithDetails(frame.WriteFailure{Consistency: f.consistency, BlockFor: replicasWrite, Failures: failures, Type: f.writeType()}, text)
	}
	return frame.WithDetails(frame.ReadFailure{Consistency: f.consistency, BlockFor: replicasRead, Failures: failures}, text)
}
