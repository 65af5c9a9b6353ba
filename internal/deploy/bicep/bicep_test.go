package bicep

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// errorCases reads short sources and the diagnostics that the vendor's
// compiler has for them.
func errorCases(t *testing.T) []errorCase {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []errorCase }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

type errorCase struct {
	Src         string
	Compiles    bool
	Diagnostics [][]any // line, column, level, code, message
}

// first returns the first error of the vendor's compiler.
func (c errorCase) first() (line, column int, code string) {
	for _, d := range c.Diagnostics {
		if d[2] == "Error" {
			l, _ := d[0].(float64)
			col, _ := d[1].(float64)
			code, _ := d[3].(string)
			return int(l), int(col), code
		}
	}
	return 0, 0, ""
}

// TestErrors: each source that the vendor's compiler refuses is refused at the
// same place with the same code, and each other one is compiled.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range errorCases(t) {
		_, err := Compile(fstest.MapFS{"main.bicep": {Data: []byte(c.Src + "\n")}}, "main.bicep")
		line, column, code := c.first()
		if code == "" {
			if err != nil {
				t.Errorf("%q: got %v, want a template", c.Src, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got no error, want %d:%d %s", c.Src, line, column, code)
			continue
		}
		if d := e.Diagnostics[0]; d.Line != line || d.Column != column || d.Code != code {
			t.Errorf("%q: got %v, want %d:%d %s", c.Src, d, line, column, code)
		}
	}
}

// vectors returns the names of the sources, without their ending.
func vectors(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/vectors/*.bicep")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".bicep")
	}
	return paths
}

func vectorFS() fs.FS { return os.DirFS("testdata/vectors") }

// TestVectorsCompile: every source of the vectors is a template of JSON.
func TestVectorsCompile(t *testing.T) {
	t.Parallel()
	for _, name := range vectors(t) {
		b, err := Compile(vectorFS(), name+".bicep")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !json.Valid(b.JSON) {
			t.Errorf("%s: not JSON: %s", name, b.JSON)
		}
		again, err := Compile(vectorFS(), name+".bicep")
		if err != nil || !bytes.Equal(b.JSON, again.JSON) {
			t.Errorf("%s: two compilations differ: %v", name, err)
		}
	}
}
