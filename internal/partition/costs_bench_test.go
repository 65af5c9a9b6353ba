//go:build linux

package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/partition/layout"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/storage"
)

// BenchmarkCosts measures what each of [measuredCosts] stands for, and prints it beside
// the constant: nanoseconds of processor time, lower quartiles, with everything in the
// cache. `make calibrate` runs it.
func BenchmarkCosts(b *testing.B) {
	q := newWaysBench(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		m := newMeasuring(q)
		constant := measuredCosts()
		fmt.Printf("\n%-8s %12s %12s  %s\n", "cost", "constant", "measured", "unit: nanoseconds for")
		for _, c := range []struct {
			name     string
			constant float64
			measured float64
			unit     string
		}{
			{"begin", constant.begin, m.begin(), "the first move of an iterator"},
			{"row", constant.row, m.row(), "passing a row, without its bytes"},
			{"bytes", constant.bytes, m.bytes(), "passing a byte of a row"},
			{"tell", constant.tell, m.tell(), "telling by the row of one part of an expression"},
			{"keep", constant.keep, m.keep(), "copying a document that counts, and sorting"},
			{"find", constant.find, m.find(false), "looking a document up, and handing it out"},
			{"seat", constant.seat, m.find(true), "the same with a roster"},
			{"miss", constant.miss, m.miss(), "looking a number up that is outside of the clip"},
			{"chunk", constant.chunk, m.chunk(), "reading 65,536 numbers of a list"},
			{"entry", constant.entry, m.entry(`STARTSWITH(c.name, "name 1")`), "passing a byte of a range of short lists"},
			{"", constant.entry, m.entry(`c.rank >= 5`), "the same, of lists that are written more often"},
			{"tested", constant.tested, m.entry(`CONTAINS(c.name, "77")`), "the same when values are tested"},
			{"weigh", constant.weigh, m.weigh(), "asking the store how many bytes a range takes"},
		} {
			fmt.Printf("%-8s %12.2f %12.2f  %s\n", c.name, c.constant, c.measured, c.unit)
		}
		m.close()
	}
}

// measuring takes the times of steps.
type measuring struct {
	q   *waysBench
	p   *Partition
	now *published
}

func newMeasuring(q *waysBench) *measuring {
	p := q.w.partition.Load()
	now, err := p.acquire()
	if err != nil {
		q.b.Fatal(err)
	}
	return &measuring{q: q, p: p, now: now}
}

func (m *measuring) close() { m.p.release(m.now) }

func (m *measuring) check(err error) {
	if err != nil {
		m.q.b.Fatal(err)
	}
}

// time returns the nanoseconds of one of n steps that do takes at once.
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
func (m *measuring) source(key string) *source {
	r := m.q.w.keyRange(m.q.b, key)
	return m.p.reader.Source(&m.now.shot, r, r)
}

func (m *measuring) access(where string) index.Expr {
	plan, err := query.Compile("SELECT * FROM c WHERE "+where, nil, m.now.indexing.Active.Index, query.Options{})
	m.check(err)
	return plan.Access()
}

const measuredKey, measuredItems = "k2000", 2000

func (m *measuring) begin() float64 {
	const times = 50
	key := storage.TermKey(nil, m.access(`c.own = "k2000-1"`).Span.Low)
	return m.time(times, func() {
		for range times {
			list := m.now.rows.Postings(key)
			list.Next()
			m.check(list.Close())
		}
	})
}

// pass is the time of one row of a pass that keeps nothing.
func (m *measuring) pass(key string, items int, tell *query.Teller) float64 {
	s := m.source(key)
	defer s.Free()
	m.p.reader.Strategy.force.rosters = passes
	defer func() { m.p.reader.Strategy.force.rosters = cheapest }()
	return m.time(items, func() {
		m.check(s.each(context.Background(), func(_, _ []byte, d *layout.Document) bool {
			return tell == nil || tell.Tell(d.Body, d.TS) || true
		}))
	})
}

// bytes compares rows of the same number of other bytes.
func (m *measuring) bytes() float64 {
	return max(0, m.pass(measuredKey, measuredItems, nil)-m.pass("small", measuredItems, nil)) / float64(len(waysPad))
}

func (m *measuring) row() float64 {
	s := m.source("small")
	defer s.Free()
	x, err := s.extent(context.Background())
	m.check(err)
	return m.pass("small", measuredItems, nil) - m.bytes()*x.bytes
}

func (m *measuring) tell() float64 {
	t := query.NewTeller(m.now.indexing.Active.Index, m.access(`c.rank >= 5000000`))
	return m.pass(measuredKey, measuredItems, t) - m.pass(measuredKey, measuredItems, nil)
}

func (m *measuring) keep() float64 {
	m.p.reader.Strategy.force.rosters = passes
	defer func() { m.p.reader.Strategy.force.rosters = cheapest }()
	all := m.time(measuredItems, func() {
		s := m.source(measuredKey)
		defer s.Free()
		m.check(s.scan(context.Background(), nil, 0, func(query.Candidate, error) bool { return true }))
	})
	return all - m.pass(measuredKey, measuredItems, nil)
}

// find looks every tenth document of a key up. places are the last 4,096 documents, so
// they are forgotten first.
func (m *measuring) find(seated bool) float64 {
	s := m.source(measuredKey)
	defer s.Free()
	numbers, err := s.enroll(context.Background())
	m.check(err)
	if seated {
		s.seats = m.p.reader.rosters.of(s.only(), m.now.LSN).seats
	}
	var list []uint64
	set := numbers.Postings()
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if number%10 == 0 {
			list = append(list, number)
		}
	}
	return m.time(len(list), func() {
		m.p.reader.locations.slots.Store(nil)
		m.check(s.walkList(context.Background(), list, 0, func(query.Candidate, error) bool { return true }))
	})
}

// miss looks documents of another key up.
func (m *measuring) miss() float64 {
	other := m.source("o1")
	numbers, err := other.enroll(context.Background())
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
		m.p.reader.locations.slots.Store(nil)
		m.check(s.walkList(context.Background(), list, 0, func(query.Candidate, error) bool { return true }))
	})
}

// chunk counts a list that all documents are in.
func (m *measuring) chunk() float64 {
	key := storage.TermKey(nil, m.access(`c.all = "v"`).Span.Low)
	chunks := float64(m.now.Counter>>16 + 1)
	whole := m.time(1, func() {
		list := m.now.rows.Postings(key)
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
		set, _ := s.combine(context.Background(), e)
		_, err := set.Collect(context.Background())
		m.check(err)
	})
}

// entry is the time of one byte of a range.
func (m *measuring) entry(where string) float64 {
	e := m.access(where)
	stored, _ := m.now.rows.EstimatePostings(storage.TermKey(nil, e.Span.Low), storage.TermKey(nil, e.Span.High))
	return m.gather(e) / float64(max(1, stored))
}

func (m *measuring) weigh() float64 {
	e := m.access(`c.rank >= 5`)
	low, high := storage.TermKey(nil, e.Span.Low), storage.TermKey(nil, e.Span.High)
	const times = 20
	return m.time(times, func() {
		for range times {
			m.now.rows.EstimatePostings(low, high)
		}
	})
}

// BenchmarkNoting measures what Apply spends on rosters: passing the rows of effects with
// and without a look at what comes and goes, in turn, of creates with a roster of their
// key; and prints what part of a create that is, in processor time of the process.
func BenchmarkNoting(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/pk"}, ""))
	var effects []replication.Effect
	if err := errors.Join(w.close(), w.openWith(func(sm replication.StateMachine) replication.Group {
		return replication.NewSolo(&noticing{sm, &effects})
	})); err != nil {
		b.Fatal(err)
	}
	q := &waysBench{b: b, w: w}
	create := func(first, n int) {
		for at := range n {
			q.write(Create, q.document("k", first+at, 2000))
		}
	}
	create(0, 2000)
	p := w.partition.Load()
	p.reader.Strategy.force = forced{way: looks, rosters: looks}
	if _, _, err := w.rows("SELECT * FROM c WHERE c.rank >= 0", w.keyRange(b, "k"), 1000, nil); err != nil || p.reader.rosters.count.Load() != 1 {
		b.Fatal(p.reader.rosters.count.Load(), err)
	}
	effects = nil
	began := processTime(b)
	create(2000, 2000)
	each := float64((processTime(b) - began).Nanoseconds()) / 2000
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
			p.reader.rosters.keys[string(w.keyRange(b, "k").Min)].changes = nil // or nobody reads it
			noted = append(noted, threadNanos(b, len(effects), func() {
				for _, e := range effects {
					p.apply.moves.Reset()
					if err := storage.ReadRows(e.Rows, p.apply.moves.See); err != nil {
						b.Fatal(err)
					}
					p.reader.rosters.note(e.LSN, &p.apply.moves)
				}
			}))
		}
		slices.Sort(bare)
		slices.Sort(noted)
		without, with := bare[len(bare)/4], noted[len(noted)/4]
		fmt.Printf("\nan effect of one create: %.0f ns to pass its rows, %.0f ns with a look at what comes and goes; a create takes %.0f ns, of which that is %.4f\n", without, with, each, (with-without)/each)
	}
}

// noticing is a state machine that keeps the effects it gets.
type noticing struct {
	replication.StateMachine
	effects *[]replication.Effect
}

func (n *noticing) Apply(ref replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	for _, e := range effects {
		e.Rows = slices.Clone(e.Rows)
		*n.effects = append(*n.effects, e)
	}
	return n.StateMachine.Apply(ref, effects)
}

// threadNanos returns the processor time of one of n steps.
func threadNanos(b *testing.B, n int, do func()) float64 {
	began := threadTime(b)
	do()
	return float64((threadTime(b) - began).Nanoseconds()) / float64(n)
}
