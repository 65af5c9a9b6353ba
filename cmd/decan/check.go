package main

import (
	"fmt"

	"github.com/decandb/decan/internal/server"
)

type checkCommand struct {
	Dir string `arg:"" type:"path" help:"The data directory. No server may have it open."`
}

// Run verifies the directory and fails when it finds a problem.
func (c *checkCommand) Run(io streams) error {
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
