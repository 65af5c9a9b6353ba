package script

import (
	"bytes"
	"context"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// TestEnginesGiveMemoryBack creates engines for every way in which a script can
// end, and checks that the memory of the process does not grow: an engine that
// is not freed completely leaks about 200 KB, which neither Go nor the system
// knows. It is not parallel, so that no other test allocates at the same time.
func TestEnginesGiveMemoryBack(t *testing.T) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("the system has no /proc/self/statm, which tells what a process has in memory")
	}
	if slowdown > 1 {
		t.Skip("the race detector takes memory of its own as goroutines come and go, more than an engine would leave")
	}
	const rounds = 60
	r := New(Limits{MemoryBytes: 2 << 20})
	defer r.Close()
	one := []value.Value{value.Int(1)}
	run := func(body string) func() error {
		p := compile(t, r, Procedure, body)
		return func() error {
			host := &recorder{}
			host.begin()
			_, err := p.Run(context.Background(), host, Request{Args: one})
			return err
		}
	}
	call := func(body string) func() error {
		p := compile(t, r, Function, body)
		return func() error {
			_, err := p.Call(context.Background(), one)
			return err
		}
	}
	for _, c := range []struct {
		name  string
		fails bool
		end   func() error
	}{
		{"a run", false, run(`function () { __.createDocument(__.getSelfLink(), {id: "a"}, () => {}); }`)},
		{"a run that waits for a promise", false, run(`async function () { await Promise.resolve(1); }`)},
		{"a run that throws", true, run(`function () { throw new Error(404, "no"); }`)},
		{"a run out of memory", true, run(`function () { for (let all = []; ; ) all.push(new Array(1000)); }`)},
		{"a call in a realm of its own", false, call(`function (x) { Math.x = x; return Math.x; }`)},
		{"a call that throws", true, call(`function (x) { Math.x = x; throw new Error("no"); }`)},
		{"a body that cannot be compiled", true, func() error {
			_, err := r.Compile(context.Background(), Procedure, "p", `function ( {`)
			return err
		}},
	} {
		for range 5 { // what is kept for the next engine
			_ = c.end()
		}
		// A leak grows in each attempt. The stack of a new thread, or an arena of the
		// allocator, grows once.
		const attempts = 3
		least := math.MaxInt
		for range attempts {
			before := resident(t)
			for range rounds {
				if err := c.end(); (err != nil) != c.fails {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
			// Half of the size of the smallest realm.
			if least = min(least, resident(t)-before); least <= rounds*90<<10 {
				break
			}
		}
		if least > rounds*90<<10 {
			t.Errorf("%s: each %d of them leave at least %d KB behind", c.name, rounds, least>>10)
		}
	}
}

// resident returns the resident memory of the process in bytes, without what Go
// could release.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(content)
	if len(fields) < 2 {
		t.Fatalf("statm is %q", content)
	}
	pages, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
