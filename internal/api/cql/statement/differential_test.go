package statement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// statementsOfKeyspace is how many statements the test draws before it takes a new schema.
const statementsOfKeyspace = 150

// differential compares Decan with a real Apache Cassandra.
type differential struct {
	t           testing.TB
	apache, own *node
	*drawing
	counts   map[string]int
	shown    map[string]int
	allowed  map[string]int
	answered map[string]int // kinds of answers of Cassandra
	failed   bool           // the last answer of Cassandra was an internal error
}

// TestApache draws schemas, writes and reads, valid and not, and compares the answers of
// Decan with those of the Apache Cassandra that DECAN_CASSANDRA names: rows as bytes,
// columns, pages, errors, the schema. DECAN_CQL_STATEMENTS is their number, DECAN_CQL_SEED
// the seed, DECAN_CQL_ROUND the first keyspace, and DECAN_CQL_SHOWN how many differences of a kind are printed (5). compat/cassandra/cassandra.sh runs it.
func TestApache(t *testing.T) {
	apache := cassandraNode(t)
	if apache == nil {
		t.Skip("DECAN_CASSANDRA is not set: compat/cassandra/cassandra.sh sets it")
	}
	count, seed := 2000, uint64(time.Now().UnixNano()%1_000_000)
	if n, err := strconv.Atoi(os.Getenv("DECAN_CQL_STATEMENTS")); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("DECAN_CQL_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("DECAN_CQL_SHOWN")); err == nil {
		shownMax = n
	}
	t.Logf("seed %d, %d statements", seed, count)
	w := newWorld(t)
	w.now = time.Time{}
	w.started.Do(w.Start)
	d := &differential{t: t, apache: apache, own: serveNode(t, w), counts: map[string]int{}, shown: map[string]int{}, allowed: map[string]int{}, answered: map[string]int{}}
	first, _ := strconv.Atoi(os.Getenv("DECAN_CQL_ROUND"))
	for round := first; count > 0; round++ {
		d.drawing = &drawing{
			Rand: rand.New(rand.NewPCG(seed, uint64(round))), keyspace: fmt.Sprintf("d%d_%d", seed, round),
			// Decan removes what has expired by the clock of the machine, which does not reach
			// that of the statements.
			stamp: 1_000_000, now: int32(time.Now().Add(24 * time.Hour).Unix()),
		}
		count -= d.round(min(count, statementsOfKeyspace))
	}
	for _, kind := range sorted(d.answered) {
		t.Logf("%6d answers: %s", d.answered[kind], kind)
	}
	for _, kind := range sorted(d.allowed) {
		t.Logf("%6d documented: %s", d.allowed[kind], kind)
	}
	for _, kind := range sorted(d.counts) {
		t.Errorf("%6d differences: %s", d.counts[kind], kind)
	}
}

func sorted(m map[string]int) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// round runs statements on a new keyspace, and returns their number.
func (d *differential) round(count int) (n int) {
	define := func(text string) bool {
		n++
		return d.compare(request{text: text, keyspace: d.keyspace})
	}
	d.compare(request{text: "CREATE KEYSPACE " + d.keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"})
	defer d.compare(request{text: "DROP KEYSPACE " + d.keyspace})
	for range 2 {
		if !define(d.createType()) {
			d.types = d.types[:len(d.types)-1]
		}
	}
	for range 3 {
		if !define(d.createTable()) {
			d.tables = d.tables[:len(d.tables)-1]
		}
	}
	for range 3 {
		t := pick(d.drawing, d.tables...)
		text, _, column := d.createIndex(t)
		if define(text) {
			t.indexed = append(t.indexed, column)
		}
	}
	d.built()
	for range 3 {
		text, v := d.createView(pick(d.drawing, d.tables...))
		if define(text) {
			d.views = append(d.views, v)
			continue
		}
		for _, n := range []*node{d.apache, d.own} { // one of them may have it
			n.run(request{text: "DROP MATERIALIZED VIEW IF EXISTS " + v.name, keyspace: d.keyspace})
		}
	}
	d.viewsBuilt()
	d.schema()
	for ; n < count && len(d.tables) > 0; n++ {
		if d.one(2) {
			r := d.request(d.write)
			d.compare(r)
			for _, t := range d.tables {
				t.deleted = t.deleted || r.deletes(t.name)
			}
			d.states(r.whole())
			continue
		}
		d.compare(d.request(d.read))
	}
	return max(n, 1)
}

// request draws a statement, a few of which are broken.
func (d *differential) request(draw func() request) request {
	r := draw()
	if d.one(25) {
		r = d.broken(r)
	}
	r.keyspace = d.keyspace
	return r
}

// states compares the rows of all tables, and forgets a table on which the nodes differ.
func (d *differential) states(after string) {
	d.tables = slices.DeleteFunc(d.tables, func(t *drawnTable) bool {
		r := request{text: "SELECT * FROM " + t.name, keyspace: d.keyspace, now: d.now}
		apache, own := d.apache.run(r), d.own.run(r)
		if apache == own {
			return false
		}
		if d.failed {
			d.allowed["an internal error of Cassandra"]++
			return true
		}
		if t.counter && t.deleted {
			d.allowed["counters after a deletion"]++
			return true
		}
		if slices.Equal(t.withoutDecimals(apache), t.withoutDecimals(own)) {
			d.allowed["clustering keys that are equal and have other bytes"]++
			return true
		}
		if strings.HasPrefix(apache, "error 1") {
			d.allowed["an internal error of Cassandra"]++
			return false
		}
		d.reportState(r.text, after, apache, own)
		return true
	})
	d.views = slices.DeleteFunc(d.views, func(v *drawnTable) bool { return !slices.Contains(d.tables, v.view.base) || d.stateOfView(v, after) })
}

// stateOfView compares the rows of a view. It reports whether they differ. Where those of
// Cassandra are not those of its table, which it does not promise either, the rows of
// Decan must be.
func (d *differential) stateOfView(v *drawnTable, after string) bool {
	names := make([]string, len(v.columns))
	for i, c := range v.columns {
		names[i] = c.name
	}
	r := request{text: "SELECT " + strings.Join(names, ", ") + " FROM " + v.name, keyspace: d.keyspace, now: d.now}
	apache, own := d.apache.run(r), d.own.run(r)
	if apache == own {
		return false
	}
	if slices.Equal(rowsOf(own, ""), v.withKeys(rowsOf(apache, ""))) {
		d.allowed["an empty partition key of a view"]++
		return true
	}
	base := request{text: v.fromBase(), keyspace: d.keyspace, now: d.now}
	want := rowsOf(d.own.run(base), v.view.moved)
	if slices.Equal(rowsOf(own, ""), want) && !slices.Equal(rowsOf(apache, ""), want) {
		d.allowed["a view of Cassandra that differs from its table"]++
		return true
	}
	if v.joinsRows() {
		d.allowed["two rows of a table that have one row of a view"]++
		return true
	}
	d.reportState(r.text, after, apache, own)
	return true
}

// built waits until both nodes have built all indexes: Cassandra refuses to read through
// others, and Decan reads without them.
func (d *differential) built() {
	d.complete("index_name", "indexes", `system."IndexInfo" WHERE table_name = '%s'`)
}

// viewsBuilt waits until both nodes have built all views.
func (d *differential) viewsBuilt() {
	d.complete("view_name", "views", "system.built_views WHERE keyspace_name = '%s'")
}

// complete waits until a table of what is built has everything of the keyspace.
func (d *differential) complete(column, defined, built string) {
	for deadline := time.Now().Add(nodeTime); ; time.Sleep(20 * time.Millisecond) {
		done := true
		for _, n := range []*node{d.apache, d.own} {
			all := n.run(request{text: fmt.Sprintf("SELECT %s FROM system_schema.%s WHERE keyspace_name = '%s'", column, defined, d.keyspace)})
			ready := n.run(request{text: fmt.Sprintf("SELECT %s FROM "+built, column, d.keyspace)})
			done = done && strings.Count(all, "\n") == strings.Count(ready, "\n")
		}
		if done {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the %s of %s are not built", defined, d.keyspace)
		}
	}
}

// schema compares what the system tables say of the keyspace.
func (d *differential) schema() {
	for _, name := range []string{"keyspaces", "tables", "columns", "types", "indexes", "views", "dropped_columns"} {
		d.compare(request{text: fmt.Sprintf("SELECT * FROM system_schema.%s WHERE keyspace_name = '%s'", name, d.keyspace)})
	}
}

var (
	writeTimes  = regexp.MustCompile(`\b1000\d{3}\b`)
	recentTimes = regexp.MustCompile(`\b1[5-9]\d{14}\b`)
	tableIDs    = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
)

// compare runs a statement on both nodes. It reports whether it succeeded on both.
func (d *differential) compare(r request) bool {
	apache, own := comparable(d.apache.run(r)), comparable(d.own.run(r))
	d.answered[kindOf(apache)]++
	d.failed = strings.Contains(apache, "error 0000") || strings.Contains(apache, "error 1500")
	apache, own = recentTimes.ReplaceAllString(apache, "NOW"), recentTimes.ReplaceAllString(own, "NOW")
	if strings.Contains(r.text, "system_schema.") {
		apache, own = tableIDs.ReplaceAllString(apache, "ID"), tableIDs.ReplaceAllString(own, "ID")
		// Cassandra does not double the quotes in the WHERE clause of a view.
		own = strings.ReplaceAll(own, "it''''s", "it''s")
	}
	if apache != own {
		d.report("", r, apache, own)
	}
	return !strings.Contains(apache+own, "error ")
}

// Warnings of Cassandra about statements that are prepared in a keyspace, and about views,
// which Decan does not send.
const (
	useWarning  = "warning: `USE <keyspace>` with prepared statements"
	viewWarning = "warning: Materialized views are experimental"
)

// comparable leaves out what no client relies on: an empty last page after a full one, and
// a warning.
func comparable(answer string) string {
	lines := strings.SplitAfter(answer, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, useWarning) || strings.HasPrefix(l, viewWarning) })
	// With GROUP BY, Cassandra also refuses the state of such a page.
	if last := slices.Index(lines, "-- page\n"); last >= 0 {
		for i, l := range lines {
			if l == "-- page\n" {
				last = i
			}
		}
		rest := slices.DeleteFunc(slices.Clone(lines[last+1:]), func(l string) bool { return l == "" || strings.HasPrefix(l, "warning: Aggregation") })
		if len(rest) == 1 && (strings.HasPrefix(rest[0], "#") || rest[0] == "error 000a: Invalid value for the paging state\n") {
			lines = append(lines[:last], "")
		}
	}
	for i, line := range lines {
		// Cassandra lists the signatures of a function in no order.
		head, list, ok := strings.Cut(line, "(known type signatures: ")
		if list, ok2 := strings.CutSuffix(list, ")\n"); ok && ok2 {
			all := strings.Split(list, ", system.")
			all[0] = strings.TrimPrefix(all[0], "system.")
			slices.Sort(all)
			lines[i] = head + "(known type signatures: " + strings.Join(all, ", ") + ")\n"
		}
	}
	return strings.Join(lines, "")
}

// kindOf returns the kind of an answer.
func kindOf(answer string) string {
	first, _, _ := strings.Cut(answer, "\n")
	if strings.HasPrefix(first, "prepared") {
		_, rest, _ := strings.Cut(answer, "\n")
		return kindOf(rest)
	}
	if strings.HasPrefix(first, "warning") {
		_, rest, _ := strings.Cut(answer, "\n")
		return kindOf(rest)
	}
	if i := strings.Index(first, "error "); i >= 0 {
		return first[i:min(i+10, len(first))]
	}
	if strings.HasPrefix(first, "#") {
		return "rows"
	}
	return strings.SplitN(first, " ", 2)[0]
}

// shownMax is how many differences of a kind are printed.
var shownMax = 5

// report counts a difference, and prints the first of its kind.
func (d *differential) report(kind string, r request, apache, own string) {
	if kind == "" {
		a, b := kindOf(apache), kindOf(own)
		kind = a + " / " + b
		if a == b {
			kind += differenceOf(apache, own)
		}
	}
	reason := documented(r, apache, own)
	if reason == "" {
		reason = d.ofCassandra(r, apache, own)
	}
	if reason != "" {
		d.allowed[reason]++
		return
	}
	d.counts[kind]++
	if d.shown[kind]++; d.shown[kind] > shownMax {
		return
	}
	apache, own = onlyDifferent(apache, own)
	d.t.Logf("%s in %s\n  %s\n  apache: %s\n  decan:  %s", kind, d.keyspace, r.whole(), indent(apache), indent(own))
}

// onlyDifferent leaves out the lines at the beginning and at the end that long answers share.
func onlyDifferent(apache, own string) (shortApache, shortOwn string) {
	a, b := strings.Split(strings.TrimSpace(apache), "\n"), strings.Split(strings.TrimSpace(own), "\n")
	i := 0
	for i+1 < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	j := 0
	for j < min(len(a), len(b))-i && a[len(a)-1-j] == b[len(b)-1-j] {
		j++
	}
	if i+j > 1 {
		a, b = append([]string{a[0], "..."}, a[i:len(a)-j]...), append([]string{b[0], "..."}, b[i:len(b)-j]...)
	}
	if shortest, most := min(len(a), len(b)), 6; len(a)+len(b) > 2*most {
		a, b = append(a[:min(len(a), most)], fmt.Sprintf("(%d lines)", len(a))), append(b[:min(len(b), most)], fmt.Sprintf("(%d lines, shortest %d)", len(b), shortest))
	}
	return strings.Join(a, "\n"), strings.Join(b, "\n")
}

func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n          ")
}

// differenceOf tells which part of two answers of a kind differs.
func differenceOf(apache, own string) string {
	a, b := strings.Split(apache, "\n"), strings.Split(own, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		switch {
		case strings.HasPrefix(a[i], "prepared"):
			return " metadata"
		case strings.HasPrefix(a[i], "warning"), strings.HasPrefix(b[i], "warning"):
			return " warning"
		case strings.HasPrefix(a[i], "#"):
			return " columns"
		case strings.HasPrefix(a[i], "-- page"), strings.HasPrefix(b[i], "-- page"):
			return " pages"
		}
		break
	}
	return ""
}

// reportState counts a difference of the rows of a table, and prints the rows that one node
// has alone.
func (d *differential) reportState(text, after, apache, own string) {
	d.counts["state"]++
	if d.shown["state"]++; d.shown["state"] > shownMax {
		return
	}
	a, b := strings.Split(apache, "\n"), strings.Split(own, "\n")
	without := func(all, other []string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(all), func(l string) bool { return slices.Contains(other, l) }), "\n")
	}
	d.t.Logf("state in "+d.keyspace+"\n  %s\n  then %s\n  columns: %s\n  apache only: %s\n  decan only:  %s", after, text, a[0], indent(without(a, b)), indent(without(b, a)))
}

// documented returns why docs/compatibility.md lists a difference; "" if it does not.
func documented(r request, apache, own string) string {
	both := func(part string) bool { return strings.Contains(apache, part) && strings.Contains(own, part) }
	switch {
	case strings.Contains(apache, "error 0000: "), strings.Contains(apache, "error 1300: "), strings.HasPrefix(apache, "error 1200: "), strings.HasPrefix(apache, "error 1100: "), strings.Contains(apache, "NullPointerException"):
		return "an internal error of Cassandra"
	case both("error 2000: ") && cutSnippet(apache) == cutSnippet(own):
		return "the quotation of a syntax error"
	case both("error 2000: "):
		return "the words and the place of a syntax error"
	case ofCondition(own) && strings.Contains(apache, "[applied]"), ofCondition(apache) && strings.Contains(own, "[applied]"), ofCondition(own) && ofCondition(apache):
		return "which of several conditions decides"
	case strings.HasPrefix(r.text, "CREATE MATERIALIZED VIEW") && strings.Contains(apache, "Select on indexed columns and with IN clause"):
		return "a view with IN of a table with an index"
	case both("cannot be restricted by more than one relation if it includes an Equal"), both("null value"), strings.Contains(own, "Key may not be empty") && strings.Contains(apache, "null value"), strings.Contains(own, "Invalid null value in condition") && strings.HasPrefix(apache, "#") && strings.Count(apache, "\n") == 1:
		return "which of several relations decides"
	case strings.Contains(apache, "292278994"):
		return "sums at the end of the range of timestamps"
	case strings.Contains(own, "An option of USING that is given again"):
		return "an option of USING that is given again"
	case both("Error decoding JSON value for"), both("Could not decode JSON string"),
		strings.Contains(own, "Error decoding JSON value for") && strings.Contains(apache, " to a duration"), strings.Contains(apache, "Error decoding JSON value for") && strings.Contains(own, " to a duration"):
		return "which of several wrong members of JSON is named, and what its parser says"
	case both("error 1400: ") && both("Invalid null "):
		return "which of several wrong members of JSON is named, and what its parser says"
	case strings.Contains(apache, "on a list which is null") && (strings.Contains(own, "Not enough bytes") || strings.Contains(own, "extraneous bytes") || strings.Contains(own, "Expected ")):
		return "which of several wrong values is named"
	case strings.Contains(own, "are no value of type"):
		return "the bytes of a tuple that Cassandra does not check"
	case both("cannot be cast to "):
		return "the column that CAST names"
	case strings.Contains(apache, "LegacyTimeUUIDType"), strings.Contains(apache, "system.max : (timeuuid)"), strings.Contains(apache, "system.min : (timeuuid)"), strings.Contains(apache, "system.count : (timeuuid)"):
		return "aggregates of a descending timeuuid"
	case strings.Contains(own, "null is not supported inside collections") && !strings.Contains(apache, "error "):
		return "null in a selected collection"
	case (both("error 2200: ") || strings.Contains(apache, "# ") && (strings.Contains(r.text, "{") || strings.Contains(r.text, "system_schema.views"))) && sameWords(apache, own):
		return "the order of fields and signatures in a message"
	case strings.Contains(own, "Key may not be empty") && !strings.Contains(apache, "error "):
		return "an empty key and an index"
	case strings.Contains(apache, "error 1500: ") && strings.Contains(own, "Invalid null value in condition"):
		return "a deletion up to null"
	}
	return ""
}

// ofCondition says whether an answer is an error of the value of a condition.
func ofCondition(answer string) bool {
	return slices.ContainsFunc([]string{"Invalid negative list index", "Invalid comparison with", "Invalid null value for list element access", "Invalid null value for map element access"},
		func(text string) bool { return strings.Contains(answer, text) })
}

// ofCassandra returns why docs/compatibility.md lists a difference that depends on the
// schema; "" if it does not.
func (d *differential) ofCassandra(r request, apache, own string) string {
	restricts := func(c drawnColumn) bool {
		_, where, _ := strings.Cut(r.text, " WHERE ")
		return strings.Contains(where, c.name+" = ")
	}
	for _, t := range slices.Concat(d.tables, d.views) {
		if !strings.Contains(r.text+" ", " FROM "+t.name+" ") && !strings.Contains(r.text, " ON "+t.name+" (") {
			continue
		}
		for _, c := range t.columns {
			if c.desc && (strings.Contains(apache, "cannot be cast to") || strings.Contains(apache, "castAs")) && strings.Contains(r.text, "CAST("+c.name+" AS ") {
				return "CAST of a descending clustering column"
			}
			if c.desc && strings.Contains(apache, "cast("+c.name+" as ") && !strings.Contains(own, "cast("+c.name+" as ") {
				return "CAST of a descending clustering column"
			}
			if (c.reversed || c.desc && !c.t.Native() && (kindOf(own) != "rows" || strings.Contains(apache, "Cannot use CONTAINS"))) && kindOf(apache) == "error 2200" && strings.Contains(r.text, c.name) {
				return "collections, tuples and types as descending clustering columns"
			}
		}
		// A row that UPDATE makes again after it was deleted, or after its time to live, is not
		// in Cassandra's index of a key column.
		if slices.ContainsFunc(t.indexed, func(c drawnColumn) bool { return (c.kind == "clustering" || c.kind == "partition") && restricts(c) }) && strings.Contains(own, "# ") && d.lacksRows(r, apache, own) {
			return "rows that an index of Cassandra on a key column lacks"
		}
	}
	if strings.Contains(r.text, "writetime(") && slices.ContainsFunc(d.tables, func(t *drawnTable) bool { return t.counter && strings.Contains(r.text+" ", " FROM "+t.name+" ") }) &&
		writeTimes.ReplaceAllString(apache, "TIME") == writeTimes.ReplaceAllString(own, "TIME") {
		return "the time of a counter that is changed again at the same time"
	}
	if r.page > 0 && strings.Contains(r.text, " GROUP BY ") {
		whole := r
		whole.page = 0
		if d.apache.run(whole) == d.own.run(whole) {
			return "the last page of GROUP BY"
		}
	}
	// A cell that is older than an expired marker of its row, and not selected, is not read:
	// then Cassandra does not see the row. The whole rows agree.
	if !strings.HasPrefix(own, "#") || !lacksRows(apache, own) {
		return ""
	}
	for _, t := range slices.Concat(d.tables, d.views) {
		if strings.Contains(r.text+" ", " FROM "+t.name+" ") {
			all := request{text: "SELECT * FROM " + t.name, keyspace: d.keyspace, now: r.now}
			if d.apache.run(all) == d.own.run(all) {
				return "rows that Cassandra does not see without their other columns"
			}
		}
	}
	return ""
}

// lacksRows says whether the rows of Cassandra are those of Decan without some of them. For
// groups and aggregates it compares the rows that they are made of.
func (d *differential) lacksRows(r request, apache, own string) bool {
	if strings.HasPrefix(own, "#") && lacksRows(apache, own) {
		return true
	}
	head, rest, ok := strings.Cut(r.text, " FROM ")
	if !ok {
		return false
	}
	for _, clause := range []string{" GROUP BY ", " ORDER BY ", " PER PARTITION LIMIT ", " LIMIT ", " ALLOW FILTERING"} {
		rest, _, _ = strings.Cut(rest, clause)
	}
	rows := request{text: "SELECT * FROM " + rest + " ALLOW FILTERING", keyspace: d.keyspace, now: r.now}
	if len(r.values) > 0 {
		skipped := strings.Count(head, "?")
		rows.values = r.values[skipped : skipped+strings.Count(rest, "?")]
	}
	apache, own = d.apache.run(rows), d.own.run(rows)
	return apache != own && lacksRows(apache, own)
}

// lacksRows says whether an answer is another one without some of its rows.
func lacksRows(fewer, more string) bool {
	kept := func(s string) []string {
		return slices.DeleteFunc(strings.Split(strings.TrimSpace(s), "\n"), func(l string) bool { return l == "-- page" })
	}
	rest := kept(more)
	for _, line := range kept(fewer) {
		at := slices.Index(rest, line)
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// cutSnippet leaves out the quotations of syntax errors.
func cutSnippet(answer string) string {
	head, _, _ := strings.Cut(answer, " (")
	return strings.TrimSpace(head)
}

// sameWords says whether two messages have the same words in another order.
func sameWords(a, b string) bool {
	words := func(s string) []string {
		all := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" ,{}()\n", r) })
		slices.Sort(all)
		return all
	}
	return slices.Equal(words(a), words(b))
}
