//go:build !unix

package cluster

// DescriptorLimit returns false: on this system the limit is not known.
func DescriptorLimit() (uint64, bool) { return 0, false }
