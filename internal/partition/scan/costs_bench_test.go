//go:build linux

package scan_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/storage"
)

// BenchmarkCosts measures each of [scan.MeasuredCosts], and prints it next to
// the constant: nanoseconds of processor time, lower quartiles, with everything in the
// cache. `make calibrate` runs it.
func BenchmarkCosts(b *testing.B) {
	q := newWaysBench(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		m := newMeasuring(q)
		constant := scan.MeasuredCosts()
		fmt.Printf("\n%-8s %12s %12s  %s\n", "cost", "constant", "measured", "unit: nanoseconds for")
		for _, c := range []struct {
			name     string
			constant float64
			measured float64
			unit     string
		}{
			{"begin", constant.Begin, m.begin(), "the first move of an iterator"},
			{"row", constant.Row, m.row(), "passing a row, without its bytes"},
			{"bytes", constant.Bytes, m.bytes(), "passing a byte of a row"},
			{"match", constant.Match, m.match(), "testing a row for one part of an expression"},
			{"keep", constant.Keep, m.keep(), "copying a document that counts, and sorting"},
			{"find", constant.Find, m.find(false), "looking a document up, and handing it out"},
			{"seat", constant.Seat, m.find(true), "the same with a roster"},
			{"miss", constant.Miss, m.miss(), "looking a number up that is outside of the clip"},
			{"chunk", constant.Chunk, m.chunk(), "reading 65,536 numbers of a list"},
			{"entry", constant.Entry, m.entry(`STARTSWITH(c.name, "name 1")`), "passing a byte of a range of short lists"},
			{"", constant.Entry, m.entry(`c.rank >= 5`), "the same, of lists that are written more often"},
			{"tested", constant.Tested, m.entry(`CONTAINS(c.name, "77")`), "the same when values are tested"},
			{"weigh", constant.Weigh, m.weigh(), "asking the store how many bytes a range takes"},
		} {
			fmt.Printf("%-8s %12.2f %12.2f  %s\n", c.name, c.constant, c.measured, c.unit)
		}
	}
}

// measuring takes the times of steps.
type measuring struct {
	q   *waysBench
	now *scan.Snapshot
}

func newMeasuring(q *waysBench) *measuring { return &measuring{q: q, now: q.w.now()} }

func (m *measuring) check(err error) {
	if err != nil {
		m.q.b.Fatal(err)
	}
}

// time returns the nanoseconds of one step; each call of do performs n.
func (m *measuring) time(n int, do func()) float64 {
	var times []float64
	for round := range 25 {
		if took := threadNanos(m.q.b, n, do); round > 0 {
			times = append(times, took)
		}
	}
	slices.Sort(times)
	return times[len(times)/4]
}

// source returns a source of one key. The caller frees it.
func (m *measuring) source(key string) *scan.Source { return m.q.w.source(m.q.w.keyRange(key)) }

func (m *measuring) access(where string) index.Expr {
	return m.q.w.planOf("SELECT * FROM c WHERE " + where).Access()
}

const measuredKey, measuredItems = "k2000", 2000

func (m *measuring) begin() float64 {
	const times = 50
	key := storage.TermKey(nil, m.access(`c.own = "k2000-1"`).Span.Low)
	return m.time(times, func() {
		for range times {
			list := m.now.Rows.Postings(key)
			list.Next()
			m.check(list.Close())
		}
	})
}

// pass returns the time of one row of a pass that keeps nothing.
func (m *measuring) pass(key string, items int, matcher *query.Matcher) float64 {
	s := m.source(key)
	defer s.Free()
	m.q.w.reader.Strategy.Force.Rosters = scan.Passes
	defer func() { m.q.w.reader.Strategy.Force.Rosters = scan.Cheapest }()
	return m.time(items, func() {
		m.check(s.Each(context.Background(), func(d *layout.Document) bool {
			return matcher == nil || matcher.Match(d.Body, d.TS) || true
		}))
	})
}

// bytes measures one byte of a row, by comparing passes over equally many rows of
// different sizes.
func (m *measuring) bytes() float64 {
	return max(0, m.pass(measuredKey, measuredItems, nil)-m.pass("small", measuredItems, nil)) / float64(len(waysPad))
}

func (m *measuring) row() float64 {
	s := m.source("small")
	defer s.Free()
	mean, err := s.MeanBytes(context.Background())
	m.check(err)
	return m.pass("small", measuredItems, nil) - m.bytes()*mean
}

func (m *measuring) match() float64 {
	t := query.NewMatcher(m.q.w.active, m.access(`c.rank >= 5000000`))
	return m.pass(measuredKey, measuredItems, t) - m.pass(measuredKey, measuredItems, nil)
}

func (m *measuring) keep() float64 {
	m.q.w.reader.Strategy.Force.Rosters = scan.Passes
	defer func() { m.q.w.reader.Strategy.Force.Rosters = scan.Cheapest }()
	all := m.time(measuredItems, func() {
		s := m.source(measuredKey)
		defer s.Free()
		m.check(s.Sort(context.Background(), func(query.Candidate, error) bool { return true }))
	})
	return all - m.pass(measuredKey, measuredItems, nil)
}

// find looks up every tenth document of a key. The location cache has the last 4,096
// documents, so it is emptied first.
func (m *measuring) find(seated bool) float64 {
	s := m.source(measuredKey)
	defer s.Free()
	numbers, err := s.Enroll(context.Background())
	m.check(err)
	if seated {
		s.Seat()
	}
	var list []uint64
	set := numbers.Postings()
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if number%10 == 0 {
			list = append(list, number)
		}
	}
	return m.time(len(list), func() {
		m.q.w.reader.DropLocations()
		m.check(s.LookUp(context.Background(), list, func(query.Candidate, error) bool { return true }))
	})
}

// miss looks documents of another key up.
func (m *measuring) miss() float64 {
	other := m.source("o1")
	numbers, err := other.Enroll(context.Background())
	other.Free()
	m.check(err)
	s := m.source(measuredKey)
	defer s.Free()
	var list []uint64
	set := numbers.Postings()
	for number, ok := set.Next(); ok && len(list) < 500; number, ok = set.Next() {
		list = append(list, number)
	}
	return m.time(len(list), func() {
		m.q.w.reader.DropLocations()
		m.check(s.LookUp(context.Background(), list, func(query.Candidate, error) bool { return true }))
	})
}

// chunk counts a list that all documents are in.
func (m *measuring) chunk() float64 {
	key := storage.TermKey(nil, m.access(`c.all = "v"`).Span.Low)
	chunks := float64(m.now.Counter>>16 + 1)
	whole := m.time(1, func() {
		list := m.now.Rows.Postings(key)
		_, err := list.Count()
		m.check(err)
		m.check(list.Close())
	})
	return max(0, whole-m.begin()) / chunks
}

// gather reads the lists of a range.
func (m *measuring) gather(e index.Expr) float64 {
	s := m.source(measuredKey)
	defer s.Free()
	return m.time(1, func() {
		set, _ := s.Combine(context.Background(), e)
		_, err := set.Collect(context.Background())
		m.check(err)
	})
}

// entry is the time of one byte of a range.
func (m *measuring) entry(where string) float64 {
	e := m.access(where)
	stored, _ := m.now.Rows.EstimatePostings(storage.TermKey(nil, e.Span.Low), storage.TermKey(nil, e.Span.High))
	return m.gather(e) / float64(max(1, stored))
}

func (m *measuring) weigh() float64 {
	e := m.access(`c.rank >= 5`)
	low, high := storage.TermKey(nil, e.Span.Low), storage.TermKey(nil, e.Span.High)
	const times = 20
	return m.time(times, func() {
		for range times {
			m.now.Rows.EstimatePostings(low, high)
		}
	})
}

// BenchmarkNoting measures how much time Apply spends on rosters: it passes the rows of
// creates whose key has a roster, in turn with and without looking for added and
// removed documents, and prints which part of a create that is, in processor time of
// the process.
func BenchmarkNoting(b *testing.B) {
	w := newWorld(b, "/pk", "")
	var effects []replication.Effect
	w.effects = func(e replication.Effect) {
		e.Rows = slices.Clone(e.Rows)
		effects = append(effects, e)
	}
	q := &waysBench{b: b, w: w}
	create := func(first, n int) {
		for at := range n {
			q.write(partition.Create, q.document("k", first+at, 2000))
		}
	}
	create(0, 2000)
	w.reader.Strategy.Force = scan.Forced{Way: scan.Looks, Rosters: scan.Looks}
	if w.rows("SELECT * FROM c WHERE c.rank >= 0", w.keyRange("k"), query.Budget{}, nil); w.reader.RosterCount() != 1 {
		b.Fatal(w.reader.RosterCount())
	}
	effects = nil
	began := processTime(b)
	create(2000, 2000)
	each := float64((processTime(b) - began).Nanoseconds()) / 2000
	var moves scan.Moves
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		var bare, noted []float64
		for range 50 {
			bare = append(bare, threadNanos(b, len(effects), func() {
				for _, e := range effects {
					if err := storage.ReadRows(e.Rows, func(storage.Row) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}))
			w.reader.DropRosterChanges(w.keyRange("k").Min) // Without readers it would be dropped.
			noted = append(noted, threadNanos(b, len(effects), func() {
				for _, e := range effects {
					moves.Reset()
					if err := storage.ReadRows(e.Rows, moves.See); err != nil {
						b.Fatal(err)
					}
					w.reader.Note(e.LSN, &moves)
				}
			}))
		}
		slices.Sort(bare)
		slices.Sort(noted)
		without, with := bare[len(bare)/4], noted[len(noted)/4]
		fmt.Printf("\nan effect of one create: %.0f ns to pass its rows, %.0f ns with a look at what comes and goes; a create takes %.0f ns, of which that is %.4f\n", without, with, each, (with-without)/each)
	}
}

// threadNanos returns the processor time of one of n steps.
func threadNanos(b *testing.B, n int, do func()) float64 {
	began := threadTime(b)
	do()
	return float64((threadTime(b) - began).Nanoseconds()) / float64(n)
}
