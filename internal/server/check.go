package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/storage"
)

// Report is the result of Check: numbers, and sentences for the operator.
type Report struct {
	Databases, Containers, Partitions int

	Documents int64
	Bytes     int64    // of stored JSON without system properties
	Problems  []string // the problems, each with its partition
	Leftovers []string // directories that an interrupted process left; the next start removes them
	Unnamed   []string // directories that the catalog does not know; the next start moves them to the quarantine

	// Interrupted means that the check ended early. Unchecked is the number of
	// partitions that it has not completely verified, and UncheckedIn has one
	// line for each container with such partitions.
	Interrupted bool
	Unchecked   int
	UncheckedIn []string

	Ahead []string // partitions with times ahead of the clock

	Quarantine []string // its entries, one line each
	Losses     []string // accepted losses with their times, one line each
}

// CheckProgress is the progress of a check.
type CheckProgress = cluster.CheckProgress

// CheckOptions are the options of a check. The zero value reports no progress.
type CheckOptions struct {
	Parallel int                 // partitions checked at the same time; zero: the number of processors
	Progress func(CheckProgress) // receives the progress, from one goroutine at a time; may be nil
}

// Check verifies every invariant of a data directory from its bytes. It returns
// an error if the directory cannot be read or a server has it open; the report
// lists the problems in the data.
func Check(dir string) (Report, error) {
	return CheckWith(context.Background(), dir, CheckOptions{})
}

// CheckWith is [Check] with progress and cancellation: soon after ctx is cancelled it
// returns the results so far, without an error.
func CheckWith(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	laidOut, err := checkDataDir(dir)
	if err != nil {
		return Report{}, err
	}
	if !laidOut {
		return Report{}, notDataDir(dir)
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
