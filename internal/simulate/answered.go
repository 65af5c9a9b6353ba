package simulate

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
)

// combined is what an instance that combines documents (aggregates, GROUP BY, DISTINCT)
// does in each partition.
type combined struct {
	lone   bool             // one row in each partition, whatever it has
	groups map[int][]string // the rows that each document of the sample is part of

	// answered means that the index alone answers. It looks up so many spans, reads the
	// ended terms in each partition (the least, the greatest), and in each of the walks
	// every term; for some terms it loads documents nevertheless.
	answered bool
	lookups  int64
	ended    int64
	walks    [][]index.Term // of each document of the sample, "" for none in the walk
	loaded   []int          // by number
}

// missing is the entry of walks for the documents without a term, which the index counts
// like those of a term.
const missing index.Term = "\x00missing"

// group finds the rows that each document is part of, for a plan that combines documents.
func (x *simulation) group(i *instance) error {
	if !i.plan.Combines() {
		return nil
	}
	groups := map[int][]string{}
	for _, n := range i.loaded {
		found := false
		page, err := i.plan.Run(x.ctx, one{&x.documents[n], &found}, query.Budget{})
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			if row.Group == nil {
				return nil // Its rows are made of whole documents.
			}
			if len(row.Group.Keys) == 0 {
				continue
			}
			name := ""
			for _, key := range row.Group.Keys {
				name += key.JSON() + "\x00"
			}
			groups[n] = append(groups[n], name)
		}
	}
	i.groups, i.combined = groups, map[string]*combined{}
	return nil
}

// combine runs an instance that combines documents on a part of the sample as a partition
// with an index would, and notes what the index answers. The part is that of the ranges
// which the query asks under a key, named by its paths; "" is the whole sample. It returns
// nil for another instance, and if the simulation has ended.
func (x *simulation) combine(i *instance, name string, inside func(n int) bool) *combined {
	if i.groups == nil {
		return nil
	}
	if c, ok := i.combined[name]; ok {
		return c
	}
	c := &combined{groups: i.groups}
	source := &sampleIndex{x: x, spans: map[[2]index.Term]bool{}, loaded: map[int]bool{}}
	for n := range x.documents {
		if name == "" || inside(n) {
			source.part = append(source.part, n)
		}
	}
	page, err := i.plan.Run(x.ctx, source, query.Budget{})
	if err != nil {
		return nil
	}
	c.lone = len(page.Rows) == 1 && page.Rows[0].Group != nil && len(page.Rows[0].Group.Keys) == 0
	if c.answered = page.Stats.Ways.Answered > 0; c.answered {
		c.lookups, c.ended, c.walks = int64(len(source.spans)), source.ended, source.walks
		c.loaded = sortedNumbers(source.loaded)
	}
	i.combined[name] = c
	return c
}

func sortedNumbers(set map[int]bool) []int {
	list := make([]int, 0, len(set))
	for n := range set {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// in returns the rows of a physical partition and the terms that the index reads there.
// inside reports whether a document of the sample is in it.
func (c *combined) in(x *simulation, pieces float64, inside func(n int) bool) (rows, hits float64) {
	if rows = 1; !c.lone {
		rows = x.distinctOf(pieces, func(yield func(string) bool) {
			for _, n := range slices.Sorted(mapKeys(c.groups)) {
				for _, name := range c.groups[n] {
					if inside(n) && !yield(name) {
						return
					}
				}
			}
		})
	}
	hits = float64(c.ended)
	for _, walk := range c.walks {
		hits += x.distinctOf(pieces, func(yield func(string) bool) {
			for n, term := range walk {
				if term != "" && inside(n) && !yield(string(term)) {
					return
				}
			}
		})
	}
	return rows, hits
}

func mapKeys[V any](m map[int]V) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range m {
			if !yield(n) {
				return
			}
		}
	}
}

// distinctOf estimates the number of different names among the documents of a physical
// partition of the container from those of the sample, as distinct does for keys.
func (x *simulation) distinctOf(pieces float64, names iter.Seq[string]) float64 {
	times := map[string]int{}
	var all, once int
	for name := range names {
		times[name]++
		all++
	}
	for _, n := range times {
		if n == 1 {
			once++
		}
	}
	if once == len(times) {
		return float64(once) * x.perSample / pieces
	}
	return min(float64(all)*x.perSample/pieces, float64(len(times))+float64(once)*(math.Sqrt(x.perSample)-1))
}

// sampleIndex is a part of the sample with its index, as one partition. It notes what a
// plan asks of it.
type sampleIndex struct {
	x      *simulation
	part   []int // documents, by number
	spans  map[[2]index.Term]bool
	ended  int64 // terms of walks that the plan ended early
	walks  [][]index.Term
	loaded map[int]bool
}

func (s *sampleIndex) look(e index.Expr) {
	switch e.Op {
	case index.Leaf, index.Filter:
		s.spans[[2]index.Term{e.Span.Low, e.Span.High}] = true
	case index.And, index.Or:
		for _, arg := range e.Args {
			s.look(arg)
		}
	}
}

// Count counts exactly what the index of a partition would count exactly.
func (s *sampleIndex) Count(_ context.Context, access index.Expr, most int64) (n int64, exact bool, err error) {
	s.look(access)
	for _, i := range s.part {
		if access.Admits(s.x.documents[i].terms) {
			n++
		}
	}
	return min(n, most), access.Op == index.All || access.Exact(), nil
}

// Terms walks the terms of the documents.
func (s *sampleIndex) Terms(_ context.Context, walk query.Walk) iter.Seq2[query.TermCount, error] {
	return func(yield func(query.TermCount, error) bool) {
		s.look(index.Expr{Op: index.Leaf, Span: walk.Span})
		s.look(walk.Access)
		place := walk.Place
		if place.Empty() {
			place = walk.Span
		}
		found, first := map[index.Term]int64{}, map[index.Term]uint64{}
		of := make([]index.Term, len(s.x.documents))
		for _, i := range s.part {
			d := &s.x.documents[i]
			if !walk.Access.Admits(d.terms) {
				continue
			}
			none := true
			for _, t := range d.terms {
				if t >= place.Low && t < place.High {
					none = false
				}
				if t < walk.Span.Low || t >= walk.Span.High {
					continue
				}
				found[t]++
				if of[i] = t; first[t] == 0 {
					first[t] = uint64(i + 1)
				}
			}
			if none && walk.Missing {
				found[""]++
				if of[i] = missing; first[""] == 0 {
					first[""] = uint64(i + 1)
				}
			}
		}
		terms := make([]index.Term, 0, len(found))
		for t := range found {
			terms = append(terms, t)
		}
		slices.Sort(terms)
		if walk.Desc {
			slices.Reverse(terms)
		}
		for k, t := range terms {
			if !yield(query.TermCount{Term: t, Count: found[t], First: first[t]}, nil) {
				s.ended += int64(k + 1)
				return
			}
		}
		s.walks = append(s.walks, of)
	}
}

// Candidates loads the documents that the index finds.
func (s *sampleIndex) Candidates(_ context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return s.yield(need.Access, need.After, true)
}

// Ordered is for plans that do not combine documents, which do not run here.
func (s *sampleIndex) Ordered(_ context.Context, walk query.Walk) iter.Seq2[query.Candidate, error] {
	return s.yield(walk.Access, walk.After, false)
}

func (s *sampleIndex) yield(access index.Expr, after uint64, note bool) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		s.look(access)
		for _, i := range s.part {
			d := &s.x.documents[i]
			if uint64(i+1) <= after || !access.Admits(d.terms) {
				continue
			}
			if note {
				s.loaded[i] = true
			}
			if !yield(query.Candidate{Number: uint64(i + 1), Body: d.body, Led: access.Op != index.All}, nil) {
				return
			}
		}
	}
}
