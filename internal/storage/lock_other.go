//go:build !unix

package storage

import (
	"errors"
	"syscall"
)

// isLockRefused reports whether the system refused a lock because another process holds
// it: on Windows the sharing and lock violations.
func isLockRefused(err error) bool {
	return errors.Is(err, syscall.Errno(32)) || errors.Is(err, syscall.Errno(33))
}
