package compat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const azcosmosPackage = "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

// expectation is one line of emulator.txt.
type expectation struct {
	test   string
	passes bool
	note   string // how it passes, or what it waits for
}

func expectations(t *testing.T) []expectation {
	t.Helper()
	f, err := os.Open("emulator.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var table []expectation
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, "|", 3)
		if len(fields) != 3 {
			t.Fatalf("emulator.txt: %q has not three columns", line)
		}
		verdict := strings.TrimSpace(fields[1])
		if verdict != "passes" && verdict != "fails" {
			t.Fatalf("emulator.txt: %q is neither passes nor fails", verdict)
		}
		table = append(table, expectation{strings.TrimSpace(fields[0]), verdict == "passes", strings.TrimSpace(fields[2])})
	}
	return table
}

// TestEmulatorSuite runs the emulator tests in the azcosmos module against a
// server in emulator mode, and compares each result with emulator.txt. Both a
// test that starts to pass and one that breaks need a change of that file.
func TestEmulatorSuite(t *testing.T) {
	if os.Getenv("DECAN_EMULATOR") == "" {
		t.Skip("needs a server in emulator mode on ports 8081 and 8903: run compat/run.sh")
	}
	table := expectations(t)
	var names []string
	for _, e := range table {
		names = append(names, e.test)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-run", "^("+strings.Join(names, "|")+")$", azcosmosPackage)
	command.Env = append(os.Environ(), "EMULATOR=true")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, _ := command.Output() // fails whenever one test does
	outcomes := map[string]string{}
	logs := map[string]*strings.Builder{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); err != nil {
			t.Fatalf("%v\n%s%s", err, out, stderr.String())
		}
		if event.Test == "" {
			continue
		}
		top, _, _ := strings.Cut(event.Test, "/")
		switch event.Action {
		case "output":
			if logs[top] == nil {
				logs[top] = &strings.Builder{}
			}
			logs[top].WriteString(event.Output)
		case "pass", "fail", "skip":
			if event.Test == top {
				outcomes[top] = event.Action
			}
		}
	}
	passed := 0
	for _, e := range table {
		switch outcome := outcomes[e.test]; {
		case outcome == "pass" && e.passes:
			passed++
		case outcome == "fail" && !e.passes:
		case outcome == "pass":
			t.Errorf("%s passes now: say so in emulator.txt", e.test)
		case outcome == "fail":
			t.Errorf("%s fails:\n%s", e.test, logs[e.test])
		default:
			t.Errorf("%s did not run (%q)\n%s", e.test, outcome, stderr.String())
		}
	}
	t.Logf("%d of %d emulator tests of azcosmos pass", passed, len(table))
}
