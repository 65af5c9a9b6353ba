package querycmd

import (
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
	"github.com/decandb/decan/cmd/decan/internal/transfercmd"
	"github.com/decandb/decan/internal/value"
)

// Item is decan item.
type Item struct {
	Get    itemGet            `cmd:"" help:"Print an item."`
	Put    itemPut            `cmd:"" help:"Write an item: create it, or replace it."`
	Patch  itemPatch          `cmd:"" help:"Change properties of an item."`
	Delete itemDelete         `cmd:"" help:"Delete an item."`
	Import transfercmd.Import `cmd:"" help:"Write the items of JSON lines, JSON arrays and CSV files, as decan import does."`
}

// place is the container of an item.
type place struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
}

// name is one item.
type name struct {
	place
	ID        string     `arg:"" name:"id" help:"The id of the item."`
	Partition remote.Key `name:"partition-key" env:"-" placeholder:"JSON" help:"The partition key of the item, as a JSON array with a value for each level."`
}

func (n name) String() string { return fmt.Sprintf("item %s of %s/%s", n.ID, n.Database, n.Container) }

func (n name) path() []string { return append(remote.DocumentPath(n.Database, n.Container), n.ID) }

// find returns the item by its key, or without a key by a query over all partitions,
// which must find one.
func (n name) find(ctx context.Context, client *remote.Documents) (item value.Value, key string, charge float64, err error) {
	if n.Partition != "" {
		a, err := client.Call(ctx, "the "+n.String(), http.MethodGet, n.path(), nil, "x-ms-documentdb-partitionkey", string(n.Partition))
		if err != nil {
			return item, "", 0, err
		}
		charge, _ = a.Charge()
		item, err = value.Parse(a.Body)
		return item, string(n.Partition), charge, err
	}
	paths, err := client.KeyPaths(ctx, n.Database, n.Container)
	if err != nil {
		return item, "", 0, err
	}
	id, err := json.Marshal(n.ID)
	if err != nil {
		return item, "", 0, err
	}
	s := remote.Statement{Database: n.Database, Container: n.Container, Text: "SELECT * FROM c WHERE c.id = @id", Parameters: map[string]string{"id": string(id)}}
	var found []value.Value
	for position := ""; ; {
		page, err := client.Page(ctx, s, position)
		if err != nil {
			return item, "", charge, err
		}
		found, charge = append(found, page.Rows...), charge+page.Charge
		if position = page.Continuation; position == "" {
			break
		}
	}
	switch len(found) {
	case 0:
		return item, "", charge, fmt.Errorf("there is no item %s in %s/%s", n.ID, n.Database, n.Container)
	case 1:
		return found[0], remote.KeyOf(found[0], paths), charge, nil
	}
	keys := make([]string, 0, len(found))
	for _, item := range found {
		keys = append(keys, remote.KeyOf(item, paths))
	}
	return item, "", charge, fmt.Errorf("%s have the id %s: choose one with --partition-key: %s", console.Counted(len(found), "item"), n.ID, strings.Join(keys, " "))
}

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

type itemGet struct {
	name

	remote.Account
}

// Run prints the item as the server has it.
func (c *itemGet) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		item, key, charge, err := c.find(ctx, client)
		if err != nil {
			return err
		}
		if err := console.PrintJSON(streams.Out, json.RawMessage(item.JSON())); err != nil {
			return err
		}
		if !console.IsTerminal(streams.Err) {
			return nil
		}
		if c.Partition == "" {
			_, err = fmt.Fprintf(streams.Err, "Found by a query over all partitions, %s: a read needs --partition-key '%s'.\n", console.Units(charge), key)
			return err
		}
		_, err = fmt.Fprintln(streams.Err, console.Units(charge))
		return err
	})
}

type itemPut struct {
	place
	Item string `arg:"" optional:"" help:"The item as JSON; - is standard input (default: that of --file)."`

	File    string `short:"f" env:"-" placeholder:"FILE" help:"Read the item from this file."`
	Create  bool   `env:"-" help:"Fail if there is such an item."`
	Replace bool   `env:"-" help:"Fail if there is no such item."`
	IfMatch string `env:"-" placeholder:"ETAG" help:"Replace the item only if it has this _etag."`

	remote.Account
}

// Validate refuses contradictory flags.
func (c *itemPut) Validate() error {
	switch {
	case c.Item == "" && c.File == "":
		return errors.New("give the item as JSON, or a file with it with --file")
	case c.Item != "" && c.File != "":
		return errors.New("the item and --file both say what to write: give only one")
	case c.Create && (c.Replace || c.IfMatch != ""):
		return errors.New("--create is for a new item, --replace and --if-match are for one that exists: give only one")
	}
	return nil
}

// Run writes the item under the key that its own properties give.
func (c *itemPut) Run(streams console.Streams) error {
	text, from := []byte(c.Item), "the item"
	var err error
	switch {
	case c.Item == "-":
		text, err = io.ReadAll(streams.In)
	case c.File != "":
		from = "--file " + c.File
		if text, err = os.ReadFile(c.File); err != nil {
			err = fmt.Errorf("--file: %w", err)
		}
	}
	if err != nil {
		return err
	}
	item, err := value.Parse(text)
	if err != nil {
		return fmt.Errorf("%s is not JSON: %w", from, err)
	}
	if item.Kind() != value.KindObject {
		return fmt.Errorf("%s is not a JSON object", from)
	}
	id := item.Get("id")
	if id.Kind() != value.KindString || id.Text() == "" {
		return fmt.Errorf(`%s has no "id", which must be a string`, from)
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		paths, err := client.KeyPaths(ctx, c.Database, c.Container)
		if err != nil {
			return err
		}
		key := remote.KeyOf(item, paths)
		method, path := http.MethodPost, remote.DocumentPath(c.Database, c.Container)
		headers := []string{"x-ms-documentdb-partitionkey", key}
		switch {
		case c.Replace || c.IfMatch != "":
			method, path = http.MethodPut, append(path, id.Text())
			if c.IfMatch != "" {
				headers = append(headers, "if-match", c.IfMatch)
			}
		case !c.Create:
			headers = append(headers, "x-ms-documentdb-is-upsert", "True")
		}
		what := fmt.Sprintf("item %s of %s/%s", id.Text(), c.Database, c.Container)
		a, err := client.Call(ctx, "the "+what, method, path, json.RawMessage(text), headers...)
		if err != nil {
			return err
		}
		done := "replaced"
		if a.Status == http.StatusCreated {
			done = "created"
		}
		return report(streams, "The %s is %s under the key %s%s.\n", what, done, key, a)
	})
}

// report writes a sentence. Its last argument is an answer, whose charge is written.
func report(streams console.Streams, format string, args ...any) error {
	last := len(args) - 1
	cost := ""
	if charge, err := args[last].(remote.Answer).Charge(); err == nil {
		cost = ", " + console.Units(charge)
	}
	_, err := fmt.Fprintf(streams.Out, format, append(args[:last:last], cost)...)
	return err
}

type itemPatch struct {
	name
	Set    map[string]string `mapsep:"none" env:"-" placeholder:"PATH=JSON" help:"Set the property at a path such as /status; an element of a list is inserted with --add."`
	Add    map[string]string `mapsep:"none" env:"-" placeholder:"PATH=JSON" help:"Add a property, or an element of a list before an index or at /list/-."`
	Incr   map[string]string `mapsep:"none" env:"-" placeholder:"PATH=NUMBER" help:"Add a number to a property."`
	Remove []string          `sep:"none" env:"-" placeholder:"PATH" help:"Remove a property or element."`
	Where  string            `env:"-" placeholder:"CONDITION" help:"Change it only if this is true, such as 'FROM c WHERE c.status = 1'."`

	remote.Account
}

// Run sends the changes as one patch: all of them are made, or none.
func (c *itemPatch) Run(streams console.Streams) error {
	if c.Partition == "" {
		return errors.New("a patch needs the key of the item: give --partition-key")
	}
	var operations []map[string]any
	for _, change := range []struct {
		op     string
		values map[string]string
	}{{"set", c.Set}, {"add", c.Add}, {"incr", c.Incr}} {
		for path, text := range change.values {
			v, err := value.ParseString(text)
			if err != nil {
				return fmt.Errorf("--%s %s: %s is not JSON; a string needs quotes", change.op, path, text)
			}
			operations = append(operations, map[string]any{"op": change.op, "path": path, "value": json.RawMessage(v.JSON())})
		}
	}
	for _, path := range c.Remove {
		operations = append(operations, map[string]any{"op": "remove", "path": path})
	}
	if operations == nil {
		return errors.New("say what to change, with --set, --add, --incr or --remove")
	}
	body := map[string]any{"operations": operations}
	if c.Where != "" {
		body["condition"] = c.Where
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the "+c.String(), http.MethodPatch, c.path(), body, "x-ms-documentdb-partitionkey", string(c.Partition))
		if err != nil {
			return err
		}
		return report(streams, "The %s is changed%s.\n", c.String(), a)
	})
}

type itemDelete struct {
	name
	IfExists bool   `env:"-" help:"Do nothing if there is no such item."`
	IfMatch  string `env:"-" placeholder:"ETAG" help:"Delete the item only if it has this _etag."`

	remote.Account
}

// Run deletes the item.
func (c *itemDelete) Run(streams console.Streams) error {
	if c.Partition == "" {
		return errors.New("a delete needs the key of the item: give --partition-key (decan item get shows it)")
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		headers := []string{"x-ms-documentdb-partitionkey", string(c.Partition)}
		if c.IfMatch != "" {
			headers = append(headers, "if-match", c.IfMatch)
		}
		a, err := client.Call(ctx, "the "+c.String(), http.MethodDelete, c.path(), nil, headers...)
		if answered := (remote.Refused{}); c.IfExists && errors.As(err, &answered) && answered.Status == http.StatusNotFound {
			_, err := fmt.Fprintf(streams.Out, "There is no %s.\n", c.String())
			return err
		}
		if err != nil {
			return err
		}
		return report(streams, "The %s is deleted%s.\n", c.String(), a)
	})
}
