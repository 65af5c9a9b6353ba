package scan

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
)

// complete fills the page with changes of the complete feed.
func (r *feedReader) complete(ctx context.Context) (err error) {
	s := r.source
	retention := s.r.container().Retention
	if retention == 0 {
		return status.BadRequest("The container does not keep all versions of its documents. Set changeFeedPolicy.retentionDuration, and begin at now.")
	}
	if r.ask.Now {
		return nil
	}
	list, err := layout.ReadKept(s.now.Rows)
	if err != nil {
		return err
	}
	if len(list) == 0 && r.reached < s.now.LSN || !list.Covers(s.clip, r.reached) {
		return tooOld(r.reached)
	}
	if r.reached == ^resource.LSN(0) {
		return nil
	}
	horizon := s.r.certain().Add(-retention).Unix()
	rows := s.now.Rows.Iter(storage.CompleteBounds(uint64(r.reached) + 1))
	defer func() { err = errors.Join(err, rows.Close()) }()
	for valid := rows.First(); valid; valid = rows.Next() {
		lsn, _, _, err := storage.DecodeCompleteKey(rows.Key())
		if err != nil {
			return s.damaged(err)
		}
		if more, err := r.begin(ctx, resource.LSN(lsn)); err != nil || !more {
			return err
		}
		e, err := layout.DecodeRevision(rows.Value())
		if err != nil {
			return s.damaged(err)
		}
		if !s.has(&e) {
			continue
		}
		if r.last == 0 && e.TS < horizon {
			return tooOld(r.ask.After)
		}
		if more, err := r.emit(&e, resource.LSN(lsn)); err != nil || !more {
			return err
		}
	}
	return nil
}

// tooOld is the error of a position before the oldest change that is kept.
func tooOld(at resource.LSN) error {
	return status.BadRequest("The change feed of all versions does not have all changes after %d any more: some are older than changeFeedPolicy.retentionDuration, or were not kept. Begin at now.", at)
}

// has reports whether a change is of the clip. After a split there can be changes of
// the other child.
func (s *Source) has(e *layout.Revision) bool {
	return s.r.own.Within(e.Suffix) && s.holds(e.Suffix, &layout.Document{EPKSize: e.EPKSize})
}

// emit adds a change to the page, unless it begins the next page.
func (r *feedReader) emit(e *layout.Revision, lsn resource.LSN) (more bool, err error) {
	body, size, err := r.source.r.own.Render.Revision(e, lsn, r.source.r.own.Key, r.source.r.container().ReplacedImages)
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
