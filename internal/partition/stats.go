package partition

import (
	"github.com/decandb/decan/internal/resource"
)

// Stats is what a partition says about itself.
type Stats struct {
	Documents int64 // live documents, exactly
	Bytes     int64 // of their stored JSON without system properties, exactly
	// StoreBytes is what the store takes on the disk, index, compression and
	// garbage included.
	StoreBytes int64
	// IndexBytes is what StoreBytes exceeds Bytes by: an estimate, and none at
	// all while compression saves more than the index takes.
	IndexBytes int64
	LSN        resource.LSN

	// IndexProgress is how far a change of the indexing policy has come, in
	// percent; 100 when there is none.
	IndexProgress int

	Queued int // writes waiting to be evaluated

	// Purging is how many partition keys, and prefixes of keys, have documents that
	// were deleted together and wait for Clear: they are in Documents and Bytes
	// still, and nobody sees them. Cleared is how many Clear has deleted since Open.
	Purging int
	Cleared int64

	// Reads, Writes and Queries count since Open what was answered: writes that
	// were made, point reads and pages of queries whatever came of them.
	Reads, Writes, Queries int64

	// Failure says why the partition stopped; nil while it serves.
	Failure error
}

// Stats returns the numbers of the published state. It costs tens of
// microseconds. Of a partition that was closed or has stopped only the failure
// and the counts since Open are known.
func (p *Partition) Stats() Stats {
	var s Stats
	if f := p.failure.Load(); f != nil {
		s.Failure = f.err
	}
	s.Reads, s.Writes, s.Queries = p.reads.Load(), p.writes.Load(), p.queries.Load()
	s.Cleared = p.cleared.Load()
	now, err := p.acquire()
	if err != nil {
		return s
	}
	defer p.release(now)
	s.Documents, s.Bytes, s.LSN, s.Purging = now.items, now.bytes, now.lsn, len(now.purges)
	s.Cleared = p.cleared.Load() // What is no longer in the state is counted here.
	s.IndexProgress = now.indexing.progress()
	if now.indexing.Phase == settled && !p.config.Container().Indexing.Equal(now.indexing.Policy) {
		s.IndexProgress = 0 // asked for, and not begun
	}
	s.StoreBytes = p.config.Store.Size()
	s.IndexBytes = max(0, s.StoreBytes-s.Bytes)
	p.mu.Lock()
	s.Queued = len(p.queue)
	p.mu.Unlock()
	return s
}
