package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// The complete feed has every version of every document, deletions included, in
// 'v' rows that are written while the container keeps them. They leave in the
// effects of later writes: at the front of the feed, when their time is over.
// From which position on nothing is missing is in one row, so that a reader is
// told when it comes too late.

// revision is one change of one document in the complete feed.
type revision struct {
	change  changeKind
	ts      int64
	epkSize int
	suffix  []byte // the document's key behind the family
	// The document rows behind and in front of the change; empty for none.
	current, previous []byte
}

// remembered is a change that a transaction will write.
type remembered struct {
	seq uint32
	row []byte
}

type changeKind byte

// The kinds of changes, as they are stored.
const (
	created changeKind = 1 + iota
	replaced
	deleted
	expired // deleted because its time to live was over
)

var changeNames = [...]string{created: "create", replaced: "replace", deleted: "delete", expired: "delete"}

const (
	revisionVersion = 1
	revisionTimeAt  = 1 + 1 + 1
	revisionHead    = revisionTimeAt + 8 + 2 + 4
)

func (e *revision) append(dst []byte) []byte {
	dst = append(dst, revisionVersion, byte(e.change), byte(e.epkSize))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ts))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.suffix)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.current)))
	dst = append(dst, e.suffix...)
	dst = append(dst, e.current...)
	return append(dst, e.previous...)
}

// decodeRevision takes an entry apart, whose bytes it shares.
func decodeRevision(row []byte) (e revision, err error) {
	damaged := func() (revision, error) {
		return revision{}, fmt.Errorf("feed entry %x: %w", row[:min(len(row), 64)], errDocument)
	}
	if len(row) < revisionHead || row[0] != revisionVersion || row[1] < byte(created) || row[1] > byte(expired) {
		return damaged()
	}
	e = revision{change: changeKind(row[1]), epkSize: int(row[2]), ts: int64(binary.BigEndian.Uint64(row[revisionTimeAt:]))}
	key, current := int(binary.BigEndian.Uint16(row[11:])), int(binary.BigEndian.Uint32(row[13:]))
	rest := row[revisionHead:]
	if e.epkSize+storage.HashBytes > key || key > len(rest) || current > len(rest)-key {
		return damaged()
	}
	e.suffix, e.current, e.previous = rest[:key], rest[key:key+current], rest[key+current:]
	if (e.change >= deleted) != (current == 0) || (e.change == created) != (len(e.previous) == 0) {
		return damaged()
	}
	return e, nil
}

// kept is a part of the key space and the LSN behind which the complete feed
// has everything of it. What a merge joins may differ.
type kept struct {
	max   partitionkey.EPK // not included; the next one begins there
	after resource.LSN
}

// keptList tiles the range of a partition. Empty is a partition that keeps
// nothing, or has not written anything since it began to.
type keptList []kept

func (l keptList) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	for _, k := range l {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.max)))
		dst = append(dst, k.max...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(k.after))
	}
	return dst
}

func decodeKept(row []byte) (l keptList, err error) {
	const lsnBytes = 8
	damaged := fmt.Errorf("kept %x: %w", row, errMeta)
	if len(row) < 2 || row[0] != metaVersion {
		return nil, damaged
	}
	for rest := row[1:]; len(rest) > 0; {
		if len(rest) < 2 {
			return nil, damaged
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < n+lsnBytes {
			return nil, damaged
		}
		k := kept{max: partitionkey.EPK(rest[:n]), after: resource.LSN(binary.BigEndian.Uint64(rest[n:]))}
		if len(l) > 0 && l[len(l)-1].max.Compare(k.max) >= 0 {
			return nil, damaged
		}
		l, rest = append(l, k), rest[n+lsnBytes:]
	}
	return l, nil
}

// readKept reads the row; an empty list when there is none.
func readKept(r reader) (keptList, error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaKept))
	if err != nil || !found {
		return nil, err
	}
	return decodeKept(row)
}

// at returns the part that has a hashed key.
func (l keptList) at(epk partitionkey.EPK) *kept {
	for i := range l {
		if epk.Compare(l[i].max) < 0 {
			return &l[i]
		}
	}
	return nil
}

// covers reports whether nothing of a range is missing behind a position.
func (l keptList) covers(r partitionkey.Range, after resource.LSN) bool {
	for _, k := range l {
		if r.Min.Compare(k.max) >= 0 {
			continue // before the range
		}
		if after < k.after {
			return false
		}
		if r.Max.Compare(k.max) <= 0 {
			break
		}
	}
	return true
}

// joined are the lists of two neighbours, low and high, that become one partition.
// One that has none has everything behind its last LSN.
func joined(low, high *Partition, lowest, highest parting) keptList {
	var both keptList
	for _, side := range []struct {
		p *Partition
		parting
	}{{low, lowest}, {high, highest}} {
		// A part of a list may reach beyond the range: a split leaves it as it is.
		own := side.p.descriptor.Range
		if len(side.kept) == 0 {
			both = append(both, kept{max: own.Max.Canonical(), after: side.state.lsn})
			continue
		}
		for _, k := range side.kept {
			if own.Min.Compare(k.max) >= 0 {
				continue
			}
			if k.max.Compare(own.Max) >= 0 {
				both = append(both, kept{max: own.Max.Canonical(), after: k.after})
				break
			}
			both = append(both, k)
		}
	}
	return both
}

// keeping is what the writer knows of the complete feed behind all effects on
// their way.
type keeping struct {
	known bool
	list  keptList
	rows  bool         // there may be rows from front on
	front resource.LSN // nothing is left before it
	next  int64        // the row at the front is not older than that
}

// remember notes a change for the complete feed, when the container keeps it.
func (tx *transaction) remember(op *operation, before *current, v version) {
	if tx.retention == 0 || tx.w != &tx.p.writer {
		return
	}
	e := revision{change: replaced, ts: v.ts, epkSize: len(tx.epk), current: op.row, previous: before.row}
	key := op.newKey()
	switch {
	case op.row == nil:
		e.change, key = deleted, op.oldKey()
		if tx.horizon.expired(&before.document) {
			e.change = expired
		}
	case !before.exists:
		e.change, e.previous = created, nil
	}
	e.suffix = []byte(key)[1:]
	tx.revisions = append(tx.revisions, remembered{seq: v.seq, row: e.append(nil)})
}

// dropMax is how many rows of the complete feed a write takes away for each that
// it adds, and beyond that: what is over is gone after half as many writes.
const dropMax = 2

// complete writes the entries of a transaction, and takes away some whose time is
// over. The result is what the writer knows behind it.
func (b *builder) complete(tx *transaction) keeping {
	k := b.writer.keeping
	retention := tx.retention
	if retention == 0 && len(k.list) == 0 && !k.rows {
		return k
	}
	before := k.list
	switch {
	case retention == 0:
		k.list = nil
	default:
		k.list = tx.p.keptBefore(k.list, tx.next.lsn)
	}
	if k.rows && (retention == 0 || k.next < tx.over) {
		b.check(b.drop(tx, &k, tx.over, retention == 0))
	}
	if retention > 0 {
		for _, e := range tx.revisions {
			w := b.writer
			w.key = storage.CompleteKey(w.key[:0], uint64(tx.next.lsn), tx.p.descriptor.Ordinal, e.seq)
			b.check(b.batch.Set(w.key, e.row))
		}
		if !k.rows {
			k.rows, k.next = true, tx.next.ts
		}
	}
	b.kept(before, k.list)
	return k
}

// keptBefore returns the list behind an effect of a container that keeps all
// versions: the first such effect begins it, whatever it changes, or a reader at
// the LSN in front of it would seem to be too late.
func (p *Partition) keptBefore(list keptList, lsn resource.LSN) keptList {
	if len(list) > 0 {
		return list
	}
	return keptList{{max: p.descriptor.Range.Max.Canonical(), after: lsn - 1}}
}

// drop takes rows away at the front of the complete feed, and says in k how far
// it has come.
func (b *builder) drop(tx *transaction, k *keeping, horizon int64, all bool) (err error) {
	most := dropMax * (1 + int(tx.versions))
	list := append(keptList(nil), k.list...)
	rows := tx.now.snapshot.Iter(storage.CompleteBounds(uint64(k.front)))
	defer func() { err = errors.Join(err, rows.Close()) }()
	gone := 0
	var last resource.LSN
	for valid := rows.First(); valid; valid = rows.Next() {
		at, _, _, err := storage.DecodeCompleteKey(rows.Key())
		if err != nil {
			return err
		}
		e, err := decodeRevision(rows.Value())
		if err != nil {
			return err
		}
		// What one LSN has brought goes together, since a list knows only LSNs.
		if !all && e.ts >= horizon || gone >= most && resource.LSN(at) != last {
			k.front, k.next, k.list = resource.LSN(at), e.ts, list
			return nil
		}
		if err := b.batch.Delete(rows.Key()); err != nil {
			return err
		}
		if part := list.at(partitionkey.EPK(e.suffix[:e.epkSize])); part != nil && tx.p.within(e.suffix) {
			part.after = max(part.after, resource.LSN(at))
		}
		last = resource.LSN(at)
		gone++
	}
	// Effects on their way may have brought more, not older than the last second
	// or so.
	k.front, k.next, k.list = tx.now.lsn+1, tx.now.ts, list
	k.rows = tx.next.lsn > tx.now.lsn+1
	return nil
}

// kept writes the row that says behind which LSNs nothing is missing, if it
// differs.
func (b *builder) kept(before, after keptList) {
	w := b.writer
	w.key = storage.MetaKey(w.key[:0], metaKept)
	if len(after) == 0 {
		if len(before) > 0 {
			b.check(b.batch.Delete(w.key))
		}
		return
	}
	w.cell = after.append(w.cell[:0])
	if len(before) == 0 || !bytes.Equal(w.cell, before.append(nil)) {
		b.check(b.batch.Set(w.key, w.cell))
	}
}

// knowKept finds out what the complete feed has, when the writer does not know.
func (p *Partition) knowKept(now *published) error {
	k := &p.writer.keeping
	if k.known {
		return nil
	}
	list, err := readKept(now.snapshot)
	if err != nil {
		return err
	}
	rows := now.snapshot.Iter(storage.FamilyComplete.Bounds())
	found := rows.First()
	if err := rows.Close(); err != nil {
		return err
	}
	*k = keeping{known: true, list: list, rows: found}
	return nil
}

// complete reads the entries behind the position.
func (r *feedReader) complete(ctx context.Context) (err error) {
	s := r.source
	retention := s.p.config.Container().Retention
	if retention == 0 {
		return status.BadRequest("The container does not keep all versions of its documents. Set changeFeedPolicy.retentionDuration, and begin at now.")
	}
	if r.ask.Now {
		return nil
	}
	list, err := readKept(s.now.snapshot)
	if err != nil {
		return err
	}
	if len(list) == 0 && r.reached < s.now.lsn || !list.covers(s.clip, r.reached) {
		return tooOld(r.reached)
	}
	if r.reached == ^resource.LSN(0) {
		return nil
	}
	horizon := s.p.config.Certain().Add(-retention).Unix()
	rows := s.now.snapshot.Iter(storage.CompleteBounds(uint64(r.reached) + 1))
	defer func() { err = errors.Join(err, rows.Close()) }()
	for valid := rows.First(); valid; valid = rows.Next() {
		lsn, _, _, err := storage.DecodeCompleteKey(rows.Key())
		if err != nil {
			return s.damaged(err)
		}
		if more, err := r.begin(ctx, resource.LSN(lsn)); err != nil || !more {
			return err
		}
		e, err := decodeRevision(rows.Value())
		if err != nil {
			return s.damaged(err)
		}
		if !s.has(&e) {
			continue
		}
		if r.last == 0 && e.ts < horizon {
			return tooOld(r.ask.After)
		}
		if more, err := r.tell(&e, resource.LSN(lsn)); err != nil || !more {
			return err
		}
	}
	return nil
}

// tooOld refuses a position in front of what is kept.
func tooOld(at resource.LSN) error {
	return status.BadRequest("The change feed of all versions no longer has what comes behind %d: it is older than changeFeedPolicy.retentionDuration, or was not kept. Begin at now.", at)
}

// has reports whether an entry is of the clip. Those of neighbours may be here
// since a split.
func (s *source) has(e *revision) bool {
	return s.p.within(e.suffix) && s.holds(e.suffix, &document{epkSize: e.epkSize})
}

// within reports whether a document with that row key behind the family is the
// partition's.
func (p *Partition) within(suffix []byte) bool {
	return bytes.Compare(suffix, p.low) >= 0 && bytes.Compare(suffix, p.high) < 0
}

// tell puts an entry on the page, unless it begins the next one.
func (r *feedReader) tell(e *revision, lsn resource.LSN) (more bool, err error) {
	body, size, err := r.source.p.render.revision(e, lsn, r.source.p.descriptor.Key)
	if err != nil {
		return false, r.source.damaged(err)
	}
	if (r.ask.Begun || len(r.page.Documents) > 0) && r.ask.MaxBytes > 0 && r.bytes+len(body) > r.ask.MaxBytes && lsn != r.last {
		r.page.More = true
		r.reached = lsn - 1
		return false, nil
	}
	r.page.Documents = append(r.page.Documents, body)
	r.bytes += len(body)
	r.last = lsn
	r.ask.Meter.Add(throughput.Read(size))
	return true, nil
}

// revision returns the JSON of a change, and how many bytes of documents are in it.
func (r *renderer) revision(e *revision, lsn resource.LSN, key partitionkey.Definition) (body []byte, size int, err error) {
	dst := make([]byte, 0, len(e.current)+len(e.previous)+512)
	dst = append(dst, '{')
	var previous document
	for _, image := range []struct {
		name string
		row  []byte
	}{{`"current":`, e.current}, {`"previous":`, e.previous}} {
		if len(image.row) == 0 {
			continue
		}
		d, err := decodeDocument(image.row)
		if err != nil {
			return nil, 0, err
		}
		dst = append(r.append(append(dst, image.name...), &d), ',')
		size += len(d.body)
		previous = d // The last one is the previous, if there is one.
	}
	dst = append(dst, `"metadata":{"lsn":`...)
	dst = strconv.AppendUint(dst, uint64(lsn), 10)
	dst = append(dst, `,"crts":`...)
	dst = strconv.AppendInt(dst, e.ts, 10)
	dst = append(dst, `,"operationType":"`...)
	dst = append(dst, changeNames[e.change]...)
	dst = append(dst, '"')
	if e.change != created {
		dst = append(dst, `,"previousImageLSN":`...)
		dst = strconv.AppendUint(dst, uint64(previous.lsn), 10)
	}
	if e.change == expired {
		dst = append(dst, `,"timeToLiveExpired":true`...)
	}
	if e.change >= deleted {
		doc, err := value.Parse(previous.body)
		if err != nil {
			return nil, 0, err
		}
		dst = append(dst, `,"id":`...)
		dst = value.String(string(e.suffix[e.epkSize+storage.HashBytes:])).Append(dst)
		dst = append(dst, `,"partitionKey":`...)
		dst = keyOf(key, doc).Append(dst)
	}
	return append(dst, "}}"...), size, nil
}

// keyOf returns the members of a document that its partition key is made of, by
// the paths without their first slash.
func keyOf(key partitionkey.Definition, doc value.Value) value.Value {
	var members []value.Member
	for _, path := range key.Paths {
		names, _ := resource.ParsePropertyPath(path)
		at := make(value.Path, len(names))
		for i, name := range names {
			at[i].Name = name
		}
		if v := doc.At(at); v.Kind() != value.KindUndefined {
			members = append(members, value.Member{Name: path[1:], Value: v})
		}
	}
	return value.Object(members)
}

// complete looks for changes that cannot be read, or that the partition has not
// come to.
func (c *checker) complete() error {
	return c.each(storage.FamilyComplete, func(key, row []byte) error {
		lsn, _, _, err := storage.DecodeCompleteKey(key)
		if err == nil {
			_, err = decodeRevision(row)
		}
		if err != nil || lsn == 0 || resource.LSN(lsn) > c.state.lsn {
			c.report.problem("The change %x cannot be read, or is ahead of LSN %d.", key, c.state.lsn)
		}
		return nil
	})
}

// revision verifies that the last change of a document is in the complete feed,
// where that has everything.
func (c *checker) revision(d *document, epk partitionkey.EPK) error {
	if part := c.kept.at(epk); part == nil || d.lsn <= part.after {
		return nil
	}
	c.key = storage.CompleteKey(c.key[:0], uint64(d.lsn), d.ordinal, d.seq)
	found, err := c.snapshot.View(c.key, func(row []byte) error {
		e, err := decodeRevision(row)
		if err != nil || len(e.current) == 0 {
			c.report.problem("The last change of document %d cannot be read: %v.", d.number, err)
			return nil
		}
		last, err := decodeDocument(e.current)
		if err != nil || last.version != d.version || !bytes.Equal(last.body, d.body) {
			c.report.problem("The last change of document %d is %+v, not %+v.", d.number, last.version, d.version)
		}
		return nil
	})
	if err == nil && !found {
		c.report.problem("The last change of document %d is not in the complete feed.", d.number)
	}
	return err
}
