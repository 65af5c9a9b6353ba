//go:build cgo && linux

package storage

// #include <malloc.h>
//
// static void settle(int arenas) {
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

// settleAllocator has the allocator of C, from which Pebble takes write buffers and
// blocks, give back to the system what is freed.
//
// Left to itself, glibc gives pieces of 128 KB and more pages of their own only until
// the first large one is freed. From then on write buffers come from its arenas, of
// which there are eight for each processor: they are filled with zeros up to the last
// byte, though a store may use the first few KB, and what is freed in the middle of
// an arena stays with the process.
var settleAllocator = sync.OnceFunc(func() { C.settle(C.int(max(2, runtime.NumCPU()))) })
