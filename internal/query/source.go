package query

import (
	"context"
	"iter"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/vector"
)

// Source is where a plan reads documents from: the snapshot of a partition, or a list.
// A source with an index also implements [Indexed].
type Source interface {
	// Candidates yields the documents that may satisfy need.Access; it may yield
	// others too. After an error it yields nothing more. It may be called again, and
	// stops early if ctx ends.
	Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error]
}

// Need says which documents a plan wants, and how.
type Need struct {
	Access index.Expr // documents that may satisfy it
	After  uint64     // documents with greater numbers

	// Unordered says that the documents may come in any order, such as the order of
	// storage. Otherwise they come in the order of their numbers.
	Unordered bool
	// Want is the approximate number of documents that will be read if that is known,
	// as for a page whose filter the index answers exactly; zero if it may be all.
	Want int
	// WantBytes is likewise the approximate size of the documents that will be read, as
	// for a page whose rows are whole documents; zero if it is not known.
	WantBytes int
	// Bare says that the plan does not read system properties, so that bodies may come
	// without them.
	Bare bool
}

// Candidate is a document that a [Source] yields.
type Candidate struct {
	Number uint64     // unique in the container, never zero
	Body   []byte     // complete JSON without duplicate names, with system properties unless Bare; valid until the next candidate
	Term   index.Term // of Indexed.Ordered: the term of the document; "" for a document without one
	Led    bool       // the index found it, not a scan of all documents
}

// Indexed is a [Source] that can answer from its index alone. Like Candidates, its
// methods see only the documents of the source's part of the key space. A plan uses
// Candidates where an answer is not exact.
type Indexed interface {
	Source

	// Count returns the number of documents that satisfy access according to the index,
	// or most if there are at least as many. exact reports that each counted document
	// satisfies the predicate from which access was made, and that none is missing.
	// Otherwise the number is an upper estimate, or -1 if an estimate would cost as
	// much as reading. The access index.All counts all documents. Count visits at most
	// about as many terms as it counts documents; if it would visit more, it returns an
	// estimate. It may be called during calls of the other methods.
	Count(ctx context.Context, access index.Expr, most int64) (n int64, exact bool, err error)

	// Terms yields the terms of a walk in order, each with its number of documents.
	Terms(ctx context.Context, walk Walk) iter.Seq2[TermCount, error]

	// Ordered yields the documents of a walk in the order of its terms, and for one
	// term in the order of numbers; both orders are descending if the walk is. A
	// document with several terms of the walk occurs several times.
	Ordered(ctx context.Context, walk Walk) iter.Seq2[Candidate, error]
}

// Walk is a pass over the terms of an index in order.
type Walk struct {
	Span index.Span // the terms
	Desc bool       // from the greatest to the least

	// Missing says that the walk includes the documents without a term of Place:
	// before all others, or after them if Desc. Their Term is "". Terms yields them as
	// one TermCount with the Term "".
	Missing bool
	First   bool       // Terms sets TermCount.First
	Place   index.Span // the place that contains Span; the zero value is Span itself

	// From is where to begin: at this term or, if it does not exist, after it in the
	// direction of the walk. "" is the beginning of a walk, and with Started its
	// documents without a term.
	From    index.Term
	Started bool
	// After skips the documents of the term From whose numbers are at most this
	// number, or at least this number if Desc. Zero skips none.
	After uint64

	Access index.Expr // only documents that may satisfy it; for Terms, that satisfy it exactly, see [Indexed.Count]
	Bare   bool       // see [Need]

	// Effort is the maximum number of terms that a walk of documents visits to
	// determine which of them satisfy Access. If that takes more, other documents are
	// yielded too. Zero is no limit. Terms has no limit.
	Effort int64
}

// TermCount is a term and the number of documents of a walk that have it, which is
// never zero.
type TermCount struct {
	Term  index.Term
	Count int64
	First uint64 // the least number of these documents; may be zero without Walk.First
}

// Ranked is an [Indexed] that knows which documents may come first in a ranking. A
// plan uses Candidates if those are not enough.
type Ranked interface {
	Indexed

	// Nearest yields the documents that have a vector, the nearest first, and equally
	// near ones by descending number, until the caller stops. It does not yield
	// documents without a vector.
	//
	// With a List the search may be approximate, and the source yields groups: first
	// the List best approximate matches, then the next ones. Within a group the nearest
	// documents come first.
	Nearest(ctx context.Context, search Nearest) iter.Seq2[Candidate, error]

	// Latest yields what Candidates yields, by descending number. After skips the
	// documents from that number on; zero skips none.
	Latest(ctx context.Context, need Need) iter.Seq2[Candidate, error]
}

// Nearest asks a [Ranked] for the documents whose vectors are nearest to a given one.
type Nearest struct {
	Path   index.Path // of the vectors
	Form   index.Term // the id of the stored form; see [index.VectorForm]
	Vector []float32
	Metric vector.Metric

	K    int // the probable number of documents to read
	List int // number of approximate matches to compare exactly at a time; 0 for an exact search

	// From skips, if Started, the documents that are not further away than it. Only
	// searches without a List have it.
	From    vector.Scored
	Started bool

	Access index.Expr // only documents that may satisfy it
	Bare   bool       // see [Need]
}
