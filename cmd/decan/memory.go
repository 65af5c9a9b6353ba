package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryPlan says how much memory the process may take, and for what. Sizes are in
// bytes.
type memoryPlan struct {
	total    int64 // of the process; 0 where the system does not tell
	cache    int64 // stored data that was read
	requests int64 // bodies and answers of requests under way
	soft     int64 // what Go's collector keeps to; 0 for no limit
}

const (
	// containerPercent is which part of a container's memory the process takes
	// unless told otherwise, and machinePercent which part of a machine's, which has
	// other programs.
	containerPercent = 90
	machinePercent   = 75

	// cacheMin is the smallest default size of the cache, and cacheShare says which
	// part of the memory it may take: an eighth.
	cacheMin   = 128 << 20
	cacheShare = 8

	// buffersMin and buffersShare say what the write buffers of the storage take: the
	// share is of the cache. Like the cache, they are not Go's memory.
	buffersMin   = 128 << 20
	buffersShare = 32

	// softShare is the part of the memory that is Go's at least, and softMin the least
	// of all: below it the collector would do little else than collect.
	softShare = 4
	softMin   = 128 << 20

	requestsMin   = 64 << 20
	requestsMax   = 512 << 20
	requestsShare = 32
)

// memory returns how much memory a container gives to the process or a machine has,
// and the percentage of it that the process takes; 0 where the system does not tell.
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

// planMemory shares out what is available, of which the process takes that percentage
// unless asked to take other amounts; zero asks for nothing.
func planMemory(available int64, percent int, asked memoryPlan) memoryPlan {
	plan := asked
	if plan.total == 0 {
		plan.total = available / 100 * int64(percent)
	} else {
		available = plan.total
	}
	if plan.cache == 0 {
		plan.cache = max(cacheMin, available/cacheShare)
	}
	if plan.requests == 0 {
		plan.requests = min(max(plan.total/requestsShare, requestsMin), requestsMax)
	}
	if plan.total > 0 {
		buffers := max(buffersMin, plan.cache/buffersShare)
		plan.soft = max(plan.total-plan.cache-buffers, plan.total/softShare, softMin)
	}
	return plan
}

// memoryPlan returns how much memory the server takes, and for what.
func (c *serveCommand) memoryPlan() memoryPlan {
	available, percent := memory()
	return planMemory(available, percent, memoryPlan{total: int64(c.Memory), cache: int64(c.Cache), requests: int64(c.RequestMemory)})
}

// limitMemory has Go's collector keep to the plan until stop is called, unless the
// environment says by GOMEMLIMIT what it keeps to.
func (p memoryPlan) limitMemory() (stop func()) {
	if p.soft == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(p.soft)
	return func() { debug.SetMemoryLimit(before) }
}
