package storage

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

var (
	// errPosting marks a damaged posting list.
	errPosting = errors.New("posting list is damaged")
	// errRows marks damaged rows of a batch.
	errRows = errors.New("rows of a batch are damaged")
	// errDamaged marks files whose contents are not what Pebble wrote.
	errDamaged = errors.New("the store is damaged")
)

// IsNoSpace reports whether a full disk or quota caused err.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Because returns the part of a sentence for clients that says which resource of the
// machine was used up: " because the disk is full" or " because too many files are
// open". It is empty if err has another cause, which belongs in the log.
func Because(err error) string {
	switch {
	case IsNoSpace(err):
		return " because the disk is full"
	case isExhausted(err):
		return " because too many files are open"
	}
	return ""
}

// IsCorrupt reports whether damaged bytes caused err.
func IsCorrupt(err error) bool {
	return errors.Is(err, errPosting) || errors.Is(err, errRows) || errors.Is(err, errDamaged) || pebble.IsCorruptionError(err)
}
