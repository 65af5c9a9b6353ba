package explorer

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/query"
)

// TestFunctions: the functions that the editor completes are functions of the server.
func TestFunctions(t *testing.T) {
	t.Parallel()
	text, err := web.ReadFile("web/complete.js")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)export const functions = \((.*?)\)\.split`).FindSubmatch(text)
	if list == nil {
		t.Fatal("complete.js has no list of functions")
	}
	names := strings.Fields(strings.NewReplacer(`"`, "", "+", "", "\n", "").Replace(string(list[1])))
	if len(names) < 100 {
		t.Fatalf("%d functions", len(names))
	}
	for _, name := range names {
		if name == "RRF" { // It exists only after ORDER BY RANK.
			continue
		}
		_, err := query.Compile("SELECT VALUE "+name+"(c.a, c.b, c.c, c.d, c.e, c.f, c.g, c.h, c.i) FROM c", nil, nil, query.Options{})
		if err != nil && strings.Contains(err.Error(), "not a recognized built-in") {
			t.Errorf("the server has no function %s", name)
		}
	}
	if _, err := query.Compile("SELECT VALUE NONE(c.a) FROM c", nil, nil, query.Options{}); err == nil || !strings.Contains(err.Error(), "not a recognized built-in") {
		t.Errorf("a function that does not exist: %v", err)
	}
}

// TestManualBeginsHere: the manual begins with the explorer, before any SDK (S68).
func TestManualBeginsHere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page, sdk := strings.Index(string(text), "Add hierarchical partition key"), strings.Index(string(text), "```go")
	if page < 0 || sdk < page {
		t.Errorf("the explorer is at %d of README.md, the first SDK at %d", page, sdk)
	}
}
