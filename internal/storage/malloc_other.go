//go:build !cgo || !linux

package storage

// settleAllocator does nothing where Pebble does not use glibc.
func settleAllocator() {}
