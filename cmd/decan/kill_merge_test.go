package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/server"
)

// TestKillWhileMerging kills the real binary with SIGKILL at random moments under
// concurrent load, while it merges and splits partitions. After each kill, the next start
// has either the two partitions or the merged one: every acknowledged write exists once,
// by its key and in a query over all partitions, the check is clean, and no directory
// remains. DECAN_CRASH_ROUNDS sets the number of rounds.
func TestKillWhileMerging(t *testing.T) {
	t.Parallel()
	rounds := crashRounds(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	var writers []*writer
	var met torn
	merges := 0
	enough := func() bool { return met.joining >= rounds/6 && merges >= rounds/4 }
	life := stretched{random: random, least: 50 * time.Millisecond, most: 400 * time.Millisecond}
	// On a busy machine more rounds may be needed.
	for round := 0; round < rounds || !enough() && round < 2*rounds; round++ {
		if round%splitContainers == 0 {
			met.count(writers)
			writers = splitWriters(seed, round)
		}
		p := spawn(t, "--data", data)
		if round%splitContainers == 0 {
			splitContainer(t, p.address, round)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(writers, func(w *writer) { w.load(t, p.address) })
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			mergeUntilDead(p, writers[0].container, rand.New(rand.NewPCG(seed, uint64(round+1))), 0, func(int) {})
		}()
		life.live()
		p.kill()
		<-done
		<-ended
		met.kills++
		merges += strings.Count(p.output.String(), `"partitions merged"`)
		checkTorn(t, data, &met)
		settleTorn(t, data, writers, &met)
		life.judge(merges < (round+1)/2)
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	met.count(writers)
	t.Logf("%d writes over %d kills: %d left a planned merge, %d a planned split, %d left directories; %d merges finished, %d partitions at most",
		met.writes, met.kills, met.joining, met.planned, met.leftovers, merges, met.partitions)
	if !enough() {
		t.Errorf("%d of %d kills came in the middle of a merge, and %d merges were finished: too few to show anything", met.joining, met.kills, merges)
	}
}

// mergeUntilDead merges random neighbours of a container, and splits partitions while
// there are few, with pauses, until the server no longer answers. look gets the number of
// partitions.
func mergeUntilDead(p *process, container string, random *rand.Rand, pause time.Duration, look func(partitions int)) {
	admin := remote.Admin{Endpoint: "http://" + p.admin, Key: server.WellKnownKey}
	scope := url.Values{"database": {"crash"}, "container": {container}}
	for ; ; time.Sleep(pause) {
		var table partitionTable
		if err := admin.Ask(context.Background(), http.MethodGet, "partitions", scope, &table); err != nil {
			return
		}
		n := len(table.Partitions)
		look(n)
		if n < 3 {
			var out splitOutcome
			scope.Set("partition", table.Partitions[random.IntN(n)].ID)
			_ = admin.Ask(context.Background(), http.MethodPost, "partitions/split", scope, &out) // It fails if one key fills the partition, or the server is dead.
			continue
		}
		at := random.IntN(n - 1)
		var out mergeOutcome
		scope.Set("partition", table.Partitions[at].ID)
		scope.Set("with", table.Partitions[at+1].ID)
		_ = admin.Ask(context.Background(), http.MethodPost, "partitions/merge", scope, &out) // It fails if the server is dead.
	}
}
