package query

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// document is a stored document of a test.
type document struct {
	number uint64
	body   []byte
	bare   []byte // without system properties
	value  value.Value
	terms  []index.Term
}

// list is a Source over documents in memory, in the order of their numbers. It uses the
// index as a partition does, so a wrong index expression shows as a missing row. It
// overwrites the bytes that it has yielded, so a row that still refers to a candidate
// shows as garbage. Callers that accept any order get the reverse order, and callers
// that accept bare documents get bare ones.
type list []document

func (l list) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		docs := l
		if need.Unordered {
			docs = slices.Clone(l)
			slices.Reverse(docs)
		}
		var body []byte
		for _, d := range docs {
			if d.number > need.After && need.Access.Admits(d.terms) && !d.yield(ctx, &body, Candidate{Led: need.Access.Op != index.All}, need.Bare, yield) {
				return
			}
		}
	}
}

// yield passes the document to the callback.
func (d *document) yield(ctx context.Context, body *[]byte, c Candidate, bare bool, yield func(Candidate, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Candidate{}, err)
		return false
	}
	*body = append((*body)[:0], d.body...)
	if bare {
		*body = append((*body)[:0], d.bare...)
	}
	c.Number, c.Body = d.number, *body
	if !yield(c, nil) {
		return false
	}
	for i := range *body {
		(*body)[i] = '#'
	}
	return true
}

// indexed is a list that answers from its index as well.
type indexed struct{ list }

func (l indexed) Count(_ context.Context, access index.Expr, most int64) (n int64, exact bool, err error) {
	if most < math.MaxInt64 && access.Op != index.All && len(l.list)%2 == 1 {
		return min(int64(len(l.list)), most), false, nil // as if it took too many terms
	}
	for _, d := range l.list {
		if access.Admits(d.terms) {
			n++
		}
	}
	return min(n, most), access.Op == index.All || access.Exact(), nil
}

// entries returns the terms of a walk with their documents, in its order.
func (l indexed) entries(walk Walk) (terms []index.Term, docs map[index.Term]list) {
	docs = map[index.Term]list{}
	place := walk.Place
	if place.Empty() {
		place = walk.Span
	}
	for _, d := range l.list {
		if !walk.Access.Admits(d.terms) && (walk.Effort == 0 || len(l.list)%2 == 0) {
			continue
		}
		found := false
		for _, t := range d.terms {
			if t >= walk.Span.Low && t < walk.Span.High {
				docs[t] = append(docs[t], d)
			}
			found = found || t >= place.Low && t < place.High
		}
		if !found && walk.Missing {
			docs[""] = append(docs[""], d)
		}
	}
	terms = slices.Sorted(maps.Keys(docs))
	if walk.Desc {
		slices.Reverse(terms)
		for _, t := range terms {
			slices.Reverse(docs[t])
		}
	}
	terms = slices.DeleteFunc(terms, func(t index.Term) bool {
		switch {
		case walk.From == "" && !walk.Started:
			return false
		case walk.From == "":
			return walk.Desc && t != ""
		case walk.Desc:
			return t > walk.From
		}
		return t < walk.From
	})
	return terms, docs
}

func (l indexed) Terms(_ context.Context, walk Walk) iter.Seq2[TermCount, error] {
	return func(yield func(TermCount, error) bool) {
		terms, docs := l.entries(walk)
		for _, t := range terms {
			count := TermCount{Term: t, Count: int64(len(docs[t]))}
			if walk.First {
				count.First = slices.MinFunc(docs[t], func(a, b document) int { return cmp.Compare(a.number, b.number) }).number
			}
			if !yield(count, nil) {
				return
			}
		}
	}
}

func (l indexed) Ordered(ctx context.Context, walk Walk) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		terms, docs := l.entries(walk)
		var body []byte
		for _, t := range terms {
			for _, d := range docs[t] {
				if walk.After > 0 && t == walk.From && (d.number == walk.After || (d.number < walk.After) != walk.Desc) {
					continue
				}
				if !d.yield(ctx, &body, Candidate{Term: t, Led: true}, walk.Bare, yield) {
					return
				}
			}
		}
	}
}

// newDocument stores JSON under a number, with a _rid before it as
// documents from a partition have.
func newDocument(t testing.TB, ix *index.Index, number uint64, text string) document {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("document %s: %v", text, err)
	}
	d := document{number: number, body: []byte(text), bare: []byte(text), value: v}
	if bare := v.Without("_rid", "_self", "_etag", "_ts", "_attachments"); bare.Len() < v.Len() {
		d.bare = bare.Append(nil)
	}
	if ix != nil {
		d.terms = ix.Terms(nil, v)
	}
	return d
}

func newIndex(t testing.TB, excluded ...string) *index.Index {
	t.Helper()
	ix, err := index.Compile(resource.IndexingPolicy{
		Mode: resource.IndexingConsistent, Automatic: true,
		Included: []string{"/*"}, Excluded: append([]string{`/"_etag"/?`}, excluded...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// split divides documents among n partitions.
func (l list) split(n int) []list {
	parts := make([]list, n)
	for i, d := range l {
		parts[i%n] = append(parts[i%n], d)
	}
	return parts
}

func streams(p *Plan, parts []list) []Stream {
	var out []Stream
	for _, part := range parts {
		out = append(out, func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, part, b) })
	}
	return out
}

// all runs a plan to its end in pages of the given size, each with a merge of its
// own, as requests do.
func all(ctx context.Context, p *Plan, parts []list, b Budget) (rows []Row, pages int, err error) {
	if h := p.Hybrid(); h != nil {
		rows, err = hybridRows(ctx, h, parts, b)
		return rows, 1, err
	}
	var from Progress
	for {
		done := 0
		if !p.FirstSeen() {
			done, from.Stream = from.Stream, 0 // Earlier streams are finished; requests do not open them again.
		}
		page, next, err := p.Merge(streams(p, parts[done:]), from).Page(ctx, b)
		if err != nil {
			return nil, pages, err
		}
		pages++
		rows = append(rows, page.Rows...)
		if !page.More {
			return rows, pages, nil
		}
		if b.MaxItems > 0 && len(page.Rows) > b.MaxItems {
			return nil, pages, fmt.Errorf("page of %d rows instead of %d", len(page.Rows), b.MaxItems)
		}
		from = next
		from.Stream += done
		if pages > 100_000 {
			return nil, pages, fmt.Errorf("no end")
		}
	}
}
