package storage

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

var (
	// errPosting marks a posting list that cannot be read.
	errPosting = errors.New("posting list is damaged")
	// errRows marks the rows of a batch that cannot be read.
	errRows = errors.New("rows of a batch are damaged")
	// errDamaged marks files that are not what Pebble wrote.
	errDamaged = errors.New("the store is damaged")
)

// IsNoSpace reports whether err comes from a full disk or quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Because is the part of a sentence for clients that says what the machine ran
// out of when that caused err: " because the disk is full" or " because too many
// files are open". It is empty when the cause is another, which is for the log.
func Because(err error) string {
	switch {
	case IsNoSpace(err):
		return " because the disk is full"
	case isExhausted(err):
		return " because too many files are open"
	}
	return ""
}

// IsCorrupt reports whether err comes from bytes that are not what was written.
func IsCorrupt(err error) bool {
	return errors.Is(err, errPosting) || errors.Is(err, errRows) || errors.Is(err, errDamaged) || pebble.IsCorruptionError(err)
}
