package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
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
		if name := dialled(command, flags, dial); name != "" {
			what := map[string]string{"admin": "admin port", "endpoint": "endpoint", "cql": "Cassandra API"}[name]
			return fmt.Sprintf("Start a server with decan serve, or give the %s of another server with --%s %s.", what, name, flags[name].PlaceHolder)
		}
	}
	if remedy := remedyForToken(flags, err); remedy != "" {
		return remedy
	}
	if answered := (remote.Refused{}); errors.As(err, &answered) && answered.Status == http.StatusUnauthorized && flags["account-key"] != nil {
		text := "Give the key of the account with --account-key, DECAN_KEY or --connection-string"
		if flag := flags["admin"]; flag != nil {
			text += fmt.Sprintf(", and the admin port, which is not the endpoint for clients, with --admin (now %v)", command.FlagValue(flag))
		}
		return text + "."
	}
	if answered := (remote.Refused{}); errors.As(err, &answered) && answered.Status == http.StatusForbidden && flags["account-key"] != nil && forbidden.MatchString(err.Error()) {
		return "This key may not do that: give one that may with --account-key, DECAN_KEY or --connection-string."
	}
	if errors.Is(err, syscall.EADDRINUSE) && flags["admin-listen"] != nil {
		return "Give another address with --listen, --admin-listen, --compute-listen, --direct-listen or --cql-listen; port 0 is any free port."
	}
	return ""
}

// remedyForToken is remedyFor for a command that was given a token.
func remedyForToken(flags map[string]*kong.Flag, err error) string {
	answered := remote.Refused{}
	if token := flags["token"]; token == nil || token.Target.String() == "" || !errors.As(err, &answered) {
		return ""
	}
	switch {
	case answered.Status == http.StatusUnauthorized:
		return "Give another token with --token or DECAN_TOKEN, or the key of the account with --account-key."
	case answered.Status == http.StatusForbidden && forbidden.MatchString(err.Error()):
		return "This token may not do that: give one that may with --token or DECAN_TOKEN, or the key of the account with --account-key."
	}
	return ""
}

// forbidden matches the messages about a key or a token that may not do something.
var forbidden = regexp.MustCompile(`Insufficient permissions|is not permitted|required RBAC permissions|cannot be authorized by a bearer token`)

// dialled returns the name of the flag with the address that did not answer: of several,
// the one with its port.
func dialled(command *kong.Context, flags map[string]*kong.Flag, dial *net.OpError) string {
	port := ""
	if dial.Addr != nil {
		_, port, _ = net.SplitHostPort(dial.Addr.String())
	}
	found := ""
	for _, name := range []string{"endpoint", "admin", "cql"} {
		flag := flags[name]
		if flag == nil {
			continue
		}
		if port != "" && strings.HasSuffix(strings.TrimSuffix(fmt.Sprint(command.FlagValue(flag)), "/"), ":"+port) {
			return name
		}
		if found == "" {
			found = name
		}
	}
	return found
}

// brief returns an error without what the library adds to it: if no server answers, the
// request is not of interest.
func brief(err error) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && dial.Addr != nil {
		return fmt.Sprintf("no server answers at %s: %v", dial.Addr, rootCause(dial))
	}
	return err.Error()
}

// rootCause returns the innermost error.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
