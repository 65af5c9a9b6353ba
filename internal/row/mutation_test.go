package row

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// columnsOfTest are the columns of the tests of mutations, by their ids.
func columnsOfTest(t testing.TB) []*Type {
	var types []*Type
	for _, text := range []string{"text", "list<int>", "set<decimal>", "map<text, int>", "pair", "counter", "frozen<list<int>>"} {
		types = append(types, mustType(t, text))
	}
	return types
}

// value returns the value of a JSON text.
func value(t testing.TB, typ *Type, text string) []byte {
	t.Helper()
	j, err := ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := typ.FromJSON(j)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shown returns the values of all columns of the tests.
func shown(t testing.TB, row *Row, at Snapshot) string {
	t.Helper()
	var texts []string
	for i, typ := range columnsOfTest(t) {
		v, err := row.Value(Want{Column: uint32(i), Type: typ}, at)
		if err != nil {
			t.Fatal(err)
		}
		if v.Bytes != nil {
			texts = append(texts, typ.Literal(v.Bytes))
		}
	}
	return strings.Join(texts, " ")
}

// TestApply runs changes one after another on one row and checks what a reader
// sees after each.
func TestApply(t *testing.T) {
	t.Parallel()
	types := columnsOfTest(t)
	const text, list, set, entries, udt, counter, frozen = 0, 1, 2, 3, 4, 5, 6
	v := func(column int, json string) []byte { return value(t, types[column], json) }
	now, sequence := int64(1000), int64(0)
	var row Row
	for _, step := range []struct {
		name string
		m    Mutation
		want string // values, or a sentence in parentheses
	}{
		{"set a text", Mutation{Timestamp: 10, Ops: []Op{SetColumn(text, types[text], v(text, `"a"`))}}, "'a'"},
		{"an older write loses", Mutation{Timestamp: 9, Ops: []Op{SetColumn(text, types[text], v(text, `"z"`))}}, "'a'"},
		{"null deletes", Mutation{Timestamp: 11, Ops: []Op{SetColumn(text, types[text], nil)}}, ""},
		{"index of a null list", Mutation{Timestamp: 11, Ops: []Op{SetIndex(list, 0, Int(1))}}, "(Attempted to set an element on a list which is null)"},
		{"an unset element of a null list", Mutation{Timestamp: 11, Ops: []Op{CheckIndex(list, 0)}}, "(Attempted to set an element on a list which is null)"},
		{"delete in a null list", Mutation{Timestamp: 11, Ops: []Op{DeleteIndex(list, 0)}}, "(Attempted to delete an element from a list which is null)"},
		{"set a list", Mutation{Timestamp: 12, Ops: []Op{SetColumn(list, types[list], v(list, `[1, 2]`))}}, "[1, 2]"},
		{"append", Mutation{Timestamp: 12, Ops: []Op{AddElements(list, types[list], v(list, `[3, 4]`))}}, "[1, 2, 3, 4]"},
		{"prepend", Mutation{Timestamp: 12, Ops: []Op{PrependElements(list, types[list], v(list, `[5, 6]`))}}, "[5, 6, 1, 2, 3, 4]"},
		{"prepend before", Mutation{Timestamp: 12, Ops: []Op{PrependElements(list, types[list], v(list, `[7]`))}}, "[7, 5, 6, 1, 2, 3, 4]"},
		{"set by index", Mutation{Timestamp: 13, Ops: []Op{SetIndex(list, 2, Int(1))}}, "[7, 5, 1, 1, 2, 3, 4]"},
		{"delete by index", Mutation{Timestamp: 13, Ops: []Op{DeleteIndex(list, 0)}}, "[5, 1, 1, 2, 3, 4]"},
		{"index out of bound", Mutation{Timestamp: 13, Ops: []Op{SetIndex(list, 10, Int(1))}}, "(List index 10 out of bound, list has size 6)"},
		{"negative index", Mutation{Timestamp: 13, Ops: []Op{DeleteIndex(list, -1)}}, "(List index -1 out of bound, list has size 6)"},
		{"remove all equal elements", Mutation{Timestamp: 14, Ops: []Op{RemoveElements(list, types[list], v(list, `[1, 4, 9]`))}}, "[5, 2, 3]"},
		{"overwrite at the same timestamp keeps its elements", Mutation{Timestamp: 12, Ops: []Op{SetColumn(list, types[list], v(list, `[8]`))}}, "[5, 2, 3, 8]"},
		{"overwrite", Mutation{Timestamp: 15, Ops: []Op{SetColumn(list, types[list], v(list, `[]`))}}, ""},
		{"set of numbers", Mutation{Timestamp: 15, Ops: []Op{AddElements(set, types[set], v(set, `[2, "1.0"]`))}}, "{1.0, 2}"},
		{"an equal element replaces at a later time", Mutation{Timestamp: 16, Ops: []Op{AddElements(set, types[set], v(set, `["1.00"]`))}}, "{1.00, 2}"},
		{"remove from a set", Mutation{Timestamp: 17, Ops: []Op{RemoveElements(set, types[set], v(set, `[1, 3]`))}}, "{2}"},
		{"delete an element", Mutation{Timestamp: 17, Ops: []Op{RemoveElement(set, types[set], v(set, `[2]`)[8:])}}, ""},
		{"map", Mutation{Timestamp: 18, Ops: []Op{SetColumn(entries, types[entries], v(entries, `{"b": 2, "a": 1}`))}}, "{'a': 1, 'b': 2}"},
		{"set a key", Mutation{Timestamp: 18, Ops: []Op{SetElement(entries, types[entries], []byte("c"), Int(3))}}, "{'a': 1, 'b': 2, 'c': 3}"},
		{"null deletes a key", Mutation{Timestamp: 19, Ops: []Op{SetElement(entries, types[entries], []byte("a"), nil)}}, "{'b': 2, 'c': 3}"},
		{"remove keys", Mutation{Timestamp: 19, Ops: []Op{RemoveElements(entries, types[entries], value(t, SetOf(Native(KindText)), `["b"]`))}}, "{'c': 3}"},
		{"delete a column of elements", Mutation{Timestamp: 19, Ops: []Op{DeleteColumn(entries, types[entries])}}, ""},
		{"user-defined type", Mutation{Timestamp: 20, Ops: []Op{SetColumn(udt, types[udt], v(udt, `{"a": 1}`))}}, "{a: 1, b: null}"},
		{"set a field", Mutation{Timestamp: 20, Ops: []Op{SetField(udt, 1, []byte("x"))}}, "{a: 1, b: 'x'}"},
		{"null deletes a field", Mutation{Timestamp: 21, Ops: []Op{SetField(udt, 0, nil)}}, "{a: null, b: 'x'}"},
		{"counter", Mutation{Timestamp: 22, Ops: []Op{{Kind: OpAdd, Column: counter, Number: 5}, {Kind: OpAdd, Column: counter, Number: -2}}}, "{a: null, b: 'x'} 3"},
		{"counter at an older time", Mutation{Timestamp: 1, Ops: []Op{{Kind: OpAdd, Column: counter, Number: 1}}}, "{a: null, b: 'x'} 4"},
		{"counter at the same time", Mutation{Timestamp: 23, Ops: []Op{{Kind: OpAdd, Column: counter, Number: -3}}}, "{a: null, b: 'x'} 1"},
		{"counter twice at the same time", Mutation{Timestamp: 23, Ops: []Op{{Kind: OpAdd, Column: counter, Number: -5}}}, "{a: null, b: 'x'} -4"},
		{"counter again", Mutation{Timestamp: 23, Ops: []Op{{Kind: OpAdd, Column: counter, Number: 8}}}, "{a: null, b: 'x'} 4"},
		{"frozen", Mutation{Timestamp: 23, TTL: 10, Ops: []Op{SetColumn(frozen, types[frozen], v(frozen, `[1]`))}}, "{a: null, b: 'x'} 4 [1]"},
		{"later", Mutation{Timestamp: 1}, "{a: null, b: 'x'} 4"},
		{"delete the row", Mutation{Timestamp: 30, DeleteRow: true}, ""},
		{"a write at the time of the deletion loses", Mutation{Timestamp: 30, Marker: true, Ops: []Op{SetColumn(text, types[text], v(text, `"a"`))}}, ""},
		{"the counter begins again", Mutation{Timestamp: 31, Ops: []Op{{Kind: OpAdd, Column: counter, Number: 1}}}, "1"},
	} {
		sequence++
		if step.name == "later" {
			now += 10
		}
		step.m.Sequence = sequence
		decoded, err := DecodeMutation(step.m.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		after, err := Apply(&row, Snapshot{Now: now}, decoded)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || refused.Reason != BadMutation || "("+refused.Text+")" != step.want {
				t.Errorf("%s: %v, want %s", step.name, err, step.want)
			}
			continue
		}
		if row, err = DecodeRow(after.Append(nil)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := shown(t, &row, Snapshot{Now: now}); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// TestApplyTogether checks mutations of one batch: what reads a list sees the row as
// it was before, counters add up, a deletion beats an insert, and a covering deletion
// hides older writes.
func TestApplyTogether(t *testing.T) {
	t.Parallel()
	types := columnsOfTest(t)
	list := value(t, types[1], `[1, 2, 3]`)
	row, err := Apply(&Row{}, Snapshot{}, Mutation{Timestamp: 1, Sequence: 1, Marker: true, Ops: []Op{SetColumn(1, types[1], list)}})
	if err != nil {
		t.Fatal(err)
	}
	after, err := Apply(&row, Snapshot{},
		Mutation{Timestamp: 2, Sequence: 2, Ops: []Op{DeleteIndex(1, 0)}},
		Mutation{Timestamp: 2, Sequence: 3, Ops: []Op{SetIndex(1, 2, Int(9))}},
		Mutation{Timestamp: 2, Sequence: 4, Ops: []Op{{Kind: OpAdd, Column: 5, Number: 2}}},
		Mutation{Timestamp: 2, Sequence: 5, Ops: []Op{{Kind: OpAdd, Column: 5, Number: 3}}},
	)
	if got := shown(t, &after, Snapshot{}); err != nil || got != "[2, 9] 5" {
		t.Errorf("%s, %v", got, err)
	}
	_, err = Apply(&row, Snapshot{}, Mutation{Timestamp: 2, DeleteRow: true}, Mutation{Timestamp: 2, Ops: []Op{DeleteIndex(1, 7)}})
	if err == nil {
		t.Error("an index out of bound was accepted")
	}
	insert := Mutation{Timestamp: 5, Marker: true, TTL: 7, Ops: []Op{SetColumn(0, types[0], []byte("x"))}}
	for _, order := range [][]Mutation{{insert, {Timestamp: 5, DeleteRow: true}}, {{Timestamp: 5, DeleteRow: true}, insert}} {
		after, err := Apply(&row, Snapshot{Now: 100}, order...)
		if err != nil || after.Alive(100) {
			t.Errorf("alive after a deletion: %+v, %v", after, err)
		}
	}
	after, err = Apply(&row, Snapshot{Now: 100}, insert)
	if err != nil || after.Marker != (Liveness{Present: true, Timestamp: 5, TTL: 7, Expiry: 107}) {
		t.Errorf("marker %+v, %v", after.Marker, err)
	}
	covered := Snapshot{Now: 100, Covered: Deletion{Present: true, Timestamp: 4}}
	if after, err = Apply(&row, covered, insert); err != nil || shown(t, &after, covered) != "'x'" {
		t.Errorf("%+v, %v", after, err)
	}
	covered.Covered.Timestamp = 5
	if after, err = Apply(&row, covered, insert); err != nil || !after.Empty() {
		t.Errorf("%+v, %v", after, err)
	}
	covered.Covered.Timestamp = 1
	if _, err = Apply(&row, covered, Mutation{Timestamp: 6, Ops: []Op{DeleteIndex(1, 0)}}); err == nil {
		t.Error("an element of a deleted list was found")
	}
	for _, m := range []Mutation{{Ops: []Op{DeleteIndex(1, 0)}}, {Ops: []Op{{Kind: OpAdd}}}, {Ops: []Op{RemoveElements(1, types[1], list)}}} {
		if !m.Reads() {
			t.Errorf("%+v does not read", m)
		}
	}
	if insert.Reads() {
		t.Error("an insert reads")
	}
	if _, err := Apply(&row, Snapshot{}, Mutation{Timestamp: 2, Ops: []Op{AddElements(1, types[1], list)}}); err == nil {
		t.Error("elements without a place were added to a list")
	}
}

// TestBlindMutations checks that changes which do not read merge to the same row in
// any order.
func TestBlindMutations(t *testing.T) {
	t.Parallel()
	types := columnsOfTest(t)
	r := newRand(8)
	for i := range 2000 {
		mutations := make([]Mutation, 4)
		for j := range mutations {
			mutations[j] = randomMutation(r, types)
			mutations[j].Sequence = int64(j + 1)
		}
		want, err := Apply(&Row{}, Snapshot{Now: 100}, mutations...)
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(mutations), func(a, b int) { mutations[a], mutations[b] = mutations[b], mutations[a] })
		got := Row{}
		for _, m := range mutations {
			alone, err := Apply(&Row{}, Snapshot{Now: 100}, m)
			if err != nil {
				t.Fatal(err)
			}
			got = Merge(&got, &alone)
		}
		if encoded(got) != encoded(want) {
			t.Fatalf("case %d: %+v\n%+v\n%+v", i, mutations, got, want)
		}
	}
}

// randomMutation draws a change that reads nothing.
func randomMutation(r *rand.Rand, types []*Type) Mutation {
	m := Mutation{Timestamp: int64(r.IntN(4)), TTL: uint32(r.IntN(2)) * 10, Marker: r.IntN(2) == 0, DeleteRow: r.IntN(8) == 0}
	if m.DeleteRow {
		m.Marker = false
		return m
	}
	for column, typ := range types[:5] {
		if r.IntN(2) == 0 {
			continue
		}
		v := randomValue(r, typ)
		id := uint32(column)
		op := SetColumn(id, typ, v)
		switch {
		case typ.Kind == KindUDT:
			if r.IntN(2) == 0 {
				op = SetField(id, 1, []byte("f")[:r.IntN(2)])
			}
		case r.IntN(6) == 0:
			op = DeleteColumn(id, typ)
		case typ.Kind == KindList && r.IntN(2) == 0:
			op = PrependElements(id, typ, v)
		case typ.Collection() && r.IntN(2) == 0:
			op = AddElements(id, typ, v)
		case typ.Kind == KindSet && r.IntN(2) == 0:
			op = RemoveElements(id, typ, v)
		}
		m.Ops = append(m.Ops, op)
	}
	return m
}

// TestConditions checks each kind of condition, and the sentences about wrong ones.
func TestConditions(t *testing.T) {
	t.Parallel()
	types := columnsOfTest(t)
	row := Row{}
	ops := []Op{}
	for column, json := range []string{`"b"`, `[1, 2]`, `[1, 2]`, `{"a": 1}`, `{"a": 1, "b": "x"}`} {
		ops = append(ops, SetColumn(uint32(column), types[column], value(t, types[column], json)))
	}
	ops = append(ops, SetColumn(6, types[6], value(t, types[6], `[3, 4]`)))
	row, err := Apply(&row, Snapshot{}, Mutation{Timestamp: 1, Sequence: 1, Marker: true, Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	null := "null"
	for _, c := range []struct {
		column    int
		access    string // "", a key or an index, or the name of a field
		op        Operator
		values    []string
		want      string // for the row
		wantEmpty string // for a row that does not exist
	}{
		{0, "", Equal, []string{`"b"`}, "true", "false"},
		{0, "", Equal, []string{null}, "false", "true"},
		{0, "", NotEqual, []string{null}, "true", "false"},
		{0, "", NotEqual, []string{`"c"`}, "true", "true"},
		{0, "", Less, []string{`"c"`}, "true", "false"},
		{0, "", Greater, []string{`"b"`}, "false", "false"},
		{0, "", GreaterEqual, []string{`"b"`}, "true", "false"},
		{0, "", Greater, []string{null}, `Invalid comparison with null for operator ">"`, `Invalid comparison with null for operator ">"`},
		{0, "", In, []string{`"a"`, `"b"`}, "true", "false"},
		{0, "", In, []string{`"a"`, null}, "false", "true"},
		{0, "", In, nil, "false", "false"},
		{1, "", Equal, []string{`[1, 2]`}, "true", "false"},
		{1, "", Less, []string{`[1, 2, 3]`}, "true", "false"},
		{1, "", Equal, []string{`[]`}, "false", "true"},
		{1, "", NotEqual, []string{`[]`}, "true", "false"},
		{1, "", Equal, []string{null}, "false", "true"},
		{1, "1", Equal, []string{`2`}, "true", "false"},
		{1, "9", Equal, []string{null}, "true", "true"},
		{1, "-1", Equal, []string{null}, "Invalid negative list index -1", "Invalid negative list index -1"},
		{1, null, Equal, []string{null}, "Invalid null value for list element access", "Invalid null value for list element access"},
		{1, "0", LessEqual, []string{`1`}, "true", "false"},
		{1, "0", In, []string{`5`, `1`}, "true", "false"},
		{2, "", Equal, []string{`["1.0", 2]`}, "true", "false"},
		{2, "", Contains, []string{`2`}, "true", "false"},
		{2, "", Contains, []string{`3`}, "false", "false"},
		{3, "a", Equal, []string{`1`}, "true", "false"},
		{3, "a", Greater, []string{`-1`}, "true", "false"},
		{3, "z", Equal, []string{null}, "true", "true"},
		{3, null, Equal, []string{null}, "Invalid null value for map element access", "Invalid null value for map element access"},
		{3, "", ContainsKey, []string{`"a"`}, "true", "false"},
		{3, "", Contains, []string{`1`}, "true", "false"},
		{4, "", Equal, []string{`{"a": 1, "b": "x"}`}, "true", "false"},
		{4, "b", Equal, []string{`"x"`}, "true", "false"},
		{4, "a", NotEqual, []string{`1`}, "false", "true"},
		{6, "", Equal, []string{`[3, 4]`}, "true", "false"},
		{6, "", Equal, []string{`[]`}, "false", "false"},
		{6, "1", Equal, []string{`4`}, "true", "false"},
	} {
		typ := types[c.column]
		condition := Condition{Kind: ColumnIs, Column: uint32(c.column), Type: typ, Op: c.op}
		of := typ
		switch {
		case c.op == Contains:
			of = typ.Element()
		case c.op == ContainsKey:
			of = typ.Key()
		case c.access == "":
		case typ.Kind == KindUDT:
			condition.Kind, condition.Field = FieldIs, typ.Field(c.access)
			of = typ.Parts[condition.Field]
		default:
			condition.Kind = ElementIs
			of = typ.Element()
			if c.access != null {
				condition.Key = []byte(c.access)
				if typ.Kind == KindList {
					condition.Key = value(t, Native(KindInt), c.access)
				}
			}
		}
		for _, text := range c.values {
			condition.Values = append(condition.Values, value(t, of, text))
		}
		for _, on := range []struct {
			row  *Row
			want string
		}{{&row, c.want}, {&Row{}, c.wantEmpty}} {
			decoded, err := DecodeCondition(condition.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			held, err := decoded.Holds(on.row, Snapshot{})
			got := fmt.Sprint(held)
			if refused := (*Error)(nil); errors.As(err, &refused) {
				got = refused.Text
			}
			if got != on.want {
				t.Errorf("%s[%s] %s %v: %s, want %s", typ, c.access, c.op, c.values, got, on.want)
			}
		}
	}
	for _, c := range []struct {
		kind ConditionKind
		row  *Row
		at   Snapshot
		want bool
	}{
		{RowExists, &row, Snapshot{}, true},
		{RowNotExists, &row, Snapshot{}, false},
		{RowExists, &Row{}, Snapshot{}, false},
		{RowNotExists, &Row{}, Snapshot{}, true},
		{RowExists, &row, Snapshot{Covered: Deletion{Present: true, Timestamp: 1}}, false},
	} {
		condition := Condition{Kind: c.kind}
		if held, err := condition.Holds(c.row, c.at); err != nil || held != c.want {
			t.Errorf("kind %d: %v, %v", c.kind, held, err)
		}
	}
}

// TestMutationRoundTrip checks that mutations, conditions and types decode to what
// was encoded, and that damaged ones are corrupt.
func TestMutationRoundTrip(t *testing.T) {
	t.Parallel()
	types := columnsOfTest(t)
	r := newRand(9)
	for range 1000 {
		m := randomMutation(r, types)
		m.Key = []KeyValue{{Column: 1, Value: []byte{1}}}
		bytes := m.Append(nil)
		back, err := DecodeMutation(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, back, cmp.Transformer("elements", func(e []Element) [][3]string {
			var texts [][3]string
			for _, e := range e {
				texts = append(texts, [3]string{hexOrNull(e.Path), hexOrNull(e.Original), hexOrNull(e.Value)})
			}
			return texts
		})); diff != "" {
			t.Fatal(diff)
		}
		typ := randomType(r, 3)
		decoded, err := DecodeType(AppendType(nil, typ))
		if err != nil || !decoded.Equal(typ) || decoded.String() != typ.String() {
			t.Fatalf("%s decoded as %v, %v", typ, decoded, err)
		}
		condition := Condition{Kind: ColumnIs, Column: 3, Type: typ, Op: In, Values: [][]byte{nil, randomValue(r, typ)}}
		conditionBytes := condition.Append(nil)
		if back, err := DecodeCondition(conditionBytes); err != nil || !slices.Equal(back.Append(nil), conditionBytes) {
			t.Fatalf("%+v: %+v, %v", condition, back, err)
		}
		for i := range conditionBytes {
			if _, err := DecodeCondition(conditionBytes[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%x cut at %d: %v", conditionBytes, i, err)
			}
		}
		for i := range bytes {
			if _, err := DecodeMutation(bytes[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%x cut at %d: %v", bytes, i, err)
			}
		}
	}
	for name, c := range map[string]Condition{
		"kind":       {Kind: 9, Type: types[0], Op: Equal, Values: [][]byte{nil}},
		"operator":   {Kind: ColumnIs, Type: types[0], Op: 99, Values: [][]byte{nil}},
		"field":      {Kind: FieldIs, Type: types[4], Field: 2, Op: Equal, Values: [][]byte{nil}},
		"no udt":     {Kind: FieldIs, Type: types[0], Op: Equal, Values: [][]byte{nil}},
		"no map":     {Kind: ElementIs, Type: types[2], Op: Equal, Values: [][]byte{nil}},
		"two values": {Kind: ColumnIs, Type: types[0], Op: Equal, Values: [][]byte{nil, nil}},
		"contains":   {Kind: ColumnIs, Type: types[0], Op: Contains, Values: [][]byte{nil}},
	} {
		if _, err := DecodeCondition(c.Append(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMutation checks that any bytes decode and apply without a panic.
func FuzzMutation(f *testing.F) {
	types := columnsOfTest(f)
	r := newRand(10)
	for range 20 {
		m := randomMutation(r, types)
		f.Add(m.Append(nil))
		c := Condition{Kind: ColumnIs, Type: types[3], Op: Equal, Values: [][]byte{nil}}
		f.Add(c.Append(nil))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if c, err := DecodeCondition(encoded); err == nil {
			_, _ = c.Holds(&Row{}, Snapshot{})
		}
		m, err := DecodeMutation(encoded)
		if err != nil {
			return
		}
		row, err := Apply(&Row{}, Snapshot{Now: 5}, m, m)
		if err != nil {
			return
		}
		if _, err := DecodeRow(row.Append(nil)); err != nil {
			t.Fatalf("%+v made a row that does not decode: %v: %+v", m, err, row)
		}
	})
}
