package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/alecthomas/kong"
)

// remedyFor says which flag of the command helps against an error, or returns "".
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
				return fmt.Sprintf("No server answers at %v. --%s URL names the %s of another one; decan serve starts one.", command.FlagValue(flag), name, what)
			}
		}
	}
	if answered := (refused{}); errors.As(err, &answered) && answered.status == http.StatusUnauthorized && flags["account-key"] != nil {
		text := "--account-key or DECAN_ACCOUNT_KEY gives the key of the account"
		if flag := flags["admin"]; flag != nil {
			text += fmt.Sprintf(", and --admin the admin port, which is not the endpoint for clients (now %v)", command.FlagValue(flag))
		}
		return text + "."
	}
	if errors.Is(err, syscall.EADDRINUSE) && flags["admin-listen"] != nil {
		return "--listen, --admin-listen and --compute-listen take other addresses; a port of 0 is any that is free."
	}
	return ""
}
