package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// osFS is the real file system, for tests that need one.
var osFS = vfs.Default
