package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestStories runs the stories of testdata. The commands are at the methods of
// story.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, file string) {
		t.Parallel()
		s := &story{}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

// story is one file of testdata: operations on a partition.
type story struct {
	t *testing.T
	w *world
	// etags are those that the story has seen, shown as <1>, <2> and so on.
	etags []string
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	if s.w != nil {
		s.w.tb = t
	}
	switch d.Cmd {
	case "container":
		return s.newContainer(d)
	case "create", "upsert", "replace", "delete":
		return s.write(d)
	case "patch":
		return s.patch(d)
	case "batch":
		return s.batch(d)
	case "read":
		return s.read(d)
	case "query":
		return s.query(d)
	case "feed":
		return s.feed(d)
	case "clock":
		var seconds int64
		d.ScanArgs(t, "add", &seconds)
		s.w.clock.Add(seconds)
		return ""
	case "crash":
		kept := 0.0
		if d.HasArg("kept") {
			var percent int
			d.ScanArgs(t, "kept", &percent)
			kept = float64(percent) / 100
		}
		return s.result(s.w.crash(kept, 1))
	case "reopen":
		return s.result(errors.Join(s.w.close(), s.w.open()))
	case "policy":
		return s.policy(d)
	case "ttl": // The container's default from now on.
		c := *s.w.container.Load()
		d.ScanArgs(t, "default", &c.DefaultTTL)
		s.w.container.Store(&c)
		return ""
	case "expire":
		n, err := s.w.partition.Load().Expire(t.Context(), nil, math.Inf(1))
		return fmt.Sprintf("%d deleted, %s", n, s.result(err))
	case "purge":
		return s.purge(d)
	case "clear": // [units=N]
		units := math.Inf(1)
		d.MaybeScanArgs(t, "units", &units)
		var meter throughput.Meter
		n, err := s.w.partition.Load().Clear(t.Context(), &meter, units)
		return fmt.Sprintf("%d deleted, %s, %.2f RU", n, s.result(err), meter.Charge())
	case "stats":
		return s.stats()
	case "check":
		return s.check()
	case "rows":
		return s.rows()
	case "complete": // The input is paths; the output those that every document has.
		return s.w.complete(s.t, d.Input)
	case "damage":
		return s.damage(d)
	case "limits":
		d.MaybeScanArgs(t, "document", &s.w.limits.DocumentBytes)
		d.MaybeScanArgs(t, "logical", &s.w.limits.LogicalPartitionBytes)
		d.MaybeScanArgs(t, "response", &s.w.limits.ResponseBytes)
		return s.result(errors.Join(s.w.close(), s.w.open()))
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *story) result(err error) string {
	if err != nil {
		return s.hide(statusText(err))
	}
	return "ok"
}

// hide replaces the etags, which hold a time.
func (s *story) hide(text string) string {
	for i, etag := range s.etags {
		text = strings.ReplaceAll(text, etag, fmt.Sprintf("<%d>", i+1))
	}
	return text
}

func (s *story) see(etag resource.ETag) string {
	text := strings.Trim(string(etag), `"`)
	if text != "" && !slices.Contains(s.etags, text) {
		s.etags = append(s.etags, text)
	}
	return s.hide(text)
}

// etagArg is the etag of an argument: <n>, * or anything else.
func (s *story) etagArg(d *datadriven.TestData, name string) resource.ETag {
	text := s.arg(d, name)
	if n, err := strconv.Atoi(strings.Trim(text, "<>")); err == nil && strings.HasPrefix(text, "<") {
		return resource.ETag(`"` + s.etags[n-1] + `"`)
	}
	return resource.ETag(text)
}

func (s *story) arg(d *datadriven.TestData, name string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == name {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

// newContainer: container paths=(/a,/b) version=2 [min=HEX max=HEX]; the input
// is the indexing policy.
func (s *story) newContainer(d *datadriven.TestData) string {
	if s.w != nil {
		if err := s.w.close(); err != nil {
			s.t.Fatal(err)
		}
	}
	version := 2
	if d.HasArg("version") {
		d.ScanArgs(s.t, "version", &version)
	}
	paths := strings.Split(s.arg(d, "paths"), ",")
	own := resource.Partition{ID: 7, Range: partitionkey.Full(), Generation: 3, Ordinal: 2}
	if text := s.arg(d, "min"); text != "" {
		own.Range.Min, _ = partitionkey.ParseEPK(text)
	}
	if text := s.arg(d, "max"); text != "" {
		own.Range.Max, _ = partitionkey.ParseEPK(text)
	}
	s.w = newWorldOf(s.t, containerWith(s.t, version, paths, d.Input), own)
	return "ok"
}

// write: create|upsert|replace|delete [id=] [key=JSON] [if-match=] [if-none-match=]
// [generation=] [body]; each line of the input is a document.
func (s *story) write(d *datadriven.TestData) string {
	op := Op(slices.Index([]string{"create", "upsert", "replace", "delete"}, d.Cmd))
	var b strings.Builder
	lines := strings.Split(d.Input, "\n")
	for _, line := range lines {
		var meter throughput.Meter
		doc := s.w.parse("null")
		if line != "" {
			doc = s.w.parse(line)
		}
		got, err := s.w.write(op, doc, func(w *Write) {
			w.ID, w.Meter = s.arg(d, "id"), &meter
			w.IfMatch, w.IfNoneMatch = s.etagArg(d, "if-match"), s.etagArg(d, "if-none-match")
			if text := s.arg(d, "key"); text != "" {
				w.Key = s.key(text)
			}
			if d.HasArg("generation") {
				var g int
				d.ScanArgs(s.t, "generation", &g)
				w.Generation = resource.Generation(g)
			}
		})
		if err != nil {
			fmt.Fprintf(&b, "%s (lsn %d, %.2f RU)\n", s.hide(statusText(err)), got.LSN, meter.Charge())
			continue
		}
		word := map[bool]string{true: "created", false: "replaced"}[got.Created]
		if op == Delete {
			word = "deleted"
		}
		fmt.Fprintf(&b, "%s %d lsn %d etag %s (%.2f RU)\n", word, got.Number&0xFFFFFFFFFF, got.LSN, s.see(got.ETag), meter.Charge())
		if d.HasArg("body") {
			fmt.Fprintf(&b, "%s\n", s.hide(string(got.Body)))
		}
	}
	return b.String()
}

func (s *story) key(text string) partitionkey.Key {
	key, err := partitionkey.Parse(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// read: read key=JSON id=ID [if-none-match=] [session=LSN] [generation=]
func (s *story) read(d *datadriven.TestData) string {
	var meter throughput.Meter
	got, err := s.w.read(s.key(s.arg(d, "key")), s.arg(d, "id"), func(r *Read) {
		r.Meter, r.IfNoneMatch = &meter, s.etagArg(d, "if-none-match")
		if d.HasArg("session") {
			var lsn int
			d.ScanArgs(s.t, "session", &lsn)
			r.Session = resource.LSN(lsn)
		}
		if d.HasArg("generation") {
			var g int
			d.ScanArgs(s.t, "generation", &g)
			r.Generation = resource.Generation(g)
		}
	})
	if err != nil {
		return fmt.Sprintf("%s (lsn %d, %.2f RU)\n", s.hide(statusText(err)), got.LSN, meter.Charge())
	}
	s.see(got.ETag)
	return fmt.Sprintf("%s (lsn %d, %.2f RU)\n", s.hide(string(got.Body)), got.LSN, meter.Charge())
}

// purge: purge key=JSON [most=N], the number of documents that are deleted at once.
func (s *story) purge(d *datadriven.TestData) string {
	p := s.w.partition.Load()
	p.steps.purgeMax = defaultSteps().purgeMax
	d.MaybeScanArgs(s.t, "most", &p.steps.purgeMax)
	var meter throughput.Meter
	got, err := s.w.purge(s.key(s.arg(d, "key")), &meter)
	text := fmt.Sprintf("%d deleted", got.Deleted)
	switch {
	case err != nil:
		text = s.hide(statusText(err))
	case got.Marked:
		text = "marked"
	}
	return fmt.Sprintf("%s (lsn %d, %.2f RU)", text, got.LSN, meter.Charge())
}

// query: query [prefix=JSON] [items=N]; the input is the text.
func (s *story) query(d *datadriven.TestData) string {
	r := partitionkey.Full()
	if text := s.arg(d, "prefix"); text != "" {
		var err error
		if r, err = s.w.container.Load().PartitionKey.Prefix(s.key(text)); err != nil {
			s.t.Fatal(err)
		}
	}
	items := 0
	if d.HasArg("items") {
		d.ScanArgs(s.t, "items", &items)
	}
	var meter throughput.Meter
	rows, pages, err := s.w.rows(d.Input, r, items, &meter)
	if err != nil {
		return s.hide(statusText(err))
	}
	if len(rows) == 0 {
		rows = []string{"nothing"}
	}
	return s.hide(fmt.Sprintf("%s\n%d pages, %.2f RU", strings.Join(rows, "\n"), pages, meter.Charge()))
}

// policy: the input is the container's new indexing policy; the index follows.
func (s *story) policy(d *datadriven.TestData) string {
	c := *s.w.container.Load()
	c.Indexing = containerWith(s.t, 2, []string{"/x"}, d.Input).Indexing
	s.w.container.Store(&c)
	p := s.w.partition.Load()
	p.Reindex()
	p.waitIdle()
	return s.stats()
}

// waitIdle returns when the writer has ended, so that all requested work is done.
func (p *Partition) waitIdle() {
	p.intake.mu.Lock()
	idle := p.intake.idle
	p.intake.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

func (s *story) stats() string {
	st := s.w.partition.Load().Stats()
	text := fmt.Sprintf("%d documents, %d bytes, lsn %d, index %d%%", st.Documents, st.Bytes, st.LSN, st.IndexProgress)
	if st.Purging > 0 || st.Cleared > 0 {
		text += fmt.Sprintf(", %d purging, %d cleared", st.Purging, st.Cleared)
	}
	return text
}

func (s *story) check() string {
	report := s.w.check()
	text := fmt.Sprintf("%d documents in %d logical partitions, %d bytes, %d terms, lsn %d\n", report.Documents, report.Logical, report.Bytes, report.Terms, report.LSN)
	if report.Clean() {
		return text + "clean"
	}
	return text + strings.Join(report.Problems, "\n")
}

// check checks the store of the partition.
func (w *world) check() check.Report {
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	report, err := check.Run(snapshot, w.container.Load())
	if err != nil {
		w.tb.Errorf("check: %v", err)
	}
	return report
}

// rows counts the rows of each family.
func (s *story) rows() string {
	snapshot := s.w.store.Snapshot()
	defer snapshot.Close()
	counts := map[storage.Family]int{}
	it := snapshot.Iter(nil, nil)
	for ok := it.First(); ok; ok = it.Next() {
		f, _ := storage.FamilyOf(it.Key())
		counts[f]++
	}
	if err := it.Close(); err != nil {
		s.t.Fatal(err)
	}
	var parts []string
	for _, f := range []storage.Family{'d', 'r', 't', 'l', 'f', 'q', 'm', 'n', 'u', 'x'} {
		if (f == 'n' || f == 'u' || f == 'x') && counts[f] == 0 {
			continue // few containers have vectors, unique keys or documents that expire
		}
		parts = append(parts, fmt.Sprintf("%s %d", f, counts[f]))
	}
	return strings.Join(parts, ", ")
}

// damage: damage delete|alter|add family=F [n=N]: changes the Nth row of a
// family in the store, without the partition.
func (s *story) damage(d *datadriven.TestData) string {
	family, n := storage.Family(s.arg(d, "family")[0]), 0
	if d.HasArg("n") {
		d.ScanArgs(s.t, "n", &n)
	}
	snapshot := s.w.store.Snapshot()
	defer snapshot.Close()
	it := snapshot.Iter(family.Bounds())
	defer it.Close()
	ok := it.First()
	for range n {
		ok = it.Next()
	}
	if !ok {
		s.t.Fatalf("%s: no row %d", d.Pos, n)
	}
	key, row := slices.Clone(it.Key()), slices.Clone(it.Value())
	batch := s.w.store.NewBatch()
	defer batch.Close()
	switch d.CmdArgs[0].Key {
	case "delete":
		_ = batch.Delete(key)
	case "alter": // One bit of the row, in the byte at=N, counted from the end when negative.
		at := -1
		if d.HasArg("at") {
			d.ScanArgs(s.t, "at", &at)
		}
		row[(at+len(row))%len(row)] ^= 1
		_ = batch.Set(key, row)
	case "count": // A state row that counts one document too many.
		st, err := layout.DecodeState(row)
		if err != nil {
			s.t.Fatal(err)
		}
		st.Items++
		_ = batch.Set(key, st.Append(nil))
	case "rewind": // A state row older than the last effect.
		st, err := layout.DecodeState(row)
		if err != nil {
			s.t.Fatal(err)
		}
		st.LSN, st.Counter, st.TS = st.LSN-1, st.Counter-1, st.TS-1
		_ = batch.Set(key, st.Append(nil))
	case "shrink": // A descriptor whose range ends before all documents.
		descriptor, err := layout.DecodeDescriptor(row)
		if err != nil {
			s.t.Fatal(err)
		}
		descriptor.Range.Max = "\x01"
		text, err := descriptor.Append()
		if err != nil {
			s.t.Fatal(err)
		}
		_ = batch.Set(key, text)
	case "move": // A copy of the row under another key.
		key[len(key)-1] ^= 1
		_ = batch.Set(key, row)
	case "post": // The number of no document.
		_ = batch.AddPosting(key[:len(key)-6], 1<<40)
	case "unpost":
		_ = batch.RemovePosting(key[:len(key)-6], resource.NewNumber(2, 1))
	case "unknown":
		_ = batch.Set([]byte("z"), row)
	case "complete": // A path that is marked as complete.
		span, ok := s.w.partition.Load().states.current.Load().Indexing.Active.Span(index.Path{s.arg(d, "path")}, index.Defined, value.Null())
		if !ok {
			s.t.Fatalf("%s: the path is not indexed", d.Pos)
		}
		_ = batch.Set(storage.MetaKey(nil, layout.MetaPaths), layout.PathsOf([]index.Term{span.Low}).Append(nil))
	case "meta":
		_ = batch.Set(storage.MetaKey(nil, s.arg(d, "name")), []byte(s.arg(d, "value")))
	default:
		s.t.Fatalf("%s: unknown damage", d.Pos)
	}
	if err := s.w.store.Apply(batch); err != nil {
		s.t.Fatal(err)
	}
	return "ok"
}
