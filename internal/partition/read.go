package partition

import (
	"bytes"
	"context"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Read asks for one document.
type Read struct {
	Generation resource.Generation // of the partition as the caller knows it

	Key partitionkey.Key // full
	EPK partitionkey.EPK // its hash
	ID  string

	// IfNoneMatch is the etag of the version that the caller has. The error is
	// NotModified if it is current; AnyETag is always current.
	IfNoneMatch resource.ETag

	// Session is the LSN that the caller has seen; zero for none.
	Session resource.LSN

	Meter *throughput.Meter // receives the charge
}

// Found is the result of a Read.
type Found struct {
	Body []byte // complete JSON, which belongs to the caller
	ETag resource.ETag
	LSN  resource.LSN // of the state that was read; set with an error as well

	ItemLSN resource.LSN // of the effect that wrote the document; zero if there is none
	Totals  Totals       // of the state that was read
}

// Read returns a document from the published state. It takes one look-up and one
// allocation for the body, and parses nothing. Errors are *status.Error: NotFound,
// NotModified, SessionNotAvailable, PartitionMoved and Unavailable.
func (p *Partition) Read(ctx context.Context, r Read) (Found, error) {
	if err := ctx.Err(); err != nil {
		return Found{LSN: p.LSN()}, timedOut(ctx, "The read was not begun in time.")
	}
	now, err := p.acquire()
	if err != nil {
		return Found{}, err
	}
	defer p.release(now)
	p.served.reads.Add(1)
	found := Found{LSN: now.LSN, Totals: Totals{Items: now.Items, Bytes: now.Bytes}}
	if err := p.admit(r.Generation, r.Key, r.EPK); err != nil {
		return found, err
	}
	if r.Session > now.LSN {
		return found, status.SessionNotAvailable()
	}

	var keyRoom, rowRoom [128]byte
	key := r.Key.AppendCanonical(keyRoom[:0], p.own.Key)
	rowKey := storage.DocumentKey(rowRoom[:0], r.EPK, layout.KeyHash(key), r.ID)
	hidden := p.reader.Horizon(&now.Snapshot)
	exists, err := now.Rows.View(rowKey, func(row []byte) error {
		return p.answer(&found, &r, key, row, &hidden)
	})
	switch {
	case err != nil && status.From(err) == nil:
		return Found{LSN: now.LSN}, fmt.Errorf("read document in partition %v: %w", p.config.Ref, err)
	case err != nil:
		return found, err
	case !exists:
		r.Meter.Add(throughput.Miss)
		return found, status.NotFound()
	}
	return found, nil
}

// answer sets the result from a document row.
func (p *Partition) answer(found *Found, r *Read, key, row []byte, hidden *layout.Horizon) error {
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return err
	}
	if !bytes.Equal(d.Key, key) || hidden.Hides(&d) {
		r.Meter.Add(throughput.Miss)
		return status.NotFound() // It is hidden, or of another key with the same hashes.
	}
	found.ETag, found.ItemLSN = layout.ETagOf(d.ETag), d.LSN
	if r.IfNoneMatch == AnyETag || r.IfNoneMatch != "" && r.IfNoneMatch == found.ETag {
		r.Meter.Add(throughput.NotModified)
		return status.New(status.CodeNotModified, 0, "The document has not changed.")
	}
	found.Body = p.own.Render.Complete(&d)
	r.Meter.Add(throughput.Read(len(d.Body)))
	return nil
}
