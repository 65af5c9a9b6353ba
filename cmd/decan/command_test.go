package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCommands runs the stories of testdata: the command line as a person types it.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("LISTEN", freePort(t))
			e.Setenv("ADMIN", freePort(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// waitfor ADMIN: until the server with this admin address is ready.
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) {
				deadline := time.Now().Add(20 * time.Second)
				for time.Now().Before(deadline) {
					if resp, err := http.Get("http://" + args[0] + "/ready"); err == nil {
						resp.Body.Close()
						if resp.StatusCode == http.StatusOK {
							return
						}
					}
					time.Sleep(5 * time.Millisecond) // another process: nothing to wait on but its port
				}
				ts.Fatalf("no server is ready on %s", args[0])
			},
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}
