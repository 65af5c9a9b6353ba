// Package democmd is decan demo: it loads the same events under several partition keys
// into a server in memory, and compares what each key does to writes and queries.
//
// democmd.go loads and asks, events.go makes the events, report.go prints the
// comparison.
//
// Page: docs/operating.md
package democmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"golang.org/x/sync/errgroup"
)

// Command is decan demo.
type Command struct {
	Tenants tenantsCommand `cmd:"" help:"Load events of many tenants under four partition keys, and compare the writes and queries of each."`
}

type tenantsCommand struct {
	Documents int  `default:"20000" env:"-" placeholder:"N" help:"The number of events that are written to each of the four containers, 1,000 to 100,000 (${default})."`
	JSON      bool `env:"-" help:"Print the results as JSON."`
	Keep      bool `env:"-" help:"Keep the server running until Ctrl-C."`
}

const (
	demoDatabase = "demo"

	demoDocumentsMin = 1_000
	demoDocumentsMax = 100_000         // fits in the memory of a laptop
	demoEventBytes   = 2 << 10         // of an event, at least
	demoVolume       = 32 << 20        // of all events, at least: with fewer bytes no limit is reached
	demoWriters      = 8               // connections that write
	demoSettle       = 2 * time.Minute // maximum time until the last partition has been split
)

// Validate refuses a number of events that shows nothing or does not fit in memory.
func (c *tenantsCommand) Validate() error {
	if c.Documents < demoDocumentsMin || c.Documents > demoDocumentsMax {
		return fmt.Errorf("--documents %d: give %s to %s", c.Documents, console.Grouped(demoDocumentsMin), console.Grouped(demoDocumentsMax))
	}
	return nil
}

// Run shows the comparison.
func (c *tenantsCommand) Run(io console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	err := c.run(ctx, io)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted")
	}
	return err
}

// run starts a server in memory, with limits that are low enough to be reached, and
// sends it the requests of an ordinary client.
func (c *tenantsCommand) run(ctx context.Context, io console.Streams) (err error) {
	server, err := decan.Start(ctx, decan.Config{AdminListen: "127.0.0.1:0", Limits: "laptop", Explorer: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	d, err := newDemo(server, c.Documents, io.Err)
	if err != nil {
		return err
	}
	defer d.client.Close()
	report, err := d.compare(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		err = console.PrintJSON(io.Out, report)
	} else {
		err = report.print(io.Out)
	}
	if err != nil || !c.Keep {
		return err
	}
	fmt.Fprint(io.Err, invitation(server))
	<-ctx.Done()
	return nil
}

// invitation says how to examine a server that keeps running.
func invitation(server *decan.Server) string {
	admin := strings.TrimSuffix(server.AdminEndpoint(), "/")
	last := demoLayouts[len(demoLayouts)-1].container
	return fmt.Sprintf("\nThe server runs until Ctrl-C.\n  endpoint  %s\n  explorer  %s_explorer/\n  key       %s\n  admin     %s\n\n"+
		"  decan partitions %s %s --admin %s --watch 1s\n  decan explain %s %s \"SELECT * FROM c WHERE c.TenantId = '%s'\" --endpoint %s\n",
		server.Endpoint(), server.Endpoint(), server.Key(), admin, demoDatabase, last, admin, demoDatabase, last, demoLargest, server.Endpoint())
}

// demoLayout is a container with its partition key.
type demoLayout struct {
	container string
	title     string
	paths     []string
	synthetic bool // documents have TenantUser, and queries that know both parts filter by it
	key       func(demoEvent) []string
}

var demoLayouts = []demoLayout{
	{container: "by_tenant", title: "/TenantId", paths: []string{"/TenantId"}, key: func(e demoEvent) []string { return []string{e.TenantID} }},
	{container: "by_user", title: "/UserId", paths: []string{"/UserId"}, key: func(e demoEvent) []string { return []string{e.UserID} }},
	{container: "synthetic", title: "/TenantUser", paths: []string{"/TenantUser"}, synthetic: true, key: func(e demoEvent) []string { return []string{e.TenantID + "-" + e.UserID} }},
	{container: "hierarchical", title: "/TenantId,/UserId,/SessionId", paths: []string{"/TenantId", "/UserId", "/SessionId"}, key: func(e demoEvent) []string { return []string{e.TenantID, e.UserID, e.SessionID} }},
}

// definition returns the container's JSON. The details are not indexed.
func (l *demoLayout) definition() ([]byte, error) {
	kind := "Hash"
	if len(l.paths) > 1 {
		kind = "MultiHash"
	}
	return json.Marshal(map[string]any{
		"id":           l.container,
		"partitionKey": map[string]any{"paths": l.paths, "kind": kind, "version": 2},
		"indexingPolicy": map[string]any{
			"indexingMode":  "consistent",
			"includedPaths": []any{map[string]string{"path": "/*"}},
			"excludedPaths": []any{map[string]string{"path": "/details/?"}},
		},
	})
}

// keyOf returns the partition key of an event as clients send it.
func (l *demoLayout) keyOf(e demoEvent) (string, error) {
	text, err := json.Marshal(l.key(e))
	return string(text), err
}

func (l *demoLayout) path() []string { return []string{"dbs", demoDatabase, "colls", l.container} }

// demo is a running comparison.
type demo struct {
	client *remote.Documents
	admin  remote.Admin
	events []demoEvent
	size   int // bytes of an event
	out    io.Writer
}

func newDemo(server *decan.Server, documents int, progress io.Writer) (*demo, error) {
	client, err := remote.Account{Endpoint: server.Endpoint(), Key: server.Key()}.Documents(demoWriters)
	if err != nil {
		return nil, err
	}
	return &demo{
		client: client,
		admin:  remote.Admin{Endpoint: server.AdminEndpoint(), Key: server.Key()},
		events: demoEvents(documents),
		size:   max(demoEventBytes, demoVolume/documents),
		out:    progress,
	}, nil
}

// compare loads one container after the other, and then runs the same queries on each.
func (d *demo) compare(ctx context.Context) (*demoReport, error) {
	if err := d.create(ctx, []string{"dbs"}, []byte(`{"id":"`+demoDatabase+`"}`)); err != nil {
		return nil, err
	}
	report := &demoReport{Events: len(d.events), EventBytes: d.size}
	for i := range demoLayouts {
		layout := &demoLayouts[i]
		definition, err := layout.definition()
		if err != nil {
			return nil, err
		}
		if err := d.create(ctx, []string{"dbs", demoDatabase, "colls"}, definition); err != nil {
			return nil, err
		}
		result, err := d.load(ctx, layout)
		if err != nil {
			return nil, fmt.Errorf("load the container with key %s: %w", layout.title, err)
		}
		report.Layouts = append(report.Layouts, *result)
	}
	for i := range report.Layouts {
		if err := d.ask(ctx, &demoLayouts[i], &report.Layouts[i]); err != nil {
			return nil, fmt.Errorf("ask the container with key %s: %w", demoLayouts[i].title, err)
		}
	}
	return report, nil
}

func (d *demo) create(ctx context.Context, feed []string, definition []byte) error {
	made, err := d.client.Do(ctx, http.MethodPost, feed, definition)
	if err != nil {
		return err
	}
	if made.Status != http.StatusCreated {
		return made.Refusal(string(definition))
	}
	return nil
}

// ledger counts the answers to one writer, by full key.
type ledger struct {
	taken   int
	bytes   map[string]int64 // of the accepted writes
	refused map[string]int   // writes
}

// load writes every event to a container, and returns the result after the last
// partition has been split.
func (d *demo) load(ctx context.Context, layout *demoLayout) (*demoResult, error) {
	meter := newLoadMeter(d.out, layout.title, len(d.events))
	watching, stop := context.WithCancel(ctx)
	var watch errgroup.Group
	watch.Go(func() error { return d.watch(watching, layout, meter) })

	ledgers := make([]ledger, demoWriters)
	var next atomic.Int64
	writers, writing := errgroup.WithContext(ctx)
	for w := range ledgers {
		ledgers[w] = ledger{bytes: map[string]int64{}, refused: map[string]int{}}
		writers.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(d.events)); i = next.Add(1) - 1 {
				if err := d.write(writing, layout, d.events[i], &ledgers[w], meter); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writers.Wait()
	stop()
	if err = errors.Join(err, watch.Wait()); err != nil {
		meter.endLine()
		return nil, err
	}
	list, err := d.settle(ctx, layout, meter)
	meter.endLine()
	if err != nil {
		return nil, err
	}
	return summary(layout, list, ledgers), nil
}

// write writes one event. A full logical partition is a result, not an error.
func (d *demo) write(ctx context.Context, layout *demoLayout, e demoEvent, book *ledger, meter *loadMeter) error {
	key, err := layout.keyOf(e)
	if err != nil {
		return err
	}
	if layout.synthetic {
		e.TenantUser = layout.key(e)[0]
	}
	body, err := e.body(d.size)
	if err != nil {
		return err
	}
	wrote, err := d.client.Do(ctx, http.MethodPost, append(layout.path(), "docs"), body, "x-ms-documentdb-partitionkey", key)
	switch {
	case err != nil:
		return err
	case wrote.Status == http.StatusCreated:
		book.taken++
		book.bytes[key] += int64(len(body))
	case wrote.Is(http.StatusForbidden, "1014"):
		book.refused[key]++
		meter.refused.Add(1)
	default:
		return wrote.Refusal("write an event")
	}
	meter.done.Add(1)
	return nil
}

// containerState is the answer of GET /partitions, as far as it is needed here.
type containerState struct {
	Limits struct {
		PartitionBytes int64 `json:"partitionBytes"`
		LogicalBytes   int64 `json:"logicalBytes"`
	} `json:"limits"`
	Partitions []struct {
		Documents int64 `json:"documents"`
		Bytes     int64 `json:"documentBytes"`
	} `json:"partitions"`
}

func (d *demo) state(ctx context.Context, layout *demoLayout) (containerState, error) {
	var list containerState
	query := url.Values{"database": {demoDatabase}, "container": {layout.container}}
	err := d.admin.Ask(ctx, http.MethodGet, "partitions", query, &list)
	return list, err
}

// demoLook is the time between two updates of the progress.
const demoLook = 200 * time.Millisecond

// watch shows the progress until ctx ends.
func (d *demo) watch(ctx context.Context, layout *demoLayout, meter *loadMeter) error {
	tick := time.NewTicker(demoLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		list, err := d.state(ctx, layout)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		meter.show(len(list.Partitions))
	}
}

// settle waits until no partition is above the limit, so that no split disturbs the
// queries, and returns the partitions.
func (d *demo) settle(ctx context.Context, layout *demoLayout, meter *loadMeter) (containerState, error) {
	ctx, cancel := context.WithTimeout(ctx, demoSettle)
	defer cancel()
	for {
		list, err := d.state(ctx, layout)
		if err != nil {
			return list, err
		}
		meter.show(len(list.Partitions))
		settled := true
		for _, p := range list.Partitions {
			settled = settled && p.Bytes <= list.Limits.PartitionBytes
		}
		if settled {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return list, fmt.Errorf("wait for the splits to end: %w", ctx.Err())
		case <-time.After(demoLook):
		}
	}
}

// ask runs every query on a container.
func (d *demo) ask(ctx context.Context, layout *demoLayout, result *demoResult) error {
	for _, q := range demoQueries(d.events) {
		text, parameters := q.text(layout)
		cost, err := d.client.Query(ctx, layout.path(), text, parameters)
		if err != nil {
			return err
		}
		result.add(q.name, text, cost, q.matching(d.events))
	}
	first := d.events[0]
	key, err := layout.keyOf(first)
	if err != nil {
		return err
	}
	read, err := d.client.Do(ctx, http.MethodGet, append(layout.path(), "docs", first.ID), nil, "x-ms-documentdb-partitionkey", key)
	if err != nil {
		return err
	}
	if read.Status != http.StatusOK {
		return read.Refusal("read " + first.ID)
	}
	cost := remote.QueryCost{Documents: 1}
	if err := cost.Add(read, map[string]bool{}); err != nil {
		return err
	}
	result.add("point read", "", cost, 1)
	result.Verdict = result.verdict(layout)
	return nil
}

// The queries that a verdict names.
const (
	askLargest = "the largest tenant"
	askSmall   = "a small tenant"
	askUser    = "user alone"
)

// demoQuery is a query of S39: a name, and the properties by which it filters.
type demoQuery struct {
	name    string
	of      demoEvent // an event that it finds
	tenant  bool
	user    bool
	session bool
}

// demoQueries returns queries for the first user of the largest tenant, and one for
// the tenant of the third user, a small one.
func demoQueries(events []demoEvent) []demoQuery {
	first, small := events[0], events[2*demoUserEvents]
	return []demoQuery{
		{name: askLargest, of: first, tenant: true},
		{name: askSmall, of: small, tenant: true},
		{name: "tenant and user", of: first, tenant: true, user: true},
		{name: "tenant, user, session", of: first, tenant: true, user: true, session: true},
		{name: askUser, of: first, user: true},
	}
}

// text returns the query. With a synthetic key, it must filter by that key to be
// routed by it.
func (q demoQuery) text(layout *demoLayout) (text string, parameters map[string]string) {
	parameters = map[string]string{}
	var conditions []string
	is := func(asked bool, property, v string) {
		if asked {
			conditions = append(conditions, "c."+property+" = @"+property)
			parameters["@"+property] = v
		}
	}
	is(q.tenant, "TenantId", q.of.TenantID)
	is(q.user, "UserId", q.of.UserID)
	is(q.session, "SessionId", q.of.SessionID)
	if layout.synthetic && q.tenant && q.user {
		is(true, "TenantUser", layout.key(q.of)[0])
	}
	return "SELECT * FROM c WHERE " + strings.Join(conditions, " AND "), parameters
}

// matching returns how many of the events match the query.
func (q demoQuery) matching(events []demoEvent) int {
	n := 0
	for _, e := range events {
		if (!q.tenant || e.TenantID == q.of.TenantID) && (!q.user || e.UserID == q.of.UserID) && (!q.session || e.SessionID == q.of.SessionID) {
			n++
		}
	}
	return n
}
