// Package resourcecmd is the commands of decan that make, show and delete what holds
// documents or surrounds them: databases, containers, scripts, throughput, users and
// permissions. They speak the REST protocol, so they work with Azure too.
//
// [Database], [Container], [Script], [Throughput], [User] and [Permission] are the
// commands. container.go has the flags of a definition, definition.go what they mean.
//
// # Invariants
//
// A command sends one request that changes something. Where it needs two, such as a
// change from manual throughput to autoscale with a maximum, an error says what the
// first one has done.
//
// Page: docs/command-line.md
package resourcecmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/value"
)

// with calls do with a client, which it closes.
func with(account remote.Account, do func(context.Context, *remote.Documents) error) error {
	ctx, stop := console.Interruptible()
	defer stop()
	client, err := account.Documents(1)
	if err != nil {
		return err
	}
	defer client.Close()
	return do(ctx, client)
}

func databasePath(database string) []string { return []string{"dbs", database} }

func containerPath(database, container string) []string {
	return []string{"dbs", database, "colls", container}
}

// below returns the path of something below an owner.
func below(owner []string, segments ...string) []string {
	return append(owner[:len(owner):len(owner)], segments...)
}

// refused reports whether an error is an answer with this status.
func refused(err error, code int) bool {
	answered := remote.Refused{}
	return errors.As(err, &answered) && answered.Status == code
}

// charged returns the request units of an answer as the end of a sentence.
func charged(a remote.Answer) string {
	charge, err := a.Charge()
	if err != nil {
		return ""
	}
	return ", " + console.Units(charge)
}

// printJSON writes JSON of the server with indents, in its order.
func printJSON(out io.Writer, body json.RawMessage) error {
	v, err := value.Parse(body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return console.PrintJSON(out, json.RawMessage(v.JSON()))
}

// confirm asks whether to delete something if the input is a terminal. In a pipe it
// asks nothing: the command is the answer.
func confirm(streams console.Streams, yes bool, what string) error {
	if yes || !console.IsInput(streams.In) {
		return nil
	}
	fmt.Fprintf(streams.Err, "Delete %s? [y/N] ", what)
	line, err := bufio.NewReader(streams.In).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(streams.Err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing is deleted")
	}
	return nil
}

// readText returns the text of a flag or argument: of the file after an @, of standard
// input for -, and otherwise the text itself.
func readText(streams console.Streams, text string) ([]byte, error) {
	if name, is := strings.CutPrefix(text, "@"); is {
		return os.ReadFile(name)
	}
	if text == "-" {
		return io.ReadAll(streams.In)
	}
	return []byte(text), nil
}

// readFile returns the content of a file, or of standard input for -.
func readFile(streams console.Streams, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(streams.In)
	}
	return os.ReadFile(name)
}

// names returns the ids of resources.
func names(resources []json.RawMessage) ([]string, error) {
	var ids []string
	for _, r := range resources {
		var named struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(r, &named); err != nil {
			return nil, err
		}
		ids = append(ids, named.ID)
	}
	return ids, nil
}

// printList writes resources as a JSON array.
func printList(out io.Writer, resources []json.RawMessage) error {
	text, err := json.Marshal(resources)
	if err != nil {
		return err
	}
	return printJSON(out, text)
}

// line writes a name and what it has, in columns.
func line(b *strings.Builder, name, format string, args ...any) {
	fmt.Fprintf(b, "%-14s %s\n", name, fmt.Sprintf(format, args...))
}

// remove deletes a resource. missing says that its absence is fine.
func remove(ctx context.Context, client *remote.Documents, out io.Writer, what string, path []string, missing bool) error {
	a, err := client.Call(ctx, "", http.MethodDelete, path, nil)
	if missing && refused(err, http.StatusNotFound) {
		_, err := fmt.Fprintf(out, "There is no %s.\n", what)
		return err
	}
	if err != nil {
		return fmt.Errorf("the %s: %w", what, err)
	}
	_, err = fmt.Fprintf(out, "The %s is deleted%s.\n", what, charged(a))
	return err
}
