package engine

import (
	"context"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// FeedRequest is a request for a page of a container's change feed.
//
// Key, Partition and Clip narrow the scope as in a [QueryRequest]. Without them
// the scope is the whole container.
type FeedRequest struct {
	Link      Link
	Key       *partitionkey.Key     // whole key, or a prefix when the key is hierarchical
	Partition *resource.PartitionID // one physical partition; an unknown one is 410/1002
	Clip      *partitionkey.Range   // part of the key space
	MaxItems  int                   // documents of a page at most; 0 or less: Limits.PageItems

	// Complete requests every version, deletions included, of a container that
	// keeps them. Such a feed begins at the current time or at a position, and
	// Since must be zero. A position older than the versions kept is 400.
	Complete bool

	// After is the position from which the feed continues: the ETag of the
	// previous page. Empty is the beginning, "*" the current end.
	After resource.ETag

	// Since leaves out changes up to the end of that second. The zero value leaves
	// out none. The position of a previous page counts instead of it: some clients
	// repeat the time with later pages, on which changes of that second may come.
	Since time.Time

	// Query filters and projects the documents of each page; nil returns them all. The
	// position counts all changes of the page, so a page may have no rows without being
	// the end. It cannot be combined with Complete.
	Query *FeedQuery

	Options
}

// Feed returns a page of the change feed: each live document once, at the position of its
// last change, with its LSN as _lsn; or, for a complete feed, each change as an object
// with the document before and after it and its metadata. Documents of one partition are
// in the order of their changes. Result.ETag is the position for the next page. It is
// valid for the same scope, also after splits and merges of its partitions. A feed has no
// last page: if nothing is left now, the error is status.CodeNotModified, with the ETag
// set. A page may be empty without that error: then there may be more changes already.
func (e *Engine) Feed(ctx context.Context, caller auth.Caller, req FeedRequest) (Feed, error) {
	f := feedPage{engine: e, req: &req, job: e.newJob()}
	defer f.job.close()
	f.job.caller, f.job.operation = caller.Kind(), runningFeed
	err := f.run(ctx, caller)
	if err != nil {
		f.out.Rows = nil
	}
	slices.Sort(f.out.Partitions)
	f.out.Session = f.seen.token(req.SessionList)
	f.out.Charge = throughput.AtLevel(f.meter.Charge(), f.how.level)
	return f.out, fail(err)
}

// feedPage is the state of a running [Engine.Feed].
type feedPage struct {
	engine *Engine
	req    *FeedRequest
	job    *job
	worker worker // calls the partitions one after another
	how    reading
	meter  throughput.Meter
	seen   seen
	routed bool // this attempt has found the partitions to ask
	out    Feed

	// items says that the container is a table, and which other items of the same
	// partition keys are read with each; changed are the items of the page.
	items   bool
	others  []string
	changed []partition.FeedItem

	maxItems int
	bytes    int // that still fit on the page
	deadline time.Time
}

func (f *feedPage) run(ctx context.Context, caller auth.Caller) error {
	e := f.engine
	if err := e.allowDocuments(caller, auth.Feed, f.req.Link, &f.req.Options); err != nil {
		return err
	}
	if f.req.Query != nil {
		if err := e.allowDocuments(caller, auth.Query, f.req.Link, &f.req.Options); err != nil {
			return err
		}
	}
	if err := e.confine(caller, &f.req.Key, false); err != nil {
		return err
	}
	var err error
	if f.how, err = e.reading(f.req.Options); err != nil {
		return err
	}
	if f.req.Complete && f.req.Query != nil {
		return status.BadRequest("The change feed of all versions has no queries. Read it without one.")
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
	// This is the machine's clock, not Config.Now: it bounds work and sets no
	// time of a document.
	f.deadline = time.Now().Add(e.limits.PageTime)
	return e.onContainer(ctx, f.req.Link, f.req.IntendedRID, &f.out.Result, func(c *catalog.Container) (more bool, err error) {
		f.out.ParentRID, f.job.container, f.out.Rows, f.bytes, f.routed = c.RID, c.RID, nil, e.limits.ResponseBytes, false
		f.seen = nil
		err = f.once(ctx, c)
		// A partition that the request names and the view does not have no
		// longer exists.
		return f.routed, err
	})
}

// once makes the page with one version of the container.
func (f *feedPage) once(ctx context.Context, c *catalog.Container) error {
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
	var plan *query.Plan
	if f.req.Query != nil {
		if plan, err = f.req.Query.compile(f.engine, c); err != nil {
			return err
		}
	}
	f.routed = true
	pieces, first := at.pieces(c, scope)
	turn, more, err := f.fill(ctx, c, at.since, pieces, first)
	if err != nil {
		if f.items && f.req.After != partition.AnyETag {
			f.out.ETag = at.etag() // Nothing is returned, so a reader continues there.
		}
		return err
	}
	if !more && at.since <= f.engine.now().Unix()+1 && !slices.ContainsFunc(pieces, func(p piece) bool { return p.mixed }) {
		// The positions are after all changes that it leaves out but those that are
		// still made in its second: a reader that begins at the time of day, as
		// JavaScript 4.0.0 does for now, must not lose them.
		at.since = 0
	}
	f.out.ETag = at.next(pieces, turn).etag()
	if f.count() == 0 && !more {
		return unchanged()
	}
	if plan != nil {
		err = f.selectRows(ctx, plan)
	}
	return err
}

// elsewhere returns the partition that the request names if that has no part of
// the key that the request also names. A client that asks all partitions for one
// key must not get its documents from each of them.
func (f *feedPage) elsewhere(c *catalog.Container) (resource.Partition, bool) {
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

// nothing answers for a partition that cannot have any document of the request.
func (f *feedPage) nothing(ctx context.Context, c *catalog.Container, p resource.Partition) error {
	f.routed = true
	at := piece{partition: p, clip: p.Range}
	if _, err := f.ask(ctx, c, &at, 0, true); err != nil {
		return err
	}
	f.out.ETag = feedToken{entries: []feedEntry{{lsn: at.lsn}}}.etag()
	return unchanged()
}

// unchanged returns the error of a feed that has no further changes now.
func unchanged() error {
	return status.New(status.CodeNotModified, 0, "Nothing has changed.")
}

// position returns where the request begins.
func (f *feedPage) position(c *catalog.Container, scope partitionkey.Range) (feedToken, error) {
	var since int64
	if !f.req.Since.IsZero() {
		// The time of a document has seconds, and zero means no time. The start is
		// exclusive, and the partition includes since.
		since = max(1, f.req.Since.Unix()+1)
	}
	if f.req.After == "" || f.req.After == partition.AnyETag {
		return feedToken{container: c.RID, since: since, min: scope.Min, entries: []feedEntry{{max: scope.Max}}}, nil
	}
	return parseFeedToken(f.req.After, c.RID, scope)
}

// piece is the part of the scope that one partition has, and the position in it.
type piece struct {
	partition resource.Partition
	clip      partitionkey.Range
	lsn       resource.LSN
	mixed     bool // some changes after lsn are older than since, so the token needs both
}

// fill asks the partitions of the pieces in turn until the page is full or all
// have been asked, and moves each piece to the position of its next page. It
// returns the piece with which the next page should begin, so that no partition
// keeps the others waiting. more is true if there may be more changes already.
func (f *feedPage) fill(ctx context.Context, c *catalog.Container, since int64, pieces []piece, first int) (turn int, more bool, err error) {
	now := f.req.After == partition.AnyETag
	for i := range pieces {
		at := (first + i) % len(pieces)
		if i > 0 && !now && (f.left() <= 0 || f.bytes <= 0 || time.Since(f.deadline) > time.Duration(f.job.waited.Load())) {
			return at, true, nil
		}
		more, err := f.ask(ctx, c, &pieces[at], since, now)
		if status.CodeOf(err) == status.CodeTooManyRequests && f.count() > 0 {
			return at, true, nil // The documents read so far are charged, and returned.
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

// count returns the number of documents or items on the page.
func (f *feedPage) count() int { return len(f.out.Rows) + len(f.changed) }

// left returns how many more documents the page may have.
func (f *feedPage) left() int { return f.maxItems - f.count() }

// ask adds the changes of a piece from its partition.
func (f *feedPage) ask(ctx context.Context, c *catalog.Container, p *piece, since int64, now bool) (more bool, err error) {
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
		Begun:      f.count() > 0,
		Items:      f.items,
		Others:     f.others,
		Session:    f.how.requiredLSN(p.partition),
		Meter:      &meter,
	}
	worker := &f.worker
	worker.begin(ctx, f.job, nil)
	defer worker.end()
	f.job.asked.Add(1)
	ask.Deadline = f.deadline.Add(time.Duration(f.job.waited.Load()))
	page, err := retryBehind(ctx, &f.how, ask.Session, func() (partition.FeedPage, error) { return replica.Feed(worker, ask) })
	if err != nil && worker.fault != nil {
		err = worker.fault
	}
	f.meter.Merge(&meter)
	f.job.read.Add(int64(len(page.Documents) + len(page.Items)))
	f.job.charged(func() float64 { return throughput.AtLevel(f.meter.Charge(), f.how.level) })
	f.seen.reached(p.partition.ID, page.LSN)
	f.out.LSN = shownLSN(page.LSN)
	if err != nil {
		return false, err
	}
	for _, doc := range page.Documents {
		f.bytes -= len(doc)
	}
	for i := range page.Items {
		f.bytes -= len(page.Items[i].Key) + len(page.Items[i].Item) + len(page.Items[i].Body)
	}
	f.out.Rows = append(f.out.Rows, page.Documents...)
	f.changed = append(f.changed, page.Items...)
	p.lsn, p.mixed = page.Position, page.Mixed
	return page.More, nil
}
