package query

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// document is a stored document of a test.
type document struct {
	number uint64
	body   []byte
	value  value.Value
	terms  []index.Term
}

// list is a Source over documents in memory, in the order of their numbers. It
// uses the index the way a partition does, so that a wrong index expression
// shows as a missing row, and it overwrites what it handed out, so that a row
// that still refers to a candidate shows as garbage.
type list []document

func (l list) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var body []byte
		for _, d := range l {
			if d.number <= need.After || !admits(need.Access, d.terms) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(Candidate{}, err)
				return
			}
			body = append(body[:0], d.body...)
			if !yield(Candidate{Number: d.number, Body: body}, nil) {
				return
			}
			for i := range body {
				body[i] = '#'
			}
		}
	}
}

// admits evaluates an index expression over the terms of one document.
func admits(e index.Expr, terms []index.Term) bool {
	switch e.Op {
	case index.All:
		return true
	case index.Leaf:
		for _, t := range terms {
			if t >= e.Span.Low && t < e.Span.High {
				return true
			}
		}
		return false
	case index.And:
		for _, arg := range e.Args {
			if !admits(arg, terms) {
				return false
			}
		}
		return true
	case index.Or:
		for _, arg := range e.Args {
			if admits(arg, terms) {
				return true
			}
		}
	}
	return false
}

// newDocument stores JSON under a number, with a _rid in front of it as
// documents from a partition have.
func newDocument(t testing.TB, ix *index.Index, number uint64, text string) document {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("document %s: %v", text, err)
	}
	d := document{number: number, body: []byte(text), value: v}
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

// split deals documents out to n partitions.
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

// all runs a plan to its end in pages of that size, each with a merge of its
// own, as requests do.
func all(ctx context.Context, p *Plan, parts []list, b Budget) (rows []Row, pages int, err error) {
	var from Progress
	for {
		done := from.Stream // Streams in front are finished; requests do not open them again.
		from.Stream = 0
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
