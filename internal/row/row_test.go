package row

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomRow draws a row of a few columns and timestamps, so that rows conflict.
func randomRow(r *rand.Rand) Row {
	row := Row{}
	timestamp := func() int64 { return int64(r.IntN(6)) - 2 }
	second := func() int64 { return 100 + int64(r.IntN(4)) }
	if r.IntN(3) == 0 {
		row.Marker = Liveness{Present: true, Timestamp: timestamp()}
		if r.IntN(2) == 0 {
			row.Marker.TTL, row.Marker.Expiry = 1+uint32(r.IntN(2)), second()
		}
	}
	if r.IntN(4) == 0 {
		row.Deletion = Deletion{Present: true, Timestamp: timestamp(), Local: second()}
	}
	cell := func(column uint32, path []byte) Cell {
		c := Cell{Column: column, Path: path, Timestamp: timestamp(), Kind: CellKind(r.IntN(3))}
		if c.Kind != CellTombstone {
			c.Value = randomBytes(r, r.IntN(2))
		}
		if c.Kind != CellLive {
			c.Local = second()
		}
		if c.Kind == CellExpiring {
			c.TTL = 1 + uint32(r.IntN(2))
		}
		return c
	}
	for column := range uint32(4) {
		if r.IntN(2) == 0 {
			continue
		}
		if column < 2 {
			row.Cells = append(row.Cells, cell(column, nil))
			continue
		}
		if r.IntN(2) == 0 {
			row.Cells = append(row.Cells, Cell{Column: column, Kind: CellDeletion, Timestamp: timestamp(), Local: second()})
		}
		for path := range byte(3) {
			if r.IntN(2) == 0 {
				row.Cells = append(row.Cells, cell(column, []byte{path}))
			}
		}
	}
	// A row has nothing that its own deletions cover.
	normal := Row{Deletion: row.Deletion, Marker: row.Marker}
	if row.Marker.Present && row.Deletion.Covers(row.Marker.Timestamp) {
		normal.Marker = Liveness{}
	}
	m := merger{row: &normal}
	for i := range row.Cells {
		m.add(&row.Cells[i])
	}
	return normal
}

func encoded(r Row) string { return string(r.Append(nil)) }

// TestMergeLaws checks that Merge is commutative, associative and idempotent, and
// that merged rows keep their invariants, with rows drawn at random.
func TestMergeLaws(t *testing.T) {
	t.Parallel()
	r := newRand(3)
	for i := range 6000 {
		a, b, c := randomRow(r), randomRow(r), randomRow(r)
		ab, ba := Merge(&a, &b), Merge(&b, &a)
		if encoded(ab) != encoded(ba) {
			t.Fatalf("case %d: not commutative:\n%+v\n%+v\n%+v\n%+v", i, a, b, ab, ba)
		}
		bc := Merge(&b, &c)
		if left, right := Merge(&ab, &c), Merge(&a, &bc); encoded(left) != encoded(right) {
			t.Fatalf("case %d: not associative:\n%+v\n%+v\n%+v\n%+v\n%+v", i, a, b, c, left, right)
		}
		if again := Merge(&ab, &b); encoded(again) != encoded(ab) {
			t.Fatalf("case %d: not idempotent:\n%+v\n%+v\n%+v", i, ab, b, again)
		}
		if self := Merge(&a, &a); encoded(self) != encoded(a) {
			t.Fatalf("case %d: not idempotent:\n%+v\n%+v", i, a, self)
		}
		if _, err := DecodeRow(ab.Append(nil)); err != nil {
			t.Fatalf("case %d: %v: %+v", i, err, ab)
		}
		checkModel(t, []Row{a, b, c}, Merge(&ab, &c))
	}
}

// checkModel compares a merged row with the rules, applied to each marker and cell
// by themselves.
func checkModel(t *testing.T, rows []Row, merged Row) {
	t.Helper()
	var deletion Deletion
	for _, row := range rows {
		if d := row.Deletion; d.Present && (!deletion.Present || d.Timestamp > deletion.Timestamp || d.Timestamp == deletion.Timestamp && d.Local > deletion.Local) {
			deletion = d
		}
	}
	if merged.Deletion != deletion {
		t.Fatalf("deletion %+v, want %+v", merged.Deletion, deletion)
	}
	columns := map[uint32]Deletion{}
	for _, row := range rows {
		for _, c := range row.Cells {
			if d := (Deletion{true, c.Timestamp, c.Local}); c.Kind == CellDeletion {
				columns[c.Column] = columns[c.Column].Or(d)
			}
		}
	}
	best := map[string]Cell{}
	name := func(c Cell) string { return fmt.Sprint(c.Column, c.Kind == CellDeletion, c.Path) }
	for _, row := range rows {
		for _, c := range row.Cells {
			if deletion.Covers(c.Timestamp) || c.Path != nil && columns[c.Column].Covers(c.Timestamp) {
				continue
			}
			old, found := best[name(c)]
			better := !found || c.Timestamp > old.Timestamp
			if found && c.Timestamp == old.Timestamp {
				tombstone, oldTombstone := c.Kind == CellTombstone || c.Kind == CellDeletion, old.Kind == CellTombstone || old.Kind == CellDeletion
				switch {
				case tombstone != oldTombstone:
					better = tombstone
				case tombstone:
					better = c.Local > old.Local
				case (c.Kind == CellExpiring) != (old.Kind == CellExpiring):
					better = c.Kind == CellExpiring
				case c.Kind == CellExpiring && c.Local != old.Local:
					better = c.Local > old.Local
				case c.Kind == CellExpiring && c.TTL != old.TTL:
					better = c.TTL < old.TTL
				default:
					better = bytes.Compare(c.Value, old.Value) > 0
				}
			}
			if better {
				best[name(c)] = c
			}
		}
	}
	if len(best) != len(merged.Cells) {
		t.Fatalf("%d cells, want %d: %+v", len(merged.Cells), len(best), merged)
	}
	for _, c := range merged.Cells {
		if diff := cmp.Diff(best[name(c)], c); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestMergeRules checks each rule with one case.
func TestMergeRules(t *testing.T) {
	t.Parallel()
	live := func(ts int64, value string) Row {
		return Row{Cells: []Cell{{Column: 1, Timestamp: ts, Value: []byte(value)}}}
	}
	tombstone := Row{Cells: []Cell{{Column: 1, Kind: CellTombstone, Timestamp: 5, Local: 100}}}
	expiring := Row{Cells: []Cell{{Column: 1, Kind: CellExpiring, Timestamp: 5, TTL: 10, Local: 110, Value: []byte("e")}}}
	marker := Row{Marker: Liveness{Present: true, Timestamp: 5}}
	deleted := Row{Deletion: Deletion{Present: true, Timestamp: 5, Local: 100}}
	for _, c := range []struct {
		name string
		a, b Row
		want Row
	}{
		{"the later one wins", live(5, "z"), live(6, "a"), live(6, "a")},
		{"the greater value wins", live(5, "a"), live(5, "b"), live(5, "b")},
		{"values compare as unsigned bytes", live(5, "\x7f"), live(5, "\xff"), live(5, "\xff")},
		{"a tombstone beats a live cell", live(5, "z"), tombstone, tombstone},
		{"a tombstone beats an expiring cell", expiring, tombstone, tombstone},
		{"an expiring cell beats a live one", expiring, live(5, "z"), expiring},
		{"a row deletion covers its own timestamp", live(5, "z"), deleted, deleted},
		{"a row deletion covers the marker", marker, deleted, deleted},
		{"a later cell survives", live(6, "z"), deleted, Row{Deletion: deleted.Deletion, Cells: live(6, "z").Cells}},
	} {
		if got := Merge(&c.a, &c.b); encoded(got) != encoded(c.want) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got := Merge(&c.b, &c.a); encoded(got) != encoded(c.want) {
			t.Errorf("%s, exchanged: %+v", c.name, got)
		}
	}
	a, b := live(5, "a"), live(6, "b")
	a.Key, b.Key = []KeyValue{{0, []byte("1.0")}}, []KeyValue{{0, []byte("1.00")}}
	if got := Merge(&a, &b); string(got.Key[0].Value) != "1.0" {
		t.Errorf("the key of the row became %s", got.Key[0].Value)
	}
	if got := Merge(&Row{}, &b); string(got.Key[0].Value) != "1.00" {
		t.Errorf("the key of the row became %s", got.Key[0].Value)
	}
}

// TestRowRoundTrip checks that rows decode to what was encoded, and that damaged
// ones do not panic.
func TestRowRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRand(4)
	for range 6000 {
		row := randomRow(r)
		if r.IntN(3) == 0 {
			row.Key = []KeyValue{{Column: r.IntN(300), Value: randomBytes(r, 3)}}
		}
		bytes := row.Append(nil)
		back, err := DecodeRow(bytes)
		if err != nil {
			t.Fatalf("%x: %v: %+v", bytes, err, row)
		}
		if diff := cmp.Diff(row, back, cmp.Transformer("nil", func(b []byte) string { return string(b) })); diff != "" {
			t.Fatal(diff)
		}
		if again := back.Append(nil); string(again) != string(bytes) {
			t.Fatalf("%x encodes again as %x", bytes, again)
		}
		for i := range bytes {
			if _, err := DecodeRow(bytes[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%x cut at %d: %v", bytes, i, err)
			}
		}
		if _, err := DecodeRow(append(bytes, 0)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%x with a byte more: %v", bytes, err)
		}
	}
}

// TestRowSize checks that a timestamp and a time to live that all cells share take
// no byte per cell.
func TestRowSize(t *testing.T) {
	t.Parallel()
	row := func(n int, last int64) Row {
		row := Row{Marker: Liveness{Present: true, Timestamp: 1700000000000000, TTL: 60, Expiry: 1700000060}}
		for i := range n {
			row.Cells = append(row.Cells, Cell{Column: uint32(i), Kind: CellExpiring, Timestamp: row.Marker.Timestamp, TTL: 60, Local: 1700000060, Value: []byte{1}})
		}
		row.Cells[n-1].Timestamp += last
		return row
	}
	// A column, a head, a length and a byte.
	if one, five := len(encoded(row(1, 0))), len(encoded(row(5, 0))); five-one != 4*4 {
		t.Errorf("a row of 1 cell has %d bytes, of 5 cells %d", one, five)
	}
	if same, other := len(encoded(row(5, 0))), len(encoded(row(5, 1))); other-same != 1 {
		t.Errorf("another timestamp takes %d bytes", other-same)
	}
}

// TestDecodeRowRefuses checks that a row which breaks an invariant is corrupt.
func TestDecodeRowRefuses(t *testing.T) {
	t.Parallel()
	cell := func(column uint32, ts int64, path ...byte) Cell {
		return Cell{Column: column, Timestamp: ts, Path: path, Value: []byte{}}
	}
	for name, row := range map[string]Row{
		"cells out of order": {Cells: []Cell{cell(1, 5, 2), cell(1, 5, 1)}},
		"a cell twice":       {Cells: []Cell{cell(1, 5), cell(1, 5)}},
		"a covered marker":   {Marker: Liveness{Present: true, Timestamp: 5}, Deletion: Deletion{Present: true, Timestamp: 5}},
		"a covered cell":     {Deletion: Deletion{Present: true, Timestamp: 5}, Cells: []Cell{cell(1, 5)}},
		"a covered element":  {Cells: []Cell{{Column: 1, Kind: CellDeletion, Timestamp: 5}, cell(1, 5, 1)}},
	} {
		if _, err := DecodeRow(row.Append(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bytes := range []string{
		"", "\x01", "\x02\x00\x00", "\x01\x80\x00", "\x01\x10\x00", "\x01\x00\x05",
		"\x01\x20\x00\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x7f\x00\x00",
	} {
		if _, err := DecodeRow([]byte(bytes)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bytes, err)
		}
	}
}

// TestDueAndPurge checks what is alive, when something of a row can be removed, and what
// a purge leaves.
func TestDueAndPurge(t *testing.T) {
	t.Parallel()
	row := Row{
		Marker: Liveness{Present: true, Timestamp: 1, TTL: 10, Expiry: 110},
		Cells: []Cell{
			{Column: 1, Kind: CellExpiring, Timestamp: 1, TTL: 20, Local: 120, Value: []byte("x")},
			{Column: 2, Kind: CellTombstone, Timestamp: 1, Local: 90},
		},
	}
	due := func(want int64) {
		t.Helper()
		// Nothing can be removed a second before, and something at the time.
		const grace = 50
		at, ok := row.Due(grace)
		if !ok || at != want {
			t.Fatalf("due at %d, %v, want %d", at, ok, want)
		}
		if _, changed := row.Purge(at-1, at-1-grace); changed {
			t.Errorf("%+v changes before %d", row, at)
		}
		if _, changed := row.Purge(at, at-grace); !changed {
			t.Errorf("%+v does not change at %d", row, at)
		}
	}
	due(120)
	for now, want := range map[int64]bool{109: true, 119: true, 120: false, 200: false} {
		if got := row.Alive(now); got != want {
			t.Errorf("at %d alive is %v", now, got)
		}
	}
	for now, want := range map[int64]bool{109: true, 110: false} {
		if got := row.Marker.Live(now); got != want {
			t.Errorf("at %d the marker is live: %v", now, got)
		}
	}
	if _, changed := row.Purge(100, 90); changed {
		t.Error("a tombstone of second 90 was purged before 90")
	}
	purged, changed := row.Purge(115, 111)
	if !changed || purged.Marker.Present || len(purged.Cells) != 1 || purged.Cells[0].Kind != CellExpiring {
		t.Errorf("purged at 115: %+v", purged)
	}
	purged, changed = row.Purge(130, 100)
	if !changed || !purged.Marker.Present || len(purged.Cells) != 1 || purged.Cells[0].Kind != CellTombstone || purged.Cells[0].Local != 100 || purged.Cells[0].Value != nil {
		t.Errorf("purged at 130: %+v", purged)
	}
	purged, _ = row.Purge(1000, 1000)
	if !purged.Empty() {
		t.Errorf("purged at 1000: %+v", purged)
	}
	row.Cells = []Cell{{Column: 2, Timestamp: 1}}
	due(161) // the marker
	row.Marker = Liveness{}
	if _, ok := row.Due(50); ok {
		t.Error("a row with a live cell is due")
	}
	if _, expires := row.Expiry(); expires {
		t.Error("a row with a live cell expires")
	}
	row.Cells[0] = Cell{Column: 2, Kind: CellTombstone, Timestamp: 1, Local: 130}
	due(181)
	if at, expires := row.Expiry(); !expires || at != 130 {
		t.Errorf("it expires at %d, %v", at, expires)
	}
	row.Deletion = Deletion{Present: true, Local: 120}
	due(171)
	if _, ok := (&Row{}).Due(50); ok {
		t.Error("an empty row is due")
	}
	row.Marker = Liveness{Present: true, Timestamp: 1}
	row.Deletion = Deletion{}
	shadowed := row.Shadow(Deletion{Present: true, Timestamp: 1})
	if !shadowed.Empty() {
		t.Errorf("shadowed: %+v", shadowed)
	}
}

// TestRead checks the values that a reader sees, assembled collections included,
// from encoded bytes and from a row in memory.
func TestRead(t *testing.T) {
	t.Parallel()
	text, list, set := Native(KindText), mustType(t, "list<int>"), mustType(t, "set<decimal>")
	entries, udt := mustType(t, "map<text, int>"), testUDT
	element := func(key []byte) Cell {
		path, original := set.ElementPath(key)
		return Cell{Column: 4, Timestamp: 1, Path: path, Original: original, Value: []byte{}}
	}
	entry := func(key string, n int32) Cell {
		path, original := entries.ElementPath([]byte(key))
		return Cell{Column: 5, Timestamp: 1, Path: path, Original: original, Value: Int(n)}
	}
	tens := Decimal(bigInt([]byte{10}), 1) // 1.0
	row := Row{
		Marker: Liveness{Present: true, Timestamp: 1},
		Cells: []Cell{
			{Column: 1, Timestamp: 1, Value: []byte("v")},
			{Column: 2, Kind: CellExpiring, Timestamp: 2, TTL: 10, Local: 110, Value: []byte{}},
			{Column: 3, Kind: CellDeletion, Timestamp: 0, Local: 90},
			{Column: 3, Timestamp: 1, Path: []byte{1}, Value: Int(7)},
			{Column: 3, Kind: CellTombstone, Timestamp: 1, Path: []byte{2}, Local: 90},
			{Column: 3, Timestamp: 5, Path: []byte{3}, Value: Int(8)},
			element(tens), element(Decimal(bigInt([]byte{20}), 0)),
			entry("a", 1), entry("b", 2),
			{Column: 6, Timestamp: 1, Path: FieldPath(1), Value: []byte("t")},
			{Column: 9, Timestamp: 1, Value: []byte("not wanted")},
		},
	}
	wants := []Want{{1, text}, {2, text}, {3, list}, {4, set}, {5, entries}, {6, udt}, {7, text}}
	for _, c := range []struct {
		at    Snapshot
		want  string
		alive bool
	}{
		{Snapshot{Now: 109}, "'v' 1 0 | '' 2 110 | [7, 8] | {1.0, 20} | {'a': 1, 'b': 2} | {a: null, b: 't'} | null", true},
		{Snapshot{Now: 110}, "'v' 1 0 | null | [7, 8] | {1.0, 20} | {'a': 1, 'b': 2} | {a: null, b: 't'} | null", true},
		{Snapshot{Now: 109, Covered: Deletion{Present: true, Timestamp: 1}}, "null | '' 2 110 | [8] | null | null | null | null", true},
		{Snapshot{Now: 109, Covered: Deletion{Present: true, Timestamp: 5}}, "null | null | null | null | null | null | null", false},
	} {
		values := make([]Value, len(wants))
		var r Reader
		alive, err := r.Read(row.Append(nil), wants, c.at, values)
		if err != nil || alive != c.alive {
			t.Errorf("%+v: alive %v, error %v", c.at, alive, err)
		}
		show := func(values []Value) (shown string) {
			for i, v := range values {
				if i > 0 {
					shown += " | "
				}
				shown += wants[i].Type.Literal(v.Bytes)
				if v.Timestamp != 0 {
					shown += fmt.Sprintf(" %d %d", v.Timestamp, v.Expiry)
				}
			}
			return shown
		}
		if got := show(values); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.at, got, c.want)
		}
		for i, want := range wants {
			if values[i], err = row.Value(want, c.at); err != nil {
				t.Error(err)
			}
		}
		if got := show(values); got != c.want {
			t.Errorf("%+v in memory:\n got %s\nwant %s", c.at, got, c.want)
		}
	}
}

// TestReadAllocates checks that a point read of columns that are not multi-cell
// does not allocate.
func TestReadAllocates(t *testing.T) {
	row := benchRow(20)
	encoded := row.Append(nil)
	wants := []Want{{3, Native(KindText)}, {17, Native(KindText)}}
	values := make([]Value, len(wants))
	var r Reader
	if n := testing.AllocsPerRun(100, func() {
		if alive, err := r.Read(encoded, wants, Snapshot{}, values); !alive || err != nil || len(values[1].Bytes) != 50 {
			t.Fatal(alive, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func benchRow(columns int) Row {
	row := Row{Marker: Liveness{Present: true, Timestamp: 1700000000000000}}
	for i := range columns {
		row.Cells = append(row.Cells, Cell{Column: uint32(i), Timestamp: row.Marker.Timestamp, Value: bytes.Repeat([]byte{'v'}, 50)})
	}
	return row
}

func BenchmarkDecode(b *testing.B) {
	row := benchRow(20)
	encoded := row.Append(nil)
	b.Run("read=2of20", func(b *testing.B) {
		b.ReportAllocs()
		wants := []Want{{3, Native(KindText)}, {17, Native(KindText)}}
		values := make([]Value, len(wants))
		var r Reader
		for b.Loop() {
			if _, err := r.Read(encoded, wants, Snapshot{}, values); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("row=20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRow(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode=20", func(b *testing.B) {
		b.ReportAllocs()
		dst := make([]byte, 0, 4096)
		for b.Loop() {
			dst = row.Append(dst[:0])
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	full, one := benchRow(20), benchRow(20)
	one.Cells = slices.Clone(one.Cells[5:6])
	one.Cells[0].Timestamp++
	for _, c := range []struct {
		name string
		b    Row
	}{{"cells=20+1", one}, {"cells=20+20", benchRow(20)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Merge(&full, &c.b)
			}
		})
	}
}

// FuzzRow checks that any bytes decode without a panic, and that what decodes
// encodes again to an equal row.
func FuzzRow(f *testing.F) {
	for seed := range uint64(20) {
		row := randomRow(newRand(seed))
		f.Add(row.Append(nil))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		values := make([]Value, 1)
		var reader Reader
		_, _ = reader.Read(encoded, []Want{{2, mustType(t, "map<int, text>")}}, Snapshot{}, values)
		_, _ = reader.Read(encoded, []Want{{2, testUDT}}, Snapshot{}, values)
		row, err := DecodeRow(encoded)
		if err != nil {
			return
		}
		again, err := DecodeRow(row.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if merged := Merge(&row, &again); string(merged.Append(nil)) != string(row.Append(nil)) {
			t.Fatalf("%+v merged with itself is %+v", row, merged)
		}
	})
}

// TestMeta compares metadata with a model: the deletion of each of some keys.
func TestMeta(t *testing.T) {
	t.Parallel()
	r := newRand(6)
	key := func(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
	random := func() (Meta, [20]Deletion) {
		m, model := Meta{}, [20]Deletion{}
		for range r.IntN(5) {
			d := Deletion{Present: true, Timestamp: int64(r.IntN(4)), Local: int64(r.IntN(2))}
			one := Meta{}
			from, to := r.IntN(20), r.IntN(21)
			if r.IntN(8) == 0 {
				one.Deletion, from, to = d, 0, 20
			} else if from < to {
				one.Ranges = []RangeDeletion{{Start: key(from), End: key(to), Timestamp: d.Timestamp, Local: d.Local}}
			}
			for i := from; i < to; i++ {
				// A range with the timestamp of the partition's deletion is not kept.
				if !model[i].Present || d.Timestamp > model[i].Timestamp || d.Timestamp == model[i].Timestamp && d.Local > model[i].Local {
					model[i] = d
				}
			}
			m = MergeMeta(&m, &one)
		}
		return m, model
	}
	check := func(m Meta, model [20]Deletion) {
		t.Helper()
		for i, want := range model {
			if got := m.Covering(key(i)); got.Timestamp != want.Timestamp || got.Present != want.Present {
				t.Fatalf("key %d is covered by %+v, want %+v: %+v", i, got, want, m)
			}
		}
		encoded := m.Append(nil)
		back, err := DecodeMeta(encoded)
		if err != nil || string(back.Append(nil)) != string(encoded) {
			t.Fatalf("%+v decoded as %+v: %v", m, back, err)
		}
		for i := range encoded {
			if _, err := DecodeMeta(encoded[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%x cut at %d: %v", encoded, i, err)
			}
		}
	}
	for range 3000 {
		a, modelA := random()
		b, modelB := random()
		c, _ := random()
		check(a, modelA)
		ab, ba := MergeMeta(&a, &b), MergeMeta(&b, &a)
		for i := range modelA {
			modelA[i] = modelA[i].Or(modelB[i])
		}
		check(ab, modelA)
		if string(ab.Append(nil)) != string(ba.Append(nil)) {
			t.Fatalf("not commutative: %+v and %+v: %+v, %+v", a, b, ab, ba)
		}
		if again := MergeMeta(&ab, &b); string(ab.Append(nil)) != string(again.Append(nil)) {
			t.Fatalf("not idempotent: %+v and %+v: %+v", ab, b, again)
		}
		bc := MergeMeta(&b, &c)
		if left, right := MergeMeta(&ab, &c), MergeMeta(&a, &bc); string(left.Append(nil)) != string(right.Append(nil)) {
			t.Fatalf("not associative: %+v, %+v", left, right)
		}
		purged, changed := ab.Purge(1)
		if changed == (string(purged.Append(nil)) == string(ab.Append(nil))) {
			t.Fatalf("purged %+v: %+v, changed %v", ab, purged, changed)
		}
	}
	var none Meta
	if !none.Empty() || none.Covering(key(1)).Present {
		t.Error("metadata without deletions covers a row")
	}
}

// FuzzMeta checks that any bytes decode without a panic.
func FuzzMeta(f *testing.F) {
	m := Meta{Deletion: Deletion{Present: true, Timestamp: 1}, Ranges: []RangeDeletion{{Start: []byte{1}, End: []byte{2}, Timestamp: 3}}}
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		m, err := DecodeMeta(encoded)
		if err != nil {
			return
		}
		m.Covering(encoded)
		if again := MergeMeta(&m, &m); string(again.Append(nil)) != string(m.Append(nil)) {
			t.Fatalf("%+v merged with itself is %+v", m, again)
		}
	})
}
