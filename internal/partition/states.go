package partition

import (
	"sync"
	"sync/atomic"

	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// states are the published states of a partition: the current one, which new readers
// get, and earlier ones that readers still use.
type states struct {
	// current is nil before Open and after Close. Only Apply replaces it.
	current atomic.Pointer[published]

	// open counts the published states that hold a snapshot.
	open sync.WaitGroup

	// closing is told the error of a snapshot that could not be closed.
	closing func(error)
}

// published is a durable state of the partition. It is immutable, except for the
// count of its users.
type published struct {
	scan.Snapshot

	// users counts the readers, and one for being current. At zero the snapshot is
	// closed, and users never rises again.
	users atomic.Int64
}

// publish makes next the current state. A nil next leaves none.
func (s *states) publish(next *published) {
	if next != nil {
		next.users.Store(1)
		s.open.Add(1)
	}
	if before := s.current.Swap(next); before != nil {
		s.release(before)
	}
}

// acquire returns the current state, nil if there is none. The caller releases it.
func (s *states) acquire() *published {
	for {
		now := s.current.Load()
		if now == nil {
			return nil
		}
		users := now.users.Load()
		if users > 0 && now.users.CompareAndSwap(users, users+1) {
			return now
		}
	}
}

func (s *states) release(state *published) {
	if state.users.Add(-1) > 0 {
		return
	}
	if err := state.Rows.Close(); err != nil {
		s.closing(err)
	}
	s.open.Done()
}

// lsn returns the LSN of the current state, zero if there is none.
func (s *states) lsn() resource.LSN {
	if now := s.current.Load(); now != nil {
		return now.LSN
	}
	return 0
}

// health says whether a partition serves, and why not.
type health struct {
	// failure is why the partition has stopped; nil while it serves. It never changes
	// once it is set.
	failure atomic.Pointer[failure]

	// retired says that other partitions own the range.
	retired atomic.Bool
}

type failure struct{ err error }

// fail stops the partition, and reports whether it served before.
func (h *health) fail(err error) bool { return h.failure.CompareAndSwap(nil, &failure{err}) }

// cause returns why the partition has stopped, nil while it serves.
func (h *health) cause() error {
	if f := h.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// err returns what a request gets: Unavailable if the partition has stopped,
// PartitionMoved if others own its range, and nil while it serves.
func (h *health) err() error {
	if h.retired.Load() {
		return status.PartitionMoved(status.SubRangeGone)
	}
	cause := h.cause()
	if cause == nil {
		return nil
	}
	if because := storage.Because(cause); because != "" {
		return status.Unavailable(cause, "The partition has stopped%s. It serves again when that is repaired.", because)
	}
	return status.Unavailable(cause, "The partition has stopped after a failure. The server's log has the reason.")
}

// counters count what was served since Open.
type counters struct {
	reads, writes, queries atomic.Int64
	cleared                atomic.Int64 // documents that Clear has deleted
}

// calls returns the number of calls that were served.
func (c *counters) calls() int64 { return c.reads.Load() + c.writes.Load() + c.queries.Load() }

// applied is the state of Apply that no store holds. Only Apply uses it, except for
// what shaping says.
type applied struct {
	shape shaping
	moves scan.Moves // scratch

	// heard is the size at which Grown is called again.
	heard int64
}

// steps are the sizes of the steps of background work: large enough to be worth a
// sync, small enough that writes hardly notice. Tests change them.
type steps struct {
	// sweepDocuments and sweepBytes bound a step of an index rebuild.
	sweepDocuments, sweepBytes int

	// purgeMax is the greatest number of documents of a full key that one effect
	// purges.
	purgeMax int64
}

func defaultSteps() steps {
	return steps{sweepDocuments: 500, sweepBytes: 8 << 20, purgeMax: BatchMax}
}
