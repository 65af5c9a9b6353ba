package main

import (
	"fmt"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
)

// quarantineCommand works with the directories that a start has moved to the
// quarantine because the catalog does not name them.
type quarantineCommand struct {
	List    quarantineList    `cmd:"" help:"List the entries of the quarantine."`
	Restore quarantineRestore `cmd:"" help:"Restore partitions of one container. No server may have the directory open."`
	Delete  quarantineDelete  `cmd:"" help:"Permanently delete an entry. No server may have the directory open."`
}

type quarantineList struct {
	Dir string `arg:"" type:"path" help:"The data directory."`
}

// Run prints the entries.
func (c *quarantineList) Run(io console.Streams) error {
	lines, err := server.ListQuarantine(c.Dir)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		fmt.Fprintln(io.Out, "the quarantine is empty")
	}
	for _, line := range lines {
		fmt.Fprintln(io.Out, line)
	}
	return nil
}

type quarantineRestore struct {
	Dir   string   `arg:"" type:"path" help:"The data directory."`
	Names []string `arg:"" name:"name" help:"The entries, as list prints them. Both children of a split are restored together."`
	As    string   `placeholder:"DATABASE/CONTAINER" help:"Restore the partitions as a container with this name, which the catalog does not have."`
}

// Run restores the entries.
func (c *quarantineRestore) Run(io console.Streams) error {
	done, err := server.RestoreQuarantined(c.Dir, c.Names, c.As)
	if err != nil {
		return err
	}
	fmt.Fprintln(io.Out, done)
	return nil
}

type quarantineDelete struct {
	Dir  string `arg:"" type:"path" help:"The data directory."`
	Name string `arg:"" help:"The whole name of the entry, as list prints it."`
}

// Run deletes the entry.
func (c *quarantineDelete) Run(io console.Streams) error {
	if err := server.DeleteQuarantined(c.Dir, c.Name); err != nil {
		return err
	}
	fmt.Fprintln(io.Out, "deleted:", c.Name)
	return nil
}
