package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	racers = 6
	pairs  = 5 // partition keys, each of which has the documents x and y
)

// pair is the content of the documents of one key. Each write has another number.
type pair struct{ X, Y int }

// wish is an operation of a racer on a pair.
type wish struct {
	pair   int
	what   string // "read" both in one batch, "swap" x, "swap both" in one batch, or "put" y
	expect int    // of a swap: the required content of x, by its etag
	n      int
}

// outcome is the answer.
type outcome struct {
	unknown bool // no answer arrived
	refused bool // the etag did not match
	read    pair
}

// pairModel is the specification of one pair. A write without an answer took effect
// before the process died, or never.
var pairModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, pairs)
		for _, o := range history {
			at := o.Input.(wish).pair
			parts[at] = append(parts[at], o)
		}
		return parts
	},
	Init: func() []any { return []any{pair{}} },
	Step: func(state, input, output any) []any {
		was, in, out := state.(pair), input.(wish), output.(outcome)
		next := was
		switch in.what {
		case "read":
			if out.read != was {
				return nil
			}
			return []any{was}
		case "put":
			next.Y = in.n
		case "swap both":
			next.Y = in.n
			fallthrough
		case "swap":
			if next.X = in.n; in.expect != was.X {
				if out.unknown || out.refused {
					return []any{was}
				}
				return nil
			}
		}
		switch {
		case out.unknown:
			return []any{was, next}
		case out.refused:
			return nil
		}
		return []any{next}
	},
}

// race is a history that is being recorded.
type race struct {
	begun time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	refused int
	unknown int
}

// note adds an operation. An operation without an answer may take effect while the process
// lives: [race.dead] sets its end.
func (r *race) note(racer int, in wish, out outcome, call time.Duration) {
	end := time.Since(r.begun)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case out.unknown && in.what == "read":
		return
	case out.unknown:
		r.unknown++
		end = math.MaxInt64
	case out.refused:
		r.refused++
	}
	r.history = append(r.history, porcupine.Operation{ClientId: racer, Input: in, Output: out, Call: int64(call), Return: int64(end)})
}

// dead records that the process has ended, and all its operations with it.
func (r *race) dead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.history {
		r.history[i].Return = min(r.history[i].Return, int64(time.Since(r.begun)))
	}
}

// racer is a client that writes pairs which others write too.
type racer struct {
	id     int
	race   *race
	random *rand.Rand
	writes int
	seen   [pairs]seen
}

// seen is the last state of x in an answer to a racer; without an etag, none.
type seen struct {
	x    int
	etag string
}

// stored is a document in an answer.
type stored struct {
	ID   string `json:"id"`
	N    int    `json:"n"`
	ETag string `json:"_etag"`
}

func pairKey(at int) string { return fmt.Sprintf(`["t%d","u%d"]`, at%3, at) }

func pairBody(at int, id string, n int) string {
	return fmt.Sprintf(`{"id":%q,"tenant":"t%d","user":"u%d","n":%d}`, id, at%3, at, n)
}

const raceLink = "dbs/crash/colls/c/docs"

// run performs one random operation.
func (c *racer) run(client *servertest.Client) error {
	at := c.random.IntN(pairs)
	in := wish{pair: at, what: []string{"read", "swap", "swap both", "put"}[c.random.IntN(4)]}
	if in.what != "read" {
		c.writes++
		in.n = c.writes*racers + c.id // which no other racer writes
	}
	known := c.seen[at]
	if known.etag == "" && (in.what == "swap" || in.what == "swap both") {
		in.what = "read"
	}
	in.expect = known.x
	call := time.Since(c.race.begun)
	out, now, err := c.ask(client, in, known.etag)
	if _, wrong := errors.AsType[unexpected](err); wrong {
		return err
	}
	out.unknown = err != nil
	c.race.note(c.id, in, out, call)
	if in.what != "put" {
		c.seen[at] = now
	}
	return err
}

// ask sends a wish, and returns the answer and the known state of x after it.
func (c *racer) ask(client *servertest.Client, in wish, etag string) (out outcome, now seen, err error) {
	key := []string{"x-ms-documentdb-partitionkey", pairKey(in.pair)}
	x, y := pairBody(in.pair, "x", in.n), pairBody(in.pair, "y", in.n)
	switch in.what {
	case "put":
		_, err = ask(client, servertest.Prepare(server.WellKnownKey, "POST", raceLink, []byte(y), append(key, "x-ms-documentdb-is-upsert", "True")...), "a put", 200)
		return out, now, err
	case "swap":
		response, err := ask(client, servertest.Prepare(server.WellKnownKey, "PUT", raceLink+"/x", []byte(x), append(key, "If-Match", etag)...), "a swap", 200, 412)
		if err != nil || response.Status == 412 {
			return outcome{refused: err == nil}, now, err
		}
		var document stored
		err = json.Unmarshal(response.Body, &document)
		return out, seen{in.n, document.ETag}, wrongly(err)
	}
	body := `[{"operationType":"Read","id":"x"},{"operationType":"Read","id":"y"}]`
	if in.what == "swap both" {
		body = fmt.Sprintf(`[{"operationType":"Replace","id":"x","ifMatch":%q,"resourceBody":%s},{"operationType":"Upsert","resourceBody":%s}]`, etag, x, y)
	}
	response, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", raceLink, []byte(body),
		append(key, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")...), "a batch", 200, 207)
	if err != nil {
		return out, now, err
	}
	var results []struct {
		StatusCode   int
		ResourceBody stored
	}
	if err := json.Unmarshal(response.Body, &results); err != nil || len(results) != 2 {
		return out, now, unexpected(fmt.Sprintf("a batch of two was answered %s", response.Body))
	}
	if response.Status == 207 {
		if results[0].StatusCode != 412 || results[1].StatusCode != 424 {
			return out, now, unexpected(fmt.Sprintf("a batch was answered %s", response.Body))
		}
		return outcome{refused: true}, now, nil
	}
	first, second := results[0].ResourceBody, results[1].ResourceBody
	return outcome{read: pair{first.N, second.N}}, seen{first.N, first.ETag}, nil
}

// wrongly is a malformed answer.
func wrongly(err error) error {
	if err == nil {
		return nil
	}
	return unexpected(err.Error())
}

// TestKillLinearizable has clients race on the same documents with compare-and-set by
// etag and with batches, and kills the real binary with SIGKILL: one order of all
// operations explains every answer. In it, a write is between its request and its answer,
// or if it has none, before the death of the process, or missing. The number of rounds is
// half of DECAN_CRASH_ROUNDS.
func TestKillLinearizable(t *testing.T) {
	t.Parallel()
	rounds := max(3, crashRounds(t)/2)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	data := t.TempDir()
	all := &race{begun: time.Now()}
	clients := make([]*racer, racers)
	for i := range clients {
		clients[i] = &racer{id: i, race: all, random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
	}
	life := stretched{random: rand.New(rand.NewPCG(seed, 0)), least: 10 * time.Millisecond, most: 120 * time.Millisecond}
	enough := func(rounds int) bool {
		return len(all.history) >= 20*rounds && all.refused >= rounds && all.unknown >= rounds
	}
	round := 0
	// On a busy machine more rounds may be needed.
	for ; round < rounds || !enough(rounds) && round < 3*rounds; round++ {
		p := spawn(t, "--data", data)
		if round == 0 {
			createCrashContainer(t, p.address)
			createPairs(t, p.address)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(clients, func(c *racer) { untilDead(t, p.address, c.run) })
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
	t.Logf("%d operations over %d kills: %d refused for their etag, %d writes without an answer", len(all.history), round, all.refused, all.unknown)
	all.judge(t)
	if !enough(rounds) {
		t.Error("too few to show anything")
	}
}

// judge looks for an order of each pair's operations.
func (r *race) judge(t *testing.T) {
	t.Helper()
	model := pairModel.ToModel()
	for at, part := range pairModel.Partition(r.history) {
		if porcupine.CheckOperations(model, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, o := range part {
			t.Logf("%v to %v: %+v: %+v", time.Duration(o.Call), time.Duration(o.Return), o.Input, o.Output)
		}
		t.Errorf("no order explains the %d answers of pair %d, which are above", len(part), at)
	}
}

// createPairs writes the first state of each pair.
func createPairs(t *testing.T, address string) {
	t.Helper()
	client, err := servertest.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for at := range pairs {
		for _, id := range []string{"x", "y"} {
			if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", raceLink, []byte(pairBody(at, id, 0)), "x-ms-documentdb-partitionkey", pairKey(at)), "a create", 201); err != nil {
				t.Fatal(err)
			}
		}
	}
}
