//go:build !unix

package cluster

// DescriptorLimit knows of no limit on this system.
func DescriptorLimit() (uint64, bool) { return 0, false }
