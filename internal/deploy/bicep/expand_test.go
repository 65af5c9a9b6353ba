package bicep_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/bicep"
	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// scope is the deployment that the vectors were expanded for.
var scope = expression.Scope{
	SubscriptionID: "11111111-1111-1111-1111-111111111111", TenantID: "22222222-2222-2222-2222-222222222222",
	ResourceGroup: "rg", Location: "westus", Deployment: "main",
}

// sourceOf returns a compiled text with the places of its sources.
func sourceOf(c *bicep.Compiled) deploy.Source {
	return deploy.Source{Text: string(c.JSON), Place: c.Place}
}

// outputsOf expands a template and returns its outputs as JSON.
func outputsOf(template *bicep.Compiled) (map[string]json.RawMessage, error) {
	d, err := deploy.Expand(deploy.Request{Template: sourceOf(template), Scope: scope})
	if err != nil {
		return nil, err
	}
	outputs := map[string]json.RawMessage{}
	for _, o := range d.Outputs {
		outputs[o.Name] = json.RawMessage(jsonc.Text(o.Value))
	}
	return outputs, nil
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	node, err := jsonc.Parse(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return node.Plain()
}

// vector is what the vendor's compiler and engine make of a source.
type vector struct {
	Resources  json.RawMessage
	Outputs    json.RawMessage
	Parameters json.RawMessage
}

// TestVectors: each source of the vectors, compiled here and expanded, gives
// the resources and the outputs that the vendor's compiler and engine give.
func TestVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/vectors/*.bicep")
	if err != nil || len(paths) != 22 {
		t.Fatalf("%d sources, want 22: %v", len(paths), err)
	}
	fsys := os.DirFS("testdata/vectors")
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".bicep")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile("testdata/vectors/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want vector
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			if name == "parameters" {
				// The vendor's engine shows secure parameters as expressions, and an
				// array that holds a later value as one. Ours show what is known.
				want.Resources = bytes.Replace(want.Resources, []byte(`"[if(empty(parameters('secret')), 'no', 'yes')]"`), []byte(`"yes"`), 1)
				want.Outputs = bytes.Replace(want.Outputs, []byte(`"[createArray(null(), length(utcNow('yyyy')), length(newGuid()))]"`), []byte(`[null,"[length(utcNow('yyyy'))]","[length(newGuid())]"]`), 1)
			}
			request := deploy.Request{Scope: scope}
			if want.Parameters != nil {
				p, err := bicep.CompileParameters(fsys, name+".bicepparam", bicep.Options{Evaluate: outputsOf})
				if err != nil {
					t.Fatal(err)
				}
				request.Template, request.Parameters = sourceOf(p.Template), []deploy.Source{sourceOf(p.Values)}
				checkParameters(t, p.Values.JSON, want.Parameters)
			} else {
				template, err := bicep.Compile(fsys, name+".bicep")
				if err != nil {
					t.Fatal(err)
				}
				request.Template = sourceOf(template)
			}
			checkExpansion(t, request, want)
		})
	}
}

// checkParameters compares a parameters file with the values of the vectors.
func checkParameters(t *testing.T, got, want []byte) {
	t.Helper()
	var file struct{ Parameters json.RawMessage }
	if err := json.Unmarshal(got, &file); err != nil {
		t.Fatal(err)
	}
	if !jsonc.Equal(parsed(t, string(file.Parameters)), parsed(t, string(want))) {
		t.Errorf("parameters\n got %s\nwant %s", file.Parameters, want)
	}
}

func checkExpansion(t *testing.T, request deploy.Request, want vector) {
	t.Helper()
	d, err := deploy.Expand(request)
	if err != nil {
		t.Fatalf("%v\n%s", err, request.Template.Text)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(want.Resources, &list); err != nil {
		t.Fatal(err)
	}
	if len(d.Resources) != len(list) {
		t.Errorf("%d resources, want %d", len(d.Resources), len(list))
	}
next:
	for _, w := range list {
		for _, r := range d.Resources {
			if jsonc.Equal(parsed(t, jsonc.Text(r.Body)), parsed(t, string(w))) {
				continue next
			}
		}
		t.Errorf("no resource is %s", w)
		for _, r := range d.Resources {
			t.Logf("there is %s", jsonc.Text(r.Body))
		}
	}
	outputs := jsonc.NewObject()
	for _, o := range d.Outputs {
		outputs.Set(o.Name, o.Value)
	}
	if want.Outputs == nil {
		want.Outputs = json.RawMessage("{}")
	}
	if got := parsed(t, jsonc.Text(outputs)); !jsonc.Equal(got, parsed(t, string(want.Outputs))) {
		t.Errorf("outputs\n got %s\nwant %s", jsonc.Text(outputs), want.Outputs)
	}
}

// TestModulesInModules: modules three deep, each in a loop over a list, whose
// outputs come back up, and 200 containers of one loop.
func TestModulesInModules(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"main.bicep": {Data: []byte(`
var databases = [{ name: 'a', count: 120 }, { name: 'b', count: 80 }]
module all 'lib/databases.bicep' = {
  params: { databases: databases }
}
output first string = all.outputs.names[1][79]
`)},
		"lib/databases.bicep": {Data: []byte(`
param databases { name: string, count: int }[]
module each 'database.bicep' = [for (d, i) in databases: {
  name: 'database-${i}'
  params: { name: d.name, containers: [for n in range(0, d.count): 'c${n}'] }
}]
output names array = [for (d, i) in databases: each[i].outputs.names]
`)},
		"lib/database.bicep": {Data: []byte(`
import { keyOf } from '../keys.bicep'
param name string
param containers string[]
resource db 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-05-15' = {
  name: 'acc/${name}'
  properties: { resource: { id: name } }
}
module one '../container.bicep' = [for c in containers: {
  name: '${name}-${c}'
  params: { database: db.name, name: c, paths: keyOf(c) }
}]
output names array = [for (c, i) in containers: one[i].outputs.id]
`)},
		"container.bicep": {Data: []byte(`
param database string
param name string
param paths string[]
resource c 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-05-15' = {
  name: '${database}/${name}'
  properties: { resource: { id: name, partitionKey: { paths: paths, kind: 'MultiHash', version: 2 } } }
}
output id string = last(split(c.id, '/'))
`)},
		"keys.bicep": {Data: []byte(`
var root = '/tenant'
@export()
func keyOf(name string) string[] => ['/tenant', '/${name}']
@export()
var unused = root
`)},
	}
	template, err := bicep.Compile(fsys, "main.bicep")
	if err != nil {
		t.Fatal(err)
	}
	d, err := deploy.Expand(deploy.Request{Template: sourceOf(template), Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Resources) != 202 {
		t.Errorf("%d resources, want 2 databases and 200 containers", len(d.Resources))
	}
	last := d.Resources[len(d.Resources)-1]
	if got := jsonc.Text(last.Body); !strings.Contains(got, `"paths":["/tenant","/c`) {
		t.Errorf("the last resource is %s", got)
	}
	if len(d.Outputs) != 1 || d.Outputs[0].Value != "c79" {
		t.Errorf("outputs %v, want c79", d.Outputs)
	}
}
