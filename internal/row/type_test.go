package row

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/partitionkey"
)

// TestParseType checks that types print as system_schema has them.
func TestParseType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"int":                                "int",
		"VARCHAR":                            "text",
		"list<int>":                          "list<int>",
		"set< frozen<list<Int>> >":           "set<frozen<list<int>>>",
		"frozen<list<list<int>>>":            "frozen<list<frozen<list<int>>>>",
		"tuple<int, list<int>>":              "frozen<tuple<int, frozen<list<int>>>>",
		"frozen<tuple<int, text>>":           "frozen<tuple<int, text>>",
		"map<text,frozen<map<text,blob>>>":   "map<text, frozen<map<text, blob>>>",
		"pair":                               "pair",
		"ks.pair":                            "pair",
		"frozen<pair>":                       "frozen<pair>",
		`map<int, frozen<"pair">>`:           "map<int, frozen<pair>>",
		"vector<float, 3>":                   "vector<float, 3>",
		"list<frozen<vector<text,2>>>":       "list<vector<text, 2>>",
		"tuple<tuple<duration>, varint>":     "frozen<tuple<frozen<tuple<duration>>, varint>>",
		"list<frozen<tuple<int, timeuuid>>>": "list<frozen<tuple<int, timeuuid>>>",
	} {
		typ, err := ParseType(text, resolveTest)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := typ.String(); got != want {
			t.Errorf("%s prints as %s, want %s", text, got, want)
		}
		again, err := ParseType(typ.String(), resolveTest)
		if err != nil || !again.Equal(typ) {
			t.Errorf("%s parses again as %v, %v", want, again, err)
		}
		if text != "int" && again.Equal(Native(KindInt)) {
			t.Errorf("%s equals int", text)
		}
	}
	for text, want := range map[string]string{
		"frozen<int>":   "frozen<> is only allowed on collections, tuples, and user-defined types (got int)",
		"nosuch":        "Unknown type nosuch",
		"list<int":      "",
		"list<>":        "",
		"map<int>":      "",
		"list<int,int>": "",
		"int>":          "",
		"":              "",
		`"pair`:         "",
		"vector<int>":   "",
		"vector<int,0>": "",
		"vector<int,x>": "",
		strings.Repeat("frozen<", 100) + "pair" + strings.Repeat(">", 100): "",
	} {
		_, err := ParseType(text, resolveTest)
		if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Reason != BadType || want != "" && refused.Text != want {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// TestParseClass checks types that are named by their classes in Cassandra. The texts of
// nosuch, int32type and ListType were recorded from 4.1.10.
func TestParseClass(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"'Int32Type'": "int",
		"'org.apache.cassandra.db.marshal.UTF8Type'": "text",
		"''":                                          "blob",
		"'ListType(Int32Type)'":                       "list<int>",
		"'FrozenType( ListType(Int32Type) )'":         "frozen<list<int>>",
		"'MapType(UTF8Type,LongType)'":                "map<text, bigint>",
		"list<'SimpleDateType'>":                      "list<date>",
		"'TupleType(Int32Type, UTF8Type)'":            "frozen<tuple<int, text>>",
		"'DateType'":                                  "timestamp",
		"'LegacyTimeUUIDType'":                        "timeuuid",
		"'ReversedType(ByteType)'":                    "tinyint",
		"'SetType(FrozenType(SetType(IntegerType)))'": "set<frozen<set<varint>>>",
	} {
		typ, err := ParseType(text, nil)
		if err != nil || typ.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, typ, err, want)
		}
	}
	for text, want := range map[string]string{
		"'nosuch'":             "Error setting type nosuch: Unable to find abstract-type class 'org.apache.cassandra.db.marshal.nosuch'",
		"'int32type'":          "Error setting type int32type: Unable to find abstract-type class 'org.apache.cassandra.db.marshal.int32type'",
		"'a.Int32Type'":        "Error setting type a.Int32Type: Unable to find abstract-type class 'a.Int32Type'",
		"'ListType'":           "Error setting type ListType: Invalid definition for comparator org.apache.cassandra.db.marshal.ListType.",
		"'MapType(Int32Type)'": "Error setting type MapType(Int32Type): Invalid definition for comparator org.apache.cassandra.db.marshal.MapType.",
		"'ListType(Int32Type'": "Cannot parse type ListType(Int32Type: Syntax error parsing 'ListType(Int32Type' at char 18: unexpected end of string",
		"'Int32Type)'":         "",
		"'ListType()'":         "",
		"'" + strings.Repeat("FrozenType(", 100) + "Int32Type" + strings.Repeat(")", 100) + "'": "",
	} {
		_, err := ParseType(text, nil)
		if refused := (*Error)(nil); !errors.As(err, &refused) || refused.Reason != BadClass || want != "" && refused.Text != want {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"'LexicalUUIDType'", "'CompositeType(AsciiType, Int32Type)'", "'Int32Type", "'Int32Type'x", "'a''b'"} {
		if typ, err := ParseType(text, nil); err == nil {
			t.Errorf("%s is %s", text, typ)
		}
	}
}

// TestClassName checks the class of each kind of type, and that types which can be named by
// their class are parsed from it again.
func TestClassName(t *testing.T) {
	t.Parallel()
	udt := func(keyspace, name string) (*Type, error) {
		return &Type{Kind: KindUDT, Keyspace: "k", Name: name, Fields: []string{"a"}, Parts: []*Type{natives[KindInt]}}, nil
	}
	const p = "org.apache.cassandra.db.marshal."
	for text, want := range map[string]string{
		"int": p + "Int32Type", "map<text, date>": p + "MapType(" + p + "UTF8Type," + p + "SimpleDateType)",
		"frozen<set<blob>>": p + "FrozenType(" + p + "SetType(" + p + "BytesType))", "tuple<int>": p + "TupleType(" + p + "Int32Type)",
		"list<time>": p + "ListType(" + p + "TimeType)", "u": p + "UserType(k,75,61:" + p + "Int32Type)",
	} {
		typ, err := ParseType(text, udt)
		if err != nil {
			t.Fatal(err)
		}
		if got := typ.ClassName(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for kind := range classNames {
		class := natives[kind].ClassName()
		if again, err := ParseType("'"+class+"'", nil); err != nil || again != natives[kind] {
			t.Errorf("%s is %v, %v", class, again, err)
		}
	}
}

// TestQuoteName checks which names need quotes.
func TestQuoteName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "a", "a_1": "a_1", "Val": `"Val"`, "1a": `"1a"`, "_a": `"_a"`, "select": `"select"`, `a"b`: `"a""b"`, "key": "key", "": `""`,
	} {
		if got := QuoteName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestTokenVectors checks types, values, routing keys and tokens of the public
// vectors (S128).
func TestTokenVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../partitionkey/testdata/cql-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Components []struct{ Type, Literal, Hex string }
			RoutingKey string `json:"routing_key_hex"`
			Token      string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 265 {
		t.Fatalf("%d vectors", len(file.Vectors))
	}
	for _, v := range file.Vectors {
		var values [][]byte
		for _, c := range v.Components {
			typ, err := ParseType(c.Type, nil)
			if err != nil {
				t.Fatal(err)
			}
			value, _ := hex.DecodeString(c.Hex)
			values = append(values, value)
			if err := typ.Validate(value); err != nil {
				t.Errorf("%s %s: %v", c.Type, c.Hex, err)
			}
			if typ.Native() {
				parsed, err := typ.ParseText(strings.ReplaceAll(strings.Trim(strings.TrimPrefix(c.Literal, "0x"), "'"), "''", "'"))
				if err != nil || hex.EncodeToString(parsed) != c.Hex {
					t.Errorf("%s %s = %x, want %s (%v)", c.Type, c.Literal, parsed, c.Hex, err)
				}
			}
			if got := typ.Literal(value); !numeric(typ) && typ.Kind != KindInet && got != c.Literal {
				t.Errorf("%s %s prints as %s, want %s", c.Type, c.Hex, got, c.Literal)
			}
		}
		key, err := RoutingKey(values...)
		if err != nil || hex.EncodeToString(key) != v.RoutingKey {
			t.Errorf("routing key %x, want %s (%v)", key, v.RoutingKey, err)
		}
		if got := strconv.FormatInt(partitionkey.Token(key), 10); got != v.Token {
			t.Errorf("token of %s = %s, want %s", v.RoutingKey, got, v.Token)
		}
		back, err := SplitRoutingKey(key, len(values))
		if err != nil {
			t.Errorf("split %x: %v", key, err)
			continue
		}
		for i := range back {
			if string(back[i]) != string(values[i]) {
				t.Errorf("split %x: value %d is %x, want %x", key, i, back[i], values[i])
			}
		}
	}
}

// numeric says whether a number has several texts.
func numeric(t *Type) bool {
	return t.Kind == KindFloat || t.Kind == KindDouble || t.Kind == KindDecimal
}

// TestRoutingKeyLimit checks both sides of the limit of a partition key.
func TestRoutingKeyLimit(t *testing.T) {
	t.Parallel()
	if _, err := RoutingKey(make([]byte, 65535)); err != nil {
		t.Error(err)
	}
	for _, values := range [][][]byte{{make([]byte, 65536)}, {make([]byte, 65530), {}}, {make([]byte, 65536), {}}} {
		if _, err := RoutingKey(values...); err == nil || !strings.HasPrefix(err.Error(), "Key length of 655") || !strings.HasSuffix(err.Error(), " is longer than maximum of 65535") {
			t.Errorf("keys of %d and more bytes: %v", len(values[0]), err)
		}
	}
	for _, key := range []string{"", "000101", "0001", "00010100ff", "ffff0000"} {
		v, _ := hex.DecodeString(key)
		if _, err := SplitRoutingKey(v, 2); !errors.Is(err, ErrCorrupt) {
			t.Errorf("split %s: %v", key, err)
		}
	}
}
