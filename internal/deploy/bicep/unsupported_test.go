package bicep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// TestUnsupported: each correct form that docs/bicep.md lists as refused is refused at its
// place and with a sentence, and each refusal of the code has a form here.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	const module = "param p string = 'x'\nparam q object = {}\n"
	const account = "resource a 'Microsoft.DocumentDB/databaseAccounts@2024-05-15' = {\n  name: 'acc'\n}\n"
	const vault = "resource v 'Microsoft.KeyVault/vaults@2023-07-01' existing = {\n  name: 'v'\n}\n"
	var said strings.Builder
	for _, c := range []struct {
		name, source, want string
		parameters         bool // The source is main.bicepparam.
	}{
		{name: "extension", source: "extension kubernetes", want: "1:1 unsupported"},
		{name: "extension by import", source: "import 'm.bicep'", want: "1:8 unsupported"},
		{name: "test", source: "test t 'm.bicep' = {\n}", want: "1:1 unsupported"},
		{name: "assert", source: "assert a = true", want: "1:1 BCP349"},
		{name: "extends", source: "using 'm.bicep'\nextends 'base.bicepparam'", want: "2:1 unsupported", parameters: true},
		{name: "import from JSON", source: "import { a } from 'm.json'", want: "1:19 unsupported"},
		{name: "identity of a module", source: "module m 'm.bicep' = {\n  identity: {}\n}", want: "2:3 unsupported"},
		{name: "extensions of a module", source: "module m 'm.bicep' = {\n  extensionConfigs: {}\n}", want: "2:3 unsupported"},
		{name: "parameters of a module by spread", source: "var o = { p: 'y' }\nmodule m 'm.bicep' = {\n  params: { ...o }\n}", want: "3:16 unsupported"},
		{name: "parameters of a module as a value", source: "var o = { p: 'y' }\nmodule m 'm.bicep' = {\n  params: o\n}", want: "3:11 unsupported"},
		{name: "a resource as a parameter", source: "param r resource 'A.B/c@2020-01-01'", want: "1:9 unsupported"},
		{name: "a resource as an output", source: account + "output r resource 'A.B/c@2020-01-01' = a", want: "4:10 unsupported"},
		{name: "a secret of a vault", source: vault + "module m 'm.bicep' = {\n  params: { p: v.getSecret('s') }\n}", want: "5:18 unsupported"},
		{name: "getSecret", source: "using 'm.bicep'\nparam p = getSecret('sub', 'group', 'vault', 'secret')", want: "2:11 unsupported", parameters: true},
		{name: "externalInput", source: "using 'm.bicep'\nparam p = externalInput('sys.envVar', 'X')", want: "2:11 unsupported", parameters: true},
		{name: "readCliArg", source: "using 'm.bicep'\nparam p = readCliArg('x')", want: "2:11 unsupported", parameters: true},
		{name: "roleDefinitions", source: "var r = roleDefinitions('Reader')", want: "1:9 unsupported"},
		{name: "loadDirectoryFileInfo", source: "var l = loadDirectoryFileInfo('.')", want: "1:9 unsupported"},
		{name: "filter in a path", source: "var x = loadJsonContent('data.json', '.l[?(@.a == 1)]')", want: "1:38 BCP235"},
		{name: "wildcard in a path", source: "var x = loadJsonContent('data.json', '.l[*]')", want: "1:38 BCP235"},
		{name: "onlyIfNotExists", source: "@onlyIfNotExists()\n" + account, want: "1:2 unsupported"},
		{name: "retryOn", source: "@retryOn(['x'])\n" + account, want: "1:2 unsupported"},
		{name: "waitUntil", source: "@waitUntil(r => true, 'PT1M')\n" + account, want: "1:2 unsupported"},
		{name: "validate", source: "@validate(p => true)\nparam p string", want: "1:2 unsupported"},
		{name: "nullIfNotFound", source: "@nullIfNotFound()\n" + vault, want: "1:2 unsupported"},
		{name: "allowReadOnly", source: "@allowReadOnly()\n" + account, want: "1:2 unsupported"},
		{name: "scope by condition", source: "param b bool\nmodule m 'm.bicep' = {\n  scope: b ? resourceGroup('x') : resourceGroup('y')\n}", want: "3:10 unsupported"},
		{name: "module of a registry", source: "module m 'br/public:avm/res/x:0.1' = {\n}", want: "1:10 BCP190"},
		{name: "template spec", source: "module m 'ts:a/b/c:1' = {\n}", want: "1:10 BCP190"},
		{name: "file outside the folder", source: "var x = loadTextContent('../x')", want: "1:25 BCP091"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "main.bicep"
			if c.parameters {
				file += "param"
			}
			files := fstest.MapFS{}
			for name, text := range map[string]string{file: c.source, "m.bicep": module, "m.json": `{"variables": {"a": 1}, "resources": []}`, "data.json": `{"l": [{"a": 1}]}`, "base.bicepparam": "using none"} {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			var err error
			if c.parameters {
				_, err = CompileParameters(files, file, Options{})
			} else {
				_, err = Compile(files, file)
			}
			var e *Error
			if !errors.As(err, &e) || len(e.Diagnostics) != 1 {
				t.Fatalf("it is refused with %v", err)
			}
			d := e.Diagnostics[0]
			if got := fmt.Sprintf("%d:%d %s", d.Line, d.Column, d.Code); got != c.want || d.File != file || !strings.HasSuffix(d.Message, ".") {
				t.Errorf("it is refused with %v, want %s", err, c.want)
			}
			fmt.Fprintln(&said, d.Message)
		})
	}
	sources, _ := filepath.Glob("*.go")
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, refusal := range regexp.MustCompile(`CodeUnsupported, "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(refusal[1]), "%q", `"\w+"`)
			if !regexp.MustCompile(`(?m)^` + pattern + `$`).MatchString(said.String()) {
				t.Errorf("%s: no form shows the refusal %q", name, refusal[1])
			}
		}
	}
	for _, decorator := range refusedDecorators {
		if !strings.Contains(said.String(), fmt.Sprintf("%q", decorator)) {
			t.Errorf("no form shows the refusal of @%s", decorator)
		}
	}
}
