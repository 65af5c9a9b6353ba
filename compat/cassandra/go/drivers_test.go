// Package drivers runs the Cassandra drivers of Go against the server at DECAN_CQL, with the
// user DECAN_CQL_USER and the password DECAN_CQL_KEY. ../run.sh runs it.
package drivers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// session is what the two drivers have in common.
type session interface {
	exec(text string, values ...any) error
	// rows returns all rows, read in pages of a size.
	rows(page int, text string, values ...any) ([]map[string]any, error)
	// conditional says whether a conditional statement was applied.
	conditional(text string, values ...any) (bool, error)
	batch(logged bool, statements ...[]any) error
	// keys returns the partition keys of a table as the driver knows it from the schema.
	keys(keyspace, table string) ([]string, error)
	// page returns one page after a paging state, and the state after it.
	page(size int, state []byte, text string, values ...any) (rows []map[string]any, next []byte, err error)
	// traced runs a statement and writes its trace.
	traced(out io.Writer, text string, values ...any) error
	syntax(err error) bool
	close()
}

func endpoint() string { return os.Getenv("DECAN_CQL") }
func user() string     { return os.Getenv("DECAN_CQL_USER") }
func key() string      { return os.Getenv("DECAN_CQL_KEY") }

// wrongKey is in base64, as keys are.
const wrongKey = "d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM="

// newer are the types that version 3 of the protocol does not know.
var newer = []string{"da", "ti", "si", "ty", "du"}

// must returns a function that ends the test if it gets an error.
func must(t *testing.T) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// typed returns the statements of ../types.cql.
func typed(t *testing.T) (create []string) {
	text, err := os.ReadFile("../types.cql")
	must(t)(err)
	for line := range strings.Lines(string(text)) {
		create = append(create, strings.TrimSuffix(strings.TrimSpace(line), ";"))
	}
	return create
}

// program is what an application does, with a keyspace of its own.
func program(t *testing.T, s session, keyspace string, version int) {
	check := must(t)
	check(s.exec("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"))
	table := keyspace + ".t"
	check(s.exec("CREATE TABLE " + table + " (k int, c int, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)"))
	for i := range 25 {
		check(s.exec("INSERT INTO "+table+" (k, c, v) VALUES (?, ?, ?)", i%5, i, fmt.Sprint(i)))
	}
	rows, err := s.rows(2, "SELECT c, v FROM "+table+" WHERE k = ?", 3)
	check(err)
	if got := fmt.Sprint(rows); got != "[map[c:23 v:23] map[c:18 v:18] map[c:13 v:13] map[c:8 v:8] map[c:3 v:3]]" {
		t.Errorf("rows of a key: %s", got)
	}
	for _, page := range []int{1, 7, 5000} {
		if rows, err := s.rows(page, "SELECT k, c FROM "+table); err != nil || len(rows) != 25 {
			t.Errorf("pages of %d: %d rows, %v", page, len(rows), err)
		}
	}
	insert := "INSERT INTO " + table + " (k, c, v) VALUES (?, ?, ?)"
	for _, logged := range []bool{true, false} {
		check(s.batch(logged, []any{insert, 100, 1, "a"}, []any{insert, 100, 2, "b"}, []any{insert, 101, 1, "c"}))
	}
	for _, want := range []bool{true, false} {
		if applied, err := s.conditional(insert+" IF NOT EXISTS", 200, 1, "x"); err != nil || applied != want {
			t.Errorf("applied %v, want %v: %v", applied, want, err)
		}
	}
	// The driver prepares again after a change of the table, and knows new columns.
	star := "SELECT * FROM " + table + " WHERE k = ? AND c = ?"
	if _, err := s.rows(10, star, 200, 1); err != nil {
		t.Error(err)
	}
	check(s.exec("ALTER TABLE " + table + " ADD w int"))
	check(s.exec("INSERT INTO "+table+" (k, c, w) VALUES (?, ?, ?)", 200, 1, 5))
	if rows, err := s.rows(10, star, 200, 1); err != nil || len(rows) != 1 || rows[0]["w"] != 5 || rows[0]["v"] != "x" {
		t.Errorf("after ALTER: %v, %v", rows, err)
	}
	if err := s.exec("nonsense"); !s.syntax(err) {
		t.Errorf("a syntax error is %v", err)
	}
	if keys, err := s.keys(keyspace, "t"); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	roundTrip(t, s, keyspace, version)
	following(t, s, keyspace)
	tracing(t, s, keyspace)
}

// roundTrip reads a value of each type and writes it back: the server has the same value.
func roundTrip(t *testing.T, s session, keyspace string, version int) {
	check := must(t)
	for _, statement := range typed(t) {
		check(s.exec(strings.ReplaceAll(statement, "ks.", keyspace+".")))
	}
	var columns []string
	rows, err := s.rows(10, "SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = 'types'", keyspace)
	check(err)
	for _, row := range rows {
		if name := row["column_name"].(string); name != "k" && (version != 3 || !slices.Contains(newer, name)) {
			columns = append(columns, name)
		}
	}
	list := strings.Join(columns, ", ")
	rows, err = s.rows(10, "SELECT "+list+" FROM "+keyspace+".types WHERE k = 'literal'")
	check(err)
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	values, markers := []any{"driver"}, ""
	for _, name := range columns {
		if name == "tp" { // The drivers read and bind the parts of a tuple apart.
			values, markers = append(values, rows[0]["tp[0]"], rows[0]["tp[1]"]), markers+", (?, ?)"
			continue
		}
		values, markers = append(values, rows[0][name]), markers+", ?"
	}
	check(s.exec("INSERT INTO "+keyspace+".types (k, "+list+") VALUES (?"+markers+")", values...))
	var texts [2]string
	for i, k := range []string{"literal", "driver"} {
		rows, err := s.rows(10, "SELECT JSON "+list+" FROM "+keyspace+".types WHERE k = ?", k)
		check(err)
		texts[i] = fmt.Sprint(rows)
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], "Zürich 漢字 😀") {
		t.Errorf("the values come back as\n%s\nand not as\n%s", texts[1], texts[0])
	}
}

// splitting writes and reads while all physical partitions of a table split: no statement
// fails, and no row is lost or comes twice (S115, S142).
func splitting(t *testing.T, s session, keyspace string) {
	admin := os.Getenv("DECAN_ADMIN")
	if admin == "" {
		t.Log("not run: DECAN_ADMIN is not set")
		return
	}
	check := must(t)
	check(s.exec("CREATE TABLE " + keyspace + ".splits (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000"))
	const writers, each = 4, 150
	for i := range each { // A partition with one key does not split.
		check(s.exec("INSERT INTO "+keyspace+".splits (k, c, n) VALUES (?, ?, ?)", i, writers, 0))
	}
	var group sync.WaitGroup
	var done atomic.Int32
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if err := s.exec("INSERT INTO "+keyspace+".splits (k, c, n) VALUES (?, ?, ?)", i, w, 0); err != nil {
					t.Errorf("write %d: %v", i, err)
				}
				if applied, err := s.conditional("UPDATE "+keyspace+".splits SET n = ? WHERE k = ? AND c = ? IF n = ?", 1, i, w, 0); err != nil || !applied {
					t.Errorf("conditional write %d: applied %v, %v", i, applied, err)
				}
			}
			done.Add(1)
		})
	}
	// read reads all rows, each of which may come once.
	read := func() map[string]bool {
		seen := map[string]bool{}
		rows, err := s.rows(20, "SELECT k, c FROM "+keyspace+".splits")
		if err != nil {
			t.Errorf("read: %v", err)
		}
		for _, row := range rows {
			name := fmt.Sprint(row["k"], " ", row["c"])
			if seen[name] {
				t.Errorf("row %s comes twice", name)
			}
			seen[name] = true
		}
		return seen
	}
	for round := 0; round < 2; round++ {
		for _, id := range partitions(t, admin, keyspace, "splits") {
			call(t, fmt.Sprintf("%spartitions/split?database=%s&container=splits&partition=%s", admin, keyspace, id), http.MethodPost)
			read()
		}
	}
	group.Wait()
	if seen := read(); len(seen) != (writers+1)*each {
		t.Errorf("%d rows, want %d", len(seen), (writers+1)*each)
	}
	if n := len(partitions(t, admin, keyspace, "splits")); n < 4 {
		t.Errorf("%d partitions", n)
	}
}

func partitions(t *testing.T, admin, database, container string) (ids []string) {
	var answer struct {
		Partitions []struct{ ID json.Number }
	}
	body := call(t, fmt.Sprintf("%spartitions?database=%s&container=%s", admin, database, container), http.MethodGet)
	must(t)(json.Unmarshal(body, &answer))
	for _, p := range answer.Partitions {
		ids = append(ids, p.ID.String())
	}
	return ids
}

func call(t *testing.T, url, method string) []byte {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	must(t)(err)
	request.Header.Set("x-decan-key", key())
	response, err := http.DefaultClient.Do(request)
	must(t)(err)
	defer response.Body.Close()
	var body json.RawMessage
	must(t)(json.NewDecoder(response.Body).Decode(&body))
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, response.Status, body)
	}
	return body
}

// restarting writes until the server has been killed and started again, which ../run.sh does
// when all drivers wait for it: the session continues, and no acknowledged row is lost.
func restarting(t *testing.T, s session, keyspace, name string) {
	turns := os.Getenv("DECAN_TURNS")
	if turns == "" {
		t.Log("not run: DECAN_TURNS is not set")
		return
	}
	check := must(t)
	check(s.exec("CREATE TABLE " + keyspace + ".restarts (k int PRIMARY KEY)"))
	insert := "INSERT INTO " + keyspace + ".restarts (k) VALUES (?)"
	check(s.exec(insert, -1))
	check(os.WriteFile(filepath.Join(turns, name), nil, 0o666))
	var written []int
	var last time.Time // the end of the time to reconnect
	for i, after := 0, 0; after < 20; i++ {
		if _, missing := os.Stat(filepath.Join(turns, "restarted")); missing == nil && last.IsZero() {
			last = time.Now().Add(2 * time.Minute)
		}
		err := s.exec(insert, i)
		switch {
		case err == nil:
			written = append(written, i)
			if !last.IsZero() {
				after++
			}
		case !last.IsZero() && time.Now().After(last):
			t.Fatalf("no write succeeds after the restart: %v", err)
		}
		pause := 20 * time.Millisecond
		if last.IsZero() && i >= 20 {
			pause = 300 * time.Millisecond // The others take their time.
		}
		time.Sleep(pause)
	}
	rows, err := s.rows(100, "SELECT k FROM "+keyspace+".restarts")
	check(err)
	seen := map[any]bool{}
	for _, row := range rows {
		seen[row["k"]] = true
	}
	for _, i := range append(written, -1) {
		if !seen[i] {
			t.Errorf("row %d was acknowledged and is lost", i)
		}
	}
}

var errNoTable = errors.New("the driver does not know the table")
