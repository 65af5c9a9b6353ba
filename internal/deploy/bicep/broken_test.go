package bicep

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// goodSources returns every source of the vectors, with its path.
func goodSources(t testing.TB) (map[string]string, fstest.MapFS) {
	t.Helper()
	sources := map[string]string{}
	files := fstest.MapFS{}
	root := os.DirFS("testdata/vectors")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".json") && filepath.Dir(path) == "." {
			return err
		}
		b, err := fs.ReadFile(root, path)
		files[path] = &fstest.MapFile{Data: b}
		if ext := filepath.Ext(path); ext == ".bicep" || ext == ".bicepparam" {
			sources[path] = string(b)
		}
		return err
	})
	if err != nil || len(sources) < 25 {
		t.Fatal(len(sources), err)
	}
	return sources, files
}

// compileBroken compiles a source that may be broken, and fails the test when
// an error has no place or a template is not JSON.
func compileBroken(t testing.TB, files fstest.MapFS, path, source string) error {
	t.Helper()
	files[path] = &fstest.MapFile{Data: []byte(source)}
	var err error
	if strings.HasSuffix(path, ".bicepparam") {
		var p *Parameters
		evaluate := func(b *Compiled) (map[string]json.RawMessage, error) {
			if !json.Valid(b.JSON) {
				t.Errorf("%s: no JSON:\n%s", path, source)
			}
			return map[string]json.RawMessage{"values": json.RawMessage("{}")}, nil
		}
		if p, err = CompileParameters(files, path, Options{Evaluate: evaluate}); err == nil && !json.Valid(p.Values.JSON) {
			t.Errorf("%s: no JSON:\n%s", path, source)
		}
	} else {
		var b *Compiled
		if b, err = Compile(files, path); err == nil {
			return expandBroken(t, b, path, source)
		}
	}
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: the error has no place: %v\n%s", path, err, source)
		return err
	}
	for _, d := range e.Diagnostics {
		if d.Line < 1 || d.Column < 1 || d.Code == "" || d.Message == "" || d.File == "" {
			t.Errorf("%s: a diagnostic is not whole: %+v\n%s", path, d, source)
		}
	}
	return err
}

// expandBroken expands what was compiled; a refusal must have a place in a source.
func expandBroken(t testing.TB, compiled *Compiled, path, source string) error {
	t.Helper()
	_, err := deploy.Expand(deploy.Request{Template: deploy.Source{Text: string(compiled.JSON), Place: compiled.Place}})
	if syntax, is := errors.AsType[*jsonc.Error](err); is {
		t.Errorf("%s: no JSON: %v\n%s", path, syntax, source)
	}
	if e, is := errors.AsType[*deploy.Error](err); is {
		ext := filepath.Ext(e.File)
		if ext != ".bicep" && ext != ".json" || e.Line < 1 || e.Column < 1 || e.File == path && e.Line > strings.Count(source, "\n")+1 {
			t.Errorf("%s: the place %s(%d,%d) of %v is in no source:\n%s", path, e.File, e.Line, e.Column, err, source)
		}
	}
	return err
}

// TestBrokenAtEachToken: each good source with one token left out, and with one
// written twice, replaced, or the last one, is compiled or refused at a place.
func TestBrokenAtEachToken(t *testing.T) {
	t.Parallel()
	sources, files := goodSources(t)
	count, refused := 0, 0
	for path, source := range sources {
		tokens := lex(&report{source: source})
		for i, token := range tokens[:len(tokens)-1] {
			word := source[token.start:token.end]
			broken := []string{source[:token.start] + source[token.end:]}
			switch i % 5 { // one other change at each token: all of them would take too long
			case 4:
				broken = append(broken, source[:token.end])
			case 0:
				broken = append(broken, source[:token.end]+word+source[token.end:])
			case 1:
				broken = append(broken, source[:token.start]+"}"+source[token.end:])
			case 2:
				broken = append(broken, source[:token.start]+"'"+source[token.end:])
			case 3:
				broken = append(broken, source[:token.start]+" x "+source[token.end:])
			}
			for _, b := range broken {
				count++
				if compileBroken(t, files, path, b) != nil {
					refused++
				}
			}
			if t.Failed() {
				return
			}
		}
		files[path] = &fstest.MapFile{Data: []byte(source)}
	}
	if refused < count/2 {
		t.Errorf("%d of %d broken sources were refused: too few to believe", refused, count)
	}
	t.Logf("%d sources, %d refused", count, refused)
}

// FuzzCompile: no source makes the reader panic, and each error has a place.
func FuzzCompile(f *testing.F) {
	sources, files := goodSources(f)
	for path, source := range sources {
		f.Add(source, strings.HasSuffix(path, ".bicepparam"))
	}
	f.Add("var x = '''a${'b'}'''\nvar y = $'''a${'b${1}'}'''", false)
	f.Add("var a = [for (x, i) in [1]: { '${x}': i, ...{} }]", false)
	f.Fuzz(func(t *testing.T, source string, params bool) {
		own := fstest.MapFS{}
		for path, file := range files {
			own[path] = file
		}
		path := "main.bicep"
		if params {
			path = "main.bicepparam"
		}
		_ = compileBroken(t, own, path, source)
	})
}

// FuzzLex: tokens cover the source in order, whatever it is.
func FuzzLex(f *testing.F) {
	sources, _ := goodSources(f)
	for _, source := range sources {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		end := 0
		for _, token := range lex(&report{source: source}) {
			if token.start < end || token.end < token.start || token.end > len(source) {
				t.Fatalf("token %+v after offset %d of %d", token, end, len(source))
			}
			end = token.end
		}
	})
}

// FuzzFormat: a template that is printed can be read again.
func FuzzFormat(f *testing.F) {
	sources, files := goodSources(f)
	for path := range sources {
		if b, err := Compile(files, path); err == nil {
			f.Add(string(b.JSON))
		}
	}
	f.Add(`{"resources":[{"type":"A.B/c/d","apiVersion":"1","name":"[concat('a', '/', 'b')]","properties":{"x":"[if(true(), createArray(1, 'a'), tryGet(json('{}'), 'a', 0))]"}}]}`)
	f.Fuzz(func(t *testing.T, template string) {
		text, err := Format([]byte(template))
		if err != nil {
			return
		}
		r := &report{source: string(text)}
		parse(r, false)
		if err := r.err(); err != nil {
			t.Errorf("%v\n%s\n%s", err, text, template)
		}
	})
}
