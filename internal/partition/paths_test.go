package partition

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/value"
)

// TestPathsWhileBuilding changes documents during a change of policy that a crash
// interrupts: a path that one of them lacks must not count as complete afterwards.
func TestPathsWhileBuilding(t *testing.T) {
	t.Parallel()
	const documents = 40
	for _, c := range []struct {
		name string
		edit func(w *world, doc value.Value) error
		want string
	}{
		{"nothing", func(*world, value.Value) error { return nil }, "/id /pk /n /m"},
		{"passed", func(w *world, doc value.Value) error {
			_, err := w.write(Replace, doc.With("id", value.String("d0")).Without("n"), nil)
			return err
		}, "/id /pk /m"},
		{"ahead", func(w *world, doc value.Value) error {
			_, err := w.write(Replace, doc.With("id", value.String(fmt.Sprint("d", documents-1))).Without("n"), nil)
			return err
		}, "/id /pk /m"},
		{"new", func(w *world, doc value.Value) error {
			_, err := w.write(Create, doc.With("id", value.String("new")).Without("m"), nil)
			return err
		}, "/id /pk /n"},
		{"gone", func(w *world, doc value.Value) error {
			for n := range documents {
				if _, err := w.write(Delete, doc.With("id", value.String(fmt.Sprint("d", n))), func(r *Write) { r.ID = fmt.Sprint("d", n) }); err != nil {
					return err
				}
			}
			_, err := w.write(Create, doc.With("extra", value.Int(1)).Without("m"), nil)
			return err
		}, "/id /pk /n /extra"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"includedPaths":[{"path":"/pk/?"}],"excludedPaths":[{"path":"/*"}]}`))
			doc := w.parse(`{"id":"x","pk":1,"n":1,"m":2}`)
			for n := range documents {
				if _, err := w.write(Create, doc.With("id", value.String(fmt.Sprint("d", n))), nil); err != nil {
					t.Fatal(err)
				}
			}
			container := *w.container.Load()
			container.Indexing = containerWith(t, 2, []string{"/pk"}, "").Indexing
			w.container.Store(&container)
			p := w.partition.Load()
			p.waitIdle() // The goroutine of the last write is done with the writer.
			p.steps.sweepDocuments = 7
			// The test runs the writer to the middle of the first sweep.
			for range 4 {
				if err := p.step(); err != nil {
					t.Fatal(err)
				}
			}
			if now := p.states.current.Load(); now.Indexing.Phase != layout.Building || now.Indexing.Passed != 21 {
				t.Fatalf("the sweep is at %+v", now.Indexing.IndexRow)
			}
			// It makes no progress until the partition is opened again.
			p.steps.sweepDocuments = 0
			if err := errors.Join(c.edit(w, doc), w.crash(0, 1)); err != nil {
				t.Fatal(err)
			}
			w.partition.Load().Reindex()
			w.partition.Load().waitIdle()
			if got := w.complete(t, "/id /pk /n /m /extra"); got != c.want {
				t.Errorf("complete are %s, want %s", got, c.want)
			}
			if report := w.check(); !report.Clean() {
				t.Errorf("%q", report.Problems)
			}
		})
	}
}

// TestPathsOfEmptyBuilding writes the first document while the policy of an empty
// partition is being changed.
func TestPathsOfEmptyBuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"includedPaths":[{"path":"/pk/?"}],"excludedPaths":[{"path":"/*"}]}`))
	container := *w.container.Load()
	container.Indexing = containerWith(t, 2, []string{"/pk"}, "").Indexing
	w.container.Store(&container)
	p := w.partition.Load()
	if err := p.step(); err != nil || p.states.current.Load().Indexing.Phase != layout.Building {
		t.Fatal(p.states.current.Load().Indexing.IndexRow, err)
	}
	p.writer.stalled = true // until the write, which is evaluated before the next step
	if _, err := w.write(Create, w.parse(`{"id":"x","pk":1,"n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	p.waitIdle()
	if got, want := w.complete(t, "/id /pk /n"), "/id /pk /n"; got != want {
		t.Errorf("complete are %s, want %s", got, want)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestPathsOfLostEffects loses a deletion and the creation of the first document after
// it. The paths that the writer counted as complete never were.
func TestPathsOfLostEffects(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		do := func(op Op, text string, end func()) {
			answer := w.begin(t.Context(), op, text)
			synctest.Wait()
			end()
			synctest.Wait()
			<-answer
		}
		apply := func() { g.apply(t) }
		do(Create, `{"id":"1","a":"x","b":1,"n":1,"m":1}`, apply)
		do(Delete, `{"id":"1","a":"x","b":1}`, func() { do(Create, `{"id":"2","a":"x","b":1,"k":1}`, g.lose) })
		do(Create, `{"id":"3","a":"x","b":1,"k":1,"n":1}`, apply)
		if got, want := w.complete(t, "/id /a /n /m /k"), "/id /a /n"; got != want {
			t.Errorf("complete are %s, want %s", got, want)
		}
	})
}

// complete returns which of the paths are complete, separated by blanks.
func (w *world) complete(tb testing.TB, paths string) string {
	tb.Helper()
	s, release := w.sourceOf(tb)
	defer release()
	active := w.partition.Load().states.current.Load().Indexing.Active
	var list []string
	for path := range strings.FieldsSeq(paths) {
		span, ok := active.Span(strings.Split(path[1:], "/"), index.Defined, value.Null())
		if !ok {
			continue
		}
		yes, err := s.Complete(span)
		if err != nil {
			tb.Fatal(err)
		}
		if yes {
			list = append(list, path)
		}
	}
	return strings.Join(list, " ")
}
