package server

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/storage"
)

// offline opens the storage of a data directory that no server has open, and calls do
// with it.
func offline(dir string, do func(*storage.Pool) error) error {
	laidOut, err := checkDataDir(dir)
	if err != nil {
		return err
	}
	if !laidOut {
		return notDataDir(dir)
	}
	lock, err := storage.LockDir(dir)
	if err != nil {
		return err
	}
	pool, err := storage.NewPool(storage.Options{})
	if err == nil {
		err = errors.Join(do(pool), pool.Close())
	}
	return errors.Join(err, lock.Close())
}

// notDataDir is the error for a directory that is none of a server, or does not exist.
func notDataDir(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%s is not a data directory: %w", dir, err)
	}
	return fmt.Errorf("%s is not a data directory: it has no node.json", dir)
}

// AcceptLoss declares the current content of a data directory complete, see
// [cluster.AcceptLoss].
func AcceptLoss(dir string, empty bool) (accepted cluster.Acceptance, err error) {
	err = offline(dir, func(pool *storage.Pool) (err error) {
		accepted, err = cluster.AcceptLoss(pool, dir, empty)
		return err
	})
	return accepted, err
}

// RepairClock sets the times in a data directory that are later than now to now,
// see [cluster.RepairClock].
func RepairClock(dir string, now time.Time) (done cluster.ClockRepair, err error) {
	err = offline(dir, func(pool *storage.Pool) (err error) {
		done, err = cluster.RepairClock(pool, dir, now)
		return err
	})
	return done, err
}

// ListQuarantine returns the entries of the quarantine of a data directory, one
// line each. A server may have it open.
func ListQuarantine(dir string) (lines []string, err error) {
	if laidOut, err := checkDataDir(dir); err != nil {
		return nil, err
	} else if !laidOut {
		return nil, notDataDir(dir)
	}
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		return nil, err
	}
	entries, err := cluster.ListQuarantine(pool.FS(), dir)
	for _, e := range entries {
		lines = append(lines, e.String())
	}
	return lines, errors.Join(err, pool.Close())
}

// RestoreQuarantined brings partitions back, see [cluster.Restore].
func RestoreQuarantined(dir string, names []string, as string) (done string, err error) {
	err = offline(dir, func(pool *storage.Pool) (err error) {
		done, err = cluster.Restore(pool, dir, names, as)
		return err
	})
	return done, err
}

// DeleteQuarantined permanently deletes an entry of the quarantine.
func DeleteQuarantined(dir, name string) error {
	return offline(dir, func(pool *storage.Pool) error { return cluster.DeleteQuarantined(pool.FS(), dir, name) })
}
