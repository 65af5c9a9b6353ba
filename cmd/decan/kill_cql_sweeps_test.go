package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
)

// Partition keys of the table of TestKillCQLSweeps, and rows of each.
const (
	sweptKeys = 8
	sweptRows = 200

	feedPagesMax = 500 // for all that has changed since the last page: about ten times as many as it takes
)

// sweptTable is the table of TestKillCQLSweeps: the rows that it must have, and what a reader
// of its change feed has seen.
type sweptTable struct {
	random *rand.Rand
	writes int
	rows   map[slot]int // v of the rows that live
	dead   map[int]bool // v of rows that expire

	state []byte // where the reader of the feed continues
	seen  map[slot]int
	read  int
}

// fill writes rows of a partition key in one batch: each expires, or lives.
func (s *sweptTable) fill(client *cqltest.Client, k int) error {
	text := "BEGIN UNLOGGED BATCH "
	for c := range sweptRows {
		if s.random.IntN(2) == 0 {
			continue
		}
		s.writes++
		at := slot{k, c}
		using := ""
		delete(s.rows, at)
		if s.random.IntN(2) == 0 {
			using = " USING TTL 1"
			s.dead[s.writes] = true
		} else {
			s.rows[at] = s.writes
		}
		text += fmt.Sprintf("INSERT INTO crash.s (k, c, v) VALUES (%d, %d, %d)%s; ", k, c, s.writes, using)
	}
	_, err := client.Query(text + "APPLY BATCH")
	return err
}

// remove deletes all rows of a partition key, or those of a range.
func (s *sweptTable) remove(client *cqltest.Client, k int) error {
	low, where := 0, ""
	if s.random.IntN(2) == 0 {
		low = s.random.IntN(sweptRows)
		where = fmt.Sprintf(" AND c >= %d", low)
	}
	for c := low; c < sweptRows; c++ {
		delete(s.rows, slot{k, c})
	}
	_, err := client.Query(fmt.Sprintf("DELETE FROM crash.s WHERE k = %d%s", k, where))
	return err
}

// follow reads pages of the change feed from where the reader was. A page whose changes are
// of rows that have expired or were deleted is empty.
func (s *sweptTable) follow(client *cqltest.Client, pages int) error {
	for ; pages > 0; pages-- {
		q := &frame.Query{
			Text:       "SELECT k, c, v FROM crash.s WHERE COSMOS_CHANGEFEED_FROM_START() = true",
			Parameters: frame.Parameters{Consistency: frame.LocalQuorum, Flags: frame.QueryPageSize, PageSize: 50},
		}
		if s.state != nil {
			q.Parameters.Flags, q.Parameters.PagingState = q.Parameters.Flags|frame.QueryPagingState, s.state
		}
		f, err := client.Do(q)
		if err != nil {
			return err
		}
		page := f.Message.(*frame.Rows)
		rows, err := cqltest.Literals(page)
		if err != nil {
			return err
		}
		for _, r := range rows {
			k, err1 := strconv.Atoi(r[0])
			c, err2 := strconv.Atoi(r[1])
			v, err3 := strconv.Atoi(r[2])
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			if s.seen[slot{k, c}] >= v {
				return fmt.Errorf("the feed has v %d of row %d, %d after %d", v, k, c, s.seen[slot{k, c}])
			}
			s.seen[slot{k, c}] = v
		}
		s.state, s.read = page.Metadata.PagingState, s.read+page.Count
	}
	return nil
}

// missed returns a row that lives and that the reader of the feed has not seen.
func (s *sweptTable) missed() (slot, bool) {
	for at, v := range s.rows {
		if s.seen[at] != v {
			return at, true
		}
	}
	return slot{}, false
}

// verify compares the rows of the table with those that must be there, once the others have
// expired, and those that the reader of the feed has seen.
func (s *sweptTable) verify(t *testing.T, client *cqltest.Client) {
	t.Helper()
	rows, err := client.Query("SELECT k, c, v FROM crash.s")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range rows {
		k, _ := strconv.Atoi(r[0])
		c, _ := strconv.Atoi(r[1])
		v, err := strconv.Atoi(r[2])
		switch want, lives := s.rows[slot{k, c}]; {
		case err != nil:
			t.Fatal(err)
		case s.dead[v]: // It may not have expired yet.
		case !lives || want != v:
			t.Errorf("row %d, %d has v %d, want %d", k, c, v, want)
		default:
			found++
		}
	}
	if found != len(s.rows) {
		t.Errorf("%d rows, want %d", found, len(s.rows))
	}
	for range feedPagesMax {
		if _, some := s.missed(); !some {
			return
		}
		if err := s.follow(client, 1); err != nil {
			t.Fatal(err)
		}
	}
	at, _ := s.missed()
	t.Errorf("the reader of the feed has v %d of row %v, want %d", s.seen[at], at, s.rows[at])
}

// TestKillCQLSweeps kills the real binary with SIGKILL while all that it does is to remove
// rows that have expired and rows that deletions cover. No row that lives is lost, none that
// was deleted comes back, every check is clean, and a reader of the change feed continues with
// the paging state that it had before: it gets each live row, and none of them twice. The
// number of rounds is a quarter of DECAN_CRASH_ROUNDS.
func TestKillCQLSweeps(t *testing.T) {
	t.Parallel()
	rounds := max(3, crashRounds(t)/4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	s := &sweptTable{random: rand.New(rand.NewPCG(seed, 0)), rows: map[slot]int{}, dead: map[int]bool{}, seen: map[slot]int{}}
	data := t.TempDir()
	for round := range rounds + 1 {
		p := spawn(t, "--data", data)
		if round == 0 {
			mustCQL(t, p, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
				"CREATE TABLE crash.s (k int, c int, v int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000")
		}
		client, err := dialCQL(p)
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 {
			s.verify(t, client)
		}
		if round < rounds {
			for k := range sweptKeys {
				if err := s.fill(client, k); err != nil {
					t.Fatal(err)
				}
				if s.random.IntN(2) == 0 {
					if err := s.remove(client, k); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.follow(client, s.random.IntN(6)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(s.random.IntN(1500)) * time.Millisecond) // The moment of death is the subject of the test: rows expire after a second.
		}
		p.kill()
		client.Close()
		checkRound(t, round, data)
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	t.Logf("%d writes, %d rows of the feed, %d rows live", s.writes, s.read, len(s.rows))
	if s.read == 0 || len(s.rows) == 0 || len(s.dead) == 0 {
		t.Error("too few to show anything")
	}
}
