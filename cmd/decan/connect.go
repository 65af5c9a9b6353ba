package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// connect fills in the flags of the selected command that say where the server is, from
// a connection string, and the admin port from the endpoint. What the command line says
// itself, and a variable of the environment against a connection string of the
// environment, takes precedence.
func connect(parsed *kong.Context) error {
	given := map[string]bool{}
	for _, step := range parsed.Path {
		if step.Flag != nil {
			given[step.Flag.Name] = true
		}
	}
	flags := map[string]*kong.Flag{}
	if selected := parsed.Selected(); selected != nil {
		for _, flag := range selected.Flags {
			flags[flag.Name] = flag
		}
	}
	if err := chooseCaller(flags, given); err != nil {
		return err
	}
	if err := connectTo(flags["connection-string"], flags, given); err != nil {
		return err
	}
	// A command with an endpoint has the admin port of the same machine, not that of
	// another server.
	endpoint, admin := flags["endpoint"], flags["admin"]
	if endpoint != nil && admin != nil && !given["admin"] && !fromEnvironment(admin) {
		if port := remote.AdminOf(endpoint.Target.String()); port != "" {
			admin.Target.SetString(port)
		}
	}
	return nil
}

// connectTo is connect for the connection string.
func connectTo(connection *kong.Flag, flags map[string]*kong.Flag, given map[string]bool) error {
	if connection == nil || connection.Target.String() == "" {
		return nil
	}
	source := "--connection-string"
	if !given["connection-string"] {
		source = connection.Envs[0]
	}
	endpoint, key, err := remote.ParseConnection(connection.Target.String())
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	set := func(name, content string) error {
		flag := flags[name]
		switch {
		case flag == nil:
		case given[name] && given["connection-string"] && name != "admin":
			return fmt.Errorf("--connection-string and --%s both say where the server is: give only one", name)
		case given[name]:
		case !given["connection-string"] && fromEnvironment(flag):
		case name == "admin" && fromEnvironment(flag):
		default:
			flag.Target.SetString(content)
		}
		return nil
	}
	for _, part := range []struct{ name, content string }{{"endpoint", endpoint}, {"account-key", key}, {"admin", remote.AdminOf(endpoint)}} {
		if err := set(part.name, part.content); err != nil {
			return err
		}
	}
	return nil
}

// chooseCaller drops a token of the environment if the command line names a key. Without a key
// on the command line a token takes precedence.
func chooseCaller(flags map[string]*kong.Flag, given map[string]bool) error {
	token := flags["token"]
	if token == nil || token.Target.String() == "" {
		return nil
	}
	for _, name := range []string{"account-key", "connection-string"} {
		if given[name] && given["token"] {
			return fmt.Errorf("--token and --%s both say who asks: give only one", name)
		}
		if given[name] {
			token.Target.SetString("")
		}
	}
	return nil
}

// fromEnvironment reports whether a variable of the environment sets a flag.
func fromEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool { _, set := os.LookupEnv(name); return set })
}
