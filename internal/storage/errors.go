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

// IsCorrupt reports whether err comes from bytes that are not what was written.
func IsCorrupt(err error) bool {
	return errors.Is(err, errPosting) || errors.Is(err, errRows) || errors.Is(err, errDamaged) || pebble.IsCorruptionError(err)
}
