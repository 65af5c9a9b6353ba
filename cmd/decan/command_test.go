package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server/servertest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommands runs the stories of testdata: command lines and their output.
func TestCommands(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("LISTEN", freePort(t))
			e.Setenv("ADMIN", freePort(t))
			e.Setenv("DECAN_CQL_LISTEN", "127.0.0.1:0")
			e.Setenv("DECAN_DIRECT_LISTEN", "127.0.0.1:0") // The stories run in parallel.
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// waitfor ADMIN waits until the server with this admin address is ready.
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) {
				deadline := time.Now().Add(startTime)
				for time.Now().Before(deadline) {
					if resp, err := http.Get("http://" + args[0] + "/ready"); err == nil {
						resp.Body.Close()
						if resp.StatusCode == http.StatusOK {
							return
						}
					}
					time.Sleep(5 * time.Millisecond) // Another process can only be polled.
				}
				ts.Fatalf("no server is ready on %s", args[0])
			},
			// put ADDRESS DATABASE CONTAINER N creates a container with two partitions
			// and the key /pk, and N items with the numbers n from 0.
			"put": func(ts *testscript.TestScript, _ bool, args []string) { put(ts, args[0], args[1], args[2], args[3]) },
			// make ADDRESS DATABASE CONTAINER PATH... creates an empty container with
			// these key paths, and its database if it is missing.
			"make": func(ts *testscript.TestScript, _ bool, args []string) {
				makeEmpty(ts, args[0], args[1], args[2], args[3:])
			},
			// until PATTERN PROGRAM ARGUMENT... runs a program until its output matches.
			"until": func(ts *testscript.TestScript, _ bool, args []string) {
				for deadline := time.Now().Add(startTime); ; time.Sleep(5 * time.Millisecond) {
					err := ts.Exec(args[1], args[2:]...)
					if out := ts.ReadFile("stdout"); err == nil && regexp.MustCompile(args[0]).MatchString(out) {
						return
					} else if time.Now().After(deadline) {
						ts.Fatalf("%q never matched: %v\n%s", args[0], err, out)
					}
				}
			},
			// get ADDRESS PATH prints the status and the body of an answer.
			"get": func(ts *testscript.TestScript, _ bool, args []string) {
				resp, err := http.Get("http://" + args[0] + args[1])
				ts.Check(err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				ts.Check(err)
				fmt.Fprintf(ts.Stdout(), "%d %s", resp.StatusCode, body)
			},
			// sorted A B checks that two files have the same lines in any order.
			"sorted": func(ts *testscript.TestScript, _ bool, args []string) {
				lines := func(name string) []string {
					return slices.Sorted(strings.Lines(ts.ReadFile(name)))
				}
				if !slices.Equal(lines(args[0]), lines(args[1])) {
					ts.Fatalf("%s and %s differ", args[0], args[1])
				}
			},
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func makeEmpty(ts *testscript.TestScript, address, database, container string, paths []string) {
	client, err := servertest.Dial(address)
	ts.Check(err)
	defer client.Close()
	kind := "MultiHash"
	if len(paths) == 1 {
		kind = "Hash"
	}
	for _, request := range []servertest.Request{
		servertest.Prepare(auth.WellKnownKey, "POST", "dbs", fmt.Appendf(nil, `{"id":%q}`, database)),
		servertest.Prepare(auth.WellKnownKey, "POST", "dbs/"+database+"/colls",
			fmt.Appendf(nil, `{"id":%q,"partitionKey":{"paths":["%s"],"kind":%q,"version":2}}`, container, strings.Join(paths, `","`), kind)),
	} {
		response, err := client.Do(request)
		ts.Check(err)
		if response.Status != http.StatusCreated && response.Status != http.StatusConflict {
			ts.Fatalf("%d %s", response.Status, response.Body)
		}
	}
}

func put(ts *testscript.TestScript, address, database, container, count string) {
	client, err := servertest.Dial(address)
	ts.Check(err)
	defer client.Close()
	create := func(link, body string, headers ...string) {
		response, err := client.Do(servertest.Prepare(auth.WellKnownKey, "POST", link, []byte(body), headers...))
		ts.Check(err)
		if response.Status != http.StatusCreated {
			ts.Fatalf("%s: %d %s", body, response.Status, response.Body)
		}
	}
	create("dbs", fmt.Sprintf(`{"id":%q}`, database))
	create("dbs/"+database+"/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"]}}`, container), "x-decan-partition-count", "2")
	n, err := strconv.Atoi(count)
	ts.Check(err)
	for i := range n {
		body := fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d}`, i, i%4, i)
		create("dbs/"+database+"/colls/"+container+"/docs", body, "x-ms-documentdb-partitionkey", fmt.Sprintf(`["p%d"]`, i%4))
	}
}
