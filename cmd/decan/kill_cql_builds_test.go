package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
)

// Partition keys of the table of TestKillCQLBuilds, and rows of each.
const (
	builtKeys = 12
	builtRows = 150
)

// builtTable is the table of TestKillCQLBuilds and the rows that it must have: v of each.
type builtTable struct {
	random *rand.Rand
	rows   map[slot]int
	writes int
}

// fill writes all rows of a partition key.
func (b *builtTable) fill(t *testing.T, client *cqltest.Client, k int) {
	t.Helper()
	const each = 50
	for first := 0; first < builtRows; first += each {
		text := "BEGIN UNLOGGED BATCH "
		for c := first; c < first+each; c++ {
			b.writes++
			b.rows[slot{k, c}] = b.writes % 40
			text += fmt.Sprintf("INSERT INTO crash.b (k, c, v, w) VALUES (%d, %d, %d, '%d'); ", k, c, b.writes%40, b.writes)
		}
		if _, err := client.Query(text + "APPLY BATCH"); err != nil {
			t.Fatal(err)
		}
	}
}

// remove deletes a range of rows of a partition key, or all of them.
func (b *builtTable) remove(t *testing.T, client *cqltest.Client, k int) {
	t.Helper()
	low, high := 0, builtRows
	where := ""
	if b.random.IntN(2) == 0 {
		low = b.random.IntN(builtRows)
		high = low + b.random.IntN(builtRows-low) + 1
		where = fmt.Sprintf(" AND c >= %d AND c < %d", low, high)
	}
	if _, err := client.Query(fmt.Sprintf("DELETE FROM crash.b WHERE k = %d%s", k, where)); err != nil {
		t.Fatal(err)
	}
	for c := low; c < high; c++ {
		delete(b.rows, slot{k, c})
	}
}

// want returns the lines "k | c | v" of the rows that satisfy a condition, sorted.
func (b *builtTable) want(is func(v int) bool) (all []string) {
	for s, v := range b.rows {
		if is(v) {
			all = append(all, fmt.Sprintf("%d | %d | %d", s.k, s.c, v))
		}
	}
	slices.Sort(all)
	return all
}

// ask compares the rows of a statement with those wanted.
func (b *builtTable) ask(t *testing.T, client *cqltest.Client, text string, want []string) {
	t.Helper()
	rows, err := client.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got := make([]string, len(rows))
	for i, r := range rows {
		got[i] = strings.Join(r, " | ")
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d rows, want %d", text, len(got), len(want))
	}
}

// TestKillCQLBuilds kills the real binary with SIGKILL while it builds a secondary index and
// a materialized view, and removes the rows that deletions of ranges and partitions cover.
// Queries are right at once after a start, the builds continue to their end, after which view
// and index have exactly the rows of the table, and every check is clean. The number of
// rounds is a quarter of DECAN_CRASH_ROUNDS.
func TestKillCQLBuilds(t *testing.T) {
	t.Parallel()
	rounds := max(3, crashRounds(t)/4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	b := &builtTable{random: rand.New(rand.NewPCG(seed, 0)), rows: map[slot]int{}}
	data := t.TempDir()
	unbuilt, unswept := 0, 0
	for round := 0; round < rounds || unbuilt == 0 && round < 4*rounds; round++ {
		p := spawn(t, "--data", data)
		if round == 0 {
			mustCQL(t, p, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE crash.b (k int, c int, v int, w text, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000")
		}
		client, err := dialCQL(p)
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 {
			unbuilt += b.verify(t, client, round-1)
		}
		for k := range builtKeys {
			if round == 0 || b.random.IntN(4) == 0 {
				b.fill(t, client, k)
			}
		}
		kinds := []string{
			fmt.Sprintf("CREATE INDEX i%d ON crash.b (v)", round),
			fmt.Sprintf("CREATE MATERIALIZED VIEW crash.m%d AS SELECT k, c, v FROM crash.b WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c) WITH cosmosdb_provisioned_throughput = 20000", round),
		}
		b.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, text := range kinds {
			if _, err := client.Query(text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for range b.random.IntN(3) {
				b.remove(t, client, b.random.IntN(builtKeys))
				unswept++
			}
		}
		time.Sleep(time.Duration(b.random.IntN(40)) * time.Millisecond) // The moment of death is the subject of the test.
		p.kill()
		client.Close()
		checkRound(t, round, data)
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	p := spawn(t, "--data", data)
	client, err := dialCQL(p)
	if err != nil {
		t.Fatal(err)
	}
	b.ask(t, client, "SELECT k, c, v FROM crash.b", b.want(func(int) bool { return true }))
	client.Close()
	p.kill()
	t.Logf("%d kills, after %d of them the view was not built, %d deletions, %d rows written", rounds, unbuilt, unswept, b.writes)
	if unbuilt == 0 || unswept == 0 {
		t.Error("too few to show anything")
	}
}

// verify compares the table, its index and its view of a round with the rows that the table
// must have, before and after they are built, and drops index and view. It returns 1 if the
// view was not built at the start.
func (b *builtTable) verify(t *testing.T, client *cqltest.Client, round int) (unbuilt int) {
	t.Helper()
	built := func(text string) bool {
		rows, err := client.Query(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return len(rows) > 0
	}
	view := fmt.Sprintf("SELECT view_name FROM system.built_views WHERE keyspace_name = 'crash' AND view_name = 'm%d'", round)
	index := fmt.Sprintf(`SELECT index_name FROM system."IndexInfo" WHERE table_name = 'crash' AND index_name = 'i%d'`, round)
	if !built(view) {
		unbuilt = 1
	}
	ask := func() {
		t.Helper()
		b.ask(t, client, "SELECT k, c, v FROM crash.b", b.want(func(int) bool { return true }))
		for _, v := range []int{1, 17} {
			b.ask(t, client, fmt.Sprintf("SELECT k, c, v FROM crash.b WHERE v = %d", v), b.want(func(n int) bool { return n == v }))
		}
	}
	ask()
	for end := time.Now().Add(startTime); !built(view) || !built(index); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("round %d: not built: view %t, index %t", round, built(view), built(index))
		}
	}
	ask()
	b.ask(t, client, fmt.Sprintf("SELECT k, c, v FROM crash.m%d", round), b.want(func(int) bool { return true }))
	for _, text := range []string{fmt.Sprintf("DROP MATERIALIZED VIEW crash.m%d", round), fmt.Sprintf("DROP INDEX crash.i%d", round)} {
		if _, err := client.Query(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return unbuilt
}
