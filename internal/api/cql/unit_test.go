package cql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	syntax "github.com/decandb/decan/internal/table/cql"
)

// TestErrorWords: errors of the packages below in the words of the protocol.
func TestErrorWords(t *testing.T) {
	of := failed{consistency: frame.Quorum}
	writing := failed{write: true, consistency: frame.Quorum}
	for _, c := range []struct {
		of       failed
		err      error
		code     frame.ErrorCode
		details  string
		message  string
		internal bool
	}{
		{of, &frame.Error{Code: frame.CodeTruncate, Message: "m"}, frame.CodeTruncate, "<nil>", "m", false},
		{of, &table.Error{Class: table.Invalid, Text: "m"}, frame.CodeInvalid, "<nil>", "m", false},
		{of, &table.Error{Class: table.Syntax, Text: "m"}, frame.CodeSyntax, "<nil>", "m", false},
		{of, &table.Error{Class: table.Config, Text: "m"}, frame.CodeConfig, "<nil>", "m", false},
		{of, &table.Error{Class: table.Exists, Text: "m", Keyspace: "k", Table: "t"}, frame.CodeAlreadyExists, "{k t}", "m", false},
		{of, &table.Error{Class: table.Unauthorized, Text: "m"}, frame.CodeUnauthorized, "<nil>", "m", false},
		{of, &table.Error{Class: table.FunctionFailed, Text: "m", Function: "f", Arguments: []string{"int"}}, frame.CodeFunctionFailure, "{system f [int]}", "m", false},
		{of, &table.Error{Class: table.Protocol, Text: "m"}, frame.CodeProtocol, "<nil>", "m", false},
		{of, &syntax.SyntaxError{Text: "m"}, frame.CodeSyntax, "<nil>", "m", false},
		{of, fmt.Errorf("bind: %w", &row.Error{Text: "m"}), frame.CodeInvalid, "<nil>", "m", false},
		{of, context.DeadlineExceeded, frame.CodeReadTimeout, "{QUORUM 0 2 false}", "Operation timed out - received only 0 responses.", false},
		{writing, context.Canceled, frame.CodeWriteTimeout, "{QUORUM 0 3 SIMPLE 0}", "Operation timed out - received only 0 responses.", false},
		{of, status.BadRequest("m"), frame.CodeInvalid, "<nil>", "m", false},
		{of, status.Unauthorized(0, "m"), frame.CodeUnauthorized, "<nil>", "m", false},
		{of, status.Forbidden(0, "m"), frame.CodeUnauthorized, "<nil>", "m", false},
		{of, status.New(status.CodeRequestTimeout, 0, "m"), frame.CodeReadTimeout, "{QUORUM 0 2 false}", "Operation timed out - received only 0 responses.", false},
		{of, status.New(status.CodeUnavailable, 0, "m"), frame.CodeUnavailable, "{QUORUM 2 0}", "Cannot achieve consistency level QUORUM: m", false},
		{writing, status.New(status.CodeInsufficientStorage, 0, "m"), frame.CodeUnavailable, "{QUORUM 3 0}", "Cannot achieve consistency level QUORUM: m", false},
		{writing, status.New(status.CodeTooLarge, 0, "m"), frame.CodeWriteFailure, "{QUORUM 0 3 [{0.0.0.0 0}] SIMPLE}", "m", false},
		{of, status.New(status.CodeLocked, 0, "m"), frame.CodeReadFailure, "{QUORUM 0 2 [{0.0.0.0 0}] false}", "m", false},
		{writing, &WriteError{Type: frame.WriteBatch, Err: status.New(status.CodeRequestTimeout, 0, "m")}, frame.CodeWriteTimeout, "{QUORUM 0 3 BATCH 0}", "Operation timed out - received only 0 responses.", false},
		{writing, &WriteError{Type: frame.WriteBatchLog, Err: context.DeadlineExceeded}, frame.CodeWriteTimeout, "{QUORUM 0 3 BATCH_LOG 0}", "Operation timed out - received only 0 responses.", false},
		{writing, &WriteError{Type: frame.WriteCounter, Err: status.New(status.CodeTooLarge, 0, "m")}, frame.CodeWriteFailure, "{QUORUM 0 3 [{0.0.0.0 0}] COUNTER}", "m", false},
		{writing, &WriteError{Type: frame.WriteCAS, Err: &table.Error{Class: table.Invalid, Text: "m"}}, frame.CodeInvalid, "<nil>", "m", false},
		{of, status.New(status.CodeGone, 0, "m"), frame.CodeServer, "<nil>", "m", false},
		{of, status.New(status.CodeInternal, 0, "m"), frame.CodeServer, "<nil>", "Internal error. The log of the server says more.", true},
		{of, errors.New("m"), frame.CodeServer, "<nil>", "Internal error. The log of the server says more.", true},
	} {
		got, internal := c.of.word(c.err)
		if got.Code != c.code || got.Message != c.message || fmt.Sprint(got.Details) != c.details || internal != c.internal {
			t.Errorf("%v: %x %s %v, internal %v", c.err, got.Code, got.Message, got.Details, internal)
		}
	}
}

// TestBudgetOrder: a request that waits is not overtaken by smaller ones, and leaves the
// queue when it is given up.
func TestBudgetOrder(t *testing.T) {
	b := newBudget(10)
	if !b.try(8) || b.try(3) || !b.try(2) {
		t.Fatal("10 bytes are not 10 bytes")
	}
	b.release(2)
	order := make(chan int, 2)
	waiting := func(n int) {
		for {
			b.mu.Lock()
			reached := len(b.waiting) == n
			b.mu.Unlock()
			if reached {
				return
			}
		}
	}
	go func() {
		if err := b.take(t.Context(), 20); err == nil {
			order <- 20
			b.release(20)
		}
	}()
	waiting(1)
	if b.try(1) {
		t.Error("1 byte overtakes 20")
	}
	go func() {
		if err := b.take(t.Context(), 1); err == nil {
			order <- 1
			b.release(1)
		}
	}()
	waiting(2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := b.take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	waiting(2)
	b.release(8)
	if first, second := <-order, <-order; first != 20 || second != 1 {
		t.Errorf("%d, then %d", first, second)
	}
	b.add(11)
	if b.try(1) {
		t.Error("the budget is full")
	}
	b.release(11)
}

// TestDependsOn: which changes of the schema make a statement invalid.
func TestDependsOn(t *testing.T) {
	s := &Statement{Tables: []Table{{"ks", "t"}}}
	for _, c := range []struct {
		change, target, keyspace, name string
		want                           bool
	}{
		{frame.Updated, frame.TargetTable, "ks", "t", true},
		{frame.Dropped, frame.TargetTable, "ks", "t", true},
		{frame.Updated, frame.TargetTable, "ks", "u", false},
		{frame.Updated, frame.TargetTable, "other", "t", false},
		{frame.Updated, frame.TargetType, "ks", "x", true},
		{frame.Updated, frame.TargetType, "other", "x", false},
		{frame.Created, frame.TargetType, "ks", "x", false},
		{frame.Dropped, frame.TargetKeyspace, "ks", "", true},
		{frame.Updated, frame.TargetKeyspace, "ks", "", false},
		{frame.Dropped, frame.TargetKeyspace, "other", "", false},
	} {
		p := newPrepared(10, 1<<20)
		p.add(newEntry("", "q", s))
		p.invalidate(&frame.SchemaChange{Change: c.change, Target: c.target, Keyspace: c.keyspace, Name: c.name})
		if got := len(p.entries) == 0; got != c.want {
			t.Errorf("%+v: forgotten %v", c, got)
		}
	}
}

// TestTypeOf: every kind of type has its type of the protocol.
func TestTypeOf(t *testing.T) {
	for k := row.KindASCII; k < row.KindList; k++ {
		of := TypeOf(row.Native(k))
		want := k.String()
		if k == row.KindText {
			want = "varchar"
		}
		if got := of.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := of.MarshalClass(), row.Native(k).ClassName(); got != want {
			t.Errorf("the class of %s is %s, want %s", k, got, want)
		}
	}
	integer, text := row.Native(row.KindInt), row.Native(row.KindText)
	udt := row.UDTOf("ks", "u", []string{"a"}, []*row.Type{row.SetOf(integer)})
	of := TypeOf(row.MapOf(text, row.TupleOf(row.ListOf(udt).Freeze(), row.VectorOf(integer, 3))))
	if got, want := of.String(), "map<varchar, tuple<list<udt ks.u(a set<int>)>, custom org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.Int32Type , 3)>>"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
