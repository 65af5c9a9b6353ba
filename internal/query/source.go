package query

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/vector"
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
	// Want is about how many of the documents will be asked for when that is known, as
	// for a page whose filter the index tells exactly; zero when it may be all.
	Want int
	// Bare says that nobody looks at the system properties, so that bodies may
	// come without them.
	Bare bool
}

// Candidate is a document that a [Source] offers.
type Candidate struct {
	Number uint64     // unique in the container, never zero
	Body   []byte     // complete JSON without duplicate names, system properties included unless Bare; valid until the next candidate
	Term   index.Term // of Indexed.Ordered: under which the document was found; "" for one that has none
	Led    bool       // an index led to it, and it was not come across among all documents
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
	// much as reading. The access index.All counts all documents. It passes about
	// as many terms as it counts documents at most, and gives an estimate where
	// it had to pass more. It may be called while one of the others is under way.
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

	// Missing says that documents without any term of Place belong to the walk
	// too: in front of all others, and behind them when Desc. Their Term is "".
	// Terms yields them as one TermCount with the Term "".
	Missing bool
	Place   index.Span // that Span is a part of; the zero value is Span itself

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

	// Effort is how many terms a walk of documents may pass to find out which
	// satisfy Access; where that takes more, others come as well. Zero is any
	// number, and Terms always takes what it needs.
	Effort int64
}

// TermCount is a term and the number of documents of a walk that have it,
// never zero.
type TermCount struct {
	Term  index.Term
	Count int64
}

// Ranked is an [Indexed] that knows which documents may be the first of a
// ranking. A plan falls back to Candidates where those are not enough.
type Ranked interface {
	Indexed

	// Nearest yields the documents that have a vector, the nearest first, and of
	// equally near ones the greater number first, for as long as it is asked.
	// Documents without a vector are not among them.
	//
	// With a List the source may guess, and then the order is one of groups: first
	// the documents of the List best guesses, then those of the next ones; within
	// a group the nearest come first.
	Nearest(ctx context.Context, search Nearest) iter.Seq2[Candidate, error]

	// Latest yields what Candidates does, from the greatest number down. After
	// leaves out the documents from that number on; zero leaves none out.
	Latest(ctx context.Context, need Need) iter.Seq2[Candidate, error]
}

// Nearest asks a [Ranked] for the documents whose vectors are nearest to one.
type Nearest struct {
	Path   index.Path // of the vectors
	Form   index.Term // the id of what is stored of them; see [index.VectorForm]
	Vector []float32
	Metric vector.Metric

	K    int // how many documents will be asked for, most likely
	List int // how many guesses to compare exactly before others are made; 0 for no guesses

	// From leaves out, when Started, the documents that are not further away than
	// it. It is of searches without a List.
	From    vector.Scored
	Started bool

	Access index.Expr // only documents that may satisfy it
	Bare   bool       // see [Need]
}
