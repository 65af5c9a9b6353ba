package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/partitionkey"
)

type keyCommand struct {
	Value   string   `arg:"" help:"The key as a JSON array, such as '[\"Contoso\",\"Alice\"]'. A shorter array than --paths is a prefix."`
	Paths   []string `default:"/pk" env:"-" help:"The partition key paths of the container, comma-separated (${default})."`
	Kind    string   `env:"-" help:"Hash or MultiHash (default: Hash for one path, MultiHash for several)."`
	Version int      `default:"2" env:"-" help:"The version of the hash: 1 or 2 (${default})."`
	Split   int      `name:"partitions" env:"-" placeholder:"N" help:"Also show the partition of the key in a new container with N partitions."`
}

// dividedMax is the maximum of --partitions, whose ranges are all in memory.
const dividedMax = 1_000_000

// Validate refuses a number of partitions that no container has.
func (c *keyCommand) Validate() error {
	if c.Split < 0 || c.Split > dividedMax {
		return fmt.Errorf("--partitions must be 0 to %s, not %d", console.Grouped(dividedMax), c.Split)
	}
	return nil
}

// Run prints the effective partition key and the range that holds it.
func (c *keyCommand) Run(io console.Streams) error {
	definition := partitionkey.Definition{Paths: c.Paths, Version: c.Version}
	kind := c.Kind
	if kind == "" && len(c.Paths) > 1 {
		kind = "MultiHash"
	}
	if kind != "" {
		if err := definition.Kind.UnmarshalText([]byte(kind)); err != nil {
			return fmt.Errorf("--kind: %w", err)
		}
	}
	if err := definition.Validate(); err != nil {
		return err
	}
	key, err := partitionkey.Parse(c.Value)
	if err != nil {
		return err
	}
	extent, err := definition.Prefix(key)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "key\t%s\n", key)
	what := "full key"
	if key.Len() < definition.Levels() {
		what = fmt.Sprintf("prefix: %d of %d levels", key.Len(), definition.Levels())
	}
	fmt.Fprintf(table, "is\t%s\n", what)
	fmt.Fprintf(table, "effective key\t%s\n", definition.Hash(key))
	fmt.Fprintf(table, "range\t%s\n", extent)
	if c.Split > 0 {
		for i, r := range definition.Divide(c.Split) {
			if r.Overlaps(extent) {
				fmt.Fprintf(table, "partition\t%d %s\n", i, r)
			}
		}
	}
	return table.Flush()
}
