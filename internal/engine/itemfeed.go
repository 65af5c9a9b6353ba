package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// ItemFeedRequest is a request for a page of the change feed of a table.
type ItemFeedRequest struct {
	Table resource.RID

	// Key is a routing key. An empty Key asks for all keys of Range. The feed of a Key has
	// the items of all keys with its token.
	Key   string
	Range partitionkey.Range

	// After is the position from which the feed continues: ItemFeed.Position of the page
	// before. Empty is the beginning: then Since, in seconds since 1970, leaves out earlier
	// changes; zero leaves out none.
	After resource.ETag
	Since int64

	// MaxItems ends the page, but not between the items of one effect. Zero or less is
	// Limits.PageItems.
	MaxItems int

	// Others names other items of the same partition keys that are read with each item.
	Others []string

	// Level is the consistency level that the read is charged for.
	Level resource.Consistency
}

// ItemFeed is a page of the change feed of a table.
type ItemFeed struct {
	ItemsResult
	Items    []partition.FeedItem // in the order of their last changes, of each physical partition
	Position resource.ETag        // for the next page; never empty without an error
	More     bool                 // there may be more changes already
}

// ItemFeed returns a page of the change feed of a table: each item that is stored once, at
// the place of its last change, as [Engine.Feed] does for documents. A feed has no last page.
// A table without throughput left is no error: the page is empty, and its position that of
// the request. The error is 400 for a position of another table or range, and 404 if the
// table does not exist any more.
func (e *Engine) ItemFeed(ctx context.Context, caller auth.Caller, req ItemFeedRequest) (ItemFeed, error) {
	ask := FeedRequest{After: req.After, MaxItems: req.MaxItems}
	if req.Since > 0 {
		ask.Since = time.Unix(req.Since-1, 0) // That is exclusive.
	}
	if req.Key != "" {
		key := partitionkey.NewKey(partitionkey.Bytes(req.Key))
		ask.Key = &key
	} else {
		ask.Clip = &req.Range
	}
	f := feedPage{engine: e, req: &ask, job: e.newJob(), items: true, others: req.Others}
	defer f.job.close()
	f.job.caller, f.job.operation = caller.Kind(), runningFeed
	f.how = reading{level: req.Level}
	if f.maxItems = req.MaxItems; f.maxItems <= 0 {
		f.maxItems = e.limits.PageItems
	}
	f.deadline = time.Now().Add(e.limits.PageTime)
	err := e.onTable(ctx, caller, auth.Read, req.Table, &f.out.Result, func(c *catalog.Container) error {
		f.job.container, f.changed, f.bytes, f.routed = c.RID, nil, e.limits.ResponseBytes, false
		f.seen = nil
		return f.once(ctx, c)
	})
	out := ItemFeed{Items: f.changed, Position: f.out.ETag, More: true}
	out.Charge, out.Partitions = throughput.AtLevel(f.meter.Charge(), f.how.level), f.out.Partitions
	switch status.CodeOf(err) {
	case status.CodeNotModified:
		out.More, err = false, nil
	case status.CodeTooManyRequests:
		if out.Position != "" {
			err = nil
		}
	}
	return out, fail(err)
}

// TableRanges returns the ranges of the physical partitions of a table, in order; none if
// it does not exist.
func (e *Engine) TableRanges(table resource.RID) (all []partitionkey.Range) {
	c, ok := e.catalog.View().ContainerByRID(table)
	if !ok || !c.IsTable() {
		return nil
	}
	for r := range c.Ranges.All() {
		all = append(all, r)
	}
	return all
}
