package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// aheadFirst is how much of a log's file is reserved first, in bytes.
const aheadFirst = 256 << 10

// ahead reserves room on the disk ahead of the end of a log, so that most syncs of
// it find the file's size as it was.
//
// Pebble asks for room for a whole write buffer of the greatest size at the first
// byte of each log, 17 MB, and keeps a log that it needs no more for the next time.
// A thousand partitions with a document each would take 20 GB. So what Pebble asks
// for is only noted, and reserved as the log grows: at most as much again as it has,
// or aheadFirst.
type ahead struct {
	wanted   int64 // up to where Pebble asks for room, in bytes from the beginning
	reserved int64 // up to where there is
	end      int64 // of what was written
}

// ask takes note of how much room Pebble asks for.
func (a *ahead) ask(offset, length int64) { a.wanted = max(a.wanted, offset+length) }

// reserve sees to the room for n bytes more. A disk that is too full for it shows so
// at the write.
func (a *ahead) reserve(file vfs.File, n int) {
	a.end += int64(n)
	if a.end <= a.reserved || a.reserved >= a.wanted {
		return
	}
	to := min(max(2*a.end, aheadFirst), a.wanted)
	_ = file.Preallocate(a.reserved, to-a.reserved)
	a.reserved = to
}
