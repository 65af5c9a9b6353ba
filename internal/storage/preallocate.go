package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// preallocateMin is the first preallocation of a log, in bytes.
const preallocateMin = 256 << 10

// preallocation reserves disk space beyond the end of a log, so that most of its syncs
// do not change the file's size.
//
// With the first byte of each log Pebble requests the space of a write buffer of the
// largest size, 17 MB, and it keeps a log that it no longer needs for reuse. A thousand
// partitions with a document each would take 20 GB. So the request is only recorded,
// and space is reserved as the log grows: as much again as the log has, or
// preallocateMin.
type preallocation struct {
	wanted   int64 // end of the space that Pebble requests, as a file offset
	reserved int64 // end of the reserved space
	end      int64 // end of the written bytes
}

// request records how much space Pebble requests.
func (a *preallocation) request(offset, length int64) { a.wanted = max(a.wanted, offset+length) }

// reserve reserves space for n more bytes. If the disk is full, the write reports it.
func (a *preallocation) reserve(file vfs.File, n int) {
	a.end += int64(n)
	if a.end <= a.reserved || a.reserved >= a.wanted {
		return
	}
	to := min(max(2*a.end, preallocateMin), a.wanted)
	_ = file.Preallocate(a.reserved, to-a.reserved)
	a.reserved = to
}
