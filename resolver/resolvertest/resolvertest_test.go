package resolvertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/resolvertest"
)

// faulty is a resolver of two targets with one fault, named after the part of
// the suite that must find it.
type faulty struct {
	fault   string
	targets []resolver.Target
	calls   *atomic.Int64
	made    int64 // how many were made before this one
}

var made atomic.Int64

func newFaulty(fault string) faulty {
	return faulty{fault, []resolver.Target{{Name: "a"}, {Name: "b"}}, new(atomic.Int64), made.Add(1)}
}

func (f faulty) ForWrite(key string) (resolver.Target, error) {
	switch {
	case key == "foreign" && f.fault != "foreign":
		return resolver.Target{}, resolver.ErrNoTarget
	case f.fault == "agreement" && f.made%2 == 0, f.fault == "concurrency" && f.calls.Add(1) > 4:
		return f.targets[1], nil
	}
	return f.targets[0], nil
}

func (f faulty) ForRead(selection resolver.Selection[string]) ([]resolver.Target, error) {
	both := []resolver.Target{f.targets[0], f.targets[1]}
	switch {
	case selection.IsAll() && f.fault == "all":
		return both[:1], nil
	case selection.IsAll() && f.fault == "ownership":
		return f.targets, nil
	case selection.IsAll(), selection.IsEmpty() && f.fault == "empty", len(selection.Keys()) > 1 && f.fault == "many":
		return both, nil
	case selection.IsEmpty():
		return nil, nil
	case f.fault == "write-then-read" && len(selection.Keys()) > 0, f.fault == "intervals" && len(selection.Intervals()) > 0:
		return both[1:], nil
	case f.fault == "agreement", f.fault == "concurrency":
		return both, nil
	}
	return both[:1], nil
}

func (f faulty) Targets() []resolver.Target {
	if f.fault == "targets" {
		return []resolver.Target{{Name: "a"}, {Name: "b"}, {Name: "a"}}
	}
	return []resolver.Target{{Name: "a"}, {Name: "b"}}
}

// faultyStore is a resolver.Store with one fault.
type faultyStore struct {
	fault string

	mu     sync.Mutex
	stored map[string]faultyDocument
}

type faultyDocument struct {
	text    string
	version int
}

func (f *faultyStore) name(name string) string {
	if f.fault == "names" {
		name, _, _ = strings.Cut(name, "-")
	}
	return name
}

func (f *faultyStore) Load(_ context.Context, name string) ([]byte, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.stored[f.name(name)]
	if found.version == 0 && f.fault != "nothing" {
		return nil, "", resolver.ErrNotFound
	}
	return []byte(found.text), fmt.Sprint(found.version), nil
}

func (f *faultyStore) Save(_ context.Context, name string, document []byte, version string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.stored[f.name(name)]
	present := ""
	if old.version > 0 {
		present = fmt.Sprint(old.version)
	}
	if present != version && !(f.fault == "swap" && version != "some version") {
		if f.fault != "names" || version != "" {
			return "", resolver.ErrChanged
		}
	}
	next := faultyDocument{string(document), old.version + 1}
	if f.fault == "versions" {
		next.version = 1
	}
	f.stored[f.name(name)] = next
	return fmt.Sprint(next.version), nil
}

// storeFaults are the parts of the suite for stores.
var storeFaults = []string{"nothing", "versions", "swap", "names"}

// faults are the parts of the suite.
var faults = []string{
	"targets", "write-then-read", "foreign", "empty", "all", "many", "intervals", "agreement", "ownership", "concurrency",
}

// runFaulty runs the suites over faulty implementations, and so fails.
func runFaulty(t *testing.T) {
	for _, fault := range append([]string{"none"}, faults...) {
		t.Run(fault, func(t *testing.T) {
			resolvertest.Run(t, resolvertest.Config[string]{
				New:       func(*testing.T) resolver.Resolver[string] { return newFaulty(fault) },
				Keys:      []string{"x", "y"},
				Foreign:   []string{"foreign"},
				Intervals: []resolvertest.Interval[string]{{Interval: resolver.AtLeast("x"), Inside: []string{"x", "y"}}},
			})
		})
	}
	for _, fault := range append([]string{"none"}, storeFaults...) {
		t.Run("store-"+fault, func(t *testing.T) {
			resolvertest.RunStore(t, &faultyStore{fault: fault, stored: map[string]faultyDocument{}})
		})
	}
}

// TestSuiteFinds checks that each part of the suites finds the fault it is for,
// and that a correct resolver and a correct store pass.
//
// The suites fail in a separate process, which runs this test again.
func TestSuiteFinds(t *testing.T) {
	if os.Getenv("RESOLVERTEST_FAULTY") != "" {
		runFaulty(t)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteFinds$", "-test.v")
	child.Env = append(os.Environ(), "RESOLVERTEST_FAULTY=1")
	text, err := child.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("the suite passes faulty resolvers: %v\n%s", err, text)
	}
	for _, sound := range []string{"none", "store-none"} {
		if !strings.Contains(string(text), "--- PASS: TestSuiteFinds/"+sound+" ") {
			t.Errorf("the suite rejects a correct implementation:\n%s", text)
		}
	}
	for _, fault := range faults {
		if !strings.Contains(string(text), "--- FAIL: TestSuiteFinds/"+fault+"/"+fault+" ") {
			t.Errorf("the part %q of the suite does not find its fault", fault)
		}
	}
	for _, fault := range storeFaults {
		if !strings.Contains(string(text), "--- FAIL: TestSuiteFinds/store-"+fault+"/"+fault+" ") {
			t.Errorf("the part %q of the suite for stores does not find its fault", fault)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
