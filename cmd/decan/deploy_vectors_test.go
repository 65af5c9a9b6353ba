package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
)

var (
	deploymentTotal = regexp.MustCompile(`(?m)^\d+ resources?: (.*)\.$`)
	accountsOf      = regexp.MustCompile(`NotSupported: The template has resources of \d+ accounts, '(.*)'\. A server is one account: choose it with --account\.`)
)

// deployedInto has the database that a source of the vectors needs, or the database and the
// container.
var deployedInto = map[string]string{
	"existing": "d", "key-hierarchical": "telemetry", "key-plain": "telemetry", "load": "d", "modules": "d", "scripts": "d/c", "subscription-scope": "d", "types": "d",
}

// step deploys a template and returns the counts of the summary, and all that was written.
func (d deployment) step(file string, further ...string) (code int, total, said string) {
	var out, errs bytes.Buffer
	code = run(d.flags(append([]string{"deploy", file, "--ignore-other-resources"}, further...)...), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	if found := deploymentTotal.FindStringSubmatch(out.String()); found != nil {
		total = found[1]
	}
	return code, total, out.String() + errs.String()
}

// thrice deploys a template: before, what-if says what is created, the deployment creates
// that, and after it what-if says that nothing changes. A template of several accounts is
// refused, and deployed for one of them after the other. If failure is given, one resource
// of the first account fails each time with that sentence, and the others are deployed. It
// returns how many deployments there were.
func (d deployment) thrice(t *testing.T, file, failure string, flags ...string) int {
	t.Helper()
	code, before, said := d.step(file, append(flags, "--what-if")...)
	if found := accountsOf.FindStringSubmatch(said); found != nil && flags == nil && code == 1 {
		n := 0
		for account := range strings.SplitSeq(found[1], "', '") {
			n += d.thrice(t, file, failure, "--account", account)
			failure = ""
		}
		return n
	}
	want, failed := 0, ""
	if failure != "" {
		want, failed = 1, ", 1 failed"
	}
	if code != want || strings.Contains(before, "to change") || !strings.Contains(said, failure) {
		t.Fatalf("what-if before ends with %d, and writes\n%s", code, said)
	}
	code, done, said := d.step(file, flags...)
	if made := strings.ReplaceAll(before, "to create", "created"); code != want || done != made || !strings.Contains(said, failure) {
		t.Errorf("the deployment ends with %d, and writes\n%swant %s", code, said, made)
	}
	code, after, said := d.step(file, append(flags, "--what-if")...)
	after = strings.TrimSuffix(after, failed)
	if code != want || !regexp.MustCompile(`^(\d+ without change|1 failed)$`).MatchString(after) && before != "" {
		t.Errorf("what-if after ends with %d, and writes\n%s", code, said)
	}
	return 1
}

// TestDeployVectors deploys each Bicep source of the vectors.
func TestDeployVectors(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../internal/deploy/bicep/testdata/vectors/*.bicep")
	if err != nil || len(sources) != 22 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".bicep")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDeployment(t)
			if _, err := os.Stat(source + "param"); err == nil {
				source += "param"
			}
			database, container, _ := strings.Cut(deployedInto[name], "/")
			if database != "" {
				types(t, 0, []string{"database", "create", database, "--endpoint", d.Endpoint()})
			}
			if container != "" {
				types(t, 0, []string{"container", "create", database, container, "-k", "/k", "--endpoint", d.Endpoint()})
			}
			failure := ""
			if name == "modules" { // Its third container has the time to live 0.
				failure = "BadRequest: The value of 'defaultTtl' is 0. It must be -1 or a positive integer"
			}
			accounts := d.thrice(t, source, failure)
			if want := map[string]int{"loops": 2, "modules": 2}[name]; accounts != max(want, 1) {
				t.Errorf("%d accounts, want %d", accounts, want)
			}
		})
	}
	t.Run("unknown account", func(t *testing.T) {
		t.Parallel()
		types(t, 1, []string{"deploy", "../../internal/deploy/bicep/testdata/vectors/loops.bicep", "--account", "third"},
			`NotSupported: The template has no resources of the account 'third', but those of 'second', 'acc'\.\n$`)
	})
}

// deployable returns a template of the vectors, which are about the language, with a body
// that the service takes for each database and container.
func deployable(t *testing.T, template json.RawMessage) string {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(template, &whole); err != nil {
		t.Fatal(err)
	}
	mendResources(whole["resources"], "")
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mendResources is deployable for the resources of a template or of a resource of a type.
func mendResources(resources any, of string) {
	var list []any
	switch resources := resources.(type) {
	case []any:
		list = resources
	case map[string]any:
		list = slices.Collect(maps.Values(resources))
	}
	for _, r := range list {
		r, is := r.(map[string]any)
		if !is {
			continue
		}
		kind := fmt.Sprint(r["type"])
		if of != "" && !strings.Contains(kind, ".") {
			kind = of + "/" + kind
		}
		mendResources(r["resources"], kind)
		properties, has := r["properties"].(map[string]any)
		if name, text := r["name"].(string); has && text && (strings.HasSuffix(kind, "/sqlDatabases") || strings.HasSuffix(kind, "/containers")) {
			id := name[strings.LastIndexByte(name, '/')+1:]
			if strings.HasPrefix(name, "[") {
				id = "[last(split(" + name[1:len(name)-1] + ", '/'))]"
			}
			body := map[string]any{"id": id}
			if strings.HasSuffix(kind, "/containers") {
				body["partitionKey"] = map[string]any{"paths": []string{"/k"}, "kind": "Hash"}
			}
			properties["resource"] = body
		}
	}
}

// TestDeployTemplateVectors deploys each template of the vectors on one server, whose
// databases are deleted after each of them. One that the vendor's engine refuses is refused
// at once.
func TestDeployTemplateVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../internal/deploy/testdata/arm-templates.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name     string
			Template json.RawMessage
			Error    string
			Refused  []string `json:"refusedByTheCompiler"`
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	d := startDeployment(t)
	deployed := 0
	for i, c := range vectors.Cases {
		t.Run(c.Name, func(t *testing.T) {
			file := d.file(t, fmt.Sprintf("%d.json", i), string(c.Template))
			if c.Error != "" || c.Refused != nil {
				if code, total, said := d.step(file); code != 1 || total != "" || strings.Count(said, "\n") != 1 {
					t.Errorf("it ends with %d, and writes\n%s", code, said)
				}
				return
			}
			failure := ""
			if strings.HasPrefix(c.Name, "condition not bool") || c.Name == "condition text true" {
				failure = "InvalidTemplate: The condition of the resource 'a' is \""
			}
			deployed += d.thrice(t, d.file(t, fmt.Sprintf("%d.json", i), deployable(t, c.Template)), failure)
			for name := range strings.Lines(d.list(t)) {
				types(t, 0, []string{"database", "delete", strings.TrimSuffix(name, "\n"), "--yes", "--endpoint", d.Endpoint()})
			}
		})
	}
	if len(vectors.Cases) != 74 || deployed < 35 {
		t.Errorf("%d cases, %d deployed", len(vectors.Cases), deployed)
	}
}

// list returns the names of the databases, one on each line.
func (d deployment) list(t *testing.T) string {
	t.Helper()
	return types(t, 0, []string{"database", "list", "--endpoint", d.Endpoint()})
}
