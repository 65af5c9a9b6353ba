package partition

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Feed asks for one page of the change feed.
//
// In the feed of latest versions, each live document is once, at the place of its
// last change. The page has the documents that last changed after the position After
// and not before the time Since. If both are given, both must hold.
type Feed struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Range has the keys whose documents count. Any part of it outside the partition
	// belongs to other partitions.
	Range partitionkey.Range

	After resource.LSN // the caller knows all changes up to it; zero is the beginning
	Since int64        // in seconds since 1970, inclusive; zero or less is any time

	// Complete asks for all versions and deletions after After instead. The error is
	// BadRequest if the container does not keep them, or does not have them any more.
	Complete bool

	// Now asks for an empty page with the position after all changes so far.
	Now bool

	// The page ends when one of these is reached, but only between two LSNs, and only
	// after it has made progress. Zero is no limit.
	MaxItems int
	MaxBytes int // of the documents; the first may exceed it, unless Begun
	Deadline time.Time

	// Begun says that the caller has documents of other partitions already, so that
	// the first document must fit as well.
	Begun bool

	// Items asks for items of a table instead of documents, and Others for other items of
	// the same partition keys, by their names. Those are from the same state; they cost
	// nothing and do not count for MaxBytes.
	Items  bool
	Others []string

	Session resource.LSN      // that the caller has seen; zero for none
	Meter   *throughput.Meter // receives the charge
}

// FeedItem is an item of a table that has changed.
type FeedItem = scan.FeedItem

// FeedPage is a page of the change feed.
type FeedPage = scan.FeedPage

// Feed returns a page of the change feed. It reads one published state for the whole
// page. A document that changes between two pages moves to the end of the feed, and a
// deleted one leaves it, so a reader that reaches the end has seen the latest version
// of all documents. The charge is that of reading the documents, and of one small
// read if there are none.
//
// Errors are PartitionMoved, SessionNotAvailable, Unavailable, BadRequest as
// Feed.Complete says, and RequestTimeout when ctx ends.
func (p *Partition) Feed(ctx context.Context, f Feed) (FeedPage, error) {
	now, err := p.acquire()
	if err != nil {
		return FeedPage{}, err
	}
	defer p.release(now)
	clip, overlaps := f.Range.Intersect(p.own.Range)
	if f.Generation != p.own.Generation || !overlaps {
		return FeedPage{LSN: now.LSN}, status.PartitionMoved(status.SubRangeGone)
	}
	if f.Session > now.LSN {
		return FeedPage{LSN: now.LSN}, status.SessionNotAvailable()
	}
	p.served.queries.Add(1)
	s := p.reader.Source(&now.Snapshot, f.Range, clip)
	defer s.Free()
	return s.Feed(ctx, scan.Feed{
		After: f.After, Since: f.Since, Complete: f.Complete, Now: f.Now,
		MaxItems: f.MaxItems, MaxBytes: f.MaxBytes, Deadline: f.Deadline, Begun: f.Begun, Meter: f.Meter,
		Items: f.Items, Others: f.Others,
	})
}
