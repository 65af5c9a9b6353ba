package value

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// writtenJSON returns a random value in a form that a client may write: with blanks,
// with unnecessary escapes, with numbers in several forms, and with few names in any
// order.
func writtenJSON(r *rand.Rand, depth int) string {
	blank := func() string { return pick(r, []string{"", "", "", " ", "\n\t"}) }
	list := func(open, closing string, item func() string) string {
		var items []string
		for range r.IntN(5) {
			items = append(items, blank()+item()+blank())
		}
		return open + strings.Join(items, ",") + closing
	}
	kind := r.IntN(6)
	if depth == 0 {
		kind = min(kind, 3)
	}
	switch kind {
	case 4:
		return list("[", "]", func() string { return writtenJSON(r, depth-1) })
	case 5:
		names := []string{`"a"`, `"b"`, `"\u0061b"`, `"c\""`, `"long name"`, `""`}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return list("{", "}", func() string {
			name := names[0]
			names = append(names[1:], fmt.Sprintf(`"%d"`, len(names)+r.IntN(1<<40)))
			return name + blank() + ":" + blank() + writtenJSON(r, depth-1)
		})
	case 0:
		return pick(r, []string{"null", "true", "false"})
	case 1:
		return pick(r, []string{"0", "-0", "1", "1.0", "10e-1", "7", "-7", "123456789012345678", "1234567890123456789", "12345678901234567890", "0.5"})
	}
	return pick(r, []string{`""`, `"a"`, `"\u0061"`, `"b"`, `"}{]["`, `"\\"`, `"\""`, `"a\\\\"`, `"é"`, `"\u00e9"`, `"aa"`})
}

// reader finds places in document after document.
type reader struct {
	places Locator
	found  []Located
	layout Layout
}

// read returns the value of each slot.
func (r *reader) read(text string) (values []Value, err error) {
	r.found = make([]Located, r.places.Len())
	if !r.places.Locate([]byte(text), r.found, &r.layout) {
		return nil, errors.New("not JSON")
	}
	for _, f := range r.found {
		v := Undefined()
		if f.Text != nil {
			if v, err = Parse(f.Text); err != nil {
				return nil, err
			}
		}
		values = append(values, v)
	}
	return values, nil
}

// checkPlaces compares what a Locator finds in a document with what the parser finds
// at the paths.
func checkPlaces(t *testing.T, r *reader, text string, doc Value, paths map[int]Path, seed uint64) {
	t.Helper()
	values, err := r.read(text)
	for slot, path := range paths {
		if err != nil {
			t.Fatalf("seed %d: %v of %s: %v", seed, path, text, err)
		}
		want, got := doc.At(path), values[slot]
		if got.IsDefined() != want.IsDefined() || got.IsDefined() && !Equal(got, want) {
			t.Fatalf("seed %d: %v of %s: got %s, want %s", seed, path, text, got.JSON(), want.JSON())
		}
	}
}

// TestLocateAgainstParser checks that a Locator finds what the parser finds, whatever
// the previous documents looked like.
func TestLocateAgainstParser(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 9))
	for range 300 {
		var e reader
		paths := map[int]Path{}
		for range 1 + r.IntN(30) {
			var path Path
			for range r.IntN(4) {
				s := Step{Name: pick(r, []string{"a", "b", "ab", `c"`, "long name", ""})}
				if r.IntN(4) == 0 {
					s = Step{Index: r.IntN(4), IsIndex: true}
				}
				path = append(path, s)
			}
			paths[e.places.Add(path)] = path
		}
		for range 20 {
			text := writtenJSON(r, 3)
			doc, err := ParseString(text)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			checkPlaces(t, &e, text, doc, paths, seed)
		}
	}
}

// TestSearchAgainstParser checks that the search by name finds what the parser finds in
// documents that resemble each other. They have strings that look like names, brackets
// in strings, the same names in inner objects before and after, and some escapes.
func TestSearchAgainstParser(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 11))
	names := []string{"a", "kind", "a:b", ":x", "x{y", "[", ",", "é", "a b", "plain"}
	texts := []string{`"a"`, `"kind"`, `"{"`, `"]}["`, `"a:b"`, `"plain"`, `","`, `""`, `"` + strings.Repeat("x", 90) + `"`}
	searches := 0
	for range 300 {
		var e reader
		paths := map[int]Path{}
		for range 1 + r.IntN(searchMax+1) {
			path := Path{{Name: pick(r, names)}}
			if r.IntN(4) == 0 {
				path = append(path, Step{Name: pick(r, names)})
			}
			paths[e.places.Add(path)] = path
		}
		order := r.Perm(len(names))
		blank := pick(r, []string{"", "", " "})
		for range 30 {
			var members []string
			for _, n := range order {
				v := pick(r, append(texts, "7", "-1.5", "true"))
				switch r.IntN(12) {
				case 0:
					v = fmt.Sprintf(`{%q:%s,"n":[%s,{%q:1}]}`, pick(r, names), v, v, pick(r, names))
				case 1:
					v = fmt.Sprintf(`[%s,{%q%s:%s}]`, v, pick(r, names), blank, v)
				case 2:
					continue
				}
				if r.IntN(100) == 0 {
					v = `"\""`
				}
				members = append(members, fmt.Sprintf("%q%s:%s%s", names[n], blank, blank, v))
			}
			text := "{" + strings.Join(members, ","+blank) + "}"
			doc, err := ParseString(text)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			checkPlaces(t, &e, text, doc, paths, seed)
			if e.layout.begun && e.layout.spots != [searchMax]int{} && e.layout.lost == 0 {
				searches++
			}
		}
	}
	if searches < 500 {
		t.Errorf("seed %d: %d documents were read by a search", seed, searches)
	}
}

// TestSearchDamaged checks that a search by name detects a damaged document.
func TestSearchDamaged(t *testing.T) {
	t.Parallel()
	var e reader
	slot := e.places.Add(Path{{Name: "b"}})
	for _, text := range []string{`{"a":1,"b":2}`, `{"a":1,"b":2}`} {
		if values, err := e.read(text); err != nil || !values[slot].IsDefined() {
			t.Errorf("%s: %v, %v", text, values, err)
		}
	}
	if values, err := e.read(`{"a":1,"b":}`); err == nil {
		t.Errorf("a document without a value is read as %v", values)
	}
}

// FuzzLocate looks for two paths in a document, three times.
func FuzzLocate(f *testing.F) {
	f.Add(`{"a":"b","b":{"a":1},"c":[{"b":2}]}`, "a", "b")
	f.Add(`{"x{":"}","a b":"\\"}`, "x{", "a b")
	f.Add(`{",":1,"a":","}`, ",", "")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		doc, err := ParseString(text)
		if err != nil || !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		text = string(doc.Append(nil)) // as it is stored: without two members of one name
		var e reader
		paths := map[int]Path{}
		for _, path := range []Path{{{Name: a}}, {{Name: b}, {Name: a}}} {
			paths[e.places.Add(path)] = path
		}
		for range 3 {
			checkPlaces(t, &e, text, doc, paths, 0)
		}
	})
}
