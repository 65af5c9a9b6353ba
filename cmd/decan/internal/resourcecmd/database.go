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

// Database is decan database.
type Database struct {
	Create databaseCreate `cmd:"" help:"Create a database."`
	List   databaseList   `cmd:"" help:"List the databases."`
	Show   databaseShow   `cmd:"" help:"Show a database, its throughput and its containers."`
	Delete databaseDelete `cmd:"" help:"Delete a database with all its containers."`
}

// throughputFlags are the throughput of something new.
type throughputFlags struct {
	Throughput int `env:"-" placeholder:"RUS" help:"Its manual throughput in RU/s, from 400 in steps of 100."`
	Autoscale  int `env:"-" placeholder:"RUS" help:"The maximum of its autoscale throughput in RU/s, from 1,000 in steps of 1,000."`
}

// headers returns the headers of a creation.
func (f throughputFlags) headers() ([]string, error) {
	switch {
	case f.Throughput < 0 || f.Autoscale < 0:
		return nil, errors.New("--throughput and --autoscale must be positive")
	case f.Throughput > 0 && f.Autoscale > 0:
		return nil, errors.New("--throughput is manual, --autoscale is not: give only one")
	case f.Throughput > 0:
		return []string{"x-ms-offer-throughput", strconv.Itoa(f.Throughput)}, nil
	case f.Autoscale > 0:
		return []string{"x-ms-cosmos-offer-autopilot-settings", fmt.Sprintf(`{"maxThroughput":%d}`, f.Autoscale)}, nil
	}
	return nil, nil
}

type databaseCreate struct {
	Database  string `arg:"" help:"The name of the database."`
	IfMissing bool   `env:"-" help:"Do nothing if there is such a database."`
	throughputFlags

	remote.Account
}

// Run creates the database.
func (c *databaseCreate) Run(streams console.Streams) error {
	headers, err := c.headers()
	if err != nil {
		return err
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "", http.MethodPost, []string{"dbs"}, map[string]string{"id": c.Database}, headers...)
		if c.IfMissing && refused(err, http.StatusConflict) {
			_, err := fmt.Fprintf(streams.Out, "There is a database %s.\n", c.Database)
			return err
		}
		if refused(err, http.StatusConflict) {
			return fmt.Errorf("there is a database %s: give another name, or --if-missing", c.Database)
		}
		if err != nil {
			return fmt.Errorf("the database %s: %w", c.Database, err)
		}
		_, err = fmt.Fprintf(streams.Out, "The database %s is created%s.\n", c.Database, charged(a))
		return err
	})
}

type databaseList struct {
	JSON bool `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the names, one on each line.
func (c *databaseList) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		all, err := client.List(ctx, "the databases", []string{"dbs"}, "Databases")
		if err != nil {
			return err
		}
		if c.JSON {
			return printList(streams.Out, all)
		}
		ids, err := names(all)
		if err != nil {
			return err
		}
		return printNames(streams, ids)
	})
}

func printNames(streams console.Streams, ids []string) error {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&b, id)
	}
	_, err := streams.Out.Write([]byte(b.String()))
	return err
}

type databaseShow struct {
	Database string `arg:"" help:"The database."`
	JSON     bool   `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the database.
func (c *databaseShow) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the database "+c.Database, http.MethodGet, databasePath(c.Database), nil)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(streams.Out, a.Body)
		}
		offer, err := readOffer(ctx, client, a.Body)
		if err != nil {
			return err
		}
		all, err := client.List(ctx, "the containers", below(databasePath(c.Database), "colls"), "DocumentCollections")
		if err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\n", c.Database)
		if shared := offer.String(); offer.ID == "" {
			line(&b, "throughput", "none to share: each container has its own")
		} else {
			line(&b, "throughput", "%s, shared by its containers", shared)
		}
		for i, container := range all {
			name := "containers"
			if i > 0 {
				name = ""
			}
			d, err := parseDefinition(container)
			if err != nil {
				return err
			}
			line(&b, name, "%s  %s", d.ID, d.key())
		}
		_, err = streams.Out.Write([]byte(b.String()))
		return err
	})
}

type databaseDelete struct {
	Database string `arg:"" help:"The database."`
	Yes      bool   `short:"y" env:"-" help:"Do not ask. Without a terminal there is no question."`
	IfExists bool   `env:"-" help:"Do nothing if there is no such database."`

	remote.Account
}

// Run deletes the database.
func (c *databaseDelete) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		if err := confirm(streams, c.Yes, "the database "+c.Database+" with all its containers"); err != nil {
			return err
		}
		return remove(ctx, client, streams.Out, "database "+c.Database, databasePath(c.Database), c.IfExists)
	})
}

// rid returns the _rid of a resource.
func rid(resource json.RawMessage) (string, error) {
	var identified struct {
		RID string `json:"_rid"`
	}
	if err := json.Unmarshal(resource, &identified); err != nil || identified.RID == "" {
		return "", fmt.Errorf("the answer has no _rid: %.100s", resource)
	}
	return identified.RID, nil
}
