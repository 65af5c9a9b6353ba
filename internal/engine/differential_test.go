package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// setting reads a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestDifferential runs random queries over random containers in several ways
// that must agree. A container has 1 to 8 partitions, a key of 1 to 3 levels and
// a random indexing policy, which changes between queries; documents are
// created, replaced and deleted, too. The answers are compared with
//
//   - a run of the query over a plain list of the documents, which has neither
//     partitions nor an index,
//   - a container with the same documents that excludes everything from its
//     index, and so reads all of them,
//   - the same query in pages of other sizes,
//   - a list of the documents of one key or prefix, when the request names one,
//   - for the simple shapes, a computation that knows nothing of the engine.
//
// All rows are compared in order: by the keys of ORDER BY, and otherwise by
// document number, which both containers assign alike.
//
// DECAN_DIFFERENTIAL is the number of queries, DECAN_SEED the seed of the first
// world. A failure prints the seed of its world.
func TestDifferential(t *testing.T) {
	t.Parallel()
	number := uint64(3000)
	if engine.RaceDetector {
		number = 200
	}
	queries := setting(t, "DECAN_DIFFERENTIAL", number)
	seed := setting(t, "DECAN_SEED", rand.Uint64()>>1)
	t.Logf("DECAN_SEED=%d", seed)
	var next atomic.Uint64
	next.Store(seed)
	const perWorld, lanes = 100, 2
	said := make([]tally, lanes)
	t.Run("worlds", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for failures := 0; said[lane].queries < int(queries/lanes) && failures < 3; {
					seed := next.Add(1) - 1
					if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { newContest(t, seed, &said[lane]).run(perWorld) }) {
						failures++
					}
				}
			})
		}
	})
	all := said[0]
	all.add(said[1])
	t.Logf("%+v", all)
	if t.Failed() || engine.RaceDetector { // under which too few queries run for this check
		return
	}
	for name, one := range map[string]struct{ got, least int }{
		"rows": {all.rows, 3 * all.queries}, "naive answers": {all.naive, all.queries / 4}, "queries that an index led": {all.led, all.queries / 6},
		"answers": {all.queries - all.refused - all.failed, all.queries * 2 / 3}, "prefixes": {all.scoped, all.queries / 5}, "pages": {all.pages, all.queries * 5}, "changes of policy": {all.changes, all.queries / 50},
	} {
		if one.got < one.least {
			t.Errorf("the test shows too little: %d %s of %d queries", one.got, name, all.queries)
		}
	}
}

// TestDifferentialWhileIndexing does the same with few large partitions, while
// their index is being transformed to a new policy in several steps.
func TestDifferentialWhileIndexing(t *testing.T) {
	t.Parallel()
	seed := setting(t, "DECAN_SEED", rand.Uint64()>>1)
	var said tally
	c := newContest(t, seed, &said)
	documents := 1500 * min(2, c.partitions)
	if engine.RaceDetector {
		documents /= 2
	}
	for len(c.docs) < documents {
		c.create()
	}
	changes := 4
	if engine.RaceDetector {
		changes = 2
	}
	for range changes {
		c.change()
		for range 8 {
			if c.progress() < 100 {
				c.underWay++
			}
			c.ask(c.query())
			c.mutate()
		}
		c.settle()
	}
	c.world.check(t)
	if said.underWay == 0 {
		t.Errorf("DECAN_SEED=%d: the test shows too little: the index was complete at every query", seed)
	}
}

// tally counts the cases that the test has covered.
type tally struct {
	queries, rows, pages, naive, led, refused, failed, scoped, changes, underWay int
}

func (y *tally) add(o tally) {
	y.queries, y.rows, y.pages, y.naive, y.led = y.queries+o.queries, y.rows+o.rows, y.pages+o.pages, y.naive+o.naive, y.led+o.led
	y.refused, y.failed, y.scoped, y.changes, y.underWay = y.refused+o.refused, y.failed+o.failed, y.scoped+o.scoped, y.changes+o.changes, y.underWay+o.underWay
}

// stored is a document as stored in the containers.
type stored struct {
	id     string
	number uint64
	body   []byte // with system properties
	value  value.Value
	key    partitionkey.Key
}

// listed has all documents by number: a source without partitions and index.
type listed []stored

// Candidates yields the documents with numbers above need.After.
func (l listed) Candidates(_ context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		for _, d := range l {
			if d.number > need.After && !yield(query.Candidate{Number: d.number, Body: d.body}, nil) {
				return
			}
		}
	}
}

// answer runs a query over the list of documents.
func (l listed) answer(q question, computed []resource.ComputedProperty) (rows []string, err error) {
	plan, err := query.Compile(q.text, q.params, nil, query.Options{Limits: resource.DefaultLimits(), Computed: computed})
	if err != nil {
		return nil, err
	}
	h := plan.Hybrid()
	if h == nil {
		found, err := l.run(plan)
		return texts(found), err
	}
	statistics, err := h.Statistics()
	if err != nil {
		return nil, err
	}
	known, err := l.run(statistics)
	if err != nil {
		return nil, err
	}
	components, err := h.Components(known[0].JSON)
	if err != nil {
		return nil, err
	}
	found := make([][]query.Row, len(components))
	for i, component := range components {
		if found[i], err = l.run(component); err != nil {
			return nil, err
		}
	}
	fused, err := h.Fuse(found)
	return texts(fused), err
}

func (l listed) run(plan *query.Plan) (rows []query.Row, err error) {
	stream := func(ctx context.Context, b query.Budget) (query.Page, error) { return plan.Run(ctx, l, b) }
	from := query.Progress{}
	for !from.Done {
		var page query.Page
		if page, from, err = plan.Merge([]query.Stream{stream}, from).Page(context.Background(), query.Budget{}); err != nil {
			return nil, err
		}
		rows = append(rows, page.Rows...)
	}
	return rows, nil
}

func texts(rows []query.Row) []string {
	var list []string
	for _, row := range rows {
		list = append(list, plainText(string(row.JSON)))
	}
	return list
}

// plainText removes from a row what differs between two containers with the
// same documents.
func plainText(row string) string {
	if !strings.Contains(row, `"_rid"`) {
		return row
	}
	v, err := value.ParseString(row)
	if err != nil {
		return row
	}
	return withoutSystem(v).JSON()
}

func withoutSystem(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindArray:
		var items []value.Value
		for _, item := range v.Items() {
			items = append(items, withoutSystem(item))
		}
		return value.Array(items)
	case value.KindObject:
		var members []value.Member
		for _, m := range v.Without("_rid", "_self", "_etag", "_ts", "_attachments").Members() {
			members = append(members, value.Member{Name: m.Name, Value: withoutSystem(m.Value)})
		}
		return value.Object(members)
	}
	return v
}

// contest is one random world.
type contest struct {
	*drawn
	*tally
	t          *testing.T
	seed       uint64
	world      *world
	partitions int
	paths      []string // of the key
	version    int
	policy     policy
	settled    bool // the index transformation is complete
	indexed    engine.Link
	scanned    engine.Link
	members    map[string]map[string]string // of each document, those with the values of its key
	docs       listed
	made       int
}

func newContest(t *testing.T, seed uint64, said *tally) *contest {
	c := &contest{
		drawn: newDrawn(seed), tally: said, t: t, seed: seed, world: newWorld(t, nil), version: 2, settled: true, members: map[string]map[string]string{},
		indexed: engine.Link{Database: "d", Container: "indexed"}, scanned: engine.Link{Database: "d", Container: "scanned"},
	}
	c.partitions = []int{1, 2, 3, 5, 8}[c.IntN(5)]
	c.paths = [][]string{{"/pk"}, {"/pk"}, {"/num"}, {"/n/a"}, {"/pk", "/sk"}, {"/pk", "/num"}, {"/pk", "/sk", "/id"}, {"/num", "/pk", "/sk"}}[c.IntN(8)]
	if len(c.paths) == 1 && c.chance(25) {
		// Version 1 hashes the first 100 characters only, so longer keys can share a
		// hash.
		c.version, c.narrow, c.drawn.keys = 1, true, []string{"1", "2", `"a"`, "true", "null", `"é"`, "{}"}
	}
	ctx := context.Background()
	if _, err := c.world.CreateDatabase(ctx, caller, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	c.policy = c.drawn.policy()
	c.define(c.indexed, c.policy, c.world.CreateContainer)
	c.define(c.scanned, policy{text: `{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}`, computed: computedProperties}, c.world.CreateContainer)
	for range 80 {
		c.create()
	}
	return c
}

// define creates or replaces a container.
func (c *contest) define(link engine.Link, p policy, call func(context.Context, auth.Caller, engine.ContainerRequest) (engine.Resource, error)) {
	c.t.Helper()
	kind := map[bool]string{true: "Hash", false: "MultiHash"}[len(c.paths) == 1]
	var computed []string
	for _, one := range p.computed {
		computed = append(computed, fmt.Sprintf(`{"name":%q,"query":%q}`, one.Name, one.Query))
	}
	body := fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["%s"],"kind":%q,"version":%d},"indexingPolicy":%s,"computedProperties":[%s],`+
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s"}]},"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":3,"distanceFunction":"cosine"}]}}`,
		link.Container, strings.Join(c.paths, `","`), kind, c.version, p.text, strings.Join(computed, ","))
	req := engine.ContainerRequest{Link: link, Body: parse(c.t, body), Partitions: c.partitions}
	if _, err := c.world.ReadContainer(context.Background(), caller, engine.ContainerRequest{Link: link}); err != nil {
		req.Link.Container = ""
	}
	if _, err := call(context.Background(), caller, req); err != nil {
		c.t.Fatalf("seed %d: %s: %v", c.seed, body, err)
	}
}

// both calls an operation on a document in both containers.
func (c *contest) both(id, text string, k *partitionkey.Key, call func(context.Context, auth.Caller, engine.DocumentRequest) (engine.Document, error)) stored {
	c.t.Helper()
	var kept stored
	for _, link := range []engine.Link{c.scanned, c.indexed} {
		req := engine.DocumentRequest{Link: link, Key: k, Size: len(text)}
		req.Link.Document = id
		if text != "" {
			req.Document = parse(c.t, text)
		}
		made, err := call(context.Background(), caller, req)
		if err != nil {
			c.t.Fatalf("seed %d: %s %s: %v", c.seed, id, text, err)
		}
		if text == "" {
			continue
		}
		body := parse(c.t, string(made.Body))
		rid, err := resource.ParseRID(body.Get("_rid").Text())
		if err != nil {
			c.t.Fatal(err)
		}
		if kept.number != 0 && kept.number != rid.Number() {
			c.t.Fatalf("seed %d: document %s has the numbers %d and %d", c.seed, id, kept.number, rid.Number())
		}
		view, _ := c.world.catalog.View().Container("d", link.Container)
		kept = stored{id: id, number: rid.Number(), body: made.Body, value: parse(c.t, text), key: view.KeyOf(req.Document)}
	}
	return kept
}

// put records a document, and replaces the one with its number.
func (c *contest) put(d stored) {
	at, found := slices.BinarySearchFunc(c.docs, d.number, func(o stored, n uint64) int { return cmp.Compare(o.number, n) })
	if found {
		c.docs[at] = d
		return
	}
	c.docs = slices.Insert(c.docs, at, d)
}

func (c *contest) create() {
	id := fmt.Sprintf("%03d", c.made)
	c.made++
	text := c.document(id, nil)
	c.put(c.both(id, text, nil, c.world.Create))
	kept := map[string]string{}
	for _, path := range c.paths {
		name := strings.Split(path, "/")[1]
		kept[name] = parse(c.t, text).Get(name).JSON()
		if !parse(c.t, text).Get(name).IsDefined() {
			kept[name] = ""
		}
	}
	c.members[id] = kept
}

// mutate creates, replaces and deletes some documents.
func (c *contest) mutate() {
	for range c.IntN(8) {
		at := c.IntN(len(c.docs))
		d := c.docs[at]
		switch c.IntN(4) {
		case 0:
			c.both(d.id, "", &d.key, c.world.Delete)
			c.docs = slices.Delete(slices.Clone(c.docs), at, at+1)
			c.create()
		case 1:
			c.put(c.both(d.id, c.document(d.id, c.members[d.id]), nil, c.world.Upsert))
		default:
			c.put(c.both(d.id, c.document(d.id, c.members[d.id]), nil, c.world.Replace))
		}
	}
}

// run runs n queries in phases, and changes the world between phases.
func (c *contest) run(n int) {
	for i := range n {
		if i%10 == 5 {
			c.mutate()
		}
		if i%25 == 10 {
			c.change()
		}
		if i%25 == 18 {
			c.settle()
		}
		if !c.settled && c.progress() < 100 {
			c.underWay++
		}
		c.ask(c.query())
	}
	if c.world.check(c.t); c.t.Failed() {
		c.t.Fatalf("DECAN_SEED=%d", c.seed)
	}
}

// change replaces the policy of the container.
func (c *contest) change() {
	c.policy = c.drawn.policy()
	c.define(c.indexed, c.policy, c.world.ReplaceContainer)
	c.settled = false
	c.changes++
}

// progress returns the index progress in percent.
func (c *contest) progress() int {
	r, err := c.world.ReadContainer(context.Background(), caller, engine.ContainerRequest{Link: c.indexed})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.IndexProgress
}

// settle waits until the index transformation is complete.
func (c *contest) settle() {
	for deadline := time.Now().Add(time.Minute); c.progress() < 100; runtime.Gosched() {
		if time.Now().After(deadline) {
			c.t.Fatalf("seed %d: the index stays at %d %%", c.seed, c.progress())
		}
	}
	c.settled = true
}

// rowsOf returns all rows of a query, and whether documents were found by an
// index.
func (c *contest) rowsOf(link engine.Link, q question, k *partitionkey.Key, size int) (rows []string, led bool, err error) {
	req := engine.QueryRequest{Link: link, Text: q.text, Params: q.params, Key: k, Cross: true, Full: true, MaxItems: size}
	for range 5000 {
		page, err := c.world.Query(context.Background(), caller, req)
		if err != nil {
			return nil, false, err
		}
		c.pages++
		for _, row := range page.Rows {
			rows = append(rows, plainText(string(row)))
		}
		if size > 0 && len(page.Rows) > size {
			return nil, false, fmt.Errorf("a page of %d rows, want at most %d", len(page.Rows), size)
		}
		led = led || page.Stats.IndexHits > 0 || page.Stats.Retrieved < int64(len(c.docs))
		if req.Continuation = page.Continuation; req.Continuation == "" {
			return rows, led, nil
		}
		if len(page.Continuation) >= 1024 {
			return nil, false, fmt.Errorf("a continuation of %d bytes", len(page.Continuation))
		}
	}
	return nil, false, errors.New("no end")
}

// ask runs one query in every way.
func (c *contest) ask(q question) {
	c.queries++
	want, err := c.docs.answer(q, c.policy.computed)
	if err != nil {
		// A query that fails over the list of documents must fail in the
		// engine, too.
		if _, _, other := c.rowsOf(c.indexed, q, nil, 0); status.CodeOf(other) != status.CodeOf(err) {
			c.fail(q, nil, "the list says %v, the container %v", err, other)
		}
		c.failed++
		return
	}
	got, led, err := c.rowsOf(c.indexed, q, nil, 0)
	if err != nil {
		c.refusal(q, err)
		return
	}
	if led {
		c.led++
	}
	c.rows += len(got)
	c.same(q, nil, "unpaged", got, want)
	c.compareNaive(q, got)
	sizes := []int{7, 23}
	switch {
	case len(want) <= 40:
		sizes = []int{1, 1, 7}
	case len(want) > 200:
		sizes = []int{101, 400}
	}
	size := sizes[c.IntN(len(sizes))]
	got, _, err = c.rowsOf(c.indexed, q, nil, size)
	c.must(q, nil, err)
	c.same(q, nil, fmt.Sprintf("in pages of %d", size), got, want)
	if q.order == nil {
		c.compareScan(q, want)
	}
	if c.chance(50) {
		c.compareKey(q)
	}
}

// refusal reports whether an error is the expected one for an order that the
// policy does not support.
func (c *contest) refusal(q question, err error) {
	excluded := strings.Contains(err.Error(), "The index path corresponding to the specified order-by item is excluded.")
	missing := strings.Contains(err.Error(), "The order by query does not have a corresponding composite index that it can be served from.")
	if q.order == nil || c.policy.orders(q.order) || status.CodeOf(err) != status.CodeBadRequest || !(excluded && len(q.order) == 1 || missing && len(q.order) > 1) {
		c.fail(q, nil, "%v", err)
	}
	c.refused++
}

func (c *contest) must(q question, k *partitionkey.Key, err error) {
	if err != nil {
		c.fail(q, k, "%v", err)
	}
}

// compareScan runs the query in the container without an index. That has all
// computed properties, so queries with one that the policy lacks are left out.
func (c *contest) compareScan(q question, want []string) {
	if c.policy.computed == nil && (strings.Contains(q.text, "c.low") || strings.Contains(q.text, "c.size")) {
		return
	}
	got, _, err := c.rowsOf(c.scanned, q, nil, []int{0, 7 + len(want)/10, 23 + len(want)/10}[c.IntN(3)])
	c.must(q, nil, err)
	c.same(q, nil, "without an index", got, want)
}

// compareKey runs the query over the documents of a whole or partial key, and
// compares it with a list of only these documents.
func (c *contest) compareKey(q question) {
	if q.shape == "rank" {
		return // Its scores depend on the statistics of all documents.
	}
	c.scoped++
	d := c.docs[c.IntN(len(c.docs))]
	parts := d.key.Components()
	k := partitionkey.NewKey(parts[:1+c.IntN(len(parts))]...)
	var some listed
	for _, d := range c.docs {
		if d.key.HasPrefix(k) {
			some = append(some, d)
		}
	}
	want, err := some.answer(q, c.policy.computed)
	if err != nil {
		return // A document may cause an error that another evaluation order avoids.
	}
	for _, size := range []int{0, 1 + c.IntN(9) + len(want)/10} {
		got, _, err := c.rowsOf(c.indexed, q, &k, size)
		c.must(q, &k, err)
		c.same(q, &k, fmt.Sprintf("in pages of %d", size), got, want)
	}
}

// compareNaive compares with the naive computation, in order if the query has
// one.
func (c *contest) compareNaive(q question, got []string) {
	if q.naive == nil {
		return
	}
	c.naive++
	var mine, theirs []string
	for _, v := range q.naive.rows(c.docs) {
		mine = append(mine, string(value.AppendKey(nil, v)))
	}
	for _, row := range got {
		theirs = append(theirs, string(value.AppendKey(nil, parse(c.t, row))))
	}
	if q.naive.keys != nil && q.naive.order == nil {
		slices.Sort(mine)
		slices.Sort(theirs)
	}
	if !slices.Equal(mine, theirs) {
		c.fail(q, nil, "%d rows, the computation has %d\ngot  %v\nwant %v", len(theirs), len(mine), got, value.Array(q.naive.rows(c.docs)).JSON())
	}
}

func (c *contest) same(q question, k *partitionkey.Key, how string, got, want []string) {
	if q.free {
		got, want = slices.Clone(got), slices.Clone(want)
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		c.fail(q, k, "%s: %d rows, want %d\ngot  %v\nwant %v", how, len(got), len(want), got, want)
	}
}

// fail ends the test with everything needed to reproduce the failure.
func (c *contest) fail(q question, k *partitionkey.Key, format string, args ...any) {
	c.t.Helper()
	scope := ""
	if k != nil {
		scope = ", asked for key " + k.String()
	}
	c.t.Fatalf("DECAN_SEED=%d: %d partitions, key %v version %d%s\npolicy %s, settled: %t\n%s: %s\nparameters %v\n%s",
		c.seed, c.partitions, c.paths, c.version, scope, c.policy.text, c.settled, q.shape, q.text, q.params, fmt.Sprintf(format, args...))
}
