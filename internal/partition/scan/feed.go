package scan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
)

// Feed asks for a page of the change feed. partition.Feed describes the fields.
type Feed struct {
	After    resource.LSN
	Since    int64
	Complete bool
	Now      bool

	MaxItems int
	MaxBytes int
	Deadline time.Time
	Begun    bool

	Items  bool
	Others []string

	Meter *throughput.Meter
}

// FeedPage is a page of the change feed.
type FeedPage struct {
	// Documents are complete JSON with system properties and _lsn, the LSN of their
	// last change, by which they are ordered. They belong to the caller.
	Documents [][]byte

	// Items are the items of a table instead, in the same order.
	Items []FeedItem

	// Position is the LSN after which the next page begins. It is not below the
	// position that was asked for.
	Position resource.LSN
	More     bool // there may be more changes after Position already

	// Mixed says that some changes after Position are older than the time that was
	// asked for, and others are not: the next page needs the time as well.
	Mixed bool

	// LSN is that of the state that was read. It is set with an error as well.
	LSN resource.LSN
}

// FeedItem is an item of a table that has changed. Its bytes belong to the caller. Items of
// one partition key may share those of Others.
type FeedItem struct {
	Key    []byte   // the routing key
	Item   []byte   // its name in the partition key
	Body   []byte   // as it is now
	Others [][]byte // the bodies of the items that Feed.Others names; nil for one that is not stored
}

// Feed returns a page of the change feed of the clip, as partition.Feed describes.
func (s *Source) Feed(ctx context.Context, ask Feed) (page FeedPage, err error) {
	page.LSN = s.now.LSN
	r := feedReader{source: s, ask: &ask, page: &page, reached: ask.After}
	switch {
	case ask.Complete:
		err = r.complete(ctx)
	case !ask.Now:
		err = r.read(ctx)
	}
	if page.len() == 0 && !(ask.Begun && page.More) {
		ask.Meter.Add(throughput.NotModified)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return FeedPage{LSN: s.now.LSN}, ranOut(ctx, "The change feed was ended before its page was complete.")
	case err != nil:
		return FeedPage{LSN: s.now.LSN}, err
	}
	page.Position = r.reached
	if !page.More {
		// The reader knows all of this state. A position after it does not change.
		page.Position = max(r.reached, s.now.LSN)
	}
	if ask.Since > 0 && page.More {
		m, err := layout.ReadMergeMark(s.now.Rows)
		if err != nil {
			return FeedPage{LSN: s.now.LSN}, err
		}
		page.Mixed = page.Position < m.LSN && ask.Since <= m.TS
	}
	return page, nil
}

// len returns the number of documents or items on the page.
func (p *FeedPage) len() int { return len(p.Documents) + len(p.Items) }

// feedReader fills one page of the feed.
type feedReader struct {
	source  *Source
	ask     *Feed
	page    *FeedPage
	reached resource.LSN // the last LSN that was begun; complete when the page ends
	last    resource.LSN // of the last document on the page
	rows    int          // read so far
	bytes   int          // of the documents on the page

	prefix []byte   // of the row keys of the partition key whose other items are
	others [][]byte // the other items of a partition key
}

// read fills the page with latest versions.
func (r *feedReader) read(ctx context.Context) error {
	if r.ask.Since > 0 && r.reached == 0 {
		before, err := r.before(ctx, r.ask.Since)
		if err != nil {
			return err
		}
		r.reached = before
	}
	few, err := r.few(ctx)
	if err != nil {
		return err
	}
	if few {
		return r.gather(ctx)
	}
	return r.follow(ctx)
}

// follow reads the feed rows after the position.
func (r *feedReader) follow(ctx context.Context) (err error) {
	if r.reached == ^resource.LSN(0) {
		return nil // No LSN is greater.
	}
	near := layout.NewShortRange(r.source.clip, r.source.r.own.Width)
	rows := r.source.now.Rows.Iter(storage.FeedBounds(uint64(r.reached)+1, ^uint64(0)))
	defer func() { err = errors.Join(err, rows.Close()) }()
	for valid := rows.First(); valid; valid = rows.Next() {
		lsn, _, _, err := storage.DecodeFeedKey(rows.Key())
		if err != nil {
			return r.source.damaged(err)
		}
		if more, err := r.begin(ctx, resource.LSN(lsn)); err != nil || !more {
			return err
		}
		number, short, err := layout.DecodeFeedValue(rows.Value())
		if err != nil {
			return r.source.damaged(err)
		}
		if !near.Holds(short) {
			continue
		}
		if more, err := r.source.find(number, func(d *layout.Document) (bool, error) { return r.add(d, r.source.rowKey) }); err != nil || !more {
			return err
		}
	}
	return nil
}

// begin proceeds to the LSN of the next row, unless the page ends before it.
func (r *feedReader) begin(ctx context.Context, lsn resource.LSN) (more bool, err error) {
	if r.rows++; r.rows%checkEvery == 0 {
		if err := pacing.Check(ctx); err != nil {
			return false, err
		}
	}
	if lsn == r.reached {
		return true, nil
	}
	late := r.rows%checkEvery == 0 && !r.ask.Deadline.IsZero() && time.Now().After(r.ask.Deadline)
	if late || r.ask.MaxItems > 0 && r.page.len() >= r.ask.MaxItems {
		r.page.More = true
		return false, nil
	}
	r.reached = lsn
	return true, nil
}

// add adds a document to the page. A document that would make the page too large
// begins the next page, unless others of its LSN are on this page already. key is its row
// key.
func (r *feedReader) add(d *layout.Document, key []byte) (more bool, err error) {
	if d.TS < r.ask.Since || r.source.horizon.Hides(d) {
		return true, nil
	}
	const textLSN, digits = `,"_lsn":`, 20
	size := r.source.r.own.Render.Size(len(d.Body), d.TS) + len(textLSN) + digits
	if (r.ask.Begun || r.page.len() > 0) && r.ask.MaxBytes > 0 && r.bytes+size > r.ask.MaxBytes && d.LSN != r.last {
		r.page.More = true
		r.reached = d.LSN - 1
		return false, nil
	}
	if r.ask.Items {
		return true, r.addItem(d, key)
	}
	body := r.source.r.own.Render.Append(make([]byte, 0, size), d)
	body = append(body[:len(body)-1], textLSN...)
	body = append(strconv.AppendUint(body, uint64(d.LSN), 10), '}')
	r.page.Documents = append(r.page.Documents, body)
	r.bytes += len(body)
	r.last = d.LSN
	r.ask.Meter.Add(throughput.Read(len(d.Body)))
	return true, nil
}

// addItem adds an item of a table to the page, with the other items of its key.
func (r *feedReader) addItem(d *layout.Document, key []byte) error {
	_, _, name, err := storage.DecodeDocumentKey(key, d.EPKSize)
	if err != nil {
		return r.source.damaged(err)
	}
	if prefix := key[:len(key)-len(name)]; r.others == nil || !bytes.Equal(prefix, r.prefix) {
		r.prefix = append(r.prefix[:0], prefix...)
		r.others = make([][]byte, len(r.ask.Others))
		for i, other := range r.ask.Others {
			if r.others[i], err = r.bodyOf(other, d.Key); err != nil {
				return err
			}
		}
	}
	item := FeedItem{Key: bytes.Clone(d.Key), Item: bytes.Clone(name), Body: bytes.Clone(d.Body), Others: r.others}
	r.page.Items = append(r.page.Items, item)
	r.bytes += len(item.Key) + len(item.Item) + len(item.Body)
	r.last = d.LSN
	r.ask.Meter.Add(throughput.Read(len(d.Body)))
	return nil
}

// bodyOf returns the body of an item of a partition key, nil if it is not stored or
// hidden.
func (r *feedReader) bodyOf(name string, key []byte) (body []byte, err error) {
	row, found, err := r.source.now.Rows.Get(nil, append(r.prefix[:len(r.prefix):len(r.prefix)], name...))
	if err != nil || !found {
		return nil, err
	}
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return nil, r.source.damaged(err)
	}
	if !bytes.Equal(d.Key, key) || r.source.horizon.Hides(&d) {
		return nil, nil
	}
	return d.Body, nil
}

// few reports whether the clip has so few documents, compared with the feed rows
// after the position, that reading and sorting the documents is cheaper than reading
// those rows. So it is for a reader of one key that begins in a large partition.
func (r *feedReader) few(ctx context.Context) (bool, error) {
	s := r.source
	now, most := s.now, s.r.Strategy.ScanMax
	if s.whole || now.LSN <= r.reached {
		return false, nil
	}
	ahead := min(now.Items, int64(now.LSN-r.reached))
	if ahead <= most {
		return false, nil
	}
	total, err := s.totals(ctx, most, int64(s.r.Strategy.ScanBytes))
	return total.Items <= most && total.Bytes <= int64(s.r.Strategy.ScanBytes) && s.r.Strategy.Costs.sorts(total.Items, ahead), err
}

// totals adds up the documents of the clip until they exceed a number of documents
// or of bytes.
func (s *Source) totals(ctx context.Context, items, size int64) (sum layout.Totals, err error) {
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyLogical))
	defer func() { err = errors.Join(err, rows.Close()) }()
	read := 0
	for valid := rows.First(); valid && sum.Items <= items && sum.Bytes <= size; valid = s.nextLogical(rows) {
		if read++; Stopped(ctx, read) != nil {
			return sum, Stopped(ctx, read)
		}
		t, err := layout.DecodeTotals(rows.Value())
		if err != nil {
			return sum, s.damaged(err)
		}
		sum.Items += t.Items
		sum.Bytes += t.Bytes
	}
	return sum, nil
}

// nextLogical moves to the next row of a logical partition. Each write leaves another
// version of that row in the store until the next flush; a seek skips those.
func (s *Source) nextLogical(rows *storage.Iterator) bool {
	if s.only() == "" {
		return rows.Next()
	}
	s.seek = append(append(s.seek[:0], rows.Key()...), 0)
	return rows.SeekGE(s.seek)
}

// gathered is a document that a pass has read: its place in the feed, and where its
// row key is in the bytes that the pass keeps.
type gathered struct {
	layout.Version
	start, end int
}

func (a gathered) compare(b gathered) int {
	return cmp.Or(cmp.Compare(a.LSN, b.LSN), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Seq, b.Seq))
}

// gather reads all documents of the clip and sorts them in the order of the feed.
func (r *feedReader) gather(ctx context.Context) error {
	list, keys, err := r.changedAfter(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(list, gathered.compare)
	for _, at := range list {
		if more, err := r.begin(ctx, at.LSN); err != nil || !more {
			return err
		}
		more := true
		found, err := r.source.now.Rows.View(keys[at.start:at.end], func(row []byte) error {
			d, err := layout.DecodeDocument(row)
			if err != nil {
				return r.source.damaged(err)
			}
			more, err = r.add(&d, keys[at.start:at.end])
			return err
		})
		if err != nil || !found {
			return r.source.missing(at.Number, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// changedAfter returns the documents of the clip that changed after the position,
// and their row keys.
func (r *feedReader) changedAfter(ctx context.Context) (list []gathered, keys []byte, err error) {
	s := r.source
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return nil, nil, Stopped(ctx, n)
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return nil, nil, s.damaged(err)
		}
		if d.LSN <= r.reached || !s.holds(rows.Key()[1:], &d) {
			continue
		}
		start := len(keys)
		keys = append(keys, rows.Key()...)
		list = append(list, gathered{Version: d.Version, start: start, end: len(keys)})
	}
	return list, keys, nil
}

// before returns an LSN such that all changes up to it are older than a time. Time
// never goes back in a partition, so a binary search over LSNs finds it; each step
// reads one document. Changes from before a merge are not ordered by time: the LSN is
// after all of them, or zero.
func (r *feedReader) before(ctx context.Context, since int64) (lsn resource.LSN, err error) {
	m, err := layout.ReadMergeMark(r.source.now.Rows)
	if err != nil || since <= m.TS {
		return 0, err
	}
	low, high := m.LSN, r.source.now.LSN // Changes up to low are earlier, those after high are not.
	rows := r.source.now.Rows.Iter(storage.FamilyFeed.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	for low < high {
		middle := low + (high-low)/2
		at, ts, found, err := r.changed(ctx, rows, middle+1)
		switch {
		case err != nil:
			return 0, err
		case found && ts < since:
			low = at
		default:
			high = middle // The first change after the middle is not earlier, and so none after it.
		}
	}
	return low, nil
}

// changed returns LSN and time of the first change at an LSN or after it. It skips
// rows of other partitions.
func (r *feedReader) changed(ctx context.Context, rows *storage.Iterator, from resource.LSN) (lsn resource.LSN, ts int64, found bool, err error) {
	s := r.source
	near := layout.NewShortRange(s.r.own.Range, s.r.own.Width)
	n := 0
	for valid := rows.SeekGE(storage.FeedKey(nil, uint64(from), 0, 0)); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return 0, 0, false, Stopped(ctx, n)
		}
		at, _, _, err := storage.DecodeFeedKey(rows.Key())
		if err != nil {
			return 0, 0, false, s.damaged(err)
		}
		number, short, err := layout.DecodeFeedValue(rows.Value())
		if err != nil {
			return 0, 0, false, s.damaged(err)
		}
		if !near.Holds(short) {
			continue
		}
		if ts, found, err = s.time(number); err != nil || found {
			return resource.LSN(at), ts, found, err
		}
	}
	return 0, 0, false, nil
}

// time returns the _ts of the document with a number, if there is one in the bounds
// of the partition.
func (s *Source) time(number uint64) (ts int64, found bool, err error) {
	s.key = storage.RIDKey(s.key[:0], number)
	s.row, found, err = s.now.Rows.Get(s.row[:0], s.key)
	if err != nil || !found || !s.r.own.Within(s.row) {
		return 0, false, err
	}
	s.rowKey = storage.DocumentKeyOf(s.rowKey[:0], s.row)
	found, err = s.now.Rows.View(s.rowKey, func(row []byte) error {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		ts = d.TS
		return nil
	})
	return ts, found, err
}
