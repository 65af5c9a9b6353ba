package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
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

// TestDeployKilled kills the client in the middle of a deployment: the next deployment
// makes the rest, and the result is that of one that was not interrupted.
func TestDeployKilled(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	file := d.file(t, "many.json", manyContainers(60))
	path, err := os.Executable() // Under the name decan it is the program; see TestMain.
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		command := exec.Command(path, d.flags("deploy", file)...)
		command.Args[0] = "decan"
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// The client has begun when its first line arrives.
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // Killed.
	}
	d.decan(t, "deploy", file)
	whole := startDeployment(t)
	whole.decan(t, "deploy", file)
	if got, want := d.decan(t, "export", "template", "many"), whole.decan(t, "export", "template", "many"); got != want {
		t.Errorf("after two interruptions\n%s\nwithout\n%s", got, want)
	}
	if out := d.decan(t, "deploy", file); !strings.Contains(out, "61 resources: 61 without change.") {
		t.Error(out)
	}
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

// TestExportTemplate exports a database and a keyspace as JSON and as Bicep, and deploys
// them elsewhere: an export of that is the same, and on the first server nothing changes.
func TestExportTemplate(t *testing.T) {
	t.Parallel()
	d := startDeployment(t)
	d.decan(t, "deploy", d.file(t, "all.json", everything))
	for _, form := range []struct {
		name  string
		flags []string
	}{{"json", nil}, {"bicep", []string{"--bicep"}}} {
		other := startDeployment(t)
		for _, database := range []string{"shop", "ks"} {
			exported := d.decan(t, append([]string{"export", "template", database}, form.flags...)...)
			file := d.file(t, database+"."+form.name, exported)
			if out := d.decan(t, "deploy", file); !strings.Contains(out, "without change") || strings.Contains(out, "changed") || strings.Contains(out, "created") {
				t.Errorf("%s %s, where it comes from: %s", form.name, database, out)
			}
			other.decan(t, "deploy", file)
			if again := other.decan(t, append([]string{"export", "template", database}, form.flags...)...); again != exported {
				t.Errorf("%s %s elsewhere:\n%s\nwant\n%s", form.name, database, again, exported)
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
