package bicep_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/bicep"
)

// TestPlaces: what only the expansion refuses has its place in the Bicep file that it was
// written in, in the error and in its message.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const database = "resource db 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-05-15' = "
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a property": {
			map[string]string{"main.bicep": "param size int = 3\n" + database + "{\n  name: 'acc/db'\n  properties: {\n    resource: { id: 'db', n: substring('abc', 2, size) }\n  }\n}"},
			"main.bicep:5:30 The template resource 'acc/db' at line '2' and column '10' is not valid: Unable to evaluate the template language function 'substring'",
		},
		"text with characters outside the first plane before it": {
			map[string]string{"main.bicep": "output o object = { a: '😀', b: '😀${int('x')}' }"},
			"main.bicep:1:33 ",
		},
		"a module": {
			map[string]string{
				"main.bicep":  "module m 'sub/m.bicep' = [for n in [1]: {\n  name: 'm${n}'\n  params: { n: n }\n}]",
				"sub/m.bicep": "param n int\n" + database + "{\n  name: 'acc/db'\n  properties: { resource: { id: string(int('x${n}')) } }\n}",
			},
			"sub/m.bicep:4:33 ",
		},
		"a variable of an imported file": {
			map[string]string{"main.bicep": "import { bad } from 'lib.bicep'\noutput o int = bad", "lib.bicep": "@export()\nvar bad = int('x')"},
			"lib.bicep:2:11 ",
		},
		"a parameter without a value": {map[string]string{"main.bicep": "\nparam a string"}, "main.bicep:2:7 The value for the template parameter 'a' at line '2' and column '7' is not provided."},
		"twice the same name": {
			map[string]string{"main.bicep": database + "{\n  name: 'acc/db'\n}\n" + strings.Replace(database, "db", "again", 1) + "{\n  name: 'acc/${toLower('DB')}'\n}"},
			"main.bicep:4:10 The resource '",
		},
		"a loop that is too long": {map[string]string{"main.bicep": database + "[for i in range(0, 801): {\n  name: 'acc/db${i}'\n}]"}, "main.bicep:1:89 "},
		"a condition":             {map[string]string{"main.bicep": database + "if (bool('x')) {\n  name: 'acc/db'\n}"}, "main.bicep:1:82 "},
		"an output":               {map[string]string{"main.bicep": "output o string = substring('a', 5)"}, "main.bicep:1:19 "},
		"a value of a parameters file": {
			map[string]string{"main.bicep": "@maxLength(2)\nparam s string", "main.bicepparam": "using 'main.bicep'\nparam s = toUpper('abc')"},
			"main.bicepparam:2:11 ",
		},
		"an expression of a parameters file": {
			map[string]string{"main.bicep": "param s string", "main.bicepparam": "using 'main.bicep'\nparam s = substring('abc', 7)"},
			"main.bicepparam:2:11 ",
		},
		"resources of other providers": {
			map[string]string{"main.bicep": "resource n 'Microsoft.Network/virtualNetworks@2024-05-01' = {\n  name: 'n'\n}\nresource v 'Microsoft.KeyVault/vaults@2024-11-01' = {\n  name: 'v'\n}"},
			"main.bicep:1:10 The template has 2 resources that do not exist here: Microsoft.Network/virtualNetworks 'n' (line 1), Microsoft.KeyVault/vaults 'v' (line 4).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := expandFiles(c.files)
			e, is := errors.AsType[*deploy.Error](err)
			if !is {
				t.Fatalf("got error %v, want %s", err, c.want)
			}
			if got := fmt.Sprintf("%s:%d:%d %s", e.File, e.Line, e.Column, e.Message); !strings.HasPrefix(got, c.want) {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// expandFiles compiles main.bicepparam, or main.bicep without it, and expands the result.
func expandFiles(files map[string]string) error {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	request := deploy.Request{Scope: scope}
	if files["main.bicepparam"] != "" {
		p, err := bicep.CompileParameters(fsys, "main.bicepparam", bicep.Options{Evaluate: outputsOf})
		if err != nil {
			return err
		}
		request.Template, request.Parameters = sourceOf(p.Template), []deploy.Source{sourceOf(p.Values)}
	} else {
		compiled, err := bicep.Compile(fsys, "main.bicep")
		if err != nil {
			return err
		}
		request.Template = sourceOf(compiled)
	}
	d, err := deploy.Expand(request)
	if err == nil {
		_, _, err = d.Items(deploy.Choice{})
	}
	return err
}
