package row

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// randomIndex draws an index on a column of a table with two columns in the partition key,
// two clustering columns, and a column with the id 3, and returns the type of the column.
func randomIndex(draw func(int) int, typ func() *Type) (*Index, *Type) {
	t := typ()
	x := &Index{Of: IndexValue, Types: []KeyColumn{{Type: t.Structure()}}}
	switch draw(6) {
	case 0:
		x.Part, x.Position, x.Columns = IndexPartition, draw(2), 2
		return x, t
	case 1:
		x.Part, x.Position, x.Types = IndexClustering, draw(2), nil
		for range x.Position {
			x.Types = append(x.Types, KeyColumn{Type: typ().Structure(), Descending: draw(2) == 0})
		}
		x.Types = append(x.Types, KeyColumn{Type: t.Structure(), Descending: draw(2) == 0})
		return x, t
	case 2:
		x.Part, x.Column = IndexStatic, 3
		return x, t
	}
	x.Part, x.Column = IndexRegular, 3
	switch draw(4) {
	case 0:
		t, x.Of = ListOf(t), IndexValues
	case 1:
		t, x.Of = SetOf(t), IndexValues
	case 2:
		t, x.Of = MapOf(typ(), t), []IndexOf{IndexKeys, IndexValues, IndexEntries}[draw(3)]
	default:
		return x, t
	}
	x.Types[0].Type = t.Structure()
	keys := x.Of == IndexKeys || x.Of == IndexEntries || x.Of == IndexValues && t.Kind == KindSet
	x.Loose = keys && t.Key().References(KindUDT)
	return x, t
}

// TestIndexFindsValues draws indexes and values, and looks for each value of an item by
// the beginning of its terms. Values that compare as equal have one.
func TestIndexFindsValues(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := newRand(seed)
		x, typ := randomIndex(r.IntN, func() *Type { return randomType(r, 2) })
		again, err := ParseIndex(x.Text())
		if err != nil || again.Text() != x.Text() || again.ID() != x.ID() {
			t.Fatalf("seed %d: %s is read as %v: %v", seed, x.Text(), again, err)
		}
		key, item, change := [][]byte{[]byte("a"), []byte("b")}, RowItems, Mutation{Marker: true, Timestamp: 1, Sequence: 1}
		v := randomValue(r, typ)
		if v == nil {
			continue
		}
		switch x.Part {
		case IndexPartition:
			key[x.Position] = v
		case IndexClustering:
			for i, c := range x.Types {
				value := v
				if i < x.Position {
					value = randomValue(r, c.Type)
				}
				item += string(c.AppendKey(nil, value))
			}
			item += "\x08rest"
		case IndexStatic:
			item, change.Marker = StaticItem, false
			change.Ops = []Op{SetColumn(x.Column, typ, v)}
		case IndexRegular:
			change.Ops = []Op{SetColumn(x.Column, typ, v), SetColumn(4, Native(KindInt), Int(1))}
		}
		made, err := Apply(&Row{}, Snapshot{}, change)
		if err != nil {
			t.Fatal(err)
		}
		routing, err := RoutingKey(key...)
		if err != nil {
			continue
		}
		var got [][]byte
		if err := again.Values(routing, []byte(item), made.Append(nil), func(value []byte) { got = append(got, value) }); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, x.Text(), err)
		}
		var want [][]byte
		parts := typ.Split(v)
		switch {
		case x.Of == IndexValue:
			want = append(want, x.AppendValue(nil, v, nil))
		case typ.Kind != KindMap:
			for _, p := range parts {
				want = append(want, x.AppendValue(nil, p, nil))
			}
		default:
			for i := 0; i < len(parts); i += 2 {
				at := i
				if x.Of == IndexValues {
					at++
				}
				want = append(want, x.AppendValue(nil, parts[at], parts[i+1]))
			}
		}
		for _, list := range [][][]byte{got, want} {
			slices.SortFunc(list, bytes.Compare)
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("seed %d: %s of %x has the values %x, want %x", seed, x.Text(), v, got, want)
		}
		for _, one := range got {
			if !strings.HasPrefix(string(one), x.ID()) || len(one) > IndexIDBytes+valueMax {
				t.Fatalf("seed %d: the value %x is too long, or of another index", seed, one)
			}
		}
	}
}

// TestIndexOfDeadItems looks for terms of what has no value. An expired cell has one.
func TestIndexOfDeadItems(t *testing.T) {
	t.Parallel()
	x := &Index{Part: IndexRegular, Of: IndexValue, Column: 3, Types: []KeyColumn{{Type: Native(KindInt)}}}
	clustering := &Index{Part: IndexClustering, Of: IndexValue, Types: []KeyColumn{{Type: Native(KindInt), Descending: true}}}
	item := []byte(RowItems + string(KeyColumn{Type: Native(KindInt), Descending: true}.AppendKey(nil, Int(7))))
	for name, c := range map[string]struct {
		row             Row
		item            []byte
		value, ofTheRow int
	}{
		"live":             {Row{Cells: []Cell{{Column: 3, Timestamp: 1, Value: Int(1)}}}, item, 1, 1},
		"expired":          {Row{Cells: []Cell{{Column: 3, Kind: CellExpiring, Timestamp: 1, TTL: 1, Local: 2, Value: Int(1)}}}, item, 1, 1},
		"tombstone":        {Row{Cells: []Cell{{Column: 3, Kind: CellTombstone, Timestamp: 1, Local: 2}}}, item, 0, 0},
		"of another":       {Row{Cells: []Cell{{Column: 4, Timestamp: 1, Value: Int(1)}}}, item, 0, 1},
		"with a marker":    {Row{Marker: Liveness{Present: true, Timestamp: 1}}, item, 0, 1},
		"a deleted row":    {Row{Deletion: Deletion{Present: true, Timestamp: 1, Local: 2}}, item, 0, 0},
		"a static row":     {Row{Cells: []Cell{{Column: 3, Timestamp: 1, Value: Int(1)}}}, []byte(StaticItem), 0, 0},
		"the empty value":  {Row{Cells: []Cell{{Column: 3, Timestamp: 1, Value: []byte{}}}}, item, 1, 1},
		"several, ordered": {Row{Cells: []Cell{{Column: 2, Timestamp: 1, Value: Int(2)}, {Column: 3, Timestamp: 1, Value: Int(1)}, {Column: 5, Timestamp: 1, Value: Int(5)}}}, item, 1, 1},
	} {
		for _, one := range []struct {
			index *Index
			want  int
		}{{x, c.value}, {clustering, c.ofTheRow}} {
			got := 0
			if err := one.index.Values([]byte("k"), c.item, c.row.Append(nil), func([]byte) { got++ }); err != nil || got != one.want {
				t.Errorf("%s: index %s has %d values, want %d (%v)", name, one.index.Text(), got, one.want, err)
			}
		}
	}
}

// TestIndexOfLaterFields reads values with a field that their type got after the index was
// made. They have the terms of the fields before.
func TestIndexOfLaterFields(t *testing.T) {
	t.Parallel()
	before := UDTOf("ks", "pair", []string{"a"}, []*Type{Native(KindInt)}).Freeze()
	after := testUDT.Freeze()
	x := &Index{Part: IndexRegular, Of: IndexValue, Column: 3, Types: []KeyColumn{{Type: before.Structure()}}}
	v := PackTuple([][]byte{Int(1), []byte("later")})
	body := (&Row{Cells: []Cell{{Column: 3, Timestamp: 1, Value: v}}}).Append(nil)
	err := x.Values([]byte("k"), []byte(RowItems), body, func(value []byte) {
		if want := x.AppendValue(nil, PackTuple([][]byte{Int(1)}), nil); !bytes.Equal(value, want) {
			t.Errorf("%x, want %x", value, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	loose := &Index{Part: IndexRegular, Of: IndexValues, Column: 3, Types: []KeyColumn{{Type: SetOf(before).Structure()}}, Loose: true}
	path, _ := SetOf(after).ElementPath(v)
	body = (&Row{Cells: []Cell{{Column: 3, Path: path, Timestamp: 1, Value: []byte{}}}}).Append(nil)
	err = loose.Values([]byte("k"), []byte(RowItems), body, func(value []byte) {
		if want := loose.AppendValue(nil, v, nil); !bytes.Equal(value, want) {
			t.Errorf("%x, want %x", value, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestIndexBytes has the bytes of terms, which are on disk and never change.
func TestIndexBytes(t *testing.T) {
	t.Parallel()
	x := &Index{Part: IndexRegular, Of: IndexValue, Column: 3, Types: []KeyColumn{{Type: Native(KindText)}}}
	if got := x.Text(); got != `{"part":"regular","of":"value","column":3,"types":["text"]}` {
		t.Error(got)
	}
	if got := fmt.Sprintf("%x", x.AppendValue(nil, []byte("a"), nil)); got != "be259b9af9c8548108610001" {
		t.Error(got)
	}
	if got := fmt.Sprintf("%x", x.AppendValue(nil, bytes.Repeat([]byte("a"), 62), nil)); got != "be259b9af9c85481100a39ca5be81d366338866d7ad7e6d564" {
		t.Error(got)
	}
	clustering := &Index{Part: IndexClustering, Of: IndexValue, Position: 1, Types: []KeyColumn{{Type: Native(KindInt), Descending: true}, {Type: Native(KindInt)}}}
	if got := clustering.Text(); got != `{"part":"clustering","of":"value","position":1,"types":["int desc","int"]}` {
		t.Error(got)
	}
}

// TestParseIndexRefuses reads definitions that no release writes.
func TestParseIndexRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{}`, `{"part":"regular","of":"value","column":3,"types":[]}`,
		`{"part":"regular","of":"value","column":3,"types":["nothing"]}`,
		`{"part":"regular","of":"value","column":3,"types":["list<int>"]}`,
		`{"part":"regular","of":"keys","column":3,"types":["list<int>"]}`,
		`{"part":"regular","of":"values","column":3,"types":["int"]}`,
		`{"part":"regular","of":"value","column":3,"types":["int","int"]}`,
		`{"part":"regular","of":"value","column":3,"types":["int"],"loose":true}`,
		`{"part":"regular","of":"value","column":3,"types":["int"],"other":1}`,
		`{"part":"regular","of":"value","column":3,"types":["int"]} `,
		`{"part":"clustering","of":"value","position":1,"types":["int"]}`,
		`{"part":"clustering","of":"values","types":["set<int>"]}`,
		`{"part":"partition","of":"value","position":2,"columns":2,"types":["int"]}`,
		`{"part":"other","of":"value","types":["int"]}`,
	} {
		if x, err := ParseIndex(text); err == nil {
			t.Errorf("%s is read as %s", text, x.Text())
		}
	}
}

// FuzzIndex reads definitions, and items with any bytes. Errors are those of damage.
func FuzzIndex(f *testing.F) {
	x := &Index{Part: IndexRegular, Of: IndexEntries, Column: 3, Types: []KeyColumn{{Type: MapOf(Native(KindUUID), Native(KindDecimal))}}}
	f.Add(x.Text(), uint64(1), []byte("k"), []byte(RowItems+"x"), (&Row{Cells: []Cell{{Column: 3, Path: []byte("p"), Timestamp: 1, Value: []byte("v")}}}).Append(nil))
	x = &Index{Part: IndexClustering, Of: IndexValue, Types: []KeyColumn{{Type: Native(KindVarInt), Descending: true}}}
	f.Add(x.Text(), uint64(2), []byte("k"), []byte(RowItems+"\x08\x00"), (&Row{Marker: Liveness{Present: true}}).Append(nil))
	x = &Index{Part: IndexPartition, Of: IndexValue, Position: 1, Columns: 2, Types: []KeyColumn{{Type: Native(KindTimeUUID)}}}
	f.Add(x.Text(), uint64(3), []byte("\x00\x01k\x00\x00\x01l\x00"), []byte(StaticItem), (&Row{Cells: []Cell{{Column: 3, Timestamp: 1}}}).Append(nil))
	f.Fuzz(func(t *testing.T, text string, seed uint64, key, item, body []byte) {
		parsed, err := ParseIndex(text)
		if err == nil && parsed.Text() != text {
			t.Fatalf("%s becomes %s", text, parsed.Text())
		}
		r := newRand(seed)
		drawn, _ := randomIndex(r.IntN, func() *Type { return randomType(r, 2) })
		for _, x := range []*Index{parsed, drawn} {
			if x == nil {
				continue
			}
			err := x.Values(key, item, body, func(value []byte) {
				if !strings.HasPrefix(string(value), x.ID()) {
					t.Fatalf("%x is not of the index", value)
				}
			})
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v", err)
			}
		}
	})
}
