package resourcecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// Throughput is decan throughput.
type Throughput struct {
	Show throughputShow `cmd:"" default:"withargs" help:"Show the throughput of a container or database (the default)."`
	Set  throughputSet  `cmd:"" help:"Change the throughput of a container or database, or between manual and autoscale."`
}

// throughputOwner is what has throughput.
type throughputOwner struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" optional:"" help:"The container (default: the throughput that the containers of the database share)."`
}

func (o throughputOwner) String() string {
	if o.Container == "" {
		return "database " + o.Database
	}
	return "container " + o.Database + "/" + o.Container
}

// read returns the offer of the owner, which must have one.
func (o throughputOwner) read(ctx context.Context, client *remote.Documents) (offer, error) {
	path := databasePath(o.Database)
	if o.Container != "" {
		path = containerPath(o.Database, o.Container)
	}
	a, err := client.Call(ctx, "the "+o.String(), http.MethodGet, path, nil)
	if err != nil {
		return offer{}, err
	}
	found, err := readOffer(ctx, client, a.Body)
	switch {
	case err != nil:
		return found, err
	case found.ID == "" && o.Container != "":
		return found, fmt.Errorf("the %s has no throughput of its own: it shares that of its database (leave out the container)", o)
	case found.ID == "":
		return found, fmt.Errorf("the %s has no throughput to share: each container has its own (name the container)", o)
	}
	return found, nil
}

// offer is the throughput of a container or database.
type offer struct {
	ID      string `json:"id"`
	Content struct {
		Throughput int `json:"offerThroughput"`
		Autopilot  *struct {
			Max int `json:"maxThroughput"`
		} `json:"offerAutopilotSettings"`
		Partitions []struct {
			ID         string  `json:"id"`
			Throughput float64 `json:"throughput"`
		} `json:"physicalPartitionThroughputInfo"`
	} `json:"content"`

	raw    json.RawMessage
	header http.Header
}

// String returns the throughput in words.
func (o offer) String() string {
	switch {
	case o.ID == "":
		return "that of the database"
	case o.Content.Autopilot != nil:
		return fmt.Sprintf("autoscale, at most %s RU/s", console.Grouped(o.Content.Autopilot.Max))
	}
	return fmt.Sprintf("%s RU/s, manual", console.Grouped(o.Content.Throughput))
}

// readOffer returns the offer of a resource; one without an ID if there is none.
func readOffer(ctx context.Context, client *remote.Documents, resource json.RawMessage) (offer, error) {
	owner, err := rid(resource)
	if err != nil {
		return offer{}, err
	}
	query := map[string]any{
		"query":      "SELECT * FROM root WHERE root.offerResourceId = @rid",
		"parameters": []map[string]string{{"name": "@rid", "value": owner}},
	}
	a, err := client.Call(ctx, "the throughput", http.MethodPost, []string{"offers"}, query,
		"content-type", "application/query+json", "x-ms-documentdb-isquery", "True")
	if err != nil {
		return offer{}, err
	}
	var page struct{ Offers []json.RawMessage }
	if err := json.Unmarshal(a.Body, &page); err != nil {
		return offer{}, fmt.Errorf("the throughput: %w", err)
	}
	if len(page.Offers) == 0 {
		return offer{}, nil
	}
	return parseOffer(page.Offers[0], a.Header)
}

func parseOffer(raw json.RawMessage, header http.Header) (offer, error) {
	o := offer{raw: raw, header: header}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("the throughput: %w", err)
	}
	return o, nil
}

type throughputShow struct {
	throughputOwner
	JSON bool `env:"-" help:"Print what the server sends."`

	remote.Account
}

// Run prints the throughput.
func (c *throughputShow) Run(streams console.Streams) error {
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		found, err := c.read(ctx, client)
		if err != nil {
			return err
		}
		a, err := client.Call(ctx, "the throughput", http.MethodGet, []string{"offers", found.ID}, nil, "x-ms-cosmos-include-physical-partition-throughput-info", "True")
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(streams.Out, a.Body)
		}
		if found, err = parseOffer(a.Body, a.Header); err != nil {
			return err
		}
		_, err = fmt.Fprint(streams.Out, found.table(c.throughputOwner))
		return err
	})
}

// table returns the throughput with its limits.
func (o offer) table(owner throughputOwner) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", owner)
	line(&b, "throughput", "%s", o)
	for _, limit := range []struct{ name, header string }{
		{"at least", "x-ms-cosmos-min-throughput"},
		{"at once up to", "x-ms-cosmos-instant-scale-up-value"},
		{"at most", "x-ms-cosmos-offer-max-allowed-throughput"},
	} {
		var rate int64
		if _, err := fmt.Sscan(o.header.Get(limit.header), &rate); err == nil {
			line(&b, limit.name, "%s RU/s", console.Grouped(rate))
		}
	}
	for i, p := range o.Content.Partitions {
		name := "partitions"
		if i > 0 {
			name = ""
		}
		line(&b, name, "%s: %s RU/s", p.ID, console.Grouped(int64(p.Throughput+0.5)))
	}
	if o.header.Get("x-ms-offer-replace-pending") == "true" {
		b.WriteString("A change is in progress: partitions are being split for it.\n")
	}
	return b.String()
}

type throughputSet struct {
	throughputOwner
	throughputFlags

	remote.Account
}

// Run changes the throughput, and before it between manual and autoscale if that is
// necessary.
func (c *throughputSet) Run(streams console.Streams) error {
	if _, err := c.headers(); err != nil {
		return err
	}
	if c.Throughput == 0 && c.Autoscale == 0 {
		return errors.New("give --throughput RUS or --autoscale RUS")
	}
	return with(c.Account, func(ctx context.Context, client *remote.Documents) error {
		found, err := c.read(ctx, client)
		if err != nil {
			return err
		}
		was := found.String()
		migrated := false
		if isAuto := found.Content.Autopilot != nil; isAuto != (c.Autoscale > 0) {
			header := "x-ms-cosmos-migrate-offer-to-autopilot"
			if isAuto {
				header = "x-ms-cosmos-migrate-offer-to-manual-throughput"
			}
			if found, err = found.replace(ctx, client, -1, 0, header, "True"); err != nil {
				return err
			}
			migrated = true
		}
		if found.Content.Autopilot == nil && found.Content.Throughput != c.Throughput || found.Content.Autopilot != nil && found.Content.Autopilot.Max != c.Autoscale {
			middle := found.String()
			if found, err = found.replace(ctx, client, c.Throughput, c.Autoscale); err != nil {
				if migrated {
					return fmt.Errorf("the throughput is now %s, and could not be set further: %w", middle, err)
				}
				return err
			}
		}
		_, err = fmt.Fprintf(streams.Out, "The throughput of the %s was %s, and is %s.\n", c.throughputOwner, was, found)
		return err
	})
}

// replace stores an offer with a throughput, and returns the new one.
func (o offer) replace(ctx context.Context, client *remote.Documents, manual, auto int, headers ...string) (offer, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(o.raw, &body); err != nil {
		return o, err
	}
	content := map[string]any{"offerThroughput": manual}
	if auto > 0 {
		content = map[string]any{"offerThroughput": -1, "offerAutopilotSettings": map[string]int{"maxThroughput": auto}}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return o, err
	}
	body["content"] = text
	a, err := client.Call(ctx, "", http.MethodPut, []string{"offers", o.ID}, body, headers...)
	if err != nil {
		return o, err
	}
	return parseOffer(a.Body, a.Header)
}
