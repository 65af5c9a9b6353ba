package resourcecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/value"
)

// Script is decan script.
type Script struct {
	List   scriptList   `cmd:"" help:"List the stored procedures, triggers and user-defined functions of a container."`
	Show   scriptShow   `cmd:"" help:"Print the JavaScript of a script."`
	Put    scriptPut    `cmd:"" help:"Create a script, or replace it."`
	Delete scriptDelete `cmd:"" help:"Delete a script."`
	Run    scriptRun    `cmd:"" help:"Run a stored procedure and print its answer."`
}

// scriptKinds are the kinds of scripts: their name on the command line, in a path and
// in a feed.
var scriptKinds = []struct{ name, segment, member string }{
	{"procedure", "sprocs", "StoredProcedures"},
	{"trigger", "triggers", "Triggers"},
	{"function", "udfs", "UserDefinedFunctions"},
}

// owner is the container of a script.
type owner struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
}

func (o owner) path(segments ...string) []string {
	return below(containerPath(o.Database, o.Container), segments...)
}

// scriptName is one script.
type scriptName struct {
	owner
	Kind string `arg:"" enum:"procedure,trigger,function" help:"procedure, trigger or function."`
	Name string `arg:"" help:"The name of the script."`
}

func (s scriptName) segment() string {
	for _, kind := range scriptKinds {
		if kind.name == s.Kind {
			return kind.segment
		}
	}
	return "" // kong has checked it.
}

func (s scriptName) String() string {
	return fmt.Sprintf("%s %s of %s/%s", s.Kind, s.Name, s.Database, s.Container)
}

// script is a script as the server has it.
type script struct {
	ID        string `json:"id"`
	Body      string `json:"body"`
	When      string `json:"triggerType,omitempty"`
	Operation string `json:"triggerOperation,omitempty"`
}

type scriptList struct {
	owner
	JSON bool `env:"-" help:"Print what the server sends, with the JavaScript."`

	remote.Account
}

// Run prints the kind and the name of each script.
func (c *scriptList) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		var b strings.Builder
		every := map[string][]json.RawMessage{}
		for _, kind := range scriptKinds {
			all, err := client.List(ctx, "the scripts of "+c.Database+"/"+c.Container, c.path(kind.segment), kind.member)
			if err != nil {
				return err
			}
			every[kind.name] = all
			for _, raw := range all {
				var s script
				if err := json.Unmarshal(raw, &s); err != nil {
					return err
				}
				when := ""
				if s.When != "" {
					when = fmt.Sprintf("  (%s, %s)", strings.ToLower(s.When), strings.ToLower(s.Operation))
				}
				fmt.Fprintf(&b, "%-9s  %s%s\n", kind.name, s.ID, when)
			}
		}
		if c.JSON {
			return console.PrintJSON(streams.Out, every)
		}
		_, err := streams.Out.Write([]byte(b.String()))
		return err
	})
}

type scriptShow struct {
	scriptName
	JSON bool `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the JavaScript.
func (c *scriptShow) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the "+c.String(), http.MethodGet, c.path(c.segment(), c.Name), nil)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(streams.Out, a.Body)
		}
		var s script
		if err := json.Unmarshal(a.Body, &s); err != nil {
			return err
		}
		_, err = fmt.Fprintln(streams.Out, strings.TrimRight(s.Body, "\n"))
		return err
	})
}

type scriptPut struct {
	scriptName
	Script string `arg:"" name:"file" help:"The file with the JavaScript; - is standard input."`
	When   string `enum:",pre,post" default:"" env:"-" placeholder:"WHEN" help:"When a trigger runs: pre or post."`
	On     string `enum:"all,create,replace,delete,update,upsert" default:"all" env:"-" placeholder:"OPERATION" help:"On which operation a trigger runs: ${enum} (${default})."`

	remote.Account
}

// Run creates the script, or replaces one of the same name.
func (c *scriptPut) Run(streams console.Streams) error {
	text, err := readFile(streams, c.Script)
	if err != nil {
		return err
	}
	s := script{ID: c.Name, Body: string(text)}
	switch {
	case c.Kind == "trigger" && c.When == "":
		return errors.New("a trigger needs --when pre or --when post")
	case c.Kind != "trigger" && c.When != "":
		return errors.New("--when is for triggers")
	case c.Kind == "trigger":
		title := func(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
		s.When, s.Operation = title(c.When), title(c.On)
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		done := "created"
		a, err := client.Call(ctx, "", http.MethodPost, c.path(c.segment()), s)
		if refused(err, http.StatusConflict) {
			done = "replaced"
			a, err = client.Call(ctx, "", http.MethodPut, c.path(c.segment(), c.Name), s)
		}
		if err != nil {
			return fmt.Errorf("the %s: %w", c, err)
		}
		_, err = fmt.Fprintf(streams.Out, "The %s is %s%s.\n", c, done, charged(a))
		return err
	})
}

type scriptDelete struct {
	scriptName
	IfExists bool `env:"-" help:"Do nothing if there is no such script."`

	remote.Account
}

// Run deletes the script.
func (c *scriptDelete) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		return remove(ctx, client, streams.Out, c.String(), c.path(c.segment(), c.Name), c.IfExists)
	})
}

type scriptRun struct {
	owner
	Name      string     `arg:"" help:"The stored procedure."`
	Args      []string   `arg:"" optional:"" name:"argument" help:"Its arguments, each as JSON: a string needs quotes."`
	Partition remote.Key `name:"partition-key" required:"" env:"-" placeholder:"JSON" help:"The partition key in which it runs, as a JSON array with a value for each level."`

	remote.Account
}

// Run runs the procedure. Its answer goes to standard output, what it logs and its
// charge to standard error.
func (c *scriptRun) Run(streams console.Streams) error {
	arguments := []json.RawMessage{}
	for _, text := range c.Args {
		v, err := value.ParseString(text)
		if err != nil {
			return fmt.Errorf("the argument %s is not JSON; a string needs quotes", text)
		}
		arguments = append(arguments, json.RawMessage(v.JSON()))
	}
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "", http.MethodPost, c.path("sprocs", c.Name), json.RawMessage(body),
			"x-ms-documentdb-partitionkey", string(c.Partition), "x-ms-documentdb-script-enable-logging", "True")
		if log, unescaped := url.PathUnescape(a.Header.Get("x-ms-documentdb-script-log-results")); unescaped == nil && log != "" {
			fmt.Fprintln(streams.Err, strings.TrimRight(log, "\n"))
		}
		if err != nil {
			return fmt.Errorf("the procedure %s of %s/%s: %w", c.Name, c.Database, c.Container, err)
		}
		if len(a.Body) > 0 {
			if err := printJSON(streams.Out, a.Body); err != nil {
				return err
			}
		}
		if charge, err := a.Charge(); err == nil {
			fmt.Fprintln(streams.Err, console.Units(charge))
		}
		return nil
	})
}
