package script

import (
	"context"

	"github.com/decandb/decan/internal/value"
)

// Host performs the operations of a stored procedure or a trigger on the
// documents of one logical key, inside one transaction. The caller commits the
// transaction if Run returned no error, and otherwise drops it.
//
// Its methods are called one at a time, on the goroutine of [Program.Run]. Their
// context ends with the time of the script; a long method must check it, because
// its result is ignored after that. An error with a code that scripts can handle
// (400, 403, 404, 409, 412, 413, 429, 449) is passed to the script's callback;
// every other error ends the run, and Run returns it.
type Host interface {
	// Container returns the link of the container by RIDs, such as
	// "dbs/1ZAmAA==/colls/1ZAmAJT9ABk=", without a trailing slash, and the names of
	// its database and its own. The _self of documents must begin with the link.
	Container() (self, database, name string)

	// Quota returns the usage and the limits of the container, in the form of the
	// headers x-ms-resource-usage and x-ms-resource-quota.
	Quota() (usage, quota string)

	// Room returns how many more operations the transaction accepts before its
	// budget is nearly used up. Further operations are refused; the script sees
	// that in the result of its call.
	Room() int

	// Create, Upsert and Replace write a document and return its stored form,
	// system properties included.
	Create(ctx context.Context, w Write) (value.Value, error)
	Upsert(ctx context.Context, w Write) (value.Value, error)
	Replace(ctx context.Context, w Write) (value.Value, error)

	// Read returns a document, or undefined if it still has the version that the
	// script knows.
	Read(ctx context.Context, target Target) (value.Value, error)

	// Delete removes a document.
	Delete(ctx context.Context, target Target) error

	// Query returns a page of rows.
	Query(ctx context.Context, q Query) (Page, error)
}

// Target names a document of the container by its RID or its id, whichever is
// not empty, and the conditions of the operation.
type Target struct {
	RID, ID     string
	ETag        string // the version that it must have
	IfNoneMatch string // the version that need not be read again
}

// Write is a document to write. For a create and an upsert, Target has only
// conditions.
type Write struct {
	Target      Target
	Document    value.Value // an object with an id, unless automatic ids are disabled
	IndexAction string      // include, exclude, default or empty
}

// Query asks for a page of documents.
type Query struct {
	Text         string      // empty for all documents
	Parameters   value.Value // array of {name, value}, undefined for none
	PageSize     int         // rows; -1 lets the host choose
	Continuation string      // of the previous page

	// Keep, if not nil, is called with each document in turn: the page contains
	// and counts only documents for which it returns true, and its continuation
	// continues after the last document that was passed to it. An error of Keep
	// is returned unchanged.
	Keep func(value.Value) (bool, error)
}

// Page is the result of a Query.
type Page struct {
	Rows         []value.Value // not needed with Keep
	Continuation string        // empty at the end
}
