package engine

import (
	"context"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// FeedRequest asks for a page of a container's change feed.
//
// Key, Partition and Clip narrow the scope as in a [QueryRequest]; with none the
// whole container is read.
type FeedRequest struct {
	Link      Link
	Key       *partitionkey.Key     // whole key, or a prefix when the key is hierarchical
	Partition *resource.PartitionID // one physical partition; an unknown one is 410/1002
	Clip      *partitionkey.Range   // part of the key space
	MaxItems  int                   // documents of a page; 0: the default; negative: as many as fit

	// Complete asks for every version, deletions included, of a container that
	// keeps them. Such a feed begins at now, and takes no Since; positions that are
	// older than what is kept are 400.
	Complete bool

	// After is where the feed goes on: the ETag of the page before. Empty is the
	// beginning, "*" is now.
	After resource.ETag

	// Since leaves out what changed before that second, with any After; the zero
	// value leaves out nothing.
	Since time.Time

	Options
}

// Feed returns a page of the change feed: each live document once, at the place
// of its last change, with its LSN as _lsn; or, when it is complete, each change as
// an object of the document before and behind it and what is known of it. Documents of one partition come in
// the order of their changes. Result.ETag is where the next page goes on; it is
// good for the same scope, also when its partitions have been split meanwhile,
// and there always is a next page. When nothing is left for now, the error is
// status.CodeNotModified, with the ETag set. A page may be empty without that
// error: then there may be more already.
func (e *Engine) Feed(ctx context.Context, caller auth.Caller, req FeedRequest) (Feed, error) {
	f := feedOf{engine: e, req: &req, job: e.newJob()}
	defer f.job.close()
	f.job.caller, f.job.operation = caller.Kind(), runningFeed
	err := f.run(ctx, caller)
	if err != nil {
		f.out.Rows = nil
	}
	slices.Sort(f.out.Partitions)
	f.out.Session = f.seen.token()
	f.out.Charge = throughput.AtLevel(f.meter.Charge(), f.how.level)
	return f.out, fail(err)
}

// feedOf is a page of the change feed on its way.
type feedOf struct {
	engine *Engine
	req    *FeedRequest
	job    *job
	worker worker // asks the partitions one by one
	how    reading
	meter  throughput.Meter
	seen   seen
	routed bool // this attempt knows which partitions to ask
	out    Feed

	maxItems int
	bytes    int // that the page may still hold
	deadline time.Time
}

func (f *feedOf) run(ctx context.Context, caller auth.Caller) error {
	e := f.engine
	if err := e.allowDocuments(caller, auth.Feed, f.req.Link, &f.req.Options); err != nil {
		return err
	}
	if err := e.confine(caller, &f.req.Key, false); err != nil {
		return err
	}
	var err error
	if f.how, err = e.reading(f.req.Options); err != nil {
		return err
	}
	if f.req.Complete {
		switch {
		case f.req.After == "":
			return status.Because(status.CodeBadRequest, 0, status.FeedFromStart{})
		case !f.req.Since.IsZero():
			return status.Because(status.CodeBadRequest, 0, status.FeedFromTime{})
		}
	}
	if f.maxItems = f.req.MaxItems; f.maxItems <= 0 {
		f.maxItems = e.limits.PageItems
	}
	// The clock is that of the machine: it bounds work, and stamps nothing.
	f.deadline = time.Now().Add(e.limits.PageTime)
	return e.onContainer(ctx, f.req.Link, f.req.IntendedRID, &f.out.Result, func(c *catalog.Container) (more bool, err error) {
		f.out.ParentRID, f.job.container, f.out.Rows, f.bytes, f.routed = c.RID, c.RID, nil, e.limits.ResponseBytes, false
		f.seen = nil
		err = f.once(ctx, c)
		// A partition that the request names and the view does not have is gone
		// for good.
		return f.routed, err
	})
}

// once makes the page by one version of the container.
func (f *feedOf) once(ctx context.Context, c *catalog.Container) error {
	if p, ok := f.elsewhere(c); ok {
		return f.nothing(ctx, c, p)
	}
	_, scope, err := named(c, &QueryRequest{Key: f.req.Key, Partition: f.req.Partition, Clip: f.req.Clip})
	if err != nil {
		return err
	}
	at, err := f.position(c, scope)
	if err != nil {
		return err
	}
	f.routed = true
	pieces, first := at.pieces(c, scope)
	turn, more, err := f.fill(ctx, c, at.since, pieces, first)
	if err != nil {
		return err
	}
	f.out.ETag = at.next(pieces, turn).etag()
	if len(f.out.Rows) == 0 && !more {
		return unchanged()
	}
	return nil
}

// elsewhere returns the partition that the request names when it holds nothing of
// the key that the request names as well. A client that asks all partitions for
// one key must not get its documents from each of them.
func (f *feedOf) elsewhere(c *catalog.Container) (resource.Partition, bool) {
	if f.req.Key == nil || f.req.Partition == nil {
		return resource.Partition{}, false
	}
	p, ok := c.Partition(*f.req.Partition)
	if !ok {
		return p, false
	}
	_, held, err := named(c, &QueryRequest{Key: f.req.Key})
	return p, err == nil && !p.Range.Overlaps(held)
}

// nothing answers for a partition that never has anything for the request.
func (f *feedOf) nothing(ctx context.Context, c *catalog.Container, p resource.Partition) error {
	f.routed = true
	at := piece{partition: p, clip: p.Range}
	if _, err := f.ask(ctx, c, &at, 0, true); err != nil {
		return err
	}
	f.out.ETag = feedToken{entries: []feedEntry{{lsn: at.lsn}}}.etag()
	return unchanged()
}

// unchanged is the error of a feed that has nothing more for now.
func unchanged() error {
	return status.New(status.CodeNotModified, 0, "Nothing has changed.")
}

// position is where the request begins.
func (f *feedOf) position(c *catalog.Container, scope partitionkey.Range) (feedToken, error) {
	var since int64
	if !f.req.Since.IsZero() {
		// Documents have no finer time than seconds, and zero is no time at all.
		since = max(1, f.req.Since.Unix())
	}
	if f.req.After == "" || f.req.After == partition.AnyETag {
		return feedToken{container: c.RID, since: since, min: scope.Min, entries: []feedEntry{{max: scope.Max}}}, nil
	}
	at, err := parseFeedToken(f.req.After, c.RID, scope)
	at.since = max(at.since, since)
	return at, err
}

// piece is a part of the scope that one partition holds, and how far it is read.
type piece struct {
	partition resource.Partition
	clip      partitionkey.Range
	lsn       resource.LSN
	mixed     bool // lsn alone does not leave out what the time does
}

// fill asks the partitions of the pieces in turn until the page is full or all
// have been asked, moves each piece to where its next page goes on, and says
// which piece that page should begin with: so no partition keeps the others
// waiting. More says that there may be more already.
func (f *feedOf) fill(ctx context.Context, c *catalog.Container, since int64, pieces []piece, first int) (turn int, more bool, err error) {
	now := f.req.After == partition.AnyETag
	for i := range pieces {
		at := (first + i) % len(pieces)
		if i > 0 && !now && (f.left() <= 0 || f.bytes <= 0 || time.Since(f.deadline) > time.Duration(f.job.waited.Load())) {
			return at, true, nil
		}
		more, err := f.ask(ctx, c, &pieces[at], since, now)
		if status.CodeOf(err) == status.CodeTooManyRequests && len(f.out.Rows) > 0 {
			return at, true, nil // What has been read and paid for is not thrown away.
		}
		if err != nil {
			return 0, false, err
		}
		if more {
			return (at + 1) % len(pieces), true, nil
		}
	}
	return first, false, nil
}

// left is how many documents the page may still have.
func (f *feedOf) left() int { return f.maxItems - len(f.out.Rows) }

// ask adds what a partition has of a piece.
func (f *feedOf) ask(ctx context.Context, c *catalog.Container, p *piece, since int64, now bool) (more bool, err error) {
	replica, release, err := f.engine.node.Replica(ctx, c, p.partition.ID)
	if err != nil {
		return false, err
	}
	defer release()
	f.engine.visit(&f.out.Result, p.partition.ID)
	meter := f.req.meter(f.how.level.DoublesReads())
	ask := partition.Feed{
		Generation: p.partition.Generation,
		Range:      p.clip,
		After:      p.lsn,
		Since:      since,
		Complete:   f.req.Complete,
		Now:        now,
		MaxItems:   f.left(),
		MaxBytes:   f.bytes,
		Begun:      len(f.out.Rows) > 0,
		Session:    f.how.behind(p.partition),
		Meter:      &meter,
	}
	worker := &f.worker
	worker.begin(ctx, f.job, nil)
	defer worker.end()
	f.job.asked.Add(1)
	ask.Deadline = f.deadline.Add(time.Duration(f.job.waited.Load()))
	page, err := caughtUp(ctx, &f.how, ask.Session, func() (partition.FeedPage, error) { return replica.Feed(worker, ask) })
	if err != nil && worker.fault != nil {
		err = worker.fault
	}
	f.meter.Merge(&meter)
	f.job.read.Add(int64(len(page.Documents)))
	f.job.charged(func() float64 { return throughput.AtLevel(f.meter.Charge(), f.how.level) })
	f.seen.reached(p.partition.ID, page.LSN)
	f.out.LSN = page.LSN
	if err != nil {
		return false, err
	}
	for _, doc := range page.Documents {
		f.bytes -= len(doc)
	}
	f.out.Rows = append(f.out.Rows, page.Documents...)
	p.lsn, p.mixed = page.Position, page.Mixed
	return page.More, nil
}
