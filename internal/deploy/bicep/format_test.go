package bicep

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// compileText compiles one source without other files.
func compileText(t *testing.T, source string) []byte {
	t.Helper()
	b, err := Compile(fstest.MapFS{"main.bicep": {Data: []byte(source)}}, "main.bicep")
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return b.JSON
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return v
}

// TestFormatOfVectors: the templates of the sources that Format takes are the
// same after they were printed and compiled again.
func TestFormatOfVectors(t *testing.T) {
	t.Parallel()
	refused := map[string]string{
		"functions": "functions are not printed", "loops": "loops (copy) are not printed", "load": "loops (copy) are not printed",
		"modules": "nested templates are not printed", "parameters": `parameters with "properties" are not printed`, "subscription-scope": "nested templates are not printed",
		"types": "definitions are not printed",
	}
	for _, name := range vectors(t) {
		compiled, err := Compile(vectorFS(), name+".bicep")
		if err != nil {
			t.Fatal(err)
		}
		template := compiled.JSON
		text, err := Format(template)
		if want := refused[name]; want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want %q", name, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := compileText(t, string(text))
		if name == "existing" || name == "old-generation" || name == "nested-children" || name == "scripts" {
			// format('{0}', 'x') comes back as 'x', and outer::inner under another
			// name. A further round changes nothing.
			if text, err = Format(again); err != nil {
				t.Fatal(name, err)
			}
			template, again = again, compileText(t, string(text))
		}
		if diff := cmp.Diff(decode(t, template), decode(t, again)); diff != "" {
			t.Errorf("%s: after a round (-before +after):\n%s\n%s", name, diff, text)
		}
	}
}

// TestFormatOfExport: a template as an export writes it, with expressions in
// names and resources as a list, is readable Bicep: parents, a trigger of
// several lines, no dependsOn that a parent implies.
func TestFormatOfExport(t *testing.T) {
	t.Parallel()
	const template = `{
  "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
  "contentVersion": "1.0.0.0",
  "parameters": {"account": {"type": "string", "metadata": {"description": "Name of the account's \"owner\"."}}, "key": {"type": "secureString"}},
  "resources": [
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2024-05-15", "name": "[concat(parameters('account'), '/telemetry')]",
     "properties": {"resource": {"id": "telemetry"}, "options": {}}},
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2024-05-15", "name": "[concat(parameters('account'), '/telemetry/sessions')]",
     "dependsOn": ["[resourceId('Microsoft.DocumentDB/databaseAccounts/sqlDatabases', parameters('account'), 'telemetry')]"],
     "properties": {"resource": {"id": "sessions", "partitionKey": {"paths": ["/TenantId", "/UserId", "/SessionId"], "kind": "MultiHash", "version": 2}, "defaultTtl": -1}}},
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings", "apiVersion": "2024-05-15", "name": "[concat(parameters('account'), '/telemetry/sessions/default')]",
     "dependsOn": ["[concat(parameters('account'), '/telemetry/sessions')]"],
     "properties": {"resource": {"autoscaleSettings": {"maxThroughput": 4000}}}},
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/triggers", "apiVersion": "2024-05-15", "name": "[concat(parameters('account'), '/telemetry/sessions/stamp-it')]",
     "dependsOn": ["[concat(parameters('account'), '/telemetry/sessions')]", "[concat(parameters('account'), '/telemetry/sessions/default')]"],
     "properties": {"resource": {"id": "stamp-it", "body": "function stamp() {\n  var s = '${x}';\n}\n", "triggerType": "Pre", "triggerOperation": "Create"}}},
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments", "apiVersion": "2024-05-15", "name": "[concat(parameters('account'), '/00000000-0000-0000-0000-000000000009')]",
     "properties": {"scope": "[[not an expression]"}}
  ]
}`
	const want = `@description('Name of the account\'s "owner".')
param account string

@secure()
param key string

resource telemetry 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-05-15' = {
  name: '${account}/telemetry'
  properties: {
    resource: {
      id: 'telemetry'
    }
    options: {}
  }
}

resource sessions 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-05-15' = {
  parent: telemetry
  name: 'sessions'
  properties: {
    resource: {
      id: 'sessions'
      partitionKey: {
        paths: [
          '/TenantId'
          '/UserId'
          '/SessionId'
        ]
        kind: 'MultiHash'
        version: 2
      }
      defaultTtl: -1
    }
  }
}

resource sessionsThroughput 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings@2024-05-15' = {
  parent: sessions
  name: 'default'
  properties: {
    resource: {
      autoscaleSettings: {
        maxThroughput: 4000
      }
    }
  }
}

resource stampIt 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/triggers@2024-05-15' = {
  parent: sessions
  name: 'stamp-it'
  properties: {
    resource: {
      id: 'stamp-it'
      body: '''
function stamp() {
  var s = '${x}';
}
'''
      triggerType: 'Pre'
      triggerOperation: 'Create'
    }
  }
  dependsOn: [
    sessionsThroughput
  ]
}

resource assignment 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-05-15' = {
  name: '${account}/00000000-0000-0000-0000-000000000009'
  properties: {
    scope: '[not an expression]'
  }
}
`
	text, err := Format([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := Format(compileText(t, string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(again)); diff != "" {
		t.Errorf("a second round changes the text:\n%s", diff)
	}
}

// TestFormatErrors: what is not printed is named.
func TestFormatErrors(t *testing.T) {
	t.Parallel()
	const resource = `{"type":"A.B/c","apiVersion":"1","name":"n",`
	for template, want := range map[string]string{
		`[]`: "not an object", `{`: "EOF",
		`{"resources":[{"type":"A.B/c"}]}`:                                           "no type, apiVersion or name",
		`{"resources":[` + resource + `"copy":{"name":"x","count":2}}]}`:             "loops (copy) are not printed",
		`{"resources":[` + resource + `"dependsOn":["gone"]}]}`:                      `dependsOn names "gone"`,
		`{"resources":[` + resource + `"properties":{"x":"[parameters('y')]"}}]}`:    "parameters('y') is not declared",
		`{"resources":[` + resource + `"properties":{"x":"[add(1]"}}]}`:              "position 6",
		`{"parameters":{"p":{"$ref":"#/definitions/x"}},"resources":[]}`:             "without a simple type",
		`{"resources":[],"outputs":{"o":{"type":"string","value":"[a.b(1)]"}}}`:      "functions of the template",
		`{"resources":[],"variables":{"copy":[{"name":"a","count":1,"input":"b"}]}}`: "loops (copy)",
	} {
		if _, err := Format([]byte(template)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", template, err, want)
		}
	}
}
