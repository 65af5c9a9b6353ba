package query

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/index"
)

// Source is where a plan reads documents from: the snapshot of a partition, or
// a list. One that has an index is an [Indexed] as well.
type Source interface {
	// Candidates yields documents that may satisfy need.Access; more than those
	// are welcome. After an error it yields nothing more. It may be called
	// again, and stops early when ctx ends.
	Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error]
}

// Need says which documents a plan asks for, and how.
type Need struct {
	Access index.Expr // those that may satisfy it
	After  uint64     // those with greater numbers

	// Unordered says that the documents may come in any order, such as the one
	// in which they are stored. Otherwise they come in the order of their
	// numbers.
	Unordered bool
	// Bare says that nobody looks at the system properties, so that bodies may
	// come without them.
	Bare bool
}

// Candidate is a document that a [Source] offers.
type Candidate struct {
	Number uint64     // unique in the container, never zero
	Body   []byte     // complete JSON without duplicate names, system properties included unless Bare; valid until the next candidate
	Term   index.Term // of Indexed.Ordered: under which the document was found; "" for one that has none
}

// Indexed is a [Source] that can answer from its index alone. Its methods look
// at the documents of the source's part of the key space, as Candidates does,
// and at no others. A plan falls back to Candidates where an answer is not
// exact.
type Indexed interface {
	Source

	// Count returns how many documents satisfy access according to the index, or
	// most when there are as many or more. exact says that each counted document
	// satisfies the predicate that access was made of and that none is missing;
	// otherwise the figure is an upper estimate, -1 when finding one out costs as
	// much as reading. The access index.All counts all documents.
	Count(ctx context.Context, access index.Expr, most int64) (n int64, exact bool, err error)

	// Terms yields the terms of a walk in order, each with the number of
	// documents that have it.
	Terms(ctx context.Context, walk Walk) iter.Seq2[TermCount, error]

	// Ordered yields the documents of a walk: in the order of its terms, and
	// under one term in the order of numbers, both descending in a walk that is.
	// A document that has several terms of the walk comes several times.
	Ordered(ctx context.Context, walk Walk) iter.Seq2[Candidate, error]
}

// Walk is a way through the terms of an index in their order.
type Walk struct {
	Span index.Span // the terms
	Desc bool       // from the greatest to the least

	// Missing says that documents without any term of Span belong to the walk
	// too: in front of all others, and behind them when Desc. Their Term is "".
	// Terms yields them as one TermCount with the Term "".
	Missing bool

	// From is where to begin: at this term, or behind it in the direction of the
	// walk when it is not there. "" is the beginning of a walk, and with
	// Started its documents without a term.
	From    index.Term
	Started bool
	// After leaves out, of the documents of the term From, those up to this
	// number; those down to it when Desc. Zero leaves none out.
	After uint64

	Access index.Expr // only documents that may satisfy it; of Terms: that satisfy it exactly, see [Indexed.Count]
	Bare   bool       // see [Need]
}

// TermCount is a term and the number of documents of a walk that have it,
// never zero.
type TermCount struct {
	Term  index.Term
	Count int64
}
