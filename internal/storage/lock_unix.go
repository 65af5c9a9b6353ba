//go:build unix

package storage

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isLockRefused reports whether the kernel refused a lock because another process holds
// it.
func isLockRefused(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
}
