package partition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// locked runs operations on the documents of one key in a locked transaction.
func (w *world) locked(ctx context.Context, key partitionkey.Key, meter *throughput.Meter, work func(*LockedTransaction) error) (Committed, error) {
	return w.partition.Load().Transact(ctx, Transact{Generation: w.own.Generation, Key: key, EPK: w.container.Load().PartitionKey.Hash(key), Meter: meter}, work)
}

func (w *world) keyOf(pk string) partitionkey.Key {
	return w.container.Load().KeyOf(w.parse(fmt.Sprintf(`{"pk":%q}`, pk)))
}

// put creates a document in a LockedTransaction.
func (w *world) put(h *LockedTransaction, doc string) error {
	_, err := h.Do(context.Background(), Operation{Op: Create, Document: w.parse(doc)})
	return err
}

// verify checks what is stored.
func (w *world) verify(t *testing.T) {
	t.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	report, err := check.Run(snapshot, w.container.Load())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%v, %q", err, report.Problems)
	}
}

// TestTransactKeepsItsKey locks a key for a long time: other keys are written, reads of
// the key do not see its changes, and a write of the key waits for its end.
func TestTransactKeepsItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	behind := make(chan error, 1)
	committed, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if err := w.put(h, `{"id":"x","pk":"p"}`); err != nil {
			return err
		}
		go func() {
			_, err := w.write(Create, w.parse(`{"id":"x","pk":"p"}`), nil)
			behind <- err
		}()
		for i := range 20 {
			if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","pk":"q"}`, i)), nil); err != nil {
				return err
			}
		}
		if _, err := w.read(w.keyOf("p"), "x", nil); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("a reader gets %v", err)
		}
		// Another write of the key gives up waiting, and has had no effect.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.writeContext(gone, Create, w.parse(`{"id":"y","pk":"p"}`), nil); status.CodeOf(err) != status.CodeRequestTimeout {
			t.Errorf("who gives up gets %v", err)
		}
		return nil
	})
	if err != nil || committed.LSN != 21 {
		t.Errorf("LSN %d, %v", committed.LSN, err)
	}
	if err := <-behind; status.CodeOf(err) != status.CodeConflict {
		t.Errorf("the write behind it gets %v", err)
	}
	if _, err := w.read(w.keyOf("p"), "y", nil); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("the write that was given up left %v", err)
	}
	w.verify(t)
}

// TestTransactOrder has several transactions lock one key, one after another. Each adds
// one to the result of the previous one.
func TestTransactOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	if _, err := w.write(Create, w.parse(`{"id":"x","pk":"p","n":0}`), nil); err != nil {
		t.Fatal(err)
	}
	const clients, rounds = 8, 10
	failed := make(chan error, clients)
	for range clients {
		go func() {
			var err error
			for range rounds {
				_, one := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
					old, err := h.Do(t.Context(), Operation{Op: Fetch, ID: "x"})
					if err != nil {
						return err
					}
					n, _ := w.parse(string(old.Body)).Get("n").Int64()
					_, err = h.Do(t.Context(), Operation{Op: Replace, ID: "x", Document: w.parse(fmt.Sprintf(`{"id":"x","pk":"p","n":%d}`, n+1)), IfMatch: old.ETag})
					return err
				})
				err = errors.Join(err, one)
			}
			failed <- err
		}()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	found, err := w.read(w.keyOf("p"), "x", nil)
	if err != nil || !strings.Contains(string(found.Body), fmt.Sprintf(`"n":%d,`, clients*rounds)) {
		t.Errorf("%s, %v", found.Body, err)
	}
	if p := w.partition.Load(); p.intake.locks.holders != 0 || p.intake.locks.parked != 0 || len(p.intake.locks.byKey) != 0 {
		t.Errorf("%d holders, %d parked, locks %v", p.intake.locks.holders, p.intake.locks.parked, p.intake.locks.byKey)
	}
	w.verify(t)
}

// TestTransactAllOrNothing shows that a transaction that fails or panics has no effect,
// and that an acknowledged one survives a power failure.
func TestTransactAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	stop := errors.New("stop")
	for i := range 6 {
		_, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
			for j := range 3 {
				if err := w.put(h, fmt.Sprintf(`{"id":"%d-%d","pk":"p"}`, i, j)); err != nil {
					return err
				}
			}
			if i%2 == 1 {
				return stop
			}
			return nil
		})
		if i%2 == 1 != errors.Is(err, stop) {
			t.Errorf("%d: %v", i, err)
		}
	}
	// After a crash only the acknowledged documents exist.
	if err := w.crash(0.5, 1); err != nil {
		t.Fatal(err)
	}
	rows, _, err := w.rows("SELECT VALUE c.id FROM c", partitionkey.Full(), 100, nil)
	if got := strings.Join(rows, " "); err != nil || got != `"0-0" "0-1" "0-2" "2-0" "2-1" "2-2" "4-0" "4-1" "4-2"` {
		t.Errorf("%s, %v", got, err)
	}
	w.verify(t)
}

// TestTransactLimits writes the maximum number of versions of a transaction, and one
// more.
func TestTransactLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"indexingMode":"none"}`))
	var meter throughput.Meter
	_, err := w.locked(t.Context(), w.keyOf("p"), &meter, func(h *LockedTransaction) error {
		for i := range versionsMax {
			if room := h.Room(); room != versionsMax-i {
				t.Fatalf("room for %d behind %d", room, i)
			}
			if err := w.put(h, fmt.Sprintf(`{"id":"%d","pk":"p"}`, i)); err != nil {
				return err
			}
		}
		if err := w.put(h, `{"id":"more","pk":"p"}`); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("one more: %v", err)
		}
		return nil
	})
	if err != nil || meter.Charge() < versionsMax {
		t.Errorf("%v, charge %v", err, meter.Charge())
	}
	w.verify(t)
}

// TestTransactWhileClosing closes a partition with a locked key: neither the
// transaction nor a write that waits for the key has an effect.
func TestTransactWhileClosing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	p := w.partition.Load()
	closed, behind := make(chan error, 1), make(chan error, 1)
	_, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if err := w.put(h, `{"id":"x","pk":"p"}`); err != nil {
			return err
		}
		go func() {
			_, err := w.write(Create, w.parse(`{"id":"y","pk":"p"}`), nil)
			behind <- err
		}()
		for parked := 0; parked == 0; {
			p.intake.mu.Lock()
			parked = p.intake.locks.parked
			p.intake.mu.Unlock()
		}
		go func() { closed <- p.Close() }()
		for isClosed := false; !isClosed; {
			p.intake.mu.Lock()
			isClosed = p.intake.closed
			p.intake.mu.Unlock()
		}
		return nil
	})
	for who, err := range map[string]error{"the work": err, "who waits": <-behind} {
		if status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("%s gets %v", who, err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestSettle puts final etags and times into texts.
func TestSettle(t *testing.T) {
	t.Parallel()
	given := layout.Version{LSN: 1<<63 | 12345, Ordinal: 2, TS: 999_999_999}
	committed := Committed{given: given.TS}
	for i := range 3 {
		committed.final = append(committed.final, layout.Version{LSN: 7, Ordinal: 2, Seq: uint32(i), TS: 1_000_000_000})
	}
	etag := given.NewETag()
	committed.mark = layout.AppendETag(nil, etag)[:markChars]
	text := func(v layout.Version) string { return strings.Trim(string(layout.ETagOf(v.NewETag())), `"`) }
	at := func(seq uint32, lsn resource.LSN, ts int64) string {
		return text(layout.Version{LSN: lsn, Ordinal: 2, Seq: seq, TS: ts})
	}
	for _, c := range []struct{ given, want string }{
		{``, ``},
		{`no etag`, `no etag`},
		{at(2, given.LSN, given.TS), at(2, 7, 1_000_000_000)},
		{`{"a":"` + at(1, given.LSN, given.TS) + layout.TextAttachments + `999999999}`, `{"a":"` + at(1, 7, 1_000_000_000) + layout.TextAttachments + `1000000000}`},
		{at(0, given.LSN, given.TS) + at(1, given.LSN, given.TS), at(0, 7, 1_000_000_000) + at(1, 7, 1_000_000_000)},
		{at(3, given.LSN, given.TS), at(3, given.LSN, given.TS)}, // of no version
		{at(1, 8, given.TS), at(1, 8, given.TS)},                 // of another effect
		{string(committed.mark) + "0000", string(committed.mark) + "0000"},
		{string(committed.mark) + "zzzz-zzzzzzzzzzzz", string(committed.mark) + "zzzz-zzzzzzzzzzzz"},
	} {
		if got := string(committed.Settle([]byte(c.given))); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.given, got, c.want)
		}
	}
}
