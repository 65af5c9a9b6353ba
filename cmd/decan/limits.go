package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/server"
)

// limitsCommand shows the limits of a container, and changes its own ones.
type limitsCommand struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`

	LogicalPartitionBytes *server.Size   `env:"-" placeholder:"SIZE" help:"The maximum size of the documents of one full partition key, such as 20GB or 4MB."`
	PartitionBytes        *server.Size   `env:"-" placeholder:"SIZE" help:"The size at which a physical partition is split."`
	PartitionRUs          *int           `name:"partition-rus" env:"-" placeholder:"N" help:"The maximum throughput of one physical partition, in RU/s."`
	ContainerRUs          *int           `name:"container-rus" env:"-" placeholder:"N" help:"The maximum throughput of the container, in RU/s."`
	SplitDelay            *time.Duration `env:"-" placeholder:"DURATION" help:"Delay each split of its partitions this long; 0s for no delay."`
	Reset                 []string       `env:"-" placeholder:"LIMIT" help:"Return to the limits of the server: logical-partition-bytes, partition-bytes, partition-rus, container-rus, split-delay or all."`
	JSON                  bool           `env:"-" help:"Print what the server sends."`

	remote.Admin
}

// limitNames are the names of limits as flags and on the wire.
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

// Run changes the limits that flags name, and shows the limits in force.
func (c *limitsCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
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
	if err := c.Send(ctx, method, path, bytes.NewReader(body), &raw); err != nil {
		return err
	}
	return show[limitTable](streams.Out, raw, c.JSON, c.Admin)
}

// change returns the body of the request: the limits to set, and null for those to
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
			return nil, fmt.Errorf("--reset %s: use logical-partition-bytes, partition-bytes, partition-rus, container-rus, split-delay or all", name)
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

// String returns the table.
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
	line("logicalPartitionBytes", "one full partition key", console.Size(t.Limits.LogicalBytes))
	line("partitionBytes", "one physical partition", console.Size(t.Limits.PartitionBytes))
	line("partitionRUs", "RU/s of one physical partition", console.Grouped(t.Limits.PartitionRUs))
	line("containerRUs", "RU/s of the container", console.Grouped(t.Limits.ContainerRUs))
	line("splitDelay", "delay of a split", t.Limits.SplitDelay)
	return b.String()
}
