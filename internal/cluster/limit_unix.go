//go:build unix

package cluster

import "syscall"

// DescriptorLimit returns how many files the process may open, and false if that is not
// known. The Go runtime has raised the soft limit to the hard one.
func DescriptorLimit() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true
}
