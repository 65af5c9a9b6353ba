package main

import (
	"fmt"

	"github.com/decandb/decan/internal/server"
)

type checkCommand struct {
	AcceptLoss bool `help:"Take what is there for all that there must be: cut off what is damaged, of which the quarantine keeps a copy, move what the catalog does not name to the quarantine, and say what is lost."`

	Dir string `arg:"" type:"path" help:"The data directory. No server may have it open."`
}

// Run verifies the directory and fails when it finds a problem.
func (c *checkCommand) Run(io streams) error {
	if c.AcceptLoss {
		if err := c.accept(io); err != nil {
			return err
		}
	}
	report, err := server.Check(c.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%d databases, %d containers, %d partitions, %d documents, %d bytes of documents\n",
		report.Databases, report.Containers, report.Partitions, report.Documents, report.Bytes)
	for _, leftover := range report.Leftovers {
		fmt.Fprintln(io.out, "left over:", leftover, "(the next start removes it)")
	}
	for _, dir := range report.Unnamed {
		fmt.Fprintln(io.out, "not named:", dir, "(the catalog knows nothing of it; the next start moves it to the quarantine)")
	}
	for _, entry := range report.Quarantine {
		fmt.Fprintln(io.out, "in quarantine:", entry)
	}
	for _, problem := range report.Problems {
		fmt.Fprintln(io.out, "problem:", problem)
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%s: %d problems", c.Dir, n)
	}
	fmt.Fprintln(io.out, "every invariant holds")
	return nil
}

// accept accepts what is lost, and says what that is.
func (c *checkCommand) accept(io streams) error {
	accepted, err := server.AcceptLoss(c.Dir)
	for _, lost := range accepted.Lost {
		fmt.Fprintln(io.out, "lost:", lost)
	}
	for _, name := range accepted.Kept {
		fmt.Fprintln(io.out, "kept in the quarantine:", name)
	}
	for _, remaining := range accepted.Remaining {
		fmt.Fprintln(io.out, "remains:", remaining)
	}
	if err == nil && len(accepted.Lost) == 0 {
		fmt.Fprintln(io.out, "nothing is lost")
	}
	return err
}
