package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// memory is a table in memory: its items by routing key and name.
type memory struct {
	table  *Table
	items  map[string]map[string][]byte
	reads  int // items that were visited
	writes int64
}

// Key implements Source.
func (m *memory) Key(_ context.Context, key string, list []ItemSlice, visit func(item, body []byte) (bool, error)) error {
	for _, s := range list {
		names := slices.Sorted(maps.Keys(m.items[key]))
		if s.Reverse {
			slices.Reverse(names)
		}
		for _, name := range names {
			if name < s.From || s.To != "" && name >= s.To {
				continue
			}
			m.reads++
			if more, err := visit([]byte(name), m.items[key][name]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// Tokens implements Source.
func (m *memory) Tokens(_ context.Context, least, greatest int64, after string, visit func(key, item, body []byte) (bool, error)) error {
	keys := slices.SortedFunc(maps.Keys(m.items), compareKeys)
	for _, key := range keys {
		token := partitionkey.Token([]byte(key))
		if token < least || token > greatest || after != "" && compareKeys(key, after) <= 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m.items[key])) {
			m.reads++
			if more, err := visit([]byte(key), []byte(name), m.items[key][name]); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// change merges a mutation into an item.
func (m *memory) change(t *testing.T, key, name string, mutation row.Mutation) {
	t.Helper()
	if m.items[key] == nil {
		m.items[key] = map[string][]byte{}
	}
	m.writes++
	mutation.Sequence = m.writes
	if mutation.Timestamp == 0 {
		mutation.Timestamp = m.writes
	}
	var before row.Row
	if body, ok := m.items[key][name]; ok {
		var err error
		if before, err = row.DecodeRow(body); err != nil {
			t.Fatal(err)
		}
	}
	after, err := row.Apply(&before, row.Snapshot{Now: testNow}, mutation)
	if err != nil {
		t.Fatal(err)
	}
	m.items[key][name] = after.Append(nil)
}

// testNow is the time of the tests in seconds.
const testNow = 1_000_000

// testType returns the user-defined type of the tests.
func testType(keyspace, name string) (*row.Type, error) {
	if keyspace == "ks" && name == "addr" {
		return row.UDTOf("ks", "addr", []string{"street", "zip"}, []*row.Type{native(row.KindText), native(row.KindInt)}), nil
	}
	return nil, invalid("Unknown type %s.%s", keyspace, name)
}

// newMemory makes a table from lines such as "k int partition".
func newMemory(t *testing.T, lines string) *memory {
	t.Helper()
	var columns []*Column
	var partition, clustering int
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		kind := words[len(words)-1]
		typ, err := row.ParseType(strings.Join(words[1:len(words)-1], " "), func(_, name string) (*row.Type, error) { return testType("ks", name) })
		if err != nil {
			t.Fatal(err)
		}
		c := &Column{Name: words[0], Type: typ, ID: uint32(10 + len(columns))}
		switch kind {
		case "partition":
			c.Kind, c.Position = PartitionKey, partition
			partition++
		case "clustering", "descending":
			c.Kind, c.Position, c.Descending = Clustering, clustering, kind == "descending"
			clustering++
		case "static":
			c.Kind = Static
		default:
			c.Kind = Regular
		}
		columns = append(columns, c)
	}
	return &memory{table: NewTable("ks", "t", columns), items: map[string]map[string][]byte{}}
}

// insert inserts a row from text such as "k=1 c=2 v='x'": with a marker, or without one
// for columns after "update". ttl=10 gives a time to live, expired=1 one that has ended.
func (m *memory) insert(t *testing.T, line string) {
	t.Helper()
	key := make([][]byte, len(m.table.Partition))
	clustering := make([][]byte, len(m.table.Clustering))
	line, update := strings.CutPrefix(line, "update ")
	mutation, static := row.Mutation{Marker: !update}, row.Mutation{}
	full := 0
	for _, word := range strings.Split(line, " ; ") {
		name, text, _ := strings.Cut(strings.TrimSpace(word), "=")
		if name == "ttl" {
			n, _ := strconv.Atoi(text)
			mutation.TTL, static.TTL = uint32(n), uint32(n)
			continue
		}
		if name == "timestamp" {
			mutation.Timestamp, _ = strconv.ParseInt(text, 10, 64)
			static.Timestamp = mutation.Timestamp
			continue
		}
		c := m.table.Column(name)
		parsed, err := cql.Parse("INSERT INTO t (" + name + ") VALUES (" + text + ")")
		if err != nil {
			t.Fatal(err)
		}
		a := newTerms(parsed, testType)
		compiled, err := a.compile(parsed.Statement.(*cql.Insert).Values[0], m.table.receiver(c.Type, name))
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		v, err := compiled.bind(&binding{moment: testMoment})
		if err != nil {
			t.Fatal(err)
		}
		switch c.Kind {
		case PartitionKey:
			key[c.Position] = v
		case Clustering:
			clustering[c.Position] = v
			if original := c.Type.Original(v); original != nil {
				mutation.Key = append(mutation.Key, row.KeyValue{Column: c.Position, Value: original})
			}
			full++
		case Static:
			static.Ops = append(static.Ops, row.SetColumn(c.ID, c.Type, v))
		case Regular:
			mutation.Ops = append(mutation.Ops, row.SetColumn(c.ID, c.Type, v))
		}
	}
	routing, err := row.RoutingKey(key...)
	if err != nil {
		t.Fatal(err)
	}
	if len(static.Ops) > 0 {
		m.change(t, string(routing), StaticItem, static)
	}
	if full == len(m.table.Clustering) {
		columns := make([]row.KeyColumn, len(m.table.Clustering))
		for i, c := range m.table.Clustering {
			columns[i] = c.key()
		}
		m.change(t, string(routing), RowItems+string(row.EncodeKey(columns, clustering)), mutation)
	}
}

// prepare compiles a SELECT. The texts of values for its markers are bound to it.
func (m *memory) prepare(text string, values ...string) (*query, *terms, *binding, error) {
	parsed, err := cql.Parse(text)
	if err != nil {
		return nil, nil, nil, err
	}
	a := newTerms(parsed, testType)
	q, err := a.compileSelect(m.table, parsed.Statement.(*cql.Select))
	if err != nil {
		return nil, nil, nil, err
	}
	b := &binding{moment: testMoment}
	for i, marker := range a.markers {
		if i >= len(values) {
			break
		}
		if values[i] == "unset" {
			b.values, b.unset = append(b.values, nil), append(b.unset, true)
			continue
		}
		b.unset = append(b.unset, false)
		p, err := cql.Parse("INSERT INTO t (x) VALUES (" + values[i] + ")")
		if err != nil {
			return nil, nil, nil, err
		}
		value, err := newTerms(p, testType).compile(p.Statement.(*cql.Insert).Values[0], receiver{t: marker.Type, name: marker.Name, keyspace: "ks"})
		if err != nil {
			return nil, nil, nil, err
		}
		v, err := value.bind(b)
		if err != nil {
			return nil, nil, nil, err
		}
		b.values = append(b.values, v)
	}
	return q, a, b, nil
}

// table prints rows as CQL literals.
func printRows(columns []ResultColumn, page *Page) string {
	var out strings.Builder
	rest := page.Rows
	for range page.Count {
		for i, c := range columns {
			if i > 0 {
				out.WriteString(" | ")
			}
			n := int32(binary.BigEndian.Uint32(rest))
			rest = rest[4:]
			if n < 0 {
				out.WriteString("null")
				continue
			}
			out.WriteString(c.Type.Literal(rest[:n:n]))
			rest = rest[n:]
		}
		out.WriteByte('\n')
	}
	if len(rest) > 0 {
		fmt.Fprintf(&out, "%d bytes more\n", len(rest))
	}
	return out.String()
}

// run reads all pages of a statement. A page ends after reads items, if that is not zero.
func (m *memory) run(text string, size, reads int, values ...string) (columns []ResultColumn, out string, pages int, err error) {
	q, _, b, err := m.prepare(text, values...)
	if err != nil {
		return nil, "", 0, err
	}
	options := &PageOptions{Size: size, Secret: []byte("secret"), ID: []byte(text), Now: testNow, Reads: reads}
	for {
		page, err := q.run(context.Background(), m, b, options)
		if err != nil {
			return nil, "", pages, err
		}
		pages++
		if size > 0 && page.Count > size {
			return nil, "", pages, fmt.Errorf("%d rows on a page of %d", page.Count, size)
		}
		out += printRows(q.resultColumns(), &page)
		if page.State == nil {
			return q.resultColumns(), out, pages, nil
		}
		if page.Count == 0 && reads == 0 {
			return nil, "", pages, errors.New("an empty page with a state")
		}
		if bytes.Equal(page.State, options.State) {
			return nil, "", pages, errors.New("two pages with one state")
		}
		options.State = page.State
	}
}

// TestSelect runs the statements of testdata: in one page, and in pages of one and two
// rows, which must give the same rows.
func TestSelect(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/select", func(t *testing.T, path string) {
		var m *memory
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "table":
				m = newMemory(t, d.Input)
				return ""
			case "insert":
				for line := range strings.Lines(d.Input) {
					m.insert(t, strings.TrimSpace(line))
				}
				return ""
			case "select", "names":
				return m.answer(t, d)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func (m *memory) answer(t *testing.T, d *datadriven.TestData) string {
	lines := strings.Split(d.Input, "\n")
	text, values := lines[0], lines[1:]
	if d.Cmd == "names" {
		q, a, _, err := m.prepare(text, values...)
		if err != nil {
			return "error: " + err.Error()
		}
		var out strings.Builder
		for _, c := range q.resultColumns() {
			fmt.Fprintf(&out, "%s %s\n", c.Name, c.Type)
		}
		for _, marker := range a.markers {
			fmt.Fprintf(&out, "? %s %s\n", marker.Name, marker.Type)
		}
		return out.String()
	}
	_, all, _, err := m.run(text, 0, 0, values...)
	for _, by := range [][2]int{{1, 0}, {2, 0}, {1000, 0}, {1000, 1}, {1000, 2}, {2, 3}, {1, 1}} {
		size, reads := by[0], by[1]
		_, paged, _, pagedErr := m.run(text, size, reads, values...)
		switch {
		case pagedErr != nil && err == nil && strings.HasPrefix(pagedErr.Error(), "Cannot page"):
		case fmt.Sprint(pagedErr) != fmt.Sprint(err):
			t.Errorf("%s: in pages of %d after %d items: %v, want %v", d.Pos, size, reads, pagedErr, err)
		case paged != all:
			t.Errorf("%s: in pages of %d after %d items:\n%swant\n%s", d.Pos, size, reads, paged, all)
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if all == "" {
		return "no rows"
	}
	return all
}

// TestPagingState checks that a state is that of one statement and that no change of it
// is accepted.
func TestPagingState(t *testing.T) {
	t.Parallel()
	secret, of := []byte("secret"), []byte("statement")
	c := cursor{key: "k\x00ey", row: []byte{8, 1, 2}, limit: 7, perPartition: -1}
	state := c.appendState(nil, secret, of)
	got, err := decodeState(state, secret, of)
	if err != nil || got.key != c.key || !bytes.Equal(got.row, c.row) || got.limit != 7 || got.perPartition != -1 || got.done {
		t.Errorf("got %+v, %v", got, err)
	}
	for i := range state {
		for bit := range 8 {
			changed := slices.Clone(state)
			changed[i] ^= 1 << bit
			if _, err := decodeState(changed, secret, of); !errors.Is(err, errPagingState) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, err := decodeState(state[:i], secret, of); err == nil {
			t.Fatalf("cut to %d bytes: no error", i)
		}
	}
	for _, other := range [][2][]byte{{[]byte("other"), of}, {secret, []byte("other")}} {
		if _, err := decodeState(state, other[0], other[1]); err == nil {
			t.Errorf("the state of %q is one of %q", of, other)
		}
	}
}
