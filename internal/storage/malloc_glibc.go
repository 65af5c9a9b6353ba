//go:build cgo && linux

package storage

// #include <malloc.h>
//
// static void configure(int arenas) {
// #ifdef __GLIBC__
//   mallopt(M_MMAP_THRESHOLD, 128 << 10);
//   mallopt(M_ARENA_MAX, arenas);
// #endif
// }
import "C"

import (
	"runtime"
	"sync"
)

// configureAllocator makes the C allocator, from which Pebble takes write buffers and
// blocks, return freed memory to the system.
//
// By default glibc maps pieces of 128 KB and more separately only until the first such
// piece is freed. From then on write buffers come from its arenas, eight for each
// processor. There a buffer is zeroed completely even if a store uses only the first
// few KB, and what is freed in the middle of an arena stays with the process.
var configureAllocator = sync.OnceFunc(func() { C.configure(C.int(max(2, runtime.NumCPU()))) })
