package jsonc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestParse shows what is read in addition to JSON, and the places of errors.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"{a: 1, 'b': 'it''s', \"c\": [1, 2,], // comment\n /* and\nanother */ d: null,}", "line 1, column 17: '\\'' is not expected here; a comma or } is"},
		{"{a: 1, 'b': 'it\"s', \"c\": [1, 2,], // comment\n /* and\nanother */ d: null,}", `{"a":1,"b":"it\"s","c":[1,2],"d":null}`},
		{"\uFEFF[1.0, 1e3, -0.25, 12345678901234567890, +4, 007, true, 'a\nb']", `[1.0,1000.0,-0.25,12345678901234567890,4,7,true,"a\nb"]`},
		{`"\u00e9\ud83d\ude00\n\/\'"`, `"é😀\n/'"`},
		{`{"a":1,"A":2,"a":3}`, `{"a":3,"A":2}`},
		{``, "line 1, column 1: the text ends where a value is expected"},
		{"{\n  \"a\": }", "line 2, column 8: '}' is not expected here; a value is"},
		{"[1 2]", "line 1, column 4: '2' is not expected here; a comma or ] is"},
		{"[1,,2]", "line 1, column 4: ',' is not expected here; a value is"},
		{"{'a' 1}", "line 1, column 6: '1' is not expected here; a colon is"},
		{"{] ", "line 1, column 2: ']' is not expected here; a name is"},
		{"[1] x", "line 1, column 5: 'x' is not expected here; the end of the text is"},
		{"'abc", "line 1, column 1: the string has no closing quote"},
		{`"\x"`, `line 1, column 2: \x is not an escape sequence`},
		{`"\u12g4"`, `line 1, column 2: \u needs four hexadecimal digits`},
		{"/* ", "line 1, column 1: the comment has no */"},
		{"1.2.3", "line 1, column 1: 1.2.3 is not a number"},
		{"12a", "line 1, column 3: 'a' is not expected here; the end of a number is"},
		{"nul", "line 1, column 1: 'n' is not expected here; a value is"},
		{strings.Repeat("[", DepthMax) + strings.Repeat("]", DepthMax), strings.Repeat("[", DepthMax) + strings.Repeat("]", DepthMax)},
		{strings.Repeat("[", DepthMax+1), "line 1, column 257: arrays and objects are nested more than 256 deep"},
		{strings.Repeat(" ", SizeMax-1) + "1", "1"},
		{strings.Repeat(" ", SizeMax) + "1", "line 1, column 1: the text has 4194305 bytes; the limit is 4194304"},
	} {
		node, err := Parse(c.text)
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = Text(node.Plain())
		}
		if got != c.want {
			t.Errorf("%.60q\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// TestPlaces shows that a bracket has its own place, and a scalar that of its end.
func TestPlaces(t *testing.T) {
	t.Parallel()
	node, err := Parse("{\n  'é': {'b': 'x'},\n c: 12}")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node         *Node
		line, column int
	}{{node, 1, 1}, {node.Get("É"), 2, 8}, {node.Get("é").Get("B"), 2, 16}, {node.Get("c"), 3, 6}} {
		if c.node.Line != c.line || c.node.Column != c.column {
			t.Errorf("line %d, column %d, want %d, %d", c.node.Line, c.node.Column, c.line, c.column)
		}
	}
}

// TestObject compares a large object, which has maps, with a small one.
func TestObject(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, few + 3} {
		o := NewObject()
		for i := range n {
			o.Set("Name"+string(rune('a'+i)), int64(i))
		}
		o.Set("NAMEa", int64(100))
		if v, _ := o.Get("NameA"); v != int64(0) {
			t.Errorf("of %d: another spelling finds %v, want the first", n, v)
		}
		if v, _ := o.Get("NAMEa"); v != int64(100) {
			t.Errorf("of %d: the exact spelling finds %v", n, v)
		}
		o.Replace("NAMEB", "x")
		if m := o.Members()[1]; m.Name != "NAMEB" || m.Value != "x" {
			t.Errorf("of %d: replaced is %v", n, m)
		}
		if _, found := o.Get("missing"); found {
			t.Errorf("of %d: found a missing member", n)
		}
	}
}

// FuzzParse reads any text: errors have a place inside the text, values are written as
// JSON that another reader accepts, and JSON of that reader is accepted.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"{a:1,'b':[\"c\",/*x*/],}", "[1.5e3,-7,null,true]", "\"\\ud800\\u1\"", "// a\n{}", "{'a':{'b':{'c':'\n'}}}", "+", "[01]", "010000000000000000000", "100000000000000000000+"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node, err := Parse(text)
		if err != nil {
			parse, is := errors.AsType[*Error](err)
			if !is || parse.Line < 1 || parse.Column < 1 || parse.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("%q: %v", text, err)
			}
			if json.Valid([]byte(text)) && !strings.Contains(parse.Message, "nested") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		written := Text(node.Plain())
		if !json.Valid([]byte(written)) {
			t.Fatalf("%q is written as %s", text, written)
		}
		again, err := Parse(written)
		if err != nil || Text(again.Plain()) != written {
			t.Fatalf("%s: %v", written, err)
		}
	})
}
