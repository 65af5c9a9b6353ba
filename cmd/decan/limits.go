package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limitsCommand shows the limits of a container, and changes those that it has of
// its own.
type limitsCommand struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`

	LogicalPartitionBytes *sizeBytes     `env:"-" placeholder:"SIZE" help:"How much one full partition key may hold, such as 20GB or 4MB."`
	PartitionBytes        *sizeBytes     `env:"-" placeholder:"SIZE" help:"How much one physical partition holds before it is split."`
	PartitionRUs          *int           `name:"partition-rus" env:"-" placeholder:"N" help:"RU/s that one physical partition can be given."`
	ContainerRUs          *int           `name:"container-rus" env:"-" placeholder:"N" help:"RU/s that the container can be given."`
	SplitDelay            *time.Duration `env:"-" placeholder:"DURATION" help:"Hold each split of its partitions this long before it begins; 0s for no delay."`
	Reset                 []string       `env:"-" placeholder:"LIMIT" help:"Go back to the server's limits: logical-partition-bytes, partition-bytes, partition-rus, container-rus, split-delay or all."`
	JSON                  bool           `env:"-" help:"Print what the server sends."`

	adminServer
}

// limitNames are the limits as flags and on the wire.
var limitNames = []struct{ flag, member string }{
	{"logical-partition-bytes", "logicalPartitionBytes"},
	{"partition-bytes", "partitionBytes"},
	{"partition-rus", "partitionRUs"},
	{"container-rus", "containerRUs"},
	{"split-delay", "splitDelay"},
}

// limitTable is the answer of GET and PUT /limits.
type limitTable struct {
	Database  string `json:"database"`
	Container string `json:"container"`
	Limits    struct {
		LogicalBytes   int64  `json:"logicalPartitionBytes"`
		PartitionBytes int64  `json:"partitionBytes"`
		PartitionRUs   int64  `json:"partitionRUs"`
		ContainerRUs   int64  `json:"containerRUs"`
		SplitDelay     string `json:"splitDelay"`
	} `json:"limits"`
	Own []string `json:"own"`
}

// Run changes what flags name, and shows what is in force.
func (c *limitsCommand) Run(streams streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	change, err := c.change()
	if err != nil {
		return err
	}
	path := "limits?" + url.Values{"database": {c.Database}, "container": {c.Container}}.Encode()
	method, body := http.MethodGet, []byte(nil)
	if len(change) > 0 {
		method = http.MethodPut
		if body, err = json.Marshal(change); err != nil {
			return err
		}
	}
	var raw json.RawMessage
	if err := c.send(ctx, method, path, bytes.NewReader(body), &raw); err != nil {
		return err
	}
	return show[limitTable](streams.out, raw, c.JSON, c.adminServer)
}

// change is the body of the request: the limits to set, and null for those to
// reset.
func (c *limitsCommand) change() (map[string]any, error) {
	body := map[string]any{}
	for _, name := range c.Reset {
		known := false
		for _, limit := range limitNames {
			if name == limit.flag || name == "all" {
				body[limit.member], known = nil, true
			}
		}
		if !known {
			return nil, fmt.Errorf("--reset=%s: there is no such limit, see decan limits --help", name)
		}
	}
	if c.LogicalPartitionBytes != nil {
		body["logicalPartitionBytes"] = int64(*c.LogicalPartitionBytes)
	}
	if c.PartitionBytes != nil {
		body["partitionBytes"] = int64(*c.PartitionBytes)
	}
	if c.PartitionRUs != nil {
		body["partitionRUs"] = *c.PartitionRUs
	}
	if c.ContainerRUs != nil {
		body["containerRUs"] = *c.ContainerRUs
	}
	if c.SplitDelay != nil {
		body["splitDelay"] = c.SplitDelay.String()
	}
	return body, nil
}

// String is the table as people read it.
func (t limitTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s\n\n", t.Database, t.Container)
	line := func(member, what, figure string) {
		whose := "the server's"
		if slices.Contains(t.Own, member) {
			whose = "its own"
		}
		fmt.Fprintf(&b, "%-36s %12s  %s\n", what, figure, whose)
	}
	line("logicalPartitionBytes", "one full partition key", size(t.Limits.LogicalBytes))
	line("partitionBytes", "one physical partition", size(t.Limits.PartitionBytes))
	line("partitionRUs", "RU/s of one physical partition", grouped(t.Limits.PartitionRUs))
	line("containerRUs", "RU/s of the container", grouped(t.Limits.ContainerRUs))
	line("splitDelay", "a split is held for", t.Limits.SplitDelay)
	return b.String()
}
