package resourcecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// Container is decan container.
type Container struct {
	Create containerCreate `cmd:"" help:"Create a container."`
	List   containerList   `cmd:"" help:"List the containers of a database."`
	Show   containerShow   `cmd:"" help:"Show a container: key, throughput, time to live, indexes, policies."`
	Set    containerSet    `cmd:"" help:"Change a container: time to live, indexes, policies. Its key, unique keys and vectors stay."`
	Delete containerDelete `cmd:"" help:"Delete a container with all its items."`
}

// keyFlags are the parts of a definition that cannot change.
type keyFlags struct {
	Keys    []string `name:"key-path" short:"k" env:"-" placeholder:"PATH" help:"The path of a level of the partition key, such as /tenant; give it once for each level, the broadest first, at most three times."`
	Kind    string   `name:"key-kind" env:"-" placeholder:"KIND" help:"Hash or MultiHash (default: Hash for one path, MultiHash for several)."`
	Version int      `name:"key-version" default:"2" env:"-" placeholder:"N" help:"The version of the hash: 1 or 2 (${default})."`
	Unique  []string `name:"unique-key" sep:"none" env:"-" placeholder:"PATH,..." help:"Paths whose values together are unique within a partition key; give it once for each unique key."`
}

type containerCreate struct {
	Database  string `arg:"" help:"The database. It must exist, unless --create-database is given."`
	Container string `arg:"" help:"The name of the container."`

	keyFlags
	definitionFlags
	throughputFlags
	Partitions     int  `env:"-" placeholder:"N" help:"Its number of physical partitions, whatever its throughput. Azure has no such choice."`
	CreateDatabase bool `env:"-" help:"Also create the database if it is missing."`
	IfMissing      bool `env:"-" help:"Do nothing if there is such a container."`

	remote.Account
}

// Run creates the container.
func (c *containerCreate) Run(streams console.Streams) error {
	headers, err := c.headers()
	if err != nil {
		return err
	}
	if c.Partitions < 0 {
		return errors.New("--partitions must be positive")
	}
	if c.Partitions > 0 {
		headers = append(headers, "x-decan-partition-count", strconv.Itoa(c.Partitions))
	}
	body, err := c.file(streams)
	if err != nil {
		return err
	}
	body["id"] = c.Container
	if err := c.keyFlags.put(body); err != nil {
		return err
	}
	if err := c.definitionFlags.put(streams, body); err != nil {
		return err
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		return c.create(ctx, client, streams, body, headers)
	})
}

func (c *containerCreate) create(ctx context.Context, client *remote.Documents, streams console.Streams, body map[string]any, headers []string) error {
	name := c.Database + "/" + c.Container
	made := ""
	if c.CreateDatabase {
		_, err := client.Call(ctx, "", http.MethodPost, []string{"dbs"}, map[string]string{"id": c.Database})
		if err != nil && !refused(err, http.StatusConflict) {
			return err
		}
		if err == nil {
			made = "; the database " + c.Database + " is created"
		}
	}
	a, err := client.Call(ctx, "", http.MethodPost, below(databasePath(c.Database), "colls"), body, headers...)
	switch {
	case c.IfMissing && refused(err, http.StatusConflict):
		_, err := fmt.Fprintf(streams.Out, "There is a container %s.\n", name)
		return err
	case refused(err, http.StatusConflict):
		return fmt.Errorf("there is a container %s: give another name, or --if-missing", name)
	case refused(err, http.StatusNotFound):
		return fmt.Errorf("there is no database %s: give --create-database", c.Database)
	case err != nil:
		return fmt.Errorf("%w%s", err, made)
	}
	d, err := parseDefinition(a.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "The container %s is created with the key %s%s%s.\n", name, d.key(), charged(a), made)
	return err
}

type containerSet struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`

	definitionFlags

	remote.Account
}

// Run reads the definition, changes what flags name and stores it, unless another client
// has changed it in between.
func (c *containerSet) Run(streams console.Streams) error {
	given, err := c.file(streams)
	if err != nil {
		return err
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		path := containerPath(c.Database, c.Container)
		what := "the container " + c.Database + "/" + c.Container
		a, err := client.Call(ctx, what, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		var stored map[string]any
		if err := decodeObject(a.Body, &stored); err != nil {
			return err
		}
		etag, _ := stored["_etag"].(string)
		body := stored
		if c.File != "" {
			body = given
			for _, fixed := range []string{"partitionKey", "uniqueKeyPolicy"} {
				if _, said := body[fixed]; !said {
					body[fixed] = stored[fixed]
				}
			}
		}
		body["id"] = c.Container
		if err := c.definitionFlags.put(streams, body); err != nil {
			return err
		}
		a, err = client.Call(ctx, "", http.MethodPut, path, body, "if-match", etag)
		if refused(err, http.StatusPreconditionFailed) {
			return fmt.Errorf("%s was changed by another client at the same time: run the command again", what)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(streams.Out, "The container %s/%s is changed%s.\n", c.Database, c.Container, charged(a))
		return err
	})
}

type containerList struct {
	Database string `arg:"" help:"The database."`
	JSON     bool   `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the containers, one on each line, with their keys.
func (c *containerList) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		all, err := client.List(ctx, "the containers of "+c.Database, below(databasePath(c.Database), "colls"), "DocumentCollections")
		if err != nil {
			return err
		}
		if c.JSON {
			return printList(streams.Out, all)
		}
		var b strings.Builder
		longest := 0
		var definitions []definition
		for _, raw := range all {
			d, err := parseDefinition(raw)
			if err != nil {
				return err
			}
			definitions, longest = append(definitions, d), max(longest, len(d.ID))
		}
		for _, d := range definitions {
			fmt.Fprintf(&b, "%-*s  %s\n", longest, d.ID, d.key())
		}
		_, err = streams.Out.Write([]byte(b.String()))
		return err
	})
}

type containerShow struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
	JSON      bool   `env:"-" help:"Print the definition as the server sends it; decan container create --file reads it."`

	remote.Account
}

// Run prints the container.
func (c *containerShow) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the container "+c.Database+"/"+c.Container, http.MethodGet, containerPath(c.Database, c.Container), nil,
			"x-ms-documentdb-populatequotainfo", "True")
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(streams.Out, a.Body)
		}
		found, err := readOffer(ctx, client, a.Body)
		if err != nil {
			return err
		}
		d, err := parseDefinition(a.Body)
		if err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s/%s\n\n", c.Database, c.Container)
		d.describe(&b)
		line(&b, "throughput", "%s", found)
		if progress := a.Header.Get("x-ms-documentdb-collection-index-transformation-progress"); progress != "" && progress != "100" && progress != "-1" {
			line(&b, "index", "is being rebuilt, %s %% done", progress)
		}
		_, err = streams.Out.Write([]byte(b.String()))
		return err
	})
}

type containerDelete struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
	Yes       bool   `short:"y" env:"-" help:"Do not ask. Without a terminal there is no question."`
	IfExists  bool   `env:"-" help:"Do nothing if there is no such container."`

	remote.Account
}

// Run deletes the container.
func (c *containerDelete) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		name := "container " + c.Database + "/" + c.Container
		if err := confirm(streams, c.Yes, "the "+name+" with all its items"); err != nil {
			return err
		}
		return remove(ctx, client, streams.Out, name, containerPath(c.Database, c.Container), c.IfExists)
	})
}

// decodeObject decodes JSON, which must be one object, and keeps the digits of numbers.
func decodeObject(text []byte, out *map[string]any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(out); err != nil {
		return jsonError(text, err)
	}
	if decoder.More() {
		return errors.New("there is text after the end of the JSON")
	}
	if *out == nil {
		return errors.New("give a JSON object, not null")
	}
	return nil
}

// jsonError adds the line and column to an error of JSON.
func jsonError(text []byte, err error) error {
	at := int64(-1)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		at = wrong.Offset
	}
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("the JSON is broken: %w", err)
	}
	before := string(text[:at])
	return fmt.Errorf("line %d, column %d: the JSON is broken: %w", strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n')-1, err)
}
