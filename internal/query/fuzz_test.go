package query

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// seed adds the queries of testdata to a corpus.
func seed(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob("testdata/*/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	syntax, err := filepath.Glob("sql/testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range slices.Concat(paths, more, syntax) {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			input, _, _ := strings.Cut(block, "\n----")
			for strings.HasPrefix(input, "#") {
				_, input, _ = strings.Cut(input, "\n")
			}
			command, input, _ := strings.Cut(input, "\n")
			switch word, _, _ := strings.Cut(command, " "); word {
			case "query", "parse", "error", "plan":
				f.Add(input)
			case "ranges", "access", "exact":
				for line := range strings.Lines(input) {
					if line = strings.TrimSpace(line); !strings.HasPrefix(line, "SELECT") {
						line = "SELECT * FROM c WHERE " + line
					}
					f.Add(line)
				}
			case "values":
				for line := range strings.Lines(input) {
					f.Add("SELECT VALUE " + strings.TrimSpace(line))
				}
			}
		}
	}
}

// FuzzRun compiles and runs any text: it must not panic, results must be JSON,
// pages must end, and the index must not change the result.
func FuzzRun(f *testing.F) {
	seed(f)
	ix := newIndex(f)
	docs := list{
		newDocument(f, ix, 1, `{"id":"1","a":1,"b":"x","t":[1,{"a":2}],"n":{"a":null}}`),
		newDocument(f, ix, 2, `{"id":"2","a":"1","b":true}`),
		newDocument(f, ix, 3, `{"id":"3"}`),
	}
	def := partitionkey.Definition{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash}.Normalize()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToUpper(text), "RAND") {
			return // Its results may differ.
		}
		params := []Param{{Name: "@n", Value: value.Int(2)}, {Name: "@a-b", Value: value.String("x")}}
		p, err := Compile(text, params, ix, Options{Now: time.Unix(1, 0)})
		if err != nil {
			checkFailure(t, err)
			return
		}
		p.Describe(def)
		bare, err := Compile(text, params, nil, Options{Now: time.Unix(1, 0)})
		if err != nil {
			t.Fatalf("%q compiles with an index alone: %v", text, err)
		}
		got, _, err := all(t.Context(), p, docs.split(2), Budget{MaxItems: 1})
		want, _, errBare := all(t.Context(), bare, docs.split(2), Budget{})
		if (err == nil) != (errBare == nil) {
			return // A row in error may be one that the index leaves out, or that LIMIT does not need.
		}
		if err != nil {
			checkFailure(t, err)
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d rows in pages with the index, %d without", text, len(got), len(want))
		}
		for i := range got {
			if !json.Valid(got[i].JSON) || !bytes.Equal(got[i].JSON, want[i].JSON) {
				t.Fatalf("%q: row %d is %q and %q", text, i, got[i].JSON, want[i].JSON)
			}
		}
	})
}

// checkFailure requires that errors are the caller's, with a text that clients
// can read.
func checkFailure(t *testing.T, err error) {
	t.Helper()
	e := status.From(err)
	if e == nil || e.Code != status.CodeBadRequest {
		t.Fatalf("error is not a BadRequest: %v", err)
	}
	if strings.HasPrefix(e.Message, "{") && !json.Valid([]byte(e.Message)) {
		t.Fatalf("error is not JSON: %s", e.Message)
	}
}

// TestHostileText shows that no text grows the stack or takes long.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"brackets":      "SELECT VALUE " + strings.Repeat("(", 200_000),
		"arrays":        "SELECT VALUE " + strings.Repeat("[", 200_000),
		"signs":         "SELECT VALUE " + strings.Repeat("- ", 200_000) + "1",
		"conditions":    "SELECT VALUE " + strings.Repeat("1?", 200_000),
		"coalesce":      "SELECT VALUE " + strings.Repeat("1??", 150_000) + "1",
		"subqueries":    "SELECT VALUE " + strings.Repeat("(SELECT VALUE ", 30_000),
		"sum":           "SELECT VALUE 1" + strings.Repeat("+1", 200_000),
		"path":          "SELECT VALUE c" + strings.Repeat(".a", 200_000) + " FROM c",
		"source":        "SELECT VALUE 1 FROM c" + strings.Repeat(".a", 200_000),
		"and":           "SELECT VALUE 1 FROM c WHERE c.a = 1" + strings.Repeat(" AND c.a = 1", 30_000),
		"or":            "SELECT VALUE 1 FROM c WHERE c.a = 1" + strings.Repeat(" OR c.b = 1 AND c.a = 2", 20_000),
		"in":            "SELECT VALUE 1 FROM c WHERE c.a IN (0" + strings.Repeat(",1", 200_000) + ")",
		"nested logic":  "SELECT VALUE 1 FROM c WHERE " + strings.Repeat("(c.a = 1 OR (c.b = 1 AND ", 200) + "c.a" + strings.Repeat("))", 200),
		"too long":      "SELECT VALUE '" + strings.Repeat("x", 512<<10) + "'",
		"shared values": "SELECT VALUE [" + strings.Repeat("@big,", 80_000) + "1]",
		"shared object": "SELECT VALUE ARRAY_CONCAT([@big]" + strings.Repeat(",[@big]", 60_000) + ")",
		"long strings":  "SELECT VALUE CONCAT(@big" + strings.Repeat(",@big", 80_000) + ")",
		"columns":       "SELECT c.a" + strings.Repeat(", c.a", 90_000) + " FROM c",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			params := []Param{{Name: "@big", Value: value.String(strings.Repeat("x", 1<<20))}}
			def := partitionkey.Definition{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash}.Normalize()
			p, err := Compile(text, params, newIndex(t), Options{})
			if err != nil {
				checkFailure(t, err)
				return
			}
			p.Ranges(def)
			docs := list{newDocument(t, nil, 1, `{"id":"1","a":1}`)}
			if _, err := p.Run(t.Context(), docs, Budget{}); err != nil {
				checkFailure(t, err)
			}
		})
	}
}
