package server

import (
	"context"
	"errors"
	"fmt"
	"time"

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

	// Interrupted says that the check ended before it had looked at everything.
	// Unchecked is how many partitions it has not verified to their end, and UncheckedIn
	// says so for each container, a line each.
	Interrupted bool
	Unchecked   int
	UncheckedIn []string

	Ahead []string // partitions with times ahead of the clock

	Quarantine []string // what is there, a line each
	Losses     []string // what was lost and accepted, with the time, a line each
}

// CheckProgress is how far a check has come.
type CheckProgress = cluster.CheckProgress

// CheckOptions say how a data directory is checked. The zero value is for nobody who
// watches.
type CheckOptions struct {
	Parallel int                 // partitions at the same time; zero for as many as there are processors
	Progress func(CheckProgress) // is told how far the check is, by one goroutine at a time; nil is told nothing
}

// Check verifies every invariant of a data directory from its bytes. It fails
// when the directory cannot be read or a server has it open; what is wrong
// inside stands in the report.
func Check(dir string) (Report, error) {
	return CheckWith(context.Background(), dir, CheckOptions{})
}

// CheckWith is [Check] that can be watched and interrupted: when ctx ends, it returns
// soon with what it has verified by then, which is no error.
func CheckWith(ctx context.Context, dir string, o CheckOptions) (Report, error) {
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
	found, err := cluster.Check(ctx, dir, cluster.CheckOptions{Parallel: o.Parallel, Progress: o.Progress})
	return summarize(found), errors.Join(err, lock.Close())
}

func summarize(found cluster.Report) Report {
	report := Report{Databases: found.Databases, Partitions: len(found.Partitions), Problems: found.Problems, Ahead: found.Ahead, Leftovers: found.Leftovers, Unnamed: found.Unnamed}
	for _, q := range found.Quarantine {
		report.Quarantine = append(report.Quarantine, q.String())
	}
	for _, loss := range found.Losses {
		for _, lost := range loss.Lost {
			report.Losses = append(report.Losses, fmt.Sprintf("%s: %s", time.Unix(int64(loss.TS), 0).UTC().Format(time.RFC3339), lost))
		}
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
	type place struct{ database, container string }
	unchecked := map[place]int{}
	var places []place // in the order of the report
	for _, p := range found.Unchecked {
		at := place{p.Database, p.Container}
		if unchecked[at]++; unchecked[at] == 1 {
			places = append(places, at)
		}
	}
	for _, at := range places {
		report.UncheckedIn = append(report.UncheckedIn, fmt.Sprintf("%d partitions of %s in %s", unchecked[at], at.container, at.database))
	}
	report.Interrupted, report.Unchecked = found.Interrupted, len(found.Unchecked)
	return report
}
