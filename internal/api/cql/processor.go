package cql

import (
	"context"
	"errors"
	"net/netip"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/table"
)

// Processor runs statements. It is safe for concurrent use.
//
// Its errors are *frame.Error, *cql.SyntaxError, *table.Error, *row.Error or
// *status.Error, or [ErrStale]; every other error is reported to the client as an internal one and
// logged.
type Processor interface {
	// Prepare analyzes the text of a statement. keyspace is the one in use, "" for
	// none. The statement is kept for later requests of any client.
	Prepare(ctx context.Context, session *Session, keyspace, text string) (*Statement, error)

	// Execute runs a statement of Prepare. With an error, the result may have warnings.
	Execute(ctx context.Context, session *Session, statement *Statement, request *Request) (*Result, error)

	// Batch runs statements of kind Modify together. It is called with at least one.
	Batch(ctx context.Context, session *Session, batch *Batch) (*Result, error)

	// Traced keeps the trace of a request that asked for one. It is called before the
	// request is answered.
	Traced(trace *Trace)
}

// ErrStale is the error of Execute and Batch for a statement that was prepared with
// another schema than the current one. The door prepares a text again, and tells the
// client of a prepared statement that it has to.
var ErrStale = errors.New("the schema has changed since the statement was prepared")

// Session is a client that has signed in. It never changes.
type Session struct {
	Caller  auth.Caller
	User    string
	Remote  netip.AddrPort
	Version frame.Version
}

// Kind says what a statement does, as far as the door treats it in its own way.
type Kind uint8

// The kinds.
const (
	Read   Kind = iota // changes nothing
	Modify             // INSERT, UPDATE or DELETE: may be in a batch
	Write              // another change of data: a text BEGIN BATCH, TRUNCATE
	Define             // a change of the schema
	Use                // USE
)

// Statement is a statement that was analyzed. It never changes.
type Statement struct {
	Kind    Kind
	Markers frame.Columns
	Keys    []uint16      // the markers of the partition key, in its order; nil for none
	Result  frame.Columns // none for statements with IF, whose results describe themselves

	Tables []Table // whose changes make the statement invalid

	// Verb and Names are for the audit log: such as "CREATE TABLE", and the table or
	// only the keyspace that the text names. A batch has those of its first table.
	Verb  string
	Names Table

	// Permission and On are what a caller needs who is not the owner, as errors name
	// them: "MODIFY" and "<table ks.t>". They are empty for what everyone may do.
	Permission, On string

	Bytes int // the approximate memory of Plan
	Plan  any // the processor's
}

// Table names a table.
type Table struct{ Keyspace, Name string }

// Request has the parameters of a statement. Its bytes do not change, and belong to the
// memory of the whole request.
type Request struct {
	Keyspace   string
	Values     []frame.Value // one for each marker, in order
	Parameters *frame.Parameters
	Payload    []frame.Pair[[]byte]
	Trace      frame.UUID // zero for none

	// Memory holds memory for the answer until it is sent. Its error is an *frame.Error if
	// requests and answers take too much. It may be nil.
	Memory table.Memory
}

// Batch is the request of a batch.
type Batch struct {
	Type       frame.BatchType
	Statements []BatchStatement
	Keyspace   string
	Parameters *frame.Parameters
	Payload    []frame.Pair[[]byte]
	Trace      frame.UUID // zero for none
}

// BatchStatement is a statement of a batch with its values.
type BatchStatement struct {
	Statement *Statement
	Values    []frame.Value
}

// Result is the result of a statement. The zero value is that of a write.
type Result struct {
	Rows     *Rows  // nil for none
	Keyspace string // of USE: the name of the keyspace as stored

	// Changes are changes of the schema, in their order. The last one is the answer,
	// and all of them are events.
	Changes []frame.SchemaChange

	Warnings []string
	Charge   float64 // request units
	Payload  []frame.Pair[[]byte]
}

// Rows are the rows of a result.
type Rows struct {
	Columns     frame.Columns
	Count       int
	Cells       []byte // as frame.AppendBytes appends them
	PagingState []byte // nil for the last page
}
