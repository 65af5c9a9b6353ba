package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseDepth checks both sides of the nesting limit.
func TestParseDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, open, inner, closing string }{
		{"arrays", "[", "1", "]"},
		{"empty inside", "[", "[]", "]"},
		{"objects", `{"a":`, "1", "}"},
	} {
		levels := DepthMax - strings.Count(c.inner, "[")
		text := strings.Repeat(c.open, levels) + c.inner + strings.Repeat(c.closing, levels)
		if v, err := ParseString(text); err != nil || v.JSON() != text {
			t.Errorf("%s: %d levels: %v", c.name, DepthMax, err)
		}
		_, err := ParseString(c.open + text + c.closing)
		want := &SyntaxError{Offset: len(c.open) * DepthMax, Message: "more than 128 nested arrays and objects", Deep: true}
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%s: %d levels (-want +got):\n%s", c.name, DepthMax+1, diff)
		}
	}
	// Siblings do not add depth.
	text := "[" + strings.Repeat("[],", 500) + "{}]"
	if _, err := ParseString(text); err != nil {
		t.Errorf("siblings: %v", err)
	}
}

// TestParseDeep checks the limit for texts that Decan produces.
func TestParseDeep(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{DepthMax + 1, DeepMax, DeepMax + 1, 1 << 20} {
		text := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		v, err := ParseDeep(text)
		var syntax *SyntaxError
		switch {
		case levels <= DeepMax:
			if err != nil || v.JSON() != text {
				t.Errorf("%d levels: %v", levels, err)
			}
		case !errors.As(err, &syntax) || !syntax.Deep || syntax.Offset != DeepMax:
			t.Errorf("%d levels: %v", levels, err)
		}
	}
	var syntax *SyntaxError
	if _, err := ParseDeep("[1"); !errors.As(err, &syntax) || syntax.Deep {
		t.Errorf("an array that does not end: %v", err)
	}
}

// TestParseRefusesBytes checks what text files cannot hold: bytes that are not
// UTF-8, and raw control characters.
func TestParseRefusesBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		offset     int
	}{
		{"nothing", "", 0},
		{"only space", " \t\r\n", 4},
		{"byte order mark", "\xef\xbb\xbf1", 0},
		{"stray continuation byte", "\"a\x80\"", 2},
		{"overlong slash", "\"\xc0\xaf\"", 1},
		{"encoded surrogate", "\"\xed\xa0\x80\"", 1},
		{"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", 1},
		{"cut character", "\"\xe2\x82\"", 1},
		{"after an escape", "\"\\n\xff\"", 3},
		{"in a name", "{\"\xff\":1}", 2},
		{"outside of strings", "[1,\xff]", 3},
		{"raw newline", "\"12345678\n\"", 9},
		{"raw zero", "\"\x00\"", 1},
		{"raw tab after an escape", "\"\\t\t\"", 3},
		{"vertical tab as space", "\v1", 0},
		{"no-break space", "\u00a01", 0},
		{"open string", "\"abc", 4},
		{"open escape", "\"\\", 2},
	} {
		_, err := Parse([]byte(c.text))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: got error %v, want a SyntaxError", c.name, err)
			continue
		}
		if syntax.Offset != c.offset {
			t.Errorf("%s: %v; want offset %d", c.name, err, c.offset)
		}
	}
	// U+007F and the line separators of JavaScript need no escape, and U+FFFD is
	// an ordinary character.
	for _, text := range []string{"\"\x7f\"", "\"\u2028\u2029\"", "\"\ufffd\""} {
		if v := mustParse(t, text); v.JSON() != text {
			t.Errorf("%q is written as %q", text, v.JSON())
		}
	}
}

// TestParseCopies checks that the caller may reuse its buffer.
func TestParseCopies(t *testing.T) {
	t.Parallel()
	data := []byte(`{"name":"value"}`)
	v, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	if got := v.JSON(); got != `{"name":"value"}` {
		t.Errorf("after the buffer was cleared: %q", got)
	}
}

// TestManyMembers checks that duplicates are found both by linear search and by
// map, and that the stacks can grow.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, scanMax - 1, scanMax, scanMax + 1, 1000} {
		var text strings.Builder
		text.WriteString(`{"first":[0],`)
		for i := range n {
			fmt.Fprintf(&text, `"m%d":%d,`, i, i)
		}
		text.WriteString(`"m0":"again","first":{"x":[1,2]}}`)
		v := mustParse(t, text.String())
		if got := v.Len(); got != n+1 {
			t.Errorf("n = %d: %d members, want %d", n, got, n+1)
		}
		if got := v.Get("m0").Text(); got != "again" {
			t.Errorf("n = %d: m0 = %q, want the last value", n, got)
		}
		if m := v.Members()[0]; m.Name != "first" || m.Value.JSON() != `{"x":[1,2]}` {
			t.Errorf("n = %d: first member %q = %v", n, m.Name, m.Value)
		}
		reversed := slices.Clone(v.Members())
		slices.Reverse(reversed)
		checkPair(t, v, Object(reversed))
		if !Equal(v, Object(reversed)) {
			t.Errorf("n = %d: the order of members matters", n)
		}
		reversed[0].Value = Null()
		if Equal(v, Object(reversed)) {
			t.Errorf("n = %d: a changed member does not matter", n)
		}
		renamed := slices.Clone(v.Members())
		renamed[n].Name = "other"
		if Equal(v, Object(renamed)) {
			t.Errorf("n = %d: a renamed member does not matter", n)
		}
	}
}

// TestStructField uses a Value as a field of a struct with encoding/json.
func TestStructField(t *testing.T) {
	t.Parallel()
	type box struct {
		A Value `json:"a"`
		B Value `json:"b,omitzero"`
	}
	text, err := json.Marshal(box{A: mustParse(t, `{"x":[1.50,"<é>"]}`)})
	if err != nil || string(text) != `{"a":{"x":[1.5,"\u003cé\u003e"]}}` {
		t.Errorf("marshal: %s, %v", text, err)
	}
	var got box
	if err := json.Unmarshal([]byte(`{"a":9007199254740993,"b":null}`), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(box{Int(9007199254740993), Null()}, got); diff != "" {
		t.Errorf("unmarshal (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"a":1e999}`), &got); err == nil {
		t.Errorf("a number beyond doubles is accepted")
	}
}
