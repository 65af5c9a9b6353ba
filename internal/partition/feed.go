package partition

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Feed asks for one page of the latest-version change feed: each live document
// once, at the place of its last change.
//
// The page has the documents whose last change is behind After and not before
// Since. Both may be given: the time leaves out what a position alone would
// bring.
type Feed struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Range holds the keys whose documents count. What of it lies outside the
	// partition is another partition's.
	Range partitionkey.Range

	After resource.LSN // everything up to it is known; zero is the beginning
	Since int64        // in seconds since 1970, included; zero or less is any time
	// Complete asks for all versions and deletions, from After on, instead: 400
	// where the container does not keep them, and where it no longer does.
	Complete bool

	Now bool // begin behind everything there is: an empty page with its position

	// A page ends where one of these is reached, but only between two LSNs, and
	// not before it has made progress. Zero is no limit.
	MaxItems int
	MaxBytes int  // of the documents; the first is returned whatever its size
	Begun    bool // there are documents from elsewhere, so that the first has to fit as well
	Deadline time.Time

	Session resource.LSN // that the caller has seen; zero for none
	Meter   *throughput.Meter
}

// FeedPage is a page of the change feed.
type FeedPage struct {
	// Documents are complete JSON with system properties and _lsn, the LSN of
	// their last change, by which they are ordered. The caller may keep them.
	Documents [][]byte

	// Position is the LSN to go on behind. It is not below Feed.After.
	Position resource.LSN
	More     bool // there may be more behind Position already

	// Mixed says that what is behind Position has changed before and after
	// Feed.Since: going on without it would bring what it leaves out.
	Mixed bool

	// LSN is that of the state that was read; also set with an error.
	LSN resource.LSN
}

// Feed returns a page of the change feed out of the published state, which is
// one for the whole page. A document that changes between two pages moves to the
// end of the feed, and one that is deleted leaves it, so a reader that reaches
// the end has seen the latest version of everything. The charge is that of
// reading the documents, and of one small read for a page without any. Errors
// are PartitionMoved, SessionNotAvailable, Unavailable, and RequestTimeout when
// ctx ends.
func (p *Partition) Feed(ctx context.Context, f Feed) (FeedPage, error) {
	now, err := p.acquire()
	if err != nil {
		return FeedPage{}, err
	}
	defer p.release(now)
	page := FeedPage{LSN: now.lsn}
	clip, overlaps := f.Range.Intersect(p.descriptor.Range)
	if f.Generation != p.descriptor.Generation || !overlaps {
		return page, status.PartitionMoved(status.SubRangeGone)
	}
	if f.Session > now.lsn {
		return page, status.SessionNotAvailable()
	}
	p.queries.Add(1)
	r := feedReader{source: newSource(p, now, f.Range, clip), ask: &f, page: &page, reached: f.After}
	defer r.source.free()
	switch {
	case f.Complete:
		err = r.complete(ctx)
	case !f.Now:
		err = r.read(ctx)
	}
	if len(page.Documents) == 0 && !(f.Begun && page.More) {
		f.Meter.Add(throughput.NotModified)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return FeedPage{LSN: now.lsn}, timedOut(ctx, "The change feed was ended before its page was complete.")
	case err != nil:
		return FeedPage{LSN: now.lsn}, err
	}
	page.Position = r.reached
	if !page.More {
		// All of this state is known. A position ahead of it stays where it is.
		page.Position = max(r.reached, now.lsn)
	}
	if f.Since > 0 && page.More {
		m, err := readMerged(now.snapshot)
		if err != nil {
			return FeedPage{LSN: now.lsn}, err
		}
		page.Mixed = page.Position < m.lsn && f.Since <= m.ts
	}
	return page, nil
}

// feedReader fills one page of the feed.
type feedReader struct {
	source  *source
	ask     *Feed
	page    *FeedPage
	reached resource.LSN // the last LSN that was begun; complete when the page ends
	last    resource.LSN // of the last document on the page
	rows    int          // passed
	bytes   int          // of the page's documents
}

// read fills the page from behind After.
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

// follow reads the feed rows behind the position.
func (r *feedReader) follow(ctx context.Context) (err error) {
	if r.reached == ^resource.LSN(0) {
		return nil // no LSN is behind it
	}
	near := newShortRange(r.source.clip, r.source.p.epkWidth)
	rows := r.source.now.snapshot.Iter(storage.FeedBounds(uint64(r.reached)+1, ^uint64(0)))
	defer func() { err = errors.Join(err, rows.Close()) }()
	for valid := rows.First(); valid; valid = rows.Next() {
		lsn, _, _, err := storage.DecodeFeedKey(rows.Key())
		if err != nil {
			return r.source.damaged(err)
		}
		if more, err := r.begin(ctx, resource.LSN(lsn)); err != nil || !more {
			return err
		}
		number, short, err := decodeFeedValue(rows.Value())
		if err != nil {
			return r.source.damaged(err)
		}
		if !near.holds(short) {
			continue
		}
		if more, err := r.source.find(number, r.add); err != nil || !more {
			return err
		}
	}
	return nil
}

// begin goes on to the LSN of the next row, unless the page ends before it.
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
	if late || r.ask.MaxItems > 0 && len(r.page.Documents) >= r.ask.MaxItems {
		r.page.More = true
		return false, nil
	}
	r.reached = lsn
	return true, nil
}

// add puts a document on the page. One that would make the page too large begins
// the next one, unless a part of its LSN is on this page already.
func (r *feedReader) add(d *document) (more bool, err error) {
	if d.ts < r.ask.Since || r.source.horizon.passed(d) {
		return true, nil
	}
	const textLSN, digits = `,"_lsn":`, 20
	size := r.source.p.render.size(len(d.body), d.ts) + len(textLSN) + digits
	if (r.ask.Begun || len(r.page.Documents) > 0) && r.ask.MaxBytes > 0 && r.bytes+size > r.ask.MaxBytes && d.lsn != r.last {
		r.page.More = true
		r.reached = d.lsn - 1
		return false, nil
	}
	body := r.source.p.render.append(make([]byte, 0, size), d)
	body = append(body[:len(body)-1], textLSN...)
	body = append(strconv.AppendUint(body, uint64(d.lsn), 10), '}')
	r.page.Documents = append(r.page.Documents, body)
	r.bytes += len(body)
	r.last = d.lsn
	r.ask.Meter.Add(throughput.Read(len(d.body)))
	return true, nil
}

// few reports whether the range holds so few documents, compared with the feed
// rows behind the position, that reading and sorting them is cheaper than passing
// those rows: a reader of one key begins, in a large partition.
func (r *feedReader) few(ctx context.Context) (bool, error) {
	s := r.source
	now, most := s.now, s.p.strategy.scanMax
	if s.whole || now.lsn <= r.reached {
		return false, nil
	}
	ahead := min(now.items, int64(now.lsn-r.reached))
	if ahead <= most {
		return false, nil
	}
	total, err := s.totals(ctx, most, int64(s.p.strategy.scanBytes))
	return total.items <= most && total.bytes <= int64(s.p.strategy.scanBytes) && s.p.strategy.costs.sorts(total.items, ahead), err
}

// totals adds up the documents of the clip, until they are more than that many
// or take more than that many bytes.
func (s *source) totals(ctx context.Context, items, size int64) (sum totals, err error) {
	rows := s.now.snapshot.Iter(s.bounds(storage.FamilyLogical))
	defer func() { err = errors.Join(err, rows.Close()) }()
	read := 0
	for valid := rows.First(); valid && sum.items <= items && sum.bytes <= size; valid = s.nextLogical(rows) {
		if read++; stopped(ctx, read) != nil {
			return sum, stopped(ctx, read)
		}
		t, err := decodeTotals(rows.Value())
		if err != nil {
			return sum, s.damaged(err)
		}
		sum.items += t.items
		sum.bytes += t.bytes
	}
	return sum, nil
}

// nextLogical moves to the next row of a logical partition. Each write leaves another
// version of that row in the store until the next flush, and a search leaps over them.
func (s *source) nextLogical(rows *storage.Iterator) bool {
	if s.only() == "" {
		return rows.Next()
	}
	s.seek = append(append(s.seek[:0], rows.Key()...), 0)
	return rows.SeekGE(s.seek)
}

// gathered is a document that a scan has passed: its place in the feed, and
// where its row key lies in the bytes of the scan.
type gathered struct {
	version
	start, end int
}

func (a gathered) compare(b gathered) int {
	return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.seq, b.seq))
}

// gather reads all documents of the clip and puts them into the order of the
// feed.
func (r *feedReader) gather(ctx context.Context) error {
	list, keys, err := r.behind(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(list, gathered.compare)
	for _, at := range list {
		if more, err := r.begin(ctx, at.lsn); err != nil || !more {
			return err
		}
		more := true
		found, err := r.source.now.snapshot.View(keys[at.start:at.end], func(row []byte) error {
			d, err := decodeDocument(row)
			if err != nil {
				return r.source.damaged(err)
			}
			more, err = r.add(&d)
			return err
		})
		if err != nil || !found {
			return r.source.missing(at.number, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

// behind returns the documents of the clip that changed behind the position,
// and their row keys.
func (r *feedReader) behind(ctx context.Context) (list []gathered, keys []byte, err error) {
	s := r.source
	rows := s.now.snapshot.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; stopped(ctx, n) != nil {
			return nil, nil, stopped(ctx, n)
		}
		d, err := decodeDocument(rows.Value())
		if err != nil {
			return nil, nil, s.damaged(err)
		}
		if d.lsn <= r.reached || !s.holds(rows.Key()[1:], &d) {
			continue
		}
		start := len(keys)
		keys = append(keys, rows.Key()...)
		list = append(list, gathered{version: d.version, start: start, end: len(keys)})
	}
	return list, keys, nil
}

// before returns an LSN up to which no document changed at a time or later. Time
// never goes back in a partition, so halving the LSNs finds it: each step looks
// at one document. What came out of a merge has no order of times among itself: it
// is passed as a whole or not at all.
func (r *feedReader) before(ctx context.Context, since int64) (lsn resource.LSN, err error) {
	m, err := readMerged(r.source.now.snapshot)
	if err != nil || since <= m.ts {
		return 0, err
	}
	low, high := m.lsn, r.source.now.lsn // everything up to low is earlier, behind high nothing is
	rows := r.source.now.snapshot.Iter(storage.FamilyFeed.Bounds())
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
			high = middle // the first change behind the middle is not earlier, nor is any after it
		}
	}
	return low, nil
}

// changed returns LSN and time of the first change from an LSN on. Rows that
// belong to another partition say nothing and are passed.
func (r *feedReader) changed(ctx context.Context, rows *storage.Iterator, from resource.LSN) (lsn resource.LSN, ts int64, found bool, err error) {
	s := r.source
	near := newShortRange(s.p.descriptor.Range, s.p.epkWidth)
	n := 0
	for valid := rows.SeekGE(storage.FeedKey(nil, uint64(from), 0, 0)); valid; valid = rows.Next() {
		if n++; stopped(ctx, n) != nil {
			return 0, 0, false, stopped(ctx, n)
		}
		at, _, _, err := storage.DecodeFeedKey(rows.Key())
		if err != nil {
			return 0, 0, false, s.damaged(err)
		}
		number, short, err := decodeFeedValue(rows.Value())
		if err != nil {
			return 0, 0, false, s.damaged(err)
		}
		if !near.holds(short) {
			continue
		}
		if ts, found, err = s.time(number); err != nil || found {
			return resource.LSN(at), ts, found, err
		}
	}
	return 0, 0, false, nil
}

// time returns the _ts of the document of a number, if it lies in the bounds of
// the partition and is there.
func (s *source) time(number uint64) (ts int64, found bool, err error) {
	s.key = storage.RIDKey(s.key[:0], number)
	s.row, found, err = s.now.snapshot.Get(s.row[:0], s.key)
	if err != nil || !found || bytes.Compare(s.row, s.p.low) < 0 || bytes.Compare(s.row, s.p.high) >= 0 {
		return 0, false, err
	}
	s.rowKey = storage.DocumentKeyOf(s.rowKey[:0], s.row)
	found, err = s.now.snapshot.View(s.rowKey, func(row []byte) error {
		d, err := decodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		ts = d.ts
		return nil
	})
	return ts, found, err
}

// decodeFeedValue takes apart what appendFeedValue wrote.
func decodeFeedValue(row []byte) (number uint64, short []byte, err error) {
	if len(row) < storage.NumberBytes+shortFirst || (len(row)-storage.NumberBytes-shortFirst)%shortFurther != 0 {
		return 0, nil, fmt.Errorf("feed row %x: %w", row, errDocument)
	}
	return binary.BigEndian.Uint64(row), row[storage.NumberBytes:], nil
}

// A short EPK has these bytes of the first level and of each further one.
const (
	shortFirst   = 8
	shortFurther = 4
)

// shortRange tells from short EPKs alone which documents cannot be in a range.
// A level says something only when the bounds agree in all levels before it:
// then only documents with those very levels are in the range.
type shortRange struct {
	low, high []byte // as far as they say something, both included
}

func newShortRange(r partitionkey.Range, width int) shortRange {
	var s shortRange
	low, high := r.Min.Canonical(), r.Max.Canonical()
	for at := 0; at < max(width, 1); at += hashBytes {
		n := shortFurther
		if at == 0 {
			n = shortFirst
		}
		s.low = append(s.low, level(low, at, n)...)
		s.high = append(s.high, level(high, at, n)...)
		if !bytes.Equal(level(low, at, hashBytes), level(high, at, hashBytes)) {
			break
		}
	}
	return s
}

// level returns n bytes of an EPK from a place on, zeros where it has none.
func level(e partitionkey.EPK, at, n int) []byte {
	b := make([]byte, n)
	if at < len(e) {
		copy(b, e[at:])
	}
	return b
}

// holds reports whether a document with that short EPK may be in the range.
func (s *shortRange) holds(short []byte) bool {
	for at := 0; at < len(s.low) && at < len(short); {
		end := min(at+shortFurther, len(short))
		if at == 0 {
			end = min(shortFirst, len(short))
		}
		if bytes.Compare(short[at:end], s.low[at:end]) < 0 || bytes.Compare(short[at:end], s.high[at:end]) > 0 {
			return false
		}
		at = end
	}
	return true
}
