package bicep

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// refusal compiles main.bicep, or main.bicepparam when it is there, and
// returns the diagnostics, one a line.
func refusal(t *testing.T, files map[string]string) string {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, source := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(source)}
	}
	var err error
	if _, ok := files["main.bicepparam"]; ok {
		_, err = CompileParameters(fsys, "main.bicepparam", Options{})
	} else {
		_, err = Compile(fsys, "main.bicep")
	}
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) {
		return "no place: " + err.Error()
	}
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = fmt.Sprintf("%s:%d:%d %s", d.File, d.Line, d.Column, d.Code)
	}
	return strings.Join(lines, "\n")
}

// TestRefusals: what is wrong beyond single lines is refused at its place.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const module = "param need string\nparam may int = 1\nparam none string?\noutput o string = need\n"
	const account = "resource a 'Microsoft.DocumentDB/databaseAccounts@2024-05-15' = {\n  name: 'acc'\n}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a module lacks a parameter":         {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  params: { may: 2 }\n}", "m.bicep": module}, "main.bicep:2:3 BCP035"},
		"a module lacks all parameters":      {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  name: 'x'\n}", "m.bicep": module}, "main.bicep:1:8 BCP035"},
		"a parameter that no module has":     {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  params: { need: 'x', nope: 2 }\n}", "m.bicep": module}, "main.bicep:2:24 BCP037"},
		"a parameter of another type":        {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  params: { need: 1 }\n}", "m.bicep": module}, "main.bicep:2:19 BCP036"},
		"an output that no module has":       {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  params: { need: 'x' }\n}\noutput p string = m.outputs.q", "m.bicep": module}, "main.bicep:4:29 BCP053"},
		"an error inside a module":           {map[string]string{"main.bicep": "module m 'd/m.bicep' = {\n}", "d/m.bicep": "var x = y\n"}, "main.bicep:1:10 BCP104\nd/m.bicep:1:9 BCP057"},
		"a module of a JSON template":        {map[string]string{"main.bicep": "module m 'm.json' = {\n  params: { b: 1 }\n}", "m.json": `{"parameters":{"a":{"type":"string"}}, "resources":[]}`}, "main.bicep:2:3 BCP035\nmain.bicep:2:13 BCP037"},
		"a broken JSON template":             {map[string]string{"main.bicep": "module m 'm.json' = {\n}", "m.json": `{"parameters"`}, "main.bicep:1:10 BCP188"},
		"modules that need each other":       {map[string]string{"main.bicep": "module m 'm.bicep' = {\n}", "m.bicep": "module n 'main.bicep' = {\n}"}, "main.bicep:1:10 BCP104\nm.bicep:1:10 BCP095"},
		"a module that is itself":            {map[string]string{"main.bicep": "module m 'main.bicep' = {\n}"}, "main.bicep:1:10 BCP094"},
		"a module of another scope":          {map[string]string{"main.bicep": "module m 'm.bicep' = {\n  name: 'x'\n}", "m.bicep": "targetScope = 'subscription'"}, "main.bicep:1:8 BCP134"},
		"a module outside the folder":        {map[string]string{"main.bicep": "module m '../m.bicep' = {\n}"}, "main.bicep:1:10 BCP091"},
		"a module of the root":               {map[string]string{"main.bicep": "module m '/etc/passwd' = {\n}"}, "main.bicep:1:10 BCP051"},
		"a module of a registry":             {map[string]string{"main.bicep": "module m 'br/public:avm/res/x:0.1' = {\n}"}, "main.bicep:1:10 BCP190"},
		"a template spec":                    {map[string]string{"main.bicep": "module m 'ts:a/b/c:1' = {\n}"}, "main.bicep:1:10 BCP190"},
		"a path with an expression":          {map[string]string{"main.bicep": "module m '${1}.bicep' = {\n}"}, "main.bicep:1:10 BCP092"},
		"a loaded file outside the folder":   {map[string]string{"main.bicep": "var x = loadTextContent('../../etc/passwd')"}, "main.bicep:1:25 BCP091"},
		"a loaded file that is no JSON":      {map[string]string{"main.bicep": "var x = loadJsonContent('a.json')", "a.json": "{"}, "main.bicep:1:25 BCP186"},
		"a path that the file has not":       {map[string]string{"main.bicep": "var x = loadJsonContent('a.json', '.b')", "a.json": "{}"}, "main.bicep:1:35 BCP235"},
		"a loaded path that is not constant": {map[string]string{"main.bicep": "param p string\nvar x = loadTextContent(p)"}, "main.bicep:2:25 BCP032"},
		"the environment outside parameters": {map[string]string{"main.bicep": "var x = readEnvironmentVariable('HOME')"}, "main.bicep:1:9 BCP057"},
		"an import that is not exported":     {map[string]string{"main.bicep": "import { a, b } from 'm.bicep'\nvar c = a", "m.bicep": "var a = 1\n@export()\nvar b = 2"}, "main.bicep:1:10 BCP360\nmain.bicep:2:9 BCP057"},
		"a condition that is later":          {map[string]string{"main.bicep": account + "resource b 'A.B/c@1' = if (a.properties.x == 'y') {\n  name: 'b'\n}"}, "main.bicep:4:28 BCP177"},
		"a list that is later":               {map[string]string{"main.bicep": account + "resource b 'A.B/c@1' = [for i in a.properties.x: {\n  name: i\n}]"}, "main.bicep:4:34 BCP178"},
		"a loop over what is later":          {map[string]string{"main.bicep": account + "var v = [for i in [1]: a.properties.x]"}, "main.bicep:4:24 BCP182"},
		"resources that need each other":     {map[string]string{"main.bicep": "resource a 'A.B/c@1' = {\n  name: b.name\n}\nresource b 'A.B/c@1' = {\n  name: a.name\n}"}, "main.bicep:2:9 BCP080\nmain.bicep:5:9 BCP080"},
		"a resource that is its own parent":  {map[string]string{"main.bicep": "resource a 'A.B/c/d@1' = {\n  parent: a\n  name: 'x'\n}"}, "main.bicep:1:12 BCP036\nmain.bicep:2:11 BCP079"},
		"a parent of another type":           {map[string]string{"main.bicep": account + "resource b 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-05-15' = {\n  parent: a\n  name: 'x'\n}"}, "main.bicep:4:12 BCP036"},
		"a type that is itself":              {map[string]string{"main.bicep": "type a = { b: a }"}, "main.bicep:1:6 BCP298"},
		"types that need each other":         {map[string]string{"main.bicep": "type a = { b: b }\ntype b = { a: a }\ntype c = { c: c? }"}, "main.bicep:1:6 BCP299\nmain.bicep:2:6 BCP299"},
		"a function that calls itself":       {map[string]string{"main.bicep": "func f(n int) int => f(n)"}, "main.bicep:1:22 BCP079"},
		"a loop at a wrong place":            {map[string]string{"main.bicep": "var x = { a: [for i in [1]: i] }\nparam p array = [for i in [1]: i]"}, "main.bicep:1:14 BCP138\nmain.bicep:2:17 BCP138"},
		"a lambda that is no argument":       {map[string]string{"main.bicep": "var x = y => y"}, "main.bicep:1:9 BCP200"},
		"a nested resource that is not":      {map[string]string{"main.bicep": account + "output o string = a::b.id"}, "main.bicep:4:22 BCP159"},
		"a whole loop as one resource":       {map[string]string{"main.bicep": "resource a 'A.B/c@1' = [for i in [1]: {\n  name: 'x${i}'\n}]\noutput o string = a.id"}, "main.bicep:4:21 BCP144"},
		"a parameters file lacks one":        {map[string]string{"main.bicepparam": "using 'm.bicep'\nparam may = 3", "m.bicep": module}, "main.bicepparam:1:1 BCP258"},
		"a parameters file has one more":     {map[string]string{"main.bicepparam": "using 'm.bicep'\nparam need = 'a'\nparam nope = 3", "m.bicep": module}, "main.bicepparam:3:7 BCP259"},
		"a value of another type":            {map[string]string{"main.bicepparam": "using 'm.bicep'\nparam need = 7", "m.bicep": module}, "main.bicepparam:2:14 BCP033"},
		"a variable that is not set":         {map[string]string{"main.bicepparam": "using 'm.bicep'\nparam need = readEnvironmentVariable('X')", "m.bicep": module}, "main.bicepparam:2:14 BCP338"},
		"a parameters file without using":    {map[string]string{"main.bicepparam": "param need = 'a'"}, "main.bicepparam:1:1 BCP261"},
		"an output in a parameters file":     {map[string]string{"main.bicepparam": "using none\noutput x string = 'a'"}, "main.bicepparam:2:1 BCP337"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := refusal(t, c.files); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestBounds: each bound refuses one more than it allows, and takes as many.
func TestBounds(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return "var x = " + strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(n int) map[string]string {
		var b strings.Builder
		files := map[string]string{}
		for i := range n {
			fmt.Fprintf(&b, "var v%d = loadTextContent('f%d')\n", i, i)
			files[fmt.Sprintf("f%d", i)] = "x"
		}
		files["main.bicep"] = b.String()
		return files
	}
	chain := func(n int) map[string]string {
		files := map[string]string{fmt.Sprintf("m%d.bicep", n): ""}
		for i := range n {
			files[fmt.Sprintf("m%d.bicep", i)] = fmt.Sprintf("module m 'm%d.bicep' = {\n}", i+1)
		}
		files["main.bicep"] = "module m 'm0.bicep' = {\n}"
		return files
	}
	// Each variable doubles what the one before it expands to.
	doubled := func(n int) string {
		var b strings.Builder
		b.WriteString("resource a 'A.B/c@1' existing = {\n  name: 'a'\n}\nvar v0 = a.properties.x\n")
		for i := range n {
			fmt.Fprintf(&b, "var v%d = [v%d, v%d]\n", i+1, i, i)
		}
		fmt.Fprintf(&b, "output o array = v%d", n)
		return b.String()
	}
	for name, c := range map[string]struct {
		good, bad map[string]string
		want      string
	}{
		"nesting":    {map[string]string{"main.bicep": deep(nestingMax / 2)}, map[string]string{"main.bicep": deep(nestingMax * 100)}, "limit"},
		"operators":  {map[string]string{"main.bicep": "var x = 1" + strings.Repeat(" + 1", nestingMax/2)}, map[string]string{"main.bicep": "var x = 1" + strings.Repeat(" + 1", nestingMax*100)}, "limit"},
		"files":      {many(filesMax - 1), many(filesMax), "limit"},
		"modules":    {chain(moduleDepthMax - 1), chain(moduleDepthMax + 1), "limit"},
		"expansion":  {map[string]string{"main.bicep": doubled(10)}, map[string]string{"main.bicep": doubled(60)}, "limit"},
		"text files": {map[string]string{"main.bicep": "var x = loadTextContent('f')", "f": strings.Repeat("x", textLengthMax)}, map[string]string{"main.bicep": "var x = loadTextContent('f')", "f": strings.Repeat("x", textLengthMax+1)}, "BCP184"},
		"base64":     {map[string]string{"main.bicep": "var x = loadFileAsBase64('f')", "f": strings.Repeat("x", base64SizeMax)}, map[string]string{"main.bicep": "var x = loadFileAsBase64('f')", "f": strings.Repeat("x", base64SizeMax+1)}, "BCP184"},
		"aliases": {
			map[string]string{"main.bicep": "var x = loadYamlContent('f')", "f": "a: &a [1]\nb: [*a, *a]"},
			map[string]string{"main.bicep": "var x = loadYamlContent('f')", "f": "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]"},
			"BCP340",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := refusal(t, c.good); got != "" {
				t.Errorf("as many as allowed: got %s", got)
			}
			if got := refusal(t, c.bad); !strings.Contains(got, " "+c.want) {
				t.Errorf("one more than allowed: got %.200q, want %s", got, c.want)
			}
		})
	}
}

// TestEnvironment: variables of the environment are read where a parameters
// file asks for them, and nowhere else.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"main.bicepparam": {Data: []byte("using none\nparam a = readEnvironmentVariable('A')\nparam b = readEnvironmentVariable('B', '[b]')")},
	}
	asked := ""
	p, err := CompileParameters(fsys, "main.bicepparam", Options{Environment: func(name string) (string, bool) {
		asked += name
		return "value of " + name, name == "A"
	}})
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Parameters map[string]struct{ Value string }
	}
	if err := json.Unmarshal(p.Values.JSON, &file); err != nil {
		t.Fatal(err)
	}
	if a, b := file.Parameters["a"].Value, file.Parameters["b"].Value; a != "value of A" || b != "[b]" || asked != "AB" {
		t.Errorf("a %q, b %q, asked %q", a, b, asked)
	}
}
