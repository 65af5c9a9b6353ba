package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// remedyFor returns which flag of the command helps against an error, or "".
func remedyFor(command *kong.Context, err error) string {
	flags := map[string]*kong.Flag{}
	if selected := command.Selected(); selected != nil {
		for _, flag := range selected.Flags {
			flags[flag.Name] = flag
		}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		for name, what := range map[string]string{"admin": "admin port", "endpoint": "endpoint"} {
			if flag := flags[name]; flag != nil {
				return fmt.Sprintf("No server answers at %v. Start one with decan serve, or give the %s of another server with --%s URL.", command.FlagValue(flag), what, name)
			}
		}
	}
	if answered := (remote.Refused{}); errors.As(err, &answered) && answered.Status == http.StatusUnauthorized && flags["account-key"] != nil {
		text := "Give the key of the account with --account-key or DECAN_ACCOUNT_KEY"
		if flag := flags["admin"]; flag != nil {
			text += fmt.Sprintf(", and the admin port, which is not the endpoint for clients, with --admin (now %v)", command.FlagValue(flag))
		}
		return text + "."
	}
	if errors.Is(err, syscall.EADDRINUSE) && flags["admin-listen"] != nil {
		return "Give another address with --listen, --admin-listen, --compute-listen, --direct-listen or --cql-listen; port 0 is any free port."
	}
	return ""
}
