package partition

import (
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
)

// Stats are the figures of a partition.
type Stats struct {
	Documents int64 // live documents, exactly
	Bytes     int64 // of their stored JSON without system properties, exactly
	// StoreBytes is the size of the store on disk, with index, compression and garbage.
	StoreBytes int64
	// IndexBytes is StoreBytes less Bytes, an estimate of the size of the index. It is
	// zero while compression saves more than the index takes.
	IndexBytes int64
	LSN        resource.LSN

	// IndexProgress is the progress of a change of the indexing policy in percent, 100
	// if there is none.
	IndexProgress int

	Queued int // writes that wait to be evaluated

	// Purging is the number of partition keys, and prefixes of keys, whose documents
	// were purged and wait for Clear. Documents and Bytes include them, but no call
	// finds them. Cleared is the number of documents that Clear has deleted since Open.
	Purging int
	Cleared int64

	// Reads, Writes and Queries count calls since Open: point reads, pages of queries
	// and feeds, whatever their results, and writes that had an effect.
	Reads, Writes, Queries int64

	// Failure is why the partition has stopped; nil while it serves.
	Failure error
}

// Stats returns the figures of the published state, in tens of microseconds. If the
// partition is closed or has stopped, only the failure and the counts since Open are
// set.
func (p *Partition) Stats() Stats {
	var s Stats
	s.Failure = p.health.cause()
	s.Reads, s.Writes, s.Queries = p.served.reads.Load(), p.served.writes.Load(), p.served.queries.Load()
	s.Cleared = p.served.cleared.Load()
	now, err := p.acquire()
	if err != nil {
		return s
	}
	defer p.release(now)
	s.Documents, s.Bytes, s.LSN, s.Purging = now.Items, now.Bytes, now.LSN, len(now.Marks)
	s.Cleared = p.served.cleared.Load() // Again, so that no document is missing in both.
	s.IndexProgress = now.Indexing.Progress()
	if now.Indexing.Phase == layout.Settled && !now.Indexing.Current(p.config.Container().Indexing) {
		s.IndexProgress = 0 // The change has not begun.
	}
	s.StoreBytes = p.config.Store.Size()
	s.IndexBytes = max(0, s.StoreBytes-s.Bytes)
	p.intake.mu.Lock()
	s.Queued = len(p.intake.queue)
	p.intake.mu.Unlock()
	return s
}
