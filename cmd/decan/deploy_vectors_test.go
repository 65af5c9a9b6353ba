package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
)

// notDeployed are the sources of the vectors that a server refuses, and why.
var notDeployed = map[string]string{
	"loops":   "NotSupported: The template has resources of 2 accounts",
	"modules": "NotSupported: The template has resources of 2 accounts",
}

// deployedInto has the database that a source of the vectors needs, or the database and the
// container.
var deployedInto = map[string]string{
	"existing": "d", "key-hierarchical": "telemetry", "key-plain": "telemetry", "load": "d", "scripts": "d/c", "subscription-scope": "d", "types": "d",
}

// TestDeployVectors deploys each Bicep source of the vectors that this server can deploy:
// before, what-if says what is created, the deployment creates that, and after it what-if
// says that nothing changes.
func TestDeployVectors(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../internal/deploy/bicep/testdata/vectors/*.bicep")
	if err != nil || len(sources) != 22 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	counted := regexp.MustCompile(`(?m)^(\d+) resources?: (.*)\.$`)
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
			step := func(further ...string) (int, string, string) {
				var out, errs bytes.Buffer
				code := run(d.flags(append([]string{"deploy", source, "--ignore-other-resources"}, further...)...), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
				total := ""
				if found := counted.FindStringSubmatch(out.String()); found != nil {
					total = found[2]
				}
				return code, total, out.String() + errs.String()
			}
			code, before, said := step("--what-if")
			if reason, refused := notDeployed[name]; refused {
				if code == 0 || !regexp.MustCompile(reason).MatchString(said) {
					t.Errorf("what-if ends with %d, and writes\n%swant %s", code, said, reason)
				}
				return
			}
			if code != 0 || strings.Contains(before, "to change") {
				t.Fatalf("what-if before ends with %d, and writes\n%s", code, said)
			}
			code, done, said := step()
			if want := strings.ReplaceAll(before, "to create", "created"); code != 0 || done != want {
				t.Errorf("the deployment ends with %d, and writes\n%swant %s", code, said, want)
			}
			if code, after, said := step("--what-if"); code != 0 || !regexp.MustCompile(`^\d+ without change$`).MatchString(after) && before != "" {
				t.Errorf("what-if after ends with %d, and writes\n%s", code, said)
			}
		})
	}
}
