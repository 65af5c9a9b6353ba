package server

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/storage"
)

// Report is what Check found, in numbers and sentences for a person.
type Report struct {
	Databases, Containers, Partitions int

	Documents int64
	Bytes     int64    // of stored JSON without system properties
	Problems  []string // what is wrong, with the partition it was found in
	Leftovers []string // directories of work that a dying process left; the next start removes them
	Unnamed   []string // directories that the catalog knows nothing of; the next start moves them to the quarantine

	Quarantine []string // what is there, a line each
}

// Check verifies every invariant of a data directory from its bytes. It fails
// when the directory cannot be read or a server has it open; what is wrong
// inside stands in the report.
func Check(dir string) (Report, error) {
	laidOut, err := checkDataDir(dir)
	if err != nil {
		return Report{}, err
	}
	if !laidOut {
		return Report{}, fmt.Errorf("%s is not a data directory: it has no node.json", dir)
	}
	lock, err := storage.LockDir(dir)
	if err != nil {
		return Report{}, err
	}
	found, err := cluster.Check(dir)
	return summarize(found), errors.Join(err, lock.Close())
}

func summarize(found cluster.Report) Report {
	report := Report{Databases: found.Databases, Partitions: len(found.Partitions), Problems: found.Problems, Leftovers: found.Leftovers, Unnamed: found.Unnamed}
	for _, q := range found.Quarantine {
		report.Quarantine = append(report.Quarantine, q.String())
	}
	containers := map[[2]string]bool{}
	for _, p := range found.Partitions {
		containers[[2]string{p.Database, p.Container}] = true
		report.Documents += p.Documents
		report.Bytes += p.Bytes
		where := fmt.Sprintf("partition %s of %s in %s", p.Partition, p.Container, p.Database)
		for _, problem := range p.Problems {
			report.Problems = append(report.Problems, where+": "+problem)
		}
		if p.Unnamed > 0 {
			report.Problems = append(report.Problems, fmt.Sprintf("%s: %d problems more", where, p.Unnamed))
		}
	}
	report.Containers = len(containers)
	return report
}
