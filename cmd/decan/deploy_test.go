package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/console/consoletest"
	"github.com/decandb/decan/decantest"
)

const templateHead = `"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0"`

// deployment is a server and a directory with templates.
type deployment struct {
	*decantest.Server
	dir string
}

// startDeployment starts a server with all ports that deployments use.
func startDeployment(t *testing.T) deployment {
	t.Helper()
	return deployment{decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0", CQLListen: "127.0.0.1:0"}), t.TempDir()}
}

// flags returns a command line for the server.
func (d deployment) flags(args ...string) []string {
	return append(args, "--endpoint", d.Endpoint(), "--admin", d.AdminEndpoint(), "--cql", d.CQLAddress())
}

// decan runs a command and returns its output; it must succeed.
func (d deployment) decan(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(d.flags(args...), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("decan %s: exit status %d\n%s%s", strings.Join(args, " "), code, &out, &errs)
	}
	return out.String()
}

// file writes a file and returns its name.
func (d deployment) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// manyContainers is a template of a loop of so many containers.
func manyContainers(n int) string {
	return fmt.Sprintf(`{%s, "parameters": {"count": {"type": "int", "defaultValue": %d}},
 "resources": [
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2024-05-15", "name": "acc/many", "properties": {"resource": {"id": "many"}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2024-05-15", "name": "[format('acc/many/c{0}', padLeft(copyIndex(), 3, '0'))]",
   "copy": {"name": "containers", "count": "[parameters('count')]"}, "dependsOn": ["acc/many"],
   "properties": {"resource": {"id": "[format('c{0}', padLeft(copyIndex(), 3, '0'))]", "partitionKey": {"paths": ["/a", "/b", "/c"], "kind": "MultiHash", "version": 2}}}}]}`, templateHead, n)
}

// TestDeployTwice deploys 200 containers, twice: the second time nothing changes, and
// what-if says both before and after what is so.
func TestDeployTwice(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	file := d.file(t, "many.json", manyContainers(200))
	for _, step := range []struct{ flag, want string }{
		{"--what-if", "201 resources: 201 to create."},
		{"--ignore-other-resources", "201 resources: 201 created."},
		{"--what-if", "201 resources: 201 without change."},
		{"--ignore-other-resources", "201 resources: 201 without change."},
	} {
		if out := d.decan(t, "deploy", file, step.flag); !strings.Contains(out, step.want) {
			t.Fatalf("%s: %s, want %s", step.flag, out[max(len(out)-200, 0):], step.want)
		}
	}
}

// TestDeployKilled kills the server in the middle of a deployment, and then the client in
// the middle of the next ones: the next deployment makes the rest, and the result is that of
// one that was not interrupted.
func TestDeployKilled(t *testing.T) {
	t.Parallel()
	const containers = 40
	file := deployment{dir: t.TempDir()}.file(t, "many.json", manyContainers(containers))
	data := t.TempDir()
	decan := func(args ...string) *exec.Cmd { return exec.Command("decan", args...) } // This binary; see TestMain.
	served := spawnCommand(t, decan, "serve", "--data", data)
	at := func(p *process, args ...string) []string {
		return append(args, "--endpoint", "http://"+p.address, "--admin", "http://"+p.admin, "--cql", p.cql)
	}
	var errs bytes.Buffer
	watched := &consoletest.Until{Text: "created    container many/c009", Told: func(string) { served.kill() }}
	if code := run(at(served, "deploy", file), console.Streams{In: strings.NewReader(""), Out: watched, Err: &errs}); code != 1 ||
		!regexp.MustCompile(`^11 changes were made before the deployment ended; the next deployment makes the rest\.\ndecan: .*\n`).MatchString(errs.String()) {
		t.Errorf("without the server the deployment ends with %d and writes\n%s", code, &errs)
	}
	served = spawnCommand(t, decan, "serve", "--data", data)
	for _, when := range []string{"c012", "c014"} { // On a busy machine the client may do more before it is killed.
		command := decan(at(served, "deploy", file)...)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), when); {
		}
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // Killed.
	}
	types(t, 0, at(served, "deploy", file), fmt.Sprintf(`(?m)^%d resources: (\d+ created, )?\d+ without change\.$`, containers+1))
	whole := startDeployment(t)
	whole.decan(t, "deploy", file)
	if got, want := types(t, 0, at(served, "export", "template", "many")), whole.decan(t, "export", "template", "many"); got != want {
		t.Errorf("after three interruptions\n%s\nwithout\n%s", got, want)
	}
	types(t, 0, at(served, "deploy", file), fmt.Sprintf(`(?m)^%d resources: %[1]d without change\.$`, containers+1))
}

// everything is a template with all that an export has.
const everything = `{` + templateHead + `,
 "resources": [
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2025-10-15", "name": "acc/shop", "properties": {"resource": {"id": "shop"}, "options": {"autoscaleSettings": {"maxThroughput": 2000}}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2025-10-15", "name": "acc/shop/full",
   "properties": {"options": {"throughput": 500}, "resource": {"id": "full", "partitionKey": {"paths": ["/TenantId", "/UserId", "/SessionId"], "kind": "MultiHash", "version": 2},
    "indexingPolicy": {"indexingMode": "consistent", "automatic": true, "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/\"_etag\"/?"}, {"path": "/blob/*"}],
     "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]], "spatialIndexes": [{"path": "/p/*", "types": ["Point"]}]},
    "geospatialConfig": {"type": "Geography"}, "defaultTtl": 100, "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/email"]}]},
    "conflictResolutionPolicy": {"mode": "LastWriterWins", "conflictResolutionPath": "/_ts"},
    "computedProperties": [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2025-10-15", "name": "acc/shop/shared",
   "properties": {"resource": {"id": "shared", "partitionKey": {"paths": ["/id"], "kind": "Hash", "version": 1}}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/storedProcedures", "apiVersion": "2025-10-15", "name": "acc/shop/full/p", "properties": {"resource": {"id": "p", "body": "[[1]"}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/triggers", "apiVersion": "2025-10-15", "name": "acc/shop/full/t", "properties": {"resource": {"id": "t", "body": "function () {\n  return '${x}';\n}", "triggerType": "Pre", "triggerOperation": "Create"}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/userDefinedFunctions", "apiVersion": "2025-10-15", "name": "acc/shop/full/f", "properties": {"resource": {"id": "f", "body": "function f(x) { return x; }"}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/cassandraKeyspaces", "apiVersion": "2025-10-15", "name": "acc/ks", "properties": {"resource": {"id": "ks"}}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/cassandraKeyspaces/tables", "apiVersion": "2025-10-15", "name": "acc/ks/t",
   "properties": {"options": {"throughput": 800}, "resource": {"id": "t", "defaultTtl": 3600, "schema": {"columns": [{"name": "A", "type": "Ascii"}, {"name": "b", "type": "int"}, {"name": "v", "type": "Map<text,int>"}],
    "partitionKeys": [{"name": "A"}], "clusterKeys": [{"name": "b", "orderBy": "Desc"}]}}}}]}`

// ownRoles is a template with a role that can be assigned in one database only, its
// assignment to a container of it, and an assignment in the whole account.
const ownRoles = `{` + templateHead + `,
 "variables": {"account": "[resourceId('Microsoft.DocumentDB/databaseAccounts', 'acc')]", "role": "11111111-2222-3333-4444-555555555555", "all": "00000000-0000-0000-0000-000000000001"},
 "resources": [
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions", "apiVersion": "2024-05-15", "name": "[format('acc/{0}', variables('role'))]",
   "properties": {"roleName": "Reader of 'shop'", "type": "CustomRole", "assignableScopes": ["[format('{0}/dbs/shop', variables('account'))]"],
    "permissions": [{"dataActions": ["Microsoft.DocumentDB/databaseAccounts/readMetadata"]}]}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments", "apiVersion": "2024-05-15", "name": "acc/22222222-2222-3333-4444-555555555555", "dependsOn": ["[resourceId('Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions', 'acc', variables('role'))]"],
   "properties": {"roleDefinitionId": "[format('{0}/sqlRoleDefinitions/{1}', variables('account'), variables('role'))]", "principalId": "33333333-2222-3333-4444-555555555555", "scope": "[format('{0}/dbs/shop/colls/full', variables('account'))]"}},
  {"type": "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments", "apiVersion": "2024-05-15", "name": "acc/44444444-2222-3333-4444-555555555555",
   "properties": {"roleDefinitionId": "[format('{0}/sqlRoleDefinitions/{1}', variables('account'), variables('all'))]", "principalId": "33333333-2222-3333-4444-555555555555", "scope": "[variables('account')]"}}]}`

// TestExportTemplate exports a database and a keyspace as JSON, and the account as Bicep,
// and deploys them elsewhere: an export of that is the same, and on the first server nothing
// changes. What no template can have is named.
func TestExportTemplate(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	d.decan(t, "deploy", d.file(t, "all.json", everything))
	d.decan(t, "deploy", d.file(t, "roles.json", ownRoles))
	at := "--endpoint=" + d.Endpoint()
	types(t, 0, []string{"user", "create", "shop", "ann", at})
	types(t, 0, []string{
		"shell", at, "--cql", d.CQLAddress(), "-c", `\cql`, "-c", "CREATE TYPE ks.place (x int)", "-c", `CREATE INDEX by_v ON ks.t (KEYS("v"))`, "-c", `ALTER TABLE ks.t ADD s int static`,
		"-c", `CREATE MATERIALIZED VIEW ks.seen AS SELECT "A", b FROM ks.t WHERE "A" IS NOT NULL AND b IS NOT NULL PRIMARY KEY (b, "A")`,
	})
	for _, form := range []struct {
		flag      string
		databases []string // None is the account.
		notes     string
	}{
		{"", []string{"shop", "ks"}, ""},
		{"--bicep", []string{""}, "note: keyspace ks: the type place is not exported: it has no resource type\n" +
			"note: keyspace ks: the index by_v is not exported: it has no resource type\n" +
			"note: keyspace ks: the materialized view seen is not exported: it has no resource type\n" +
			"note: table ks/t: a template cannot say that the column s is static\n" +
			"note: database shop: users and their permissions are not exported, since they have no resource type: 1 user\n"},
	} {
		other := startDeployment(t)
		for _, database := range form.databases {
			args := slices.DeleteFunc([]string{"export", "template", database, form.flag}, func(arg string) bool { return arg == "" })
			var out, errs bytes.Buffer
			if code := run(d.flags(args...), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 || form.notes != "" && errs.String() != form.notes {
				t.Fatalf("%q ends with %d and writes\n%swant\n%s", args, code, &errs, form.notes)
			}
			exported := out.String()
			if strings.Contains(exported, "22222222-2222") == (database == "ks") || strings.Contains(exported, "44444444-2222") != (database == "") {
				t.Errorf("the roles of %q are not exported, or others: %s", database, exported)
			}
			file := d.file(t, database+".x"+map[bool]string{true: ".bicep", false: ".json"}[form.flag != ""], exported)
			if out := d.decan(t, "deploy", file); !strings.Contains(out, "without change") || strings.Contains(out, "changed") || strings.Contains(out, "created") {
				t.Errorf("%q, where it comes from: %s", args, out)
			}
			other.decan(t, "deploy", file)
			if again := other.decan(t, args...); again != exported {
				t.Errorf("%q elsewhere:\n%s\nwant\n%s", args, again, exported)
			}
		}
	}
}

// TestDeployTables changes a table: new columns are added, old ones stay, and a key cannot
// change.
func TestDeployTables(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	d.decan(t, "deploy", d.file(t, "all.json", everything))
	changed := strings.NewReplacer(`{"name": "v", "type": "Map<text,int>"}`, `{"name": "w", "type": "uuid"}`, `"defaultTtl": 3600`, `"defaultTtl": -1`).Replace(everything)
	file := d.file(t, "changed.json", changed)
	for _, flags := range [][]string{{"--what-if"}, nil} {
		out := d.decan(t, append([]string{"deploy", file}, flags...)...)
		for _, want := range []string{"+ schema.columns.w: \"uuid\"", "~ defaultTtl: 3600 -> -1", "note: the column v is not in the template; it stays"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %s, want %s", flags, out, want)
			}
		}
	}
	if out := d.decan(t, "deploy", file); !strings.Contains(out, "8 resources: 8 without change.") {
		t.Error(out)
	}
	var out, errs bytes.Buffer
	file = d.file(t, "key.json", strings.Replace(everything, `"clusterKeys": [{"name": "b", "orderBy": "Desc"}]`, `"clusterKeys": []`, 1))
	if code := run(d.flags("deploy", file), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 1 || !strings.Contains(out.String(), "BadRequest: The key of a table cannot be changed") {
		t.Errorf("another key: exit status %d, %s%s", code, &out, &errs)
	}
}

// TestDeployModules deploys Bicep modules three deep with a loop over a list: what-if
// before, the deployment, and what-if after it.
func TestDeployModules(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	d.file(t, "leaf.bicep", `param parent string
param names string[]
resource each 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-05-15' = [for (name, i) in names: {
  name: '${parent}/${name}'
  properties: { resource: { id: name, partitionKey: { paths: ['/k${i}'], kind: 'Hash' } } }
}]
output ids array = [for (name, i) in names: each[i].name]
`)
	d.file(t, "branch.bicep", `param database string
param names string[]
resource made 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-05-15' = {
  name: 'acc/${database}'
  properties: { resource: { id: database } }
}
module leaf 'leaf.bicep' = {
  name: 'leaf-${database}'
  params: { parent: made.name, names: names }
}
output ids array = leaf.outputs.ids
`)
	d.file(t, "trunk.bicep", `param tenants object[]
module branch 'branch.bicep' = [for tenant in tenants: {
  name: 'branch-${tenant.name}'
  params: { database: tenant.name, names: tenant.containers }
}]
output ids array = [for (tenant, i) in tenants: branch[i].outputs.ids]
`)
	file := d.file(t, "main.bicep", `module trunk 'trunk.bicep' = {
  name: 'trunk'
  params: { tenants: [
      { name: 'contoso', containers: ['a', 'b'] }
      { name: 'fabrikam', containers: ['c'] }
    ]
  }
}
output ids array = trunk.outputs.ids
`)
	d.thrice(t, file, "")
	if out := d.decan(t, "deploy", file); !strings.Contains(out, `output ids: [["acc/contoso/a","acc/contoso/b"],["acc/fabrikam/c"]]`) || !strings.Contains(out, "no change  container fabrikam/c") {
		t.Error(out)
	}
}

// TestDeployNested deploys templates three deep, with a loop over a list of the outer one.
func TestDeployNested(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	container := `{"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2024-05-15", "name": "[format('acc/deep/{0}', parameters('names')[copyIndex()])]",
	 "copy": {"name": "c", "count": "[length(parameters('names'))]", "mode": "serial", "batchSize": 1},
	 "properties": {"resource": {"id": "[parameters('names')[copyIndex()]]", "partitionKey": {"paths": ["/id"], "kind": "Hash"}}}}`
	text := `{` + templateHead + `, "parameters": {"names": {"type": "array"}}, "resources": [` + container + `], "outputs": {"n": {"type": "int", "value": "[length(parameters('names'))]"}}}`
	for i := range 2 {
		text = fmt.Sprintf(`{%s, "parameters": {"names": {"type": "array", "defaultValue": ["x", "y", "z"]}}, "resources": [
		 {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2024-05-15", "name": "acc/%s", "properties": {"resource": {"id": "%[2]s"}}},
		 {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inner", "dependsOn": ["acc/%[2]s"],
		  "properties": {"mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"names": {"value": "[parameters('names')]"}}, "template": %s}}],
		 "outputs": {"n": {"type": "int", "value": "[add(reference('inner').outputs.n.value, 1)]"}}}`, templateHead, []string{"deep", "outer"}[i], text)
	}
	out := d.decan(t, "deploy", d.file(t, "nested.json", text))
	for _, want := range []string{"created    database outer", "created    database deep", "created    container deep/x", "created    container deep/z", "output n: 5"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nwant %s", out, want)
		}
	}
}
