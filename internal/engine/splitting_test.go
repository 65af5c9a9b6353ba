package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// keyKinds are the key definitions of containers that are split.
var keyKinds = map[string]string{
	"v1":    `{"paths":["/t"],"version":1}`,
	"v2":    `{"paths":["/t"],"version":2}`,
	"two":   `{"paths":["/t","/u"],"kind":"MultiHash","version":2}`,
	"three": `{"paths":["/t","/u","/v"],"kind":"MultiHash","version":2}`,
}

const (
	splitActors    = 3
	splitSteps     = 200
	splitDocuments = 90 // of one actor
	changesMax     = 45 // splits and merges of one container
)

// TestSplitMetamorphic runs several actors with random operations. Each operation
// is carried out in a container that stays one partition, and in one that is split
// and merged at random times and keys by the actors and by another goroutine. The
// two must not differ: every status, every row, and all pages and changes read
// across splits and merges are equal. The documents of an actor are its own, but
// share keys with those of others.
func TestSplitMetamorphic(t *testing.T) {
	t.Parallel()
	seed := setting(t, "DECAN_SEED", rand.Uint64()>>1)
	for kind, definition := range keyKinds {
		if engine.RaceDetector && (kind == "v2" || kind == "two") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			t.Logf("DECAN_SEED=%d", seed)
			still, moving := newSide(t, "still", definition), newSide(t, "moving", definition)
			var ends sync.WaitGroup
			ticks := make(chan struct{})
			ends.Go(func() { moving.changeAt(t, rand.New(rand.NewPCG(seed, 99)), ticks) })
			watched := make(chan struct{})
			ends.Go(func() { moving.watch(t, watched) })
			var actors sync.WaitGroup
			var all [splitActors]*actor
			for i := range all {
				all[i] = newActor(t, i, seed, still, moving, ticks)
				actors.Go(all[i].act)
			}
			actors.Wait()
			close(ticks)
			close(watched)
			ends.Wait()
			met := 0
			for _, a := range all {
				met += a.crossed
			}
			merges := moving.merges.Load()
			splits := moving.changes.Load() - merges
			t.Logf("%d splits, %d merges, %d pages that continued across one", splits, merges, met)
			if splits < 8 || merges < 4 || met < 20 {
				t.Errorf("%d splits, %d merges, and %d pages across them: too few to show anything", splits, merges, met)
			}
			still.check(t)
			moving.check(t)
		})
	}
}

// side is one of the two containers.
type side struct {
	*world
	name string
	link engine.Link
	key  partitionkey.Definition

	changes, merges atomic.Int64 // of partitions; merges are changes
}

// briefly shortens the wait of reads with a future session token: there are many
// here.
func briefly(c *engine.Config) { c.Limits.SessionWait = time.Millisecond }

func newSide(t *testing.T, name, definition string) *side {
	t.Helper()
	s := &side{world: newWorld(t, briefly), name: name, link: engine.Link{Database: "d", Container: "c"}}
	ctx := context.Background()
	if _, err := s.CreateDatabase(ctx, caller, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	body := `{"id":"c","partitionKey":` + definition + `,"indexingPolicy":{"includedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/n"},{"path":"/s","order":"descending"}]]}}`
	if _, err := s.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, body), Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	s.key = s.container().PartitionKey
	return s
}

func (s *side) container() *catalog.Container {
	c, _ := s.catalog.View().Container("d", "c")
	return c
}

// changeAt splits or merges a random partition at each tick.
func (s *side) changeAt(t *testing.T, random *rand.Rand, ticks chan struct{}) {
	for range ticks {
		s.change(t, random)
	}
}

// change splits a random partition, or merges two if there are enough.
func (s *side) change(t *testing.T, random *rand.Rand) {
	if s.changes.Load() >= changesMax {
		return
	}
	if n := s.container().Ranges.Len(); n > 3 && random.IntN(8) < min(n, 6) {
		s.merge(t, random)
		return
	}
	s.split(t, random)
}

// merge merges a random partition with its right neighbour, unless one of them
// is being changed already.
func (s *side) merge(t *testing.T, random *rand.Rand) {
	ranges := s.container().Ranges
	at := random.IntN(ranges.Len() - 1)
	low, high := ranges.At(at).Value.ID, ranges.At(at+1).Value.ID
	_, err := s.node.Merge(context.Background(), s.container().RID, low, high)
	switch status.CodeOf(err) {
	case 0:
		s.merges.Add(1)
		s.changes.Add(1)
	case status.CodeConflict, status.CodeGone, status.CodeNotFound:
	default:
		t.Errorf("merge of %s and %s: %v", low, high, err)
	}
}

// watch reads the statistics of the partitions until it is stopped: they are
// always complete, also during splits and merges.
func (s *side) watch(t *testing.T, ended chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		all, err := s.PartitionStats(context.Background(), caller, s.link)
		if err != nil {
			t.Errorf("statistics of the partitions: %v", err)
			return
		}
		next := partitionkey.MinEPK
		for _, p := range all {
			if p.Partition.Range.Min.Compare(next) != 0 {
				t.Errorf("statistics of %s, which begins at %s where the previous one ends at %s", p.Partition.ID, p.Partition.Range.Min, next)
			}
			next = p.Partition.Range.Max
		}
		if next.Compare(partitionkey.MaxEPK) != 0 {
			t.Errorf("statistics end at %s", next)
		}
	}
}

// split splits a random partition, in the middle of its documents or at a
// random key, unless it is being changed already or has one key.
func (s *side) split(t *testing.T, random *rand.Rand) {
	c := s.container()
	own := c.Ranges.At(random.IntN(c.Ranges.Len())).Value
	var at partitionkey.EPK
	if random.IntN(2) == 0 {
		at = s.key.Hash(c.KeyOf(parse(t, keyed(random.IntN(splitDocuments), s.key.Levels())+"}")))
		own = c.Ranges.Locate(at).Value
	}
	_, err := s.node.Split(context.Background(), c.RID, own.ID, at)
	switch status.CodeOf(err) {
	case 0:
		s.changes.Add(1)
	case status.CodeConflict, status.CodeGone, status.CodeNotFound, status.CodeBadRequest:
		if at == "" && status.CodeOf(err) == status.CodeBadRequest && !errors.Is(err, partition.ErrIndivisible) {
			t.Error(err)
		}
	default:
		t.Errorf("split of %s at %q: %v", own.ID, at, err)
	}
}

// keyed returns the beginning of document i, with its id and key. The key
// depends on i, not on the actor. Keys have values of all types, or none.
func keyed(i, levels int) string {
	tenants := 7
	if levels == 1 {
		tenants = 30
	}
	tenant := fmt.Sprintf(`,"t":"t%d"`, i%tenants)
	switch i % tenants {
	case 1:
		tenant = `,"t":-1.5`
	case 2:
		tenant = `,"t":true`
	case 3:
		tenant = `,"t":null`
	case 4:
		tenant = ``
	}
	return fmt.Sprintf(`{"id":"%d"%s,"u":%d,"v":"v%d"`, i, tenant, i%5, i%3)
}

// actor carries out the same operations on both sides. Its state has one entry
// per side: the container that stays whole, and the one that is split.
type actor struct {
	t      *testing.T
	id     int
	random *rand.Rand
	sides  [2]*side
	ticks  chan<- struct{}

	writes   int
	model    map[int]string // documents by number
	etags    map[int][][2]resource.ETag
	sessions [2]map[string]string // the latest token of each partition
	cursors  []*cursor
	readers  []*splitReader

	crossed int // pages that continued at a position from before a change
}

func newActor(t *testing.T, id int, seed uint64, still, moving *side, ticks chan<- struct{}) *actor {
	return &actor{
		t: t, id: id, random: rand.New(rand.NewPCG(seed, uint64(id))), sides: [2]*side{still, moving}, ticks: ticks,
		model: map[int]string{}, etags: map[int][][2]resource.ETag{}, sessions: [2]map[string]string{{}, {}},
	}
}

// act carries out all steps, and then finishes open cursors and readers.
func (a *actor) act() {
	for step := range splitSteps {
		if a.t.Failed() {
			return
		}
		if a.random.IntN(8) == 0 {
			select {
			case a.ticks <- struct{}{}:
			default: // The previous split is in progress.
			}
		}
		switch dice := a.random.IntN(20); {
		case step < 40 || dice < 8:
			a.write()
		case dice < 10:
			a.read()
		case dice < 11:
			a.ahead()
		case dice < 13:
			a.query()
		case dice < 15:
			a.fanOut()
		case dice < 17:
			a.turnCursor()
		default:
			a.turnReader()
		}
	}
	for _, c := range a.cursors {
		for !a.advance(c) {
		}
	}
	for _, r := range a.readers {
		a.drain(r)
	}
}

// document returns a new version of document i.
func (a *actor) document(i int) string {
	a.writes++
	text := fmt.Sprintf(`%s,"o":%d,"k":%d`, strings.Replace(keyed(i, a.sides[0].key.Levels()), `"id":"`, fmt.Sprintf(`"id":"%d-`, a.id), 1), a.id, a.writes)
	if a.random.IntN(6) > 0 {
		text += fmt.Sprintf(`,"n":%d`, a.random.IntN(6))
	}
	if a.random.IntN(5) > 0 {
		text += fmt.Sprintf(`,"s":"%s%d"`, strings.Repeat("x", 150*a.random.IntN(2)), a.random.IntN(9))
	}
	return fmt.Sprintf(`%s,"g":[%s1]}`, text, strings.Repeat(fmt.Sprintf(`%d,`, a.random.IntN(4)), a.random.IntN(4)))
}

func (a *actor) name(i int) string { return fmt.Sprintf("%d-%d", a.id, i) }

// request returns a request for document i on one side, with or without the
// session of this actor.
func (a *actor) request(on, i int, text string) engine.DocumentRequest {
	s := a.sides[on]
	doc := parse(a.t, text)
	key := s.container().KeyOf(doc)
	req := engine.DocumentRequest{Link: s.link, Key: &key, Document: doc, Size: len(text)}
	req.Link.Document = a.name(i)
	req.Session = a.session(on)
	return req
}

// session returns the token of a client that keeps the tokens of all partitions
// it has seen, including those that do not exist any more.
func (a *actor) session(on int) string {
	return strings.Join(slices.Sorted(maps.Values(a.sessions[on])), ",")
}

func (a *actor) seen(on int, token string) {
	if id, _, found := strings.Cut(token, ":"); found {
		a.sessions[on][id] = token
	}
}

// same reports what differs between the sides.
func (a *actor) same(what string, answers [2]string) {
	if answers[0] != answers[1] {
		a.t.Errorf("actor %d: %s\nunsplit: %s\nsplit:   %s", a.id, what, answers[0], answers[1])
	}
}

func own(t *testing.T, body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return parse(t, string(body)).Without("_rid", "_self", "_etag", "_attachments", "_ts", "_lsn").JSON()
}

// write carries out a create, upsert, replace or delete, perhaps on a condition
// that was true before other writes.
func (a *actor) write() {
	i := a.random.IntN(splitDocuments)
	op := a.random.IntN(5)
	text := a.document(i)
	known := a.etags[i]
	pick := -1
	if len(known) > 0 && a.random.IntN(3) == 0 {
		pick = a.random.IntN(len(known))
	}
	for _, c := range a.cursors {
		c.touched[a.name(i)] = true
	}
	var answers [2]string
	var etags [2]resource.ETag
	for on, s := range a.sides {
		do := []func(context.Context, auth.Caller, engine.DocumentRequest) (engine.Document, error){s.Create, s.Upsert, s.Upsert, s.Replace, s.Delete}[op]
		req := a.request(on, i, text)
		if pick >= 0 {
			req.IfMatch = known[pick][on]
		}
		got, err := do(context.Background(), caller, req)
		a.seen(on, got.Session)
		etags[on] = got.ETag
		answers[on] = fmt.Sprintf("%d/%d %v %s", status.CodeOf(err), status.SubOf(err), got.Created, own(a.t, got.Body))
		if err == nil && on == 1 {
			a.note(i, op == 4, text, etags)
		}
	}
	a.same(fmt.Sprintf("operation %d on %d with %d: %s", op, i, pick, text), answers)
}

// note applies a write to the model.
func (a *actor) note(i int, gone bool, text string, etags [2]resource.ETag) {
	if gone {
		delete(a.model, i)
		return
	}
	a.model[i] = parse(a.t, text).JSON()
	a.etags[i] = append(a.etags[i], etags)
	if n := len(a.etags[i]); n > 2 {
		a.etags[i] = a.etags[i][n-2:]
	}
}

// read reads a document with the session of this actor.
func (a *actor) read() {
	i := a.random.IntN(splitDocuments)
	var answers [2]string
	for on, s := range a.sides {
		got, err := s.Read(context.Background(), caller, a.request(on, i, keyed(i, s.key.Levels())+"}"))
		answers[on] = fmt.Sprintf("%d/%d %s", status.CodeOf(err), status.SubOf(err), own(a.t, got.Body))
	}
	a.same(fmt.Sprintf("read of %d", i), answers)
	if want, ok := a.model[i]; ok && !strings.HasSuffix(answers[1], want) {
		a.t.Errorf("actor %d: read of %d: %s, want %s", a.id, i, answers[1], want)
	}
}

// ahead reads with a session token that the first partition, and so its
// descendants, have not reached.
func (a *actor) ahead() {
	var answers [2]string
	for on, s := range a.sides {
		req := a.request(on, 0, keyed(0, s.key.Levels())+"}")
		req.Session = resource.PartitionID(0).SessionToken(1 << 40)
		_, err := s.Read(context.Background(), caller, req)
		answers[on] = fmt.Sprintf("%d/%d", status.CodeOf(err), status.SubOf(err))
		if status.SubOf(err) != status.SubReadSessionNotAvailable {
			a.t.Errorf("%s: a read with a future token was answered %v", s.name, err)
		}
	}
	a.same("read with a future token", answers)
}

// splittingShape is a query of one actor's documents. The rows of an exact shape
// have one order only. The order of others is open, but for ORDER BY, whose
// values the rows have as member o.
type splittingShape struct {
	text  string
	exact bool
	kept  bool // each row is of one document and begins with its id, and none is left out
}

var splittingShapes = []splittingShape{
	{text: `SELECT VALUE [c.id, c.n, c.s] FROM c WHERE c.o = %d`, kept: true},
	{text: `SELECT VALUE [c.id] FROM c WHERE c.o = %d AND c.n > 2`, kept: true},
	{text: `SELECT VALUE [c.id] FROM c WHERE c.o = %d AND c.u IN (1, 3)`, kept: true},
	{text: `SELECT VALUE [c.id, c.k] FROM c WHERE c.o = %d ORDER BY c.k`, exact: true, kept: true},
	{text: `SELECT VALUE [c.id, c.k] FROM c WHERE c.o = %d AND c.n != 3 ORDER BY c.k DESC`, exact: true, kept: true},
	{text: `SELECT TOP 9 VALUE c.k FROM c WHERE c.o = %d ORDER BY c.k DESC`, exact: true},
	{text: `SELECT VALUE c.k FROM c WHERE c.o = %d ORDER BY c.k OFFSET 4 LIMIT 12`, exact: true},
	{text: `SELECT VALUE {o: c.n, id: c.id} FROM c WHERE c.o = %d ORDER BY c.n`},
	{text: `SELECT VALUE {o: c.s, id: c.id} FROM c WHERE c.o = %d ORDER BY c.s DESC`},
	{text: `SELECT VALUE {o: [c.n, c.s], id: c.id} FROM c WHERE c.o = %d ORDER BY c.n, c.s DESC`},
	{text: `SELECT c.id, g FROM c JOIN g IN c.g WHERE c.o = %d`},
	{text: `SELECT VALUE {o: c.n, id: c.id, g: g} FROM c JOIN g IN c.g WHERE c.o = %d AND g != 2 ORDER BY c.n DESC`},
	{text: `SELECT c.n, COUNT(1) AS m, SUM(c.k) AS k, MIN(c.id) AS id FROM c WHERE c.o = %d GROUP BY c.n`},
	{text: `SELECT c.s, AVG(c.k) AS k FROM c WHERE c.o = %d GROUP BY c.s`},
	{text: `SELECT VALUE COUNT(1) FROM c WHERE c.o = %d`, exact: true},
	{text: `SELECT VALUE MAX(c.k) FROM c WHERE c.o = %d`, exact: true},
	{text: `SELECT DISTINCT VALUE c.n FROM c WHERE c.o = %d`},
	{text: `SELECT DISTINCT VALUE c.s FROM c WHERE c.o = %d ORDER BY c.s`, exact: true},
	{text: `SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.s FROM c WHERE c.o = %d) x`, exact: true},
}

// scoped draws the scope of a request: the container, a key, a prefix, or the
// range between two keys.
func (a *actor) scoped() (key *partitionkey.Key, clip *partitionkey.Range) {
	c := a.sides[0].container()
	draw := func() partitionkey.Key {
		return c.KeyOf(parse(a.t, keyed(a.random.IntN(splitDocuments), c.PartitionKey.Levels())+"}"))
	}
	switch a.random.IntN(5) {
	case 0:
		k := draw()
		return &k, nil
	case 1:
		k := draw()
		k = partitionkey.NewKey(k.Components()[:1]...)
		return &k, nil
	case 2:
		low, high := c.PartitionKey.Hash(draw()), c.PartitionKey.Hash(draw())
		if low.Compare(high) > 0 {
			low, high = high, low
		}
		if low.Compare(high) < 0 {
			return nil, &partitionkey.Range{Min: low, Max: high}
		}
	}
	return nil, nil
}

// query reads a whole query in pages, sometimes with a split or merge in between.
func (a *actor) query() {
	shape := splittingShapes[a.random.IntN(len(splittingShapes))]
	text := fmt.Sprintf(shape.text, a.id)
	key, clip := a.scoped()
	var rows [2][]string
	for on, s := range a.sides {
		size := 1 + a.random.IntN(12)
		req := engine.QueryRequest{Link: s.link, Text: text, Key: key, Clip: clip, MaxItems: size, Full: true, Cross: true}
		req.Session = a.session(on)
		for page := 0; ; page++ {
			got, ok := a.page(s, &req)
			if rows[on] = append(rows[on], got...); !ok {
				return
			}
			if req.Continuation == "" {
				break
			}
			if on == 1 && page%4 == 1 && a.random.IntN(3) == 0 {
				s.change(a.t, a.random)
				a.crossed++
			}
		}
	}
	a.compare(shape, fmt.Sprintf("%s of key %v, range %v", text, key, clip), rows)
}

// page reads a page, and sets the continuation of the request.
func (a *actor) page(s *side, req *engine.QueryRequest) (rows []string, ok bool) {
	page, err := s.Query(context.Background(), caller, *req)
	if err != nil {
		a.t.Errorf("actor %d: %s: %s: %v", a.id, s.name, req.Text, err)
		return nil, false
	}
	for _, row := range page.Rows {
		rows = append(rows, string(row))
	}
	req.Continuation = page.Continuation
	return rows, true
}

// compare reports different rows on the two sides, also a different order if
// the query has one.
func (a *actor) compare(shape splittingShape, what string, rows [2][]string) {
	var orders [2]string
	for on := range rows {
		if shape.exact {
			continue
		}
		if strings.Contains(shape.text, "ORDER BY") {
			for _, row := range rows[on] {
				orders[on] += parse(a.t, row).Get("o").JSON() + " "
			}
		}
		slices.Sort(rows[on])
	}
	a.same("order of "+what, orders)
	if !slices.Equal(rows[0], rows[1]) {
		a.t.Errorf("actor %d: %s\nunsplit: %d %v\nsplit:   %d %v", a.id, what, len(rows[0]), rows[0], len(rows[1]), rows[1])
	}
}

// fanOut reads a query like a client that asks each partition by its id: if one
// returns 410, it asks the present partitions of that range from the same
// position. Some clients ask by range, and divide their ranges again at any
// time.
func (a *actor) fanOut() {
	shape := splittingShapes[a.random.IntN(3)]
	text := fmt.Sprintf(shape.text, a.id)
	byID := a.random.IntN(2) == 0
	var rows [2][]string
	for on, s := range a.sides {
		parts := s.parts(engine.QueryRequest{Link: s.link, Text: text, MaxItems: 1 + a.random.IntN(9), Cross: true}, partitionkey.Full(), byID)
		for len(parts) > 0 {
			req := parts[0]
			page, err := s.Query(context.Background(), caller, req)
			if status.CodeOf(err) == status.CodeGone && status.SubOf(err) == status.SubRangeGone {
				parts = append(s.parts(req, *req.Clip, byID), parts[1:]...)
				a.crossed++
				continue
			}
			if err != nil {
				a.t.Errorf("actor %d: %s: range %v: %v", a.id, s.name, *req.Clip, err)
				return
			}
			for _, row := range page.Rows {
				rows[on] = append(rows[on], string(row))
			}
			if parts[0].Continuation = page.Continuation; page.Continuation == "" {
				parts = parts[1:]
			}
			if on == 1 && a.random.IntN(6) == 0 {
				s.change(a.t, a.random)
			}
			if !byID && len(parts) > 0 && a.random.IntN(3) == 0 {
				parts = append(s.parts(parts[0], *parts[0].Clip, byID), parts[1:]...)
			}
		}
	}
	a.compare(shape, "each partition asked for "+text, rows)
}

// parts returns a request for each partition of a range, by id or by range.
func (s *side) parts(req engine.QueryRequest, r partitionkey.Range, byID bool) (list []engine.QueryRequest) {
	for _, entry := range s.container().Ranges.Overlapping(r) {
		id, clip := entry.Value.ID, entry.Range
		if part, ok := clip.Intersect(r); ok {
			clip = part
		}
		req.Clip = &clip
		if byID {
			req.Partition = &id
		}
		list = append(list, req)
	}
	return list
}
