package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/decandb/decan/internal/server"
)

const (
	// containerPercent is the part of a container's memory that the process uses by
	// default, machinePercent the part of a machine's, which runs other programs.
	containerPercent = 90
	machinePercent   = 75

	// cacheMin is the minimum default size of the cache; otherwise it is
	// 1/cacheShare of the memory.
	cacheMin   = 128 << 20
	cacheShare = 8

	// The write buffers of the storage are 1/buffersShare of the cache, and at least
	// buffersMin. Like the cache, they are not Go's memory.
	buffersMin   = 128 << 20
	buffersShare = 32

	// Go gets at least 1/softShare of the memory, and at least softMin: with less
	// the collector would run all the time.
	softShare = 4
	softMin   = 128 << 20

	requestsMin   = 64 << 20
	requestsMax   = 512 << 20
	requestsShare = 32
)

// memory returns the memory of the container or the machine, and the percentage of
// it that the process uses; 0 if the system does not tell.
func memory() (available int64, percent int) {
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 {
		if system, err := memlimit.FromSystem(); err != nil || limit < system {
			return int64(min(limit, math.MaxInt64)), containerPercent
		}
	}
	limit, err := memlimit.FromSystem()
	if err != nil {
		return 0, 0
	}
	return int64(min(limit, math.MaxInt64)), machinePercent
}

// softLimit is the number of bytes that Go's collector keeps to; 0 for no limit.
type softLimit int64

// planMemory completes the options by the memory that is available.
func planMemory(options *server.MemoryOptions) softLimit {
	available, percent := memory()
	return divideMemory(available, percent, options)
}

// divideMemory completes the options by the available memory, of which the process
// uses a percentage unless the options say otherwise.
func divideMemory(available int64, percent int, options *server.MemoryOptions) softLimit {
	if options.Process == 0 {
		options.Process = server.Size(available / 100 * int64(percent))
	} else {
		available = int64(options.Process)
	}
	if options.Cache == 0 {
		options.Cache = server.Size(max(cacheMin, available/cacheShare))
	}
	if options.Requests == 0 {
		options.Requests = min(max(options.Process/requestsShare, requestsMin), requestsMax)
	}
	if options.Process == 0 {
		return 0
	}
	buffers := max(buffersMin, options.Cache/buffersShare)
	return softLimit(max(options.Process-options.Cache-buffers, options.Process/softShare, softMin))
}

// apply sets the limit of Go's collector until stop is called, unless GOMEMLIMIT in
// the environment sets it.
func (l softLimit) apply() (stop func()) {
	if l == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(int64(l))
	return func() { debug.SetMemoryLimit(before) }
}
