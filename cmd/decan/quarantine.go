package main

import (
	"fmt"

	"github.com/decandb/decan/internal/server"
)

// quarantineCommand works with what a start has moved out of the way because the catalog
// does not name it.
type quarantineCommand struct {
	List    quarantineList    `cmd:"" help:"Print what is in the quarantine."`
	Restore quarantineRestore `cmd:"" help:"Bring partitions of one container back. No server may have the directory open."`
	Delete  quarantineDelete  `cmd:"" help:"Delete one entry for good. No server may have the directory open."`
}

type quarantineList struct {
	Dir string `arg:"" type:"path" help:"The data directory."`
}

// Run prints the entries.
func (c *quarantineList) Run(io streams) error {
	lines, err := server.ListQuarantine(c.Dir)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		fmt.Fprintln(io.out, "the quarantine is empty")
	}
	for _, line := range lines {
		fmt.Fprintln(io.out, line)
	}
	return nil
}

type quarantineRestore struct {
	Dir   string   `arg:"" type:"path" help:"The data directory."`
	Names []string `arg:"" name:"name" help:"The entries, as list prints them. Both children of a split are restored together."`
	As    string   `placeholder:"DATABASE/CONTAINER" help:"The name of a container that the catalog does not have."`
}

// Run restores the entries.
func (c *quarantineRestore) Run(io streams) error {
	done, err := server.RestoreQuarantined(c.Dir, c.Names, c.As)
	if err != nil {
		return err
	}
	fmt.Fprintln(io.out, done)
	return nil
}

type quarantineDelete struct {
	Dir  string `arg:"" type:"path" help:"The data directory."`
	Name string `arg:"" help:"The whole name of the entry, as list prints it."`
}

// Run deletes the entry.
func (c *quarantineDelete) Run(io streams) error {
	if err := server.DeleteQuarantined(c.Dir, c.Name); err != nil {
		return err
	}
	fmt.Fprintln(io.out, "deleted:", c.Name)
	return nil
}
