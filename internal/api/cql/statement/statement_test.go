package statement

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/table"
)

// world is a processor on an engine with stores in memory.
type world struct {
	*Processor
	catalog *catalog.Catalog
	node    *cluster.Node
	session *door.Session
	now     time.Time // the zero time: the clock of the machine
	started sync.Once // Start
}

// newWorld returns a world whose stores are checked at the end.
func newWorld(t testing.TB) *world {
	t.Helper()
	w, check := newCheckedWorld(t)
	t.Cleanup(func() {
		if report := check(); !report.Clean() {
			t.Errorf("check: %+v", report)
		}
	})
	return w
}

// newCheckedWorld returns a world, and a function that closes and checks its stores, which
// the caller calls.
func newCheckedWorld(t testing.TB) (w *world, check func() cluster.Report) {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := pool.Create("data/catalog")
	if err != nil {
		t.Fatal(err)
	}
	w = &world{session: &door.Session{Caller: auth.Owner(), User: "decan", Version: frame.V5}, now: time.Unix(1_700_000_000, 0)}
	if w.catalog, err = catalog.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	limits := resource.DefaultLimits()
	if w.node, err = cluster.Start(cluster.Config{Pool: pool, Dir: "data", Catalog: w.catalog, Limits: limits}); err != nil {
		t.Fatal(err)
	}
	w.Processor = New(Config{
		Engine: engine.New(engine.Config{Catalog: w.catalog, Node: w.node, Account: resource.Account{ID: "decan", Consistency: resource.Session}, Limits: limits}),
		Node: table.Node{
			Cluster: "decan", DataCenter: "Local", Rack: "rack1", Release: "4.1.10", CQL: "3.4.6", Protocol: "5",
			Host: [16]byte{1}, Address: netip.MustParseAddrPort("127.0.0.1:10350"), Tokens: []int64{9223372036854775807},
		},
		Secret: []byte("secret"),
		Now: func() time.Time {
			if w.now.IsZero() {
				return time.Now()
			}
			return w.now
		},
	})
	return w, func() cluster.Report {
		w.Close()
		if err := errors.Join(w.node.Close(), store.Close()); err != nil {
			t.Error(err)
		}
		report, err := cluster.Check(context.Background(), "data", cluster.CheckOptions{Pool: pool, Now: w.now})
		if err := errors.Join(err, pool.Close()); err != nil {
			t.Error(err)
		}
		return report
	}
}

// execute prepares and executes a text in a keyspace, in pages of a size.
func (w *world) execute(keyspace, text string, size int) (*door.Result, *door.Statement, error) {
	s, err := w.Prepare(context.Background(), w.session, keyspace, text)
	if err != nil {
		return nil, nil, err
	}
	p := &frame.Parameters{Consistency: frame.LocalQuorum}
	if size > 0 {
		p.Flags, p.PageSize = frame.QueryPageSize, int32(size)
	}
	all := &door.Result{}
	for {
		r, err := w.Execute(context.Background(), w.session, s, &door.Request{Keyspace: keyspace, Parameters: p})
		if err != nil || r.Rows == nil {
			return r, s, err
		}
		if all.Rows == nil {
			all = r
		} else {
			all.Rows.Count += r.Rows.Count
			all.Rows.Cells = append(all.Rows.Cells, r.Rows.Cells...)
		}
		if r.Rows.PagingState == nil {
			return all, s, nil
		}
		p.Flags |= frame.QueryPagingState
		p.PagingState = r.Rows.PagingState
	}
}

// literals prints cells by the types that the protocol names.
func literals(rows *door.Rows) string {
	var out strings.Builder
	rest := rows.Cells
	for range rows.Count {
		for i, c := range rows.Columns.All() {
			if i > 0 {
				out.WriteString(" | ")
			}
			n := int32(binary.BigEndian.Uint32(rest))
			if rest = rest[4:]; n < 0 {
				out.WriteString("null")
				continue
			}
			text := fmt.Sprintf("%x", rest[:n])
			if t, err := row.ParseType(strings.ReplaceAll(c.Type.String(), "varchar", "text"), nil); err == nil {
				text = t.Literal(rest[:n:n])
			}
			out.WriteString(text)
			rest = rest[n:]
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// offers prints the throughput of keyspaces and tables, with the number of partitions.
func (w *world) offers() string {
	var out strings.Builder
	view := w.catalog.View()
	for _, d := range view.Databases() {
		if t, ok := view.Throughput(d.RID); ok {
			fmt.Fprintf(&out, "%s: manual %d, autoscale %d\n", d.ID, t.Manual, t.Max)
		}
		for _, c := range view.Containers(d.RID) {
			if t, ok := view.Throughput(c.RID); ok {
				fmt.Fprintf(&out, "%s.%s: manual %d, autoscale %d, %d partitions\n", d.ID, c.ID, t.Manual, t.Max, c.Ranges.Len())
			} else {
				fmt.Fprintf(&out, "%s.%s: shared, %d partitions\n", d.ID, c.ID, c.Ranges.Len())
			}
		}
	}
	return out.String()
}

// built waits until all indexes have all rows.
func (w *world) built(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		now, err := w.schema()
		if err != nil {
			t.Fatal(err)
		}
		missing := ""
		for _, k := range now.user.Keyspaces() {
			for _, of := range k.Tables {
				for _, i := range of.Indexes {
					if !w.config.Engine.HasIndex(t.Context(), now.ridOf(of), i.Terms) {
						missing = i.Name
					}
				}
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the index %s is not built", missing)
		}
	}
}

// page executes a statement for one page after a state.
func (w *world) page(keyspace, text string, size int, state []byte) (*door.Result, error) {
	s, err := w.Prepare(context.Background(), w.session, keyspace, text)
	if err != nil {
		return nil, err
	}
	p := &frame.Parameters{Consistency: frame.LocalQuorum}
	if size > 0 {
		p.Flags, p.PageSize = frame.QueryPageSize, int32(size)
	}
	if state != nil {
		p.Flags |= frame.QueryPagingState
		p.PagingState = state
	}
	return w.Execute(context.Background(), w.session, s, &door.Request{Keyspace: keyspace, Parameters: p})
}

// reshape splits all partitions of a table, or merges the first two.
func (w *world) reshape(keyspace, name string, split bool) error {
	c, ok := w.catalog.View().Container(keyspace, name)
	if !ok {
		return fmt.Errorf("no table %s.%s", keyspace, name)
	}
	all := c.Partitions()
	if !split {
		_, err := w.node.Merge(context.Background(), c.RID, all[0].ID, all[1].ID)
		return err
	}
	for _, p := range all {
		if _, err := w.node.Split(context.Background(), c.RID, p.ID, ""); err != nil {
			return err
		}
	}
	return nil
}

// TestStories runs statements of testdata: each line ends a statement with a semicolon.
// "use" sets the keyspace, "clock" lets seconds pass, "offers" prints the throughput,
// "built" waits until all indexes and views are built, "split" and "merge" change the
// partitions of a table. "feed" reads a page of a change feed, after the one of the same
// name.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Base(filepath.Dir(path)) == "recorded" {
			return // They are those of TestRecorded.
		}
		w := newWorld(t)
		keyspace := ""
		states := map[string][]byte{} // of feeds
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "use":
				keyspace = strings.TrimSpace(d.Input)
				return ""
			case "built":
				w.built(t)
				w.waitForViews(t)
				return ""
			case "offers":
				return w.offers()
			case "split", "merge":
				var name string
				d.ScanArgs(t, "table", &name)
				if err := w.reshape(keyspace, name, d.Cmd == "split"); err != nil {
					t.Fatal(err)
				}
				return ""
			case "feed":
				var name string
				size := 0
				d.ScanArgs(t, "name", &name)
				d.MaybeScanArgs(t, "page", &size)
				r, err := w.page(keyspace, strings.TrimSuffix(strings.TrimSpace(d.Input), ";"), size, states[name])
				if err != nil {
					return fmt.Sprintf("error: %v\n", err)
				}
				if states[name] = r.Rows.PagingState; len(states[name]) == 0 {
					t.Error("the page has no state")
				}
				return literals(r.Rows)
			case "clock":
				var seconds int
				d.ScanArgs(t, "seconds", &seconds)
				w.now = w.now.Add(time.Duration(seconds) * time.Second)
				return ""
			}
			var out strings.Builder
			for text := range strings.SplitSeq(strings.TrimSpace(d.Input), ";\n") {
				text = strings.TrimSuffix(text, ";")
				size := 0
				if d.HasArg("page") {
					d.ScanArgs(t, "page", &size)
				}
				r, _, err := w.execute(keyspace, text, size)
				switch {
				case err != nil:
					fmt.Fprintf(&out, "error: %v\n", err)
				case r.Rows != nil:
					if d.HasArg("names") {
						var names []string
						for _, c := range r.Rows.Columns.All() {
							names = append(names, c.Name)
						}
						fmt.Fprintln(&out, strings.Join(names, " | "))
					}
					out.WriteString(literals(r.Rows))
					if d.HasArg("partitions") {
						for _, p := range r.Payload {
							fmt.Fprintf(&out, "%s: %s\n", p.Name, p.Value)
						}
					}
				case len(r.Changes) > 0:
					for _, c := range r.Changes {
						fmt.Fprintln(&out, strings.TrimSpace(c.Change+" "+c.Target+" "+c.Keyspace+" "+c.Name))
					}
				case r.Keyspace != "":
					fmt.Fprintln(&out, "use", r.Keyspace)
				default:
					fmt.Fprintln(&out, "ok")
				}
			}
			return out.String()
		})
	})
}
