package script

import (
	"context"

	"github.com/decandb/decan/internal/value"
)

// Host is what a stored procedure or a trigger may do: work on the documents of
// one logical key, inside of one transaction that the caller commits when Run
// returned no error, and drops otherwise.
//
// Its methods are called one at a time, on the goroutine of [Program.Run]. Their
// context ends with the time of the script: a method that takes long has to look
// at it, since whatever it answers then the run is over. An
// error with a code that scripts know (400, 403, 404, 409, 412, 413, 429, 449)
// goes to the script's callback, which may handle it; every other one ends the
// run and is what Run returns.
type Host interface {
	// Links returns the links of the container: by RIDs, such as
	// "dbs/1ZAmAA==/colls/1ZAmAJT9ABk=", and by names, such as "dbs/d/colls/c".
	// Neither ends in a slash. Documents are to have a _self below the first.
	Links() (self, alt string)

	// Quota returns the usage and the limits of the container, in the form of the
	// headers x-ms-resource-usage and x-ms-resource-quota.
	Quota() (usage, quota string)

	// Room returns how many more operations the transaction takes before its
	// budget is near the end. Operations beyond that are not accepted, which the
	// script learns from the result of its call.
	Room() int

	// Create, Upsert and Replace write a document and return it as it is then
	// stored, system properties included.
	Create(ctx context.Context, w Write) (value.Value, error)
	Upsert(ctx context.Context, w Write) (value.Value, error)
	Replace(ctx context.Context, w Write) (value.Value, error)

	// Read returns a document, or undefined when it still is the version that
	// the script says it knows.
	Read(ctx context.Context, target Target) (value.Value, error)

	// Delete removes a document.
	Delete(ctx context.Context, target Target) error

	// Query returns a page of rows.
	Query(ctx context.Context, q Query) (Page, error)
}

// Target names a document of the container, by its RID or its id, whichever is
// not empty, with the conditions of the operation.
type Target struct {
	RID, ID     string
	ETag        string // the version it must have
	IfNoneMatch string // the version that need not be read again
}

// Write is a document to write. Target is empty for a create and an upsert, but
// for the condition.
type Write struct {
	Target      Target
	Document    value.Value // an object with an id, unless the script wants no id made
	IndexAction string      // include, exclude, default or empty
}

// Query asks for a page of documents.
type Query struct {
	Text         string      // empty for all documents
	Parameters   value.Value // array of {name, value}, undefined for none
	PageSize     int         // rows; -1 leaves it to the host
	Continuation string      // of the page before

	// Keep, when it is not nil, is asked for each document in turn: the page has
	// those that it keeps, counts only these, and its continuation goes on
	// behind the last one that was asked about. An error of Keep is returned as
	// it is.
	Keep func(value.Value) (bool, error)
}

// Page is the answer to a Query.
type Page struct {
	Rows         []value.Value // not needed with Keep
	Continuation string        // empty at the end
}
