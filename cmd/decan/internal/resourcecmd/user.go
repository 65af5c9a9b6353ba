package resourcecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// User is decan user.
type User struct {
	Create userCreate `cmd:"" help:"Create a user of a database."`
	List   userList   `cmd:"" help:"List the users of a database."`
	Delete userDelete `cmd:"" help:"Delete a user with its permissions."`
}

// userName is one user.
type userName struct {
	Database string `arg:"" help:"The database."`
	User     string `arg:"" help:"The user."`
}

func (u userName) path(segments ...string) []string {
	return below([]string{"dbs", u.Database, "users", u.User}, segments...)
}

type userCreate struct {
	userName

	remote.Account
}

// Run creates the user.
func (c *userCreate) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the user "+c.User+" of "+c.Database, http.MethodPost, []string{"dbs", c.Database, "users"}, map[string]string{"id": c.User})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(streams.Out, "The user %s of %s is created%s.\n", c.User, c.Database, charged(a))
		return err
	})
}

type userList struct {
	Database string `arg:"" help:"The database."`
	JSON     bool   `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the names, one on each line.
func (c *userList) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		all, err := client.List(ctx, "the users of "+c.Database, []string{"dbs", c.Database, "users"}, "Users")
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

type userDelete struct {
	userName
	IfExists bool `env:"-" help:"Do nothing if there is no such user."`

	remote.Account
}

// Run deletes the user.
func (c *userDelete) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		return remove(ctx, client, streams.Out, "user "+c.User+" of "+c.Database, c.path(), c.IfExists)
	})
}

// Permission is decan permission.
type Permission struct {
	Create permissionCreate `cmd:"" help:"Allow a user to read or to change something, and print its resource token."`
	List   permissionList   `cmd:"" help:"List the permissions of a user."`
	Token  permissionToken  `cmd:"" help:"Print a new resource token of a permission."`
	Delete permissionDelete `cmd:"" help:"Delete a permission."`
}

// permissionName is one permission.
type permissionName struct {
	userName
	Permission string `arg:"" help:"The permission."`
}

func (p permissionName) String() string {
	return fmt.Sprintf("permission %s of the user %s of %s", p.Permission, p.User, p.Database)
}

func (p permissionName) path() []string { return p.userName.path("permissions", p.Permission) }

// permission is a permission as the server has it.
type permission struct {
	ID       string          `json:"id"`
	Mode     string          `json:"permissionMode"`
	Resource string          `json:"resource"`
	Key      json.RawMessage `json:"resourcePartitionKey,omitempty"`
	Token    string          `json:"_token,omitempty"`
}

// lifetime is how long a token is valid.
type lifetime struct {
	Lifetime time.Duration `env:"-" placeholder:"DURATION" help:"How long the token is valid, from 10s to 24h (default: 1h)."`
}

func (l lifetime) headers() []string {
	if l.Lifetime == 0 {
		return nil
	}
	return []string{"x-ms-documentdb-expiry-seconds", strconv.Itoa(int(l.Lifetime.Seconds()))}
}

type permissionCreate struct {
	permissionName
	Container string     `env:"-" placeholder:"NAME" help:"The container that the user may use."`
	Item      string     `env:"-" placeholder:"ID" help:"Only this item of the container."`
	Resource  string     `env:"-" placeholder:"LINK" help:"Another resource by its link, such as dbs/shop/colls/orders/sprocs/sum."`
	Mode      string     `enum:"read,all" default:"read" env:"-" help:"read, or all for reading and changing (${default})."`
	Partition remote.Key `name:"partition-key" env:"-" placeholder:"JSON" help:"Only items of this partition key, as a JSON array with a value for each level."`
	lifetime

	remote.Account
}

// Run creates the permission.
func (c *permissionCreate) Run(streams console.Streams) error {
	resource := c.Resource
	switch {
	case c.Resource != "" && (c.Container != "" || c.Item != ""):
		return errors.New("--resource and --container both name the resource: give only one")
	case c.Resource == "" && c.Container == "":
		return errors.New("name what the user may use, with --container NAME or --resource LINK")
	case c.Resource == "":
		resource = "dbs/" + c.Database + "/colls/" + c.Container
		if c.Item != "" {
			resource += "/docs/" + c.Item
		}
	}
	p := permission{ID: c.Permission, Resource: resource, Mode: strings.ToUpper(c.Mode[:1]) + c.Mode[1:]}
	if c.Partition != "" {
		p.Key = json.RawMessage(c.Partition)
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the "+c.String(), http.MethodPost, c.userName.path("permissions"), p, c.headers()...)
		if err != nil {
			return err
		}
		return printToken(streams, a)
	})
}

// printToken prints the token of a permission.
func printToken(streams console.Streams, a remote.Answer) error {
	var p permission
	if err := json.Unmarshal(a.Body, &p); err != nil {
		return err
	}
	_, err := fmt.Fprintln(streams.Out, p.Token)
	return err
}

type permissionList struct {
	userName
	JSON bool `env:"-" help:"Print what the server sends, with new tokens."`

	remote.Account
}

// Run prints the permissions, one on each line, without tokens.
func (c *permissionList) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		all, err := client.List(ctx, "the permissions of "+c.User, c.path("permissions"), "Permissions")
		if err != nil {
			return err
		}
		if c.JSON {
			return printList(streams.Out, all)
		}
		var b strings.Builder
		for _, raw := range all {
			var p permission
			if err := json.Unmarshal(raw, &p); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s  %s  %s", p.ID, strings.ToLower(p.Mode), p.Resource)
			if p.Key != nil {
				fmt.Fprintf(&b, "  %s", p.Key)
			}
			b.WriteByte('\n')
		}
		_, err = streams.Out.Write([]byte(b.String()))
		return err
	})
}

type permissionToken struct {
	permissionName
	lifetime

	remote.Account
}

// Run prints a new token.
func (c *permissionToken) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		a, err := client.Call(ctx, "the "+c.String(), http.MethodGet, c.path(), nil, c.headers()...)
		if err != nil {
			return err
		}
		return printToken(streams, a)
	})
}

type permissionDelete struct {
	permissionName
	IfExists bool `env:"-" help:"Do nothing if there is no such permission."`

	remote.Account
}

// Run deletes the permission.
func (c *permissionDelete) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		return remove(ctx, client, streams.Out, c.String(), c.path(), c.IfExists)
	})
}
