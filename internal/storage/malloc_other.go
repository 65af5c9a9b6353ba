//go:build !cgo || !linux

package storage

// configureAllocator does nothing: Pebble does not use glibc here.
func configureAllocator() {}
