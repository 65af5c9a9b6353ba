//go:build !unix

package cluster

// descriptorLimit knows of no limit on this system.
func descriptorLimit() (uint64, bool) { return 0, false }
