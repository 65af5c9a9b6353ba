package shellcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/querycmd"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/value"
)

// builtin is a command of the shell.
type builtin struct {
	name, arguments, help string
	run                   func(s *shell, ctx context.Context, rest string) error
}

// builtins returns the commands in the order of their help.
func builtins() []builtin {
	return []builtin{
		{"c", "DATABASE/CONTAINER", "choose the container of the statements; DATABASE alone chooses a database, /CONTAINER one of the chosen database", (*shell).choose},
		{"l", "", "list the databases", func(s *shell, _ context.Context, _ string) error { return s.decan("database", "list") }},
		{"d", "[CONTAINER]", "list the containers of the database, or show one", (*shell).describe},
		{"dp", "", "list the physical partitions of the container", (*shell).partitions},
		{"explain", "QUERY", "show how the server answers a query", (*shell).explain},
		{"key", "[JSON]", "run the next statements in this partition key, or prefix of one; without JSON in all", (*shell).setKey},
		{"set", "[NAME JSON]", "set the parameter @NAME of queries; without arguments show all", (*shell).setParameter},
		{"unset", "NAME", "remove a parameter", func(s *shell, _ context.Context, rest string) error {
			delete(s.params, parameterName(rest))
			return nil
		}},
		{"f", "FORMAT", "show rows as table, json, jsonl or csv", (*shell).setFormat},
		{"system", "on|off", "show the properties that the server sets, such as _ts", toggle(func(s *shell) *bool { return &s.system })},
		{"timing", "on|off", "show rows, charge, partitions and time after each statement", toggle(func(s *shell) *bool { return &s.timing })},
		{"pager", "on|off", "show long output in the program of PAGER, or less", toggle(func(s *shell) *bool { return &s.pages })},
		{"page", "N", "request N rows at a time", (*shell).setPage},
		{"o", "[FILE]", "write rows to a file; without a file to the screen again", (*shell).output},
		{"i", "FILE", "run the statements of a file", (*shell).include},
		{"cql", "[ADDRESS]", "statements are CQL, for the Cassandra API", (*shell).openCQL},
		{"sql", "", "statements are queries again", (*shell).closeCQL},
		{"decan", "COMMAND ...", "run a command of decan on this server, such as \\decan container show shop orders", (*shell).other},
		{"?", "", "show this list", (*shell).help},
		{"q", "", "end the shell", func(s *shell, _ context.Context, _ string) error { s.ended = true; return nil }},
	}
}

// command runs a line that begins with a backslash.
func (s *shell) command(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(line, `\`), " ")
	name = strings.TrimSpace(name)
	for _, b := range builtins() {
		if b.name == name {
			return b.run(s, ctx, strings.TrimSpace(rest))
		}
	}
	return fmt.Errorf(`there is no command \%s: \? lists the commands`, name)
}

// decan runs a command of decan on this server.
func (s *shell) decan(args ...string) error {
	own := map[string]string{"--endpoint": s.Endpoint, "--account-key": s.Key, "--ca": s.CA}
	if s.Token != "" {
		delete(own, "--account-key")
		own["--token"] = s.Token
		if len(args) > 0 && slices.Contains([]string{"partitions", "limits", "queries", "copy", "resolver"}, args[0]) {
			return fmt.Errorf("decan %s takes the account key, and no token: run it outside of this shell", args[0])
		}
	}
	if len(args) > 0 && slices.Contains([]string{"partitions", "limits", "queries", "copy", "version", "key", "cert", "token", "serve", "demo", "check", "quarantine", "completion"}, args[0]) {
		delete(own, "--endpoint")
		if !slices.Contains([]string{"partitions", "limits", "queries", "copy"}, args[0]) {
			own = nil
		}
	}
	// Flags of its own take precedence.
	for name, content := range own {
		if content != "" && !slices.ContainsFunc(args, func(arg string) bool {
			return arg == name || strings.HasPrefix(arg, name+"=") || arg == "--connection-string"
		}) {
			args = append(args, name+"="+content)
		}
	}
	streams := s.streams
	var code int
	err := s.show2(func(out io.Writer) {
		streams.Out = out
		code = s.run(args, streams)
	})
	if err == nil && code != 0 && !s.terminal {
		err = fmt.Errorf("decan %s ended with status %d", args[0], code)
	}
	return err
}

// show2 calls write with the output of a command that has no statistics.
func (s *shell) show2(write func(out io.Writer)) error {
	timing := s.timing
	s.timing = false
	defer func() { s.timing = timing }()
	return s.show(func(out io.Writer, _ int) (string, error) {
		write(out)
		return "", nil
	})
}

func (s *shell) other(_ context.Context, rest string) error {
	args := fields(rest)
	if len(args) == 0 {
		return errors.New(`give a command of decan: \decan container list shop`)
	}
	if args[0] == "shell" {
		return errors.New("this is the shell")
	}
	return s.decan(args...)
}

// choose sets the database and container, which must exist.
func (s *shell) choose(ctx context.Context, rest string) error {
	rest = strings.Join(fields(rest), "/")
	database, container, _ := strings.Cut(rest, "/")
	if database == "" {
		database = s.database
	}
	if database == "" {
		return errors.New(`name a database: \c DATABASE/CONTAINER`)
	}
	path, what := []string{"dbs", database}, "the database "+database
	if container != "" {
		path, what = append(path, "colls", container), "the container "+database+"/"+container
	}
	if _, err := s.client.Call(ctx, what, http.MethodGet, path, nil); err != nil {
		return err
	}
	s.database, s.container = database, container
	return nil
}

func (s *shell) describe(_ context.Context, rest string) error {
	switch database, container, two := strings.Cut(rest, "/"); {
	case two:
		return s.decan("container", "show", database, container)
	case s.database == "":
		return errors.New(`choose a database first: \c DATABASE; \l lists the databases`)
	case rest != "":
		return s.decan("container", "show", s.database, rest)
	case s.container != "":
		return s.decan("container", "show", s.database, s.container)
	}
	return s.decan("container", "list", s.database)
}

// partitions lists the ranges of the container.
func (s *shell) partitions(ctx context.Context, _ string) error {
	if s.container == "" {
		return errors.New(`choose a container first: \c DATABASE/CONTAINER`)
	}
	all, err := s.client.List(ctx, "the partitions", []string{"dbs", s.database, "colls", s.container, "pkranges"}, "PartitionKeyRanges")
	if err != nil {
		return err
	}
	return s.show(func(out io.Writer, width int) (string, error) {
		w, err := rows.NewWriter(s.format, out, rows.Options{Width: width})
		if err != nil {
			return "", err
		}
		defer w.Discard()
		for _, raw := range all {
			v, err := value.Parse(raw)
			if err != nil {
				return "", err
			}
			row := value.Object([]value.Member{
				{Name: "id", Value: v.Get("id")},
				{Name: "from", Value: v.Get("minInclusive")},
				{Name: "to", Value: v.Get("maxExclusive")},
				{Name: "parents", Value: v.Get("parents")},
			})
			if err := w.Write(row); err != nil {
				return "", err
			}
		}
		return console.Counted(len(all), "physical partition"), w.Close()
	})
}

func (s *shell) explain(ctx context.Context, rest string) error {
	if s.container == "" {
		return errors.New(`choose a container first: \c DATABASE/CONTAINER`)
	}
	if rest == "" {
		return errors.New(`give a query: \explain SELECT * FROM c`)
	}
	var failed error
	err := s.show2(func(out io.Writer) {
		failed = querycmd.PrintPlan(ctx, s.client, remote.Statement{Database: s.database, Container: s.container, Text: rest, Parameters: s.used(rest), Key: string(s.key)}, false, out)
	})
	return errors.Join(err, failed)
}

func (s *shell) setKey(_ context.Context, rest string) error {
	return s.key.UnmarshalText([]byte(rest))
}

// parameterName returns the name of a parameter without @.
func parameterName(text string) string { return strings.TrimPrefix(strings.TrimSpace(text), "@") }

func (s *shell) setParameter(_ context.Context, rest string) error {
	if rest == "" {
		for _, name := range slices.Sorted(maps.Keys(s.params)) {
			fmt.Fprintf(s.streams.Out, "@%s %s\n", name, s.params[name])
		}
		return nil
	}
	name, text, _ := strings.Cut(rest, " ")
	v, err := value.ParseString(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf(`\set %s: give a value as JSON; a string needs quotes`, name)
	}
	s.params[parameterName(name)] = v.JSON()
	return nil
}

func (s *shell) setFormat(_ context.Context, rest string) error {
	if !slices.Contains(formats, rest) {
		return errors.New(`\f: give table, json, jsonl or csv`)
	}
	s.format = rest
	return nil
}

// formats are the formats of rows.
var formats = []string{rows.Table, rows.JSON, rows.Lines, rows.CSV}

// toggle returns a command that sets a switch, or reverses it without an argument.
func toggle(place func(*shell) *bool) func(*shell, context.Context, string) error {
	return func(s *shell, _ context.Context, rest string) error {
		p := place(s)
		switch rest {
		case "on":
			*p = true
		case "off":
			*p = false
		case "":
			*p = !*p
		default:
			return fmt.Errorf("give on or off, not %s", rest)
		}
		return nil
	}
}

func (s *shell) setPage(_ context.Context, rest string) error {
	n, err := strconv.Atoi(rest)
	if err != nil || n < 1 {
		return errors.New(`\page: give a number of rows from 1 on`)
	}
	s.Page = n
	return nil
}

// output opens the file of \o, which must not exist: a query must not destroy a file.
func (s *shell) output(_ context.Context, rest string) error {
	if s.to != nil {
		file := s.to
		s.to = nil
		if err := file.Close(); err != nil {
			return err
		}
	}
	if rest == "" {
		return nil
	}
	file, err := os.OpenFile(rest, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf(`\o %s: there is such a file: remove it, or give another name`, rest)
	}
	s.to = file
	return err
}

// includeDepth is how deep files may include each other.
const includeDepth = 16

func (s *shell) include(_ context.Context, rest string) error {
	file, err := os.Open(rest)
	if err != nil {
		return fmt.Errorf(`\i: %w`, err)
	}
	defer file.Close()
	if s.depth == includeDepth {
		return fmt.Errorf(`\i %s: more than %d files include each other`, rest, includeDepth)
	}
	s.depth++
	defer func() { s.depth-- }()
	return s.script(rest, file)
}

func (s *shell) help(context.Context, string) error {
	var b strings.Builder
	for _, c := range builtins() {
		fmt.Fprintf(&b, "  %-22s %s\n", strings.TrimSpace(`\`+c.name+" "+c.arguments), c.help)
	}
	b.WriteString("Other lines are parts of a statement, which ends with ';'. Tab completes names, Ctrl-R searches the history,\nCtrl-C ends a statement.\n")
	return s.show2(func(out io.Writer) { _, _ = io.WriteString(out, b.String()) })
}

// listed returns the ids of a feed.
func listed(ctx context.Context, client *remote.Documents, path []string, member string) ([]string, error) {
	all, err := client.List(ctx, "the names", path, member)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, raw := range all {
		var named struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &named); err != nil {
			return nil, err
		}
		ids = append(ids, named.ID)
	}
	return ids, nil
}
