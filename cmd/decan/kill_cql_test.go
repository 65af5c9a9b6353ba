package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/server"
)

// dialCQL signs in at a server.
func dialCQL(p *process) (*cqltest.Client, error) {
	return cqltest.Dial(p.cql, "decan", server.WellKnownKey, frame.V5)
}

// untilDeadCQL repeats an operation until the connection breaks. An error that the server
// answers fails the test.
func untilDeadCQL(t *testing.T, p *process, operate func(*cqltest.Client) error) {
	client, err := dialCQL(p)
	if err != nil {
		return
	}
	defer client.Close()
	for err == nil {
		err = operate(client)
	}
	if answer, ok := errors.AsType[*frame.Error](err); ok {
		t.Errorf("an error as an answer: %v", answer)
	}
	if wrong, ok := errors.AsType[unexpected](err); ok {
		t.Error(wrong)
	}
}

// mustCQL runs statements that succeed.
func mustCQL(t *testing.T, p *process, texts ...string) {
	t.Helper()
	client, err := dialCQL(p)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, text := range texts {
		if _, err := client.Query(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// Partition keys of each rowWriter, and rows of each.
const (
	rowKeys = 6
	rowsOf  = 8
)

// slot is one row of a rowWriter.
type slot struct{ k, c int }

// rowWriter changes rows that no other client touches, so it knows their state: the
// version of each, -1 if there is none.
type rowWriter struct {
	id           int
	random       *rand.Rand
	acknowledged map[slot]int
	pending      map[slot]int // the versions of the write without an answer
	whole        bool         // that write is all there in the end, or not at all
	counted      int          // acknowledged additions to the counter
	adding       bool         // one has no answer
	writes       int
	recent       []string // statements, the last ones, each with its end
}

// note remembers a statement, and shortens those before it.
func (w *rowWriter) note(text string, err error) {
	w.recent = append(w.recent, fmt.Sprintf("%s %d %v: %s", time.Now().Format("05.000000"), w.writes, err, strings.ReplaceAll(text, "xxx", "")))
	w.recent = w.recent[max(0, len(w.recent)-200):]
}

func newRowWriter(seed uint64, id int) *rowWriter {
	w := &rowWriter{id: id, random: rand.New(rand.NewPCG(seed, uint64(id)+1)), acknowledged: map[slot]int{}}
	for k := range rowKeys {
		for c := range rowsOf {
			w.acknowledged[slot{k, c}] = -1
		}
	}
	return w
}

func (w *rowWriter) key(k int) int { return w.id*100 + k }

func (w *rowWriter) any() slot { return slot{w.random.IntN(rowKeys), w.random.IntN(rowsOf)} }

// put returns the statement that sets a row to a version.
func (w *rowWriter) put(s slot, version int) string {
	using := ""
	if w.random.IntN(3) == 0 {
		using = " USING TTL 100000"
	}
	return fmt.Sprintf("INSERT INTO crash.t (k, c, v, pad) VALUES (%d, %d, %d, '%s')%s", w.key(s.k), s.c, version, strings.Repeat("x", w.random.IntN(300)), using)
}

// change makes one random write.
func (w *rowWriter) change(client *cqltest.Client) error {
	w.writes++
	s, next := w.any(), map[slot]int{}
	text, whole := "", true
	switch w.random.IntN(10) {
	case 0, 1:
		next[s], text = w.writes, w.put(s, w.writes)
	case 2:
		next[s], text = -1, fmt.Sprintf("DELETE FROM crash.t WHERE k = %d AND c = %d", w.key(s.k), s.c)
	case 3:
		text = fmt.Sprintf("DELETE FROM crash.t WHERE k = %d", w.key(s.k))
		for c := range rowsOf {
			next[slot{s.k, c}] = -1
		}
	case 4:
		text = fmt.Sprintf("DELETE FROM crash.t WHERE k = %d AND c >= %d AND c < %d", w.key(s.k), s.c, s.c+3)
		for c := s.c; c < min(s.c+3, rowsOf); c++ {
			next[slot{s.k, c}] = -1
		}
	case 5: // of one partition key
		other := slot{s.k, (s.c + 1) % rowsOf}
		next[s], next[other] = w.writes, w.writes
		text = "BEGIN UNLOGGED BATCH " + w.put(s, w.writes) + "; " + w.put(other, w.writes) + "; APPLY BATCH"
	case 6, 7: // of several
		kind := ""
		if whole = w.random.IntN(2) == 0; !whole {
			kind = "UNLOGGED "
		}
		text = "BEGIN " + kind + "BATCH "
		for i := range 3 {
			other := slot{(s.k + i) % rowKeys, s.c}
			next[other] = w.writes
			text += w.put(other, w.writes) + "; "
		}
		text += "APPLY BATCH"
	case 8:
		return w.swap(client, s)
	case 9:
		w.adding = true
		if _, err := client.Query(fmt.Sprintf("UPDATE crash.n SET v = v + 1 WHERE k = %d", w.id)); err != nil {
			return err
		}
		w.counted, w.adding = w.counted+1, false
		return nil
	}
	return w.ask(client, text, next, whole)
}

// swap makes a conditional write whose condition holds.
func (w *rowWriter) swap(client *cqltest.Client, s slot) error {
	text := fmt.Sprintf("UPDATE crash.t SET v = %d WHERE k = %d AND c = %d IF v = %d", w.writes, w.key(s.k), s.c, w.acknowledged[s])
	if w.acknowledged[s] < 0 {
		text = fmt.Sprintf("INSERT INTO crash.t (k, c, v) VALUES (%d, %d, %d) IF NOT EXISTS", w.key(s.k), s.c, w.writes)
	}
	w.pending, w.whole = map[slot]int{s: w.writes}, true
	rows, err := client.Query(text)
	w.note(text, err)
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0][0] != "true" {
		return unexpected(fmt.Sprintf("%s was answered %v", text, rows))
	}
	w.acknowledged[s], w.pending = w.writes, nil
	return nil
}

func (w *rowWriter) ask(client *cqltest.Client, text string, next map[slot]int, whole bool) error {
	w.pending, w.whole = next, whole
	_, err := client.Query(text)
	if w.note(text, err); err != nil {
		return err
	}
	for s, version := range next {
		w.acknowledged[s] = version
	}
	w.pending = nil
	return nil
}

// verify reads all rows and the counter, and resolves the write without an answer. A logged
// batch may be finished after the start.
func (w *rowWriter) verify(t *testing.T, p *process) {
	client, err := dialCQL(p)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		found, err := w.read(client)
		if err != nil {
			t.Error(err)
			return
		}
		wrong := w.wrong(found)
		if wrong == "" {
			if err := w.settle(client, found); err != nil {
				t.Error(err)
			}
			break
		}
		if len(w.pending) < 2 || time.Now().After(end) {
			t.Errorf("writer %d: %s; without an answer (whole %t) %v, after\n%s", w.id, wrong, w.whole, w.pending, strings.Join(w.recent, "\n"))
			return
		}
	}
	rows, err := client.Query(fmt.Sprintf("SELECT v FROM crash.n WHERE k = %d", w.id))
	n := 0
	if err == nil && len(rows) > 0 {
		n, err = strconv.Atoi(rows[0][0])
	}
	if err != nil || n != w.counted && !(w.adding && n == w.counted+1) {
		t.Errorf("writer %d: the counter is %d, %v; %d additions were acknowledged, one is unanswered: %t", w.id, n, err, w.counted, w.adding)
	}
	w.counted, w.adding = n, false
}

// settle takes over what was found. A logged batch without an answer that has changed
// nothing yet may still be made later, with the timestamp that it has: newer rows in its
// places stay whatever happens.
func (w *rowWriter) settle(client *cqltest.Client, found map[slot]int) error {
	late := w.pending
	w.acknowledged, w.pending = found, nil
	if !w.whole || len(late) < 2 {
		return nil
	}
	for s, version := range late {
		if found[s] == version {
			continue
		}
		w.writes++
		if err := w.ask(client, w.put(s, w.writes), map[slot]int{s: w.writes}, true); err != nil {
			return err
		}
	}
	return nil
}

// read returns the versions of all rows.
func (w *rowWriter) read(client *cqltest.Client) (map[slot]int, error) {
	found := map[slot]int{}
	for s := range w.acknowledged {
		found[s] = -1
	}
	for k := range rowKeys {
		rows, err := client.Query(fmt.Sprintf("SELECT c, v FROM crash.t WHERE k = %d", w.key(k)))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			c, err1 := strconv.Atoi(r[0])
			v, err2 := strconv.Atoi(r[1])
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("row %v: %w", r, err)
			}
			found[slot{k, c}] = v
		}
	}
	return found, nil
}

// wrong says why the rows cannot be the result of the acknowledged writes, and perhaps of
// the one without an answer.
func (w *rowWriter) wrong(found map[slot]int) string {
	made, missed := 0, 0
	for s, version := range w.acknowledged {
		attempted, pending := w.pending[s]
		switch got := found[s]; {
		case pending && got == attempted && got != version:
			made++
		case got == version:
			if pending && attempted != version {
				missed++
			}
		default:
			return fmt.Sprintf("row %v has version %d", s, got)
		}
	}
	if w.whole && made > 0 && missed > 0 {
		return fmt.Sprintf("%d rows of a write were changed, %d were not", made, missed)
	}
	return ""
}

// TestKillCQL kills the real binary with SIGKILL at random moments under the load of CQL
// clients: rows with and without a time to live, deletions of rows, ranges and partitions,
// conditional writes, counters, and batches of all kinds, on a table that splits meanwhile.
// No acknowledged write is lost, a write of one partition key is whole, a logged batch of
// several is whole in the end, and every check is clean. DECAN_CRASH_ROUNDS sets the number
// of rounds.
func TestKillCQL(t *testing.T) {
	t.Parallel()
	rounds := crashRounds(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	writers := make([]*rowWriter, 8)
	for i := range writers {
		writers[i] = newRowWriter(seed, i)
	}
	total := func() (n int) {
		for _, w := range writers {
			n += w.writes
		}
		return n
	}
	splits, unanswered := 0, 0
	life := stretched{random: random, least: 20 * time.Millisecond, most: 300 * time.Millisecond}
	// On a busy machine a partition splits late.
	for round := 0; round < rounds || splits == 0 && round < 4*rounds; round++ {
		p := spawn(t, "--data", data, "--physical-partition-max", "4KB")
		if round == 0 {
			mustCQL(t, p, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE crash.t (k int, c int, v int, pad text, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 24000",
				"CREATE TABLE crash.n (k int PRIMARY KEY, v counter)")
		} else {
			each(writers, func(w *rowWriter) { w.verify(t, p) })
		}
		if t.Failed() {
			p.kill()
			t.Fatalf("round %d\n%s", round, p.output)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(writers, func(w *rowWriter) { untilDeadCQL(t, p, w.change) })
		}()
		life.live()
		p.kill()
		<-done
		splits += strings.Count(p.output.String(), `"partition split"`)
		for _, w := range writers {
			if len(w.pending) > 0 || w.adding {
				unanswered++
			}
		}
		life.judge(total() < 20*(round+1) || splits == 0 && 2*(round+1) > rounds)
		checkRound(t, round, data)
	}
	p := spawn(t, "--data", data)
	each(writers, func(w *rowWriter) { w.verify(t, p) })
	p.kill()
	t.Logf("%d writes over %d kills, %d of them without an answer, %d splits", total(), rounds, unanswered, splits)
	if total() < rounds*10 || unanswered < rounds || splits == 0 {
		t.Error("too few to show anything")
	}
}

// rowRacer is a client that writes pairs of rows which others write too.
type rowRacer struct {
	id     int
	race   *race
	random *rand.Rand
	writes int
	seen   [pairs]int // the last value of x in an answer; negative if unknown
}

// run performs one random operation.
func (c *rowRacer) run(client *cqltest.Client) error {
	at := c.random.IntN(pairs)
	in := wish{pair: at, what: []string{"read", "swap", "swap both", "put"}[c.random.IntN(4)]}
	if in.what != "read" {
		c.writes++
		in.n = c.writes*racers + c.id // which no other racer writes
	}
	if in.expect = c.seen[at]; in.expect < 0 && strings.HasPrefix(in.what, "swap") {
		in.what = "read"
	}
	call := time.Since(c.race.begun)
	out, err := c.ask(client, in)
	if err != nil {
		if answer, ok := errors.AsType[*frame.Error](err); ok {
			return answer
		}
		if wrong, ok := errors.AsType[unexpected](err); ok {
			return wrong
		}
	}
	out.unknown = err != nil
	c.race.note(c.id, in, out, call)
	switch {
	case in.what == "read" && err == nil:
		c.seen[at] = out.read.X
	case in.what == "put":
	case out.unknown || out.refused:
		c.seen[at] = -1
	default:
		c.seen[at] = in.n
	}
	return err
}

// ask sends a wish as a statement.
func (c *rowRacer) ask(client *cqltest.Client, in wish) (out outcome, err error) {
	swap := fmt.Sprintf("UPDATE crash.p SET v = %d WHERE k = %d AND c = 0 IF v = %d", in.n, in.pair, in.expect)
	put := fmt.Sprintf("UPDATE crash.p SET v = %d WHERE k = %d AND c = 1", in.n, in.pair)
	switch in.what {
	case "put":
		// A conditional write, so that its timestamp is the writer's, as those of the swaps.
		rows, err := client.Query(put + " IF EXISTS")
		if err == nil && (len(rows) != 1 || rows[0][0] != "true") {
			err = unexpected(fmt.Sprintf("a put was answered %v", rows))
		}
		return out, err
	case "swap", "swap both":
		text := swap
		if in.what == "swap both" {
			text = "BEGIN BATCH " + swap + "; " + put + "; APPLY BATCH"
		}
		rows, err := client.Query(text)
		if err == nil && len(rows) != 1 {
			err = unexpected(fmt.Sprintf("a swap was answered %v", rows))
		}
		return outcome{refused: err == nil && rows[0][0] != "true"}, err
	}
	rows, err := client.Query(fmt.Sprintf("SELECT v FROM crash.p WHERE k = %d", in.pair))
	if err != nil {
		return out, err
	}
	if len(rows) != 2 {
		return out, unexpected(fmt.Sprintf("a pair has the rows %v", rows))
	}
	x, err1 := strconv.Atoi(rows[0][0])
	y, err2 := strconv.Atoi(rows[1][0])
	return outcome{read: pair{x, y}}, wrongly(errors.Join(err1, err2))
}

// reshape splits and merges the partitions of crash.p until the process dies.
func reshape(p *process, random *rand.Rand, done *atomic.Int32) {
	do := func(path string) bool {
		r, err := http.NewRequest(http.MethodPost, "http://"+p.admin+path, nil)
		if err != nil {
			return false
		}
		r.Header.Set("x-decan-key", server.WellKnownKey)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			done.Add(1)
		}
		return true
	}
	const of = "?database=crash&container=p&partition="
	for next := 0; ; next++ {
		id := random.IntN(next + 2)
		path := fmt.Sprintf("/partitions/split%s%d", of, id)
		if random.IntN(3) == 0 {
			path = fmt.Sprintf("/partitions/merge%s%d&with=%d", of, id, id+1)
		}
		if !do(path) {
			return
		}
		if next > 30 {
			next = 0
		}
	}
}

// TestKillCQLLinearizable has CQL clients race on the same rows with conditional writes,
// conditional batches and reads of both rows of a partition key, while its table splits and
// merges, and kills the real binary with SIGKILL: one order of all operations explains
// every answer. The number of rounds is half of DECAN_CRASH_ROUNDS.
func TestKillCQLLinearizable(t *testing.T) {
	t.Parallel()
	rounds := max(3, crashRounds(t)/2)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	data := t.TempDir()
	all := &race{begun: time.Now()}
	clients := make([]*rowRacer, racers)
	for i := range clients {
		clients[i] = &rowRacer{id: i, race: all, random: rand.New(rand.NewPCG(seed, uint64(i+1))), seen: [pairs]int{-1, -1, -1, -1, -1}}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	life := stretched{random: random, least: 20 * time.Millisecond, most: 200 * time.Millisecond}
	var changed atomic.Int32
	enough := func(rounds int) bool {
		return len(all.history) >= 20*rounds && all.refused >= rounds && all.unknown >= rounds && int(changed.Load()) >= rounds
	}
	round := 0
	// On a busy machine more rounds may be needed.
	for ; round < rounds || !enough(rounds) && round < 3*rounds; round++ {
		p := spawn(t, "--data", data)
		if round == 0 {
			mustCQL(t, p, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE crash.p (k int, c int, v int, PRIMARY KEY (k, c))")
			for at := range pairs {
				mustCQL(t, p, fmt.Sprintf("BEGIN BATCH INSERT INTO crash.p (k, c, v) VALUES (%d, 0, 0); INSERT INTO crash.p (k, c, v) VALUES (%d, 1, 0); APPLY BATCH", at, at))
			}
		}
		done := make(chan struct{})
		reshaping := rand.New(rand.NewPCG(seed, uint64(1000+round)))
		go func() {
			defer close(done)
			reshaped := make(chan struct{})
			go func() { defer close(reshaped); reshape(p, reshaping, &changed) }()
			each(clients, func(c *rowRacer) { untilDeadCQL(t, p, c.run) })
			<-reshaped
		}()
		life.live()
		p.kill()
		<-done
		all.dead()
		life.judge(!enough(round + 1))
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	report, err := server.Check(data)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v %v", err, report.Problems)
	}
	t.Logf("%d operations over %d kills and %d splits and merges: %d refused by their conditions, %d writes without an answer", len(all.history), round, changed.Load(), all.refused, all.unknown)
	all.judge(t)
	if !enough(rounds) {
		t.Error("too few to show anything")
	}
}
