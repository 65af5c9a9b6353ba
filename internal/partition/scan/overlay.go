package scan

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
)

// overlaid is a source in which some documents are replaced. It has no index, so
// plans get documents only.
type overlaid struct {
	source *Source
	hidden map[uint64]bool // numbers whose documents in the snapshot do not count
	rows   []overlaidRow   // by number
}

type overlaidRow struct {
	number uint64
	row    []byte // of the document
}

// Overlay returns a source with other documents: those of rows, which are document
// rows in any order, instead of those whose numbers are in hidden.
func (s *Source) Overlay(hidden map[uint64]bool, rows [][]byte) (query.Source, error) {
	o := &overlaid{source: s, hidden: hidden, rows: make([]overlaidRow, 0, len(rows))}
	for _, row := range rows {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return nil, s.damaged(err)
		}
		o.rows = append(o.rows, overlaidRow{number: d.Number, row: row})
	}
	slices.SortFunc(o.rows, func(a, b overlaidRow) int { return cmp.Compare(a.number, b.number) })
	return o, nil
}

// Candidates yields the documents that may satisfy the need, and all of the rows,
// because no index knows them.
func (o *overlaid) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		rest := o.rows
		for len(rest) > 0 && rest[0].number <= need.After {
			rest = rest[1:]
		}
		for c, err := range o.source.Candidates(ctx, need) {
			if err != nil {
				yield(c, err)
				return
			}
			for len(rest) > 0 && rest[0].number < c.Number {
				// The body of c is scratch of the source, which replaced does not use.
				if !o.replaced(rest[0], need.Bare, yield) {
					return
				}
				rest = rest[1:]
			}
			if !o.hidden[c.Number] && !yield(c, nil) {
				return
			}
		}
		for _, r := range rest {
			if !o.replaced(r, need.Bare, yield) {
				return
			}
		}
	}
}

// replaced yields the document of a row.
func (o *overlaid) replaced(r overlaidRow, bare bool, yield func(query.Candidate, error) bool) bool {
	d, err := layout.DecodeDocument(r.row)
	if err != nil {
		yield(query.Candidate{}, o.source.damaged(err))
		return false
	}
	o.source.work.Documents++
	o.source.work.Bytes += int64(len(d.Body))
	o.source.last = len(d.Body)
	body := d.Body
	if !bare {
		body = o.source.r.own.Render.Complete(&d)
	}
	return yield(query.Candidate{Number: r.number, Body: body}, nil)
}
