package statement

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// drawing draws schemas and statements of one keyspace. Values come from small domains,
// so that keys meet and conditions hold.
type drawing struct {
	*rand.Rand
	keyspace string
	types    []*row.Type // user-defined
	tables   []*drawnTable
	views    []*drawnTable
	stamp    int64
	now      int32
	names    int
}

type drawnTable struct {
	name    string
	columns []drawnColumn
	counter bool
	deleted bool          // a statement has deleted from it
	indexed []drawnColumn // with an index, perhaps several times
	view    *drawnView    // nil for a table
}

type drawnColumn struct {
	name string
	t    *row.Type
	kind string // "partition", "clustering", "static" or "regular"
	desc bool

	reversed bool // of a view: descending in its table
}

// of returns the columns of some kinds.
func (t *drawnTable) of(kinds ...string) (all []drawnColumn) {
	for _, c := range t.columns {
		if slices.Contains(kinds, c.kind) {
			all = append(all, c)
		}
	}
	return all
}

// withoutDecimals returns the rows of SELECT * without the values of clustering columns with
// decimals, which are equal if their numbers are.
func (t *drawnTable) withoutDecimals(answer string) []string {
	var at []int
	for i, c := range t.of("partition", "clustering") {
		if c.kind == "clustering" && c.t.References(row.KindDecimal) {
			at = append(at, i)
		}
	}
	lines := strings.Split(answer, "\n")
	for i, line := range lines {
		cells := strings.Split(line, " | ")
		for _, n := range at {
			if n < len(cells) {
				cells[n] = ""
			}
		}
		lines[i] = strings.Join(cells, " | ")
	}
	return lines
}

// one reports an event of a probability of 1 in n.
func (d *drawing) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d *drawing, all ...T) T { return all[d.IntN(len(all))] }

func (d *drawing) name(prefix string) string {
	d.names++
	return fmt.Sprintf("%s%d", prefix, d.names)
}

var nativeNames = []string{
	"ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "float", "inet", "int", "smallint", "text", "time", "timestamp",
	"timeuuid", "tinyint", "uuid", "varint", "int", "int", "text", "text",
}

func (d *drawing) native() *row.Type { return row.NativeNamed(pick(d, nativeNames...)) }

// frozenType draws a type that may be part of another or of a key.
func (d *drawing) frozenType(depth int) *row.Type {
	if depth == 0 || d.IntN(3) > 0 {
		return d.native()
	}
	switch d.IntN(5) {
	case 0:
		return row.ListOf(d.frozenType(depth - 1)).Freeze()
	case 1:
		return row.SetOf(d.frozenType(depth - 1)).Freeze()
	case 2:
		return row.MapOf(d.frozenType(depth-1), d.frozenType(depth-1)).Freeze()
	case 3:
		if len(d.types) > 0 {
			return pick(d, d.types...).Freeze()
		}
	}
	parts := []*row.Type{d.frozenType(depth - 1)}
	for range d.IntN(3) {
		parts = append(parts, d.frozenType(depth-1))
	}
	return row.TupleOf(parts...)
}

// columnType draws the type of a column outside of the key.
func (d *drawing) columnType() *row.Type {
	switch d.IntN(12) {
	case 0:
		return row.ListOf(d.frozenType(1))
	case 1:
		return row.SetOf(d.frozenType(1))
	case 2:
		return row.MapOf(d.frozenType(1), d.frozenType(1))
	case 3:
		if len(d.types) > 0 {
			return pick(d, d.types...)
		}
	case 4:
		return row.Native(row.KindDuration)
	case 5, 6:
		return d.frozenType(2)
	}
	return d.native()
}

// typeText prints a type as definitions have it.
func typeText(t *row.Type) string {
	text := ""
	parts := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = typeText(p)
	}
	switch t.Kind {
	case row.KindList:
		text = "list<" + parts[0] + ">"
	case row.KindSet:
		text = "set<" + parts[0] + ">"
	case row.KindMap:
		text = "map<" + parts[0] + ", " + parts[1] + ">"
	case row.KindTuple:
		return "tuple<" + strings.Join(parts, ", ") + ">"
	case row.KindUDT:
		text = t.Name
	default:
		return t.String()
	}
	if t.Frozen {
		return "frozen<" + text + ">"
	}
	return text
}

// createType draws a user-defined type.
func (d *drawing) createType() string {
	name := d.name("ty")
	var fields, texts []string
	var types []*row.Type
	for i := range 1 + d.IntN(3) {
		f, t := fmt.Sprintf("f%d", i), d.frozenType(1)
		fields, types, texts = append(fields, f), append(types, t), append(texts, f+" "+typeText(t))
	}
	d.types = append(d.types, row.UDTOf(d.keyspace, name, fields, types))
	return fmt.Sprintf("CREATE TYPE %s (%s)", name, strings.Join(texts, ", "))
}

// createTable draws a table.
func (d *drawing) createTable() string {
	t := &drawnTable{name: d.name("t"), counter: d.one(6)}
	add := func(prefix string, n int, kind string, draw func() *row.Type) {
		for i := range n {
			t.columns = append(t.columns, drawnColumn{name: fmt.Sprintf("%s%d", prefix, i), t: draw(), kind: kind, desc: kind == "clustering" && d.one(3)})
		}
	}
	key := func() *row.Type {
		if d.one(4) {
			return d.frozenType(1)
		}
		return row.NativeNamed(pick(d, "int", "int", "text", "bigint", "blob", "timestamp", "date", "uuid", "timeuuid", "boolean", "decimal", "double", "varint", "inet", "smallint", "ascii"))
	}
	value := d.columnType
	if t.counter {
		value = func() *row.Type { return row.Native(row.KindCounter) }
	}
	add("k", pick(d, 1, 1, 1, 2, 3), "partition", key)
	add("c", pick(d, 0, 1, 1, 2, 2, 3), "clustering", key)
	if len(t.of("clustering")) > 0 {
		add("s", pick(d, 0, 0, 1, 2), "static", value)
	}
	add("v", pick(d, 0, 1, 2, 3, 4, 5), "regular", value)
	if t.counter && len(t.of("regular")) == 0 {
		add("v", 1, "regular", value)
	}
	d.tables = append(d.tables, t)
	var columns, order []string
	for _, c := range t.columns {
		text := c.name + " " + typeText(c.t)
		if c.kind == "static" {
			text += " static"
		}
		columns = append(columns, text)
		if c.kind == "clustering" {
			order = append(order, c.name+map[bool]string{true: " DESC", false: " ASC"}[c.desc])
		}
	}
	d.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	text := fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY ((%s)", t.name, strings.Join(columns, ", "), namesOf(t, "partition"))
	with := " WITH "
	if len(order) > 0 {
		text += ", " + namesOf(t, "clustering")
	}
	text += "))"
	if strings.Contains(strings.Join(order, ""), "DESC") {
		text += with + "CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
		with = " AND "
	}
	if d.one(8) && !t.counter {
		text += with + fmt.Sprintf("default_time_to_live = %d", pick(d, 100, 1000000))
	}
	return text
}

// value draws a value of a small domain.
func (d *drawing) value(t *row.Type) []byte {
	switch t.Kind {
	case row.KindASCII:
		return []byte(pick(d, "a", "b", "", "B", "it's"))
	case row.KindText:
		return []byte(pick(d, "a", "b", "", "é", "漢😀", "x y", "it's", "\"q\""))
	case row.KindBlob:
		return pick(d, []byte{}, []byte{0}, []byte{1, 2}, []byte{0xFF}, []byte{0, 0})
	case row.KindBoolean:
		return row.Boolean(d.one(2))
	case row.KindTinyInt:
		return []byte{byte(pick(d, 0, 1, -1, 127, -128, 5))}
	case row.KindSmallInt:
		n := pick(d, 0, 1, -1, 32767, -32768, 5)
		return []byte{byte(n >> 8), byte(n)}
	case row.KindInt:
		return row.Int(pick[int32](d, 0, 1, 2, 3, -1, 2, 1, math.MaxInt32, math.MinInt32))
	case row.KindBigInt, row.KindCounter:
		return row.BigInt(pick[int64](d, 0, 1, 2, -1, math.MaxInt64, math.MinInt64))
	case row.KindVarInt:
		return row.VarInt(pick(d, big.NewInt(0), big.NewInt(1), big.NewInt(-1), big.NewInt(128), new(big.Int).Lsh(big.NewInt(-3), 70)))
	case row.KindDecimal:
		return row.Decimal(pick(d, big.NewInt(0), big.NewInt(10), big.NewInt(-15), big.NewInt(123456789)), pick[int32](d, 0, 1, 2, -3))
	case row.KindDouble:
		return row.Double(pick(d, 0, 1, -1.5, 1e300, math.NaN(), math.Inf(-1), 0.1, math.Copysign(0, -1)))
	case row.KindFloat:
		return row.Float(pick[float32](d, 0, 1, -1.5, 1e30, float32(math.NaN()), 0.1))
	case row.KindDate:
		return row.Date(pick[int64](d, 0, 18262, -1, 1000))
	case row.KindTime:
		return row.BigInt(pick[int64](d, 0, 1, 3_600_000_000_000, 86_399_999_999_999))
	case row.KindTimestamp:
		return row.BigInt(pick[int64](d, 0, 1_577_836_800_123, -1, 1_600_000_000_000))
	case row.KindUUID:
		return pick(d, uuidOf(1, 4), uuidOf(2, 4), uuidOf(1, 1), uuidOf(0, 0))
	case row.KindTimeUUID:
		return pick(d, uuidOf(1, 1), uuidOf(2, 1), uuidOf(0x81, 1))
	case row.KindInet:
		return pick(d, []byte{127, 0, 0, 1}, []byte{10, 0, 0, 200}, []byte{15: 1})
	case row.KindDuration:
		return pick(d, row.Duration(0, 0, 0), row.Duration(1, 2, 3), row.Duration(-1, 0, -1_000_000_000), row.Duration(0, 1, 0))
	case row.KindTuple, row.KindUDT:
		parts := make([][]byte, len(t.Parts))
		for i, p := range t.Parts {
			if !d.one(8) {
				parts[i] = d.value(p)
			}
		}
		return t.Pack(parts)
	}
	var parts [][]byte
	for range d.IntN(4) * len(t.Parts) {
		parts = append(parts, d.value(t.Parts[len(parts)%len(t.Parts)]))
	}
	return t.Normalize(t.Pack(parts))
}

// uuidOf returns a uuid of a version.
func uuidOf(seed, version byte) []byte {
	return []byte{seed, 2, 3, 4, 5, 6, version<<4 | 7, 8, 0x80 | seed>>2, seed, 11, 12, 13, 14, 15, 16}
}

// build makes the text of a statement and its values, from left to right.
type build struct {
	*drawing
	bound  bool // with markers
	wild   int  // 1 in wild terms is of another form than a plain value; 0: none
	values []frame.Value
}

// mark returns a marker with a value.
func (b *build) mark(v []byte) string {
	b.values = append(b.values, frame.Value{Bytes: v})
	return "?"
}

// term returns a term for a receiver of a type.
func (b *build) term(t *row.Type) string {
	if b.wild > 0 && b.one(b.wild) {
		return b.wildTerm(t)
	}
	v := b.value(t)
	if b.bound && b.IntN(4) > 0 {
		return b.mark(v)
	}
	return t.Literal(v)
}

// wildTerm returns a term that is unusual or wrong.
func (b *build) wildTerm(t *row.Type) string {
	switch b.IntN(14) {
	case 0, 1:
		if b.bound {
			b.values = append(b.values, frame.Value{})
			return "?"
		}
		return "null"
	case 2:
		if b.bound {
			b.values = append(b.values, frame.Value{Unset: true})
			return "?"
		}
	case 3:
		other := b.frozenType(1)
		return other.Literal(b.value(other))
	case 4:
		if b.bound {
			other := b.native()
			return b.mark(b.value(other))
		}
	case 5, 6:
		return "(" + typeText(t) + ") " + t.Literal(b.value(t))
	case 7:
		if t.Native() {
			name := t.String()
			return "blobAs" + strings.ToUpper(name[:1]) + name[1:] + "(" + name + "AsBlob(" + t.Literal(b.value(t)) + "))"
		}
	case 8:
		if t.Kind != row.KindTimeUUID && t.Kind != row.KindUUID && t.Kind != row.KindTimestamp && t.Kind != row.KindBlob && t.Kind != row.KindBigInt && t.Kind != row.KindVarInt && b.one(2) {
			return pick(b.drawing, "now()", "uuid()", "toTimestamp(now())") // They differ from node to node.
		}
		return pick(b.drawing, "nosuch(1)", "toDate('2020-01-01')", "minTimeuuid('2020-01-01')", "token(1)")
	case 9, 10:
		if n := numericOf(t); n {
			return t.Literal(b.value(t)) + " " + pick(b.drawing, "+", "-", "*", "/", "%") + " " + pick(b.drawing, "1", "2", "0", "1.5", t.Literal(b.value(t)))
		}
	case 11:
		return "fromJson('" + strings.ReplaceAll(string(t.AppendJSON(nil, b.value(t))), "'", "''") + "')"
	case 12:
		return pick(b.drawing, "0", "'x'", "true", "0x01", "[]", "{}", "(1, 2)", "{'a': 1}", "{f0: 1}", "-1", "1.5", "NaN", "2147483648", "[null]", "''", "1h", "'2020-02-30'")
	case 13:
		return pick(b.drawing, "(int) 1", "(text) 'a'", "CAST(1 AS text)", "-(1)", "1 + 1", "'a' + 'b'")
	}
	return t.Literal(b.value(t))
}

func numericOf(t *row.Type) bool {
	switch t.Kind {
	case row.KindTinyInt, row.KindSmallInt, row.KindInt, row.KindBigInt, row.KindVarInt, row.KindDecimal, row.KindFloat, row.KindDouble, row.KindCounter:
		return true
	}
	return false
}

// request makes a request with the text.
func (b *build) request(text string) request {
	r := request{text: text, values: b.values, prepare: b.bound && b.one(2), now: b.now, timestamp: b.stamp}
	return r
}

// newBuild begins a statement.
func (d *drawing) newBuild() *build {
	d.stamp += int64(d.IntN(3))
	if d.one(10) {
		d.now += int32(d.IntN(60))
	}
	return &build{drawing: d, bound: d.one(3), wild: pick(d, 0, 0, 30, 8)}
}
