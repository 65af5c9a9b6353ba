package resolvertest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/resolvertest"
)

// faulty is a resolver of two targets with one fault, by name: the part of the suite that
// has to find it.
type faulty struct {
	fault   string
	targets []resolver.Target
	calls   *atomic.Int64
	made    int64 // how many were made before
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

// faults are the parts of the suite.
var faults = []string{
	"targets", "write-then-read", "foreign", "empty", "all", "many", "intervals", "agreement", "ownership", "concurrency",
}

// TestFaulty is run by TestSuiteFinds in a process of its own, where it has to fail.
func TestFaulty(t *testing.T) {
	if os.Getenv("RESOLVERTEST_FAULTY") == "" {
		t.Skip("it fails on purpose; TestSuiteFinds runs it")
	}
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
}

// TestSuiteFinds wants each part of the suite to find the fault that it is for, and none
// of them one in a resolver without.
func TestSuiteFinds(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$", "-test.v")
	child.Env = append(os.Environ(), "RESOLVERTEST_FAULTY=1")
	text, err := child.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("the suite passes faulty resolvers: %v\n%s", err, text)
	}
	if strings.Contains(string(text), "--- FAIL: TestFaulty/none ") {
		t.Errorf("the suite finds faults where there are none:\n%s", text)
	}
	for _, fault := range faults {
		if !strings.Contains(string(text), "--- FAIL: TestFaulty/"+fault+"/"+fault+" ") {
			t.Errorf("the part %q of the suite does not find its fault", fault)
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
}
