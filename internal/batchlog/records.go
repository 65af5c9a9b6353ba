package batchlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// Records are rows of a table of the server, as those of users are: the partition key is
// a random number, the clustering key the position of a part of the record, and the
// columns are the part and, in the first row, the number of parts.
const (
	tableName = "batches"

	rowItems  = "\x02" // the beginning of the name of a row
	rowsEnd   = "\x03"
	keyBytes  = 16
	partBytes = 256 << 10

	columnPart  = 0
	columnParts = 1
)

var positions = row.KeyColumn{Type: row.Native(row.KindInt)}

func newKey() string {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // It never fails.
	return string(key)
}

// change is a change as a function.
type change func(partition.Items) error

// Evaluate implements partition.Change.
func (c change) Evaluate(items partition.Items) error { return c(items) }

// save makes a record durable, with the rights of the caller: who may not write leaves no
// record.
func (l *Log) save(ctx context.Context, caller auth.Caller, key string, record []byte) error {
	if err := l.cfg.step(stepRecord); err != nil {
		return err
	}
	table, err := l.cfg.Engine.SystemTable(ctx, tableName, true)
	if err != nil {
		return err
	}
	parts := slices.Collect(slices.Chunk(record, partBytes))
	_, err = l.cfg.Engine.WriteItems(ctx, caller, engine.WriteItemsRequest{Table: table, Key: key, Change: change(func(items partition.Items) error {
		now := items.Micros()
		for i, part := range parts {
			r := row.Row{Cells: []row.Cell{{Column: columnPart, Timestamp: now, Value: part}}}
			if i == 0 {
				r.Cells = append(r.Cells, row.Cell{Column: columnParts, Timestamp: now, Value: row.Int(int32(len(parts)))})
			}
			if err := items.Put(itemOf(i), r.Append(nil), 0); err != nil {
				return err
			}
		}
		return nil
	})})
	return err
}

func itemOf(position int) string {
	return rowItems + string(positions.AppendKey(nil, row.Int(int32(position))))
}

// remove removes a record.
func (l *Log) remove(ctx context.Context, key string) error {
	if err := l.cfg.step(stepRemove); err != nil {
		return err
	}
	table, err := l.cfg.Engine.SystemTable(ctx, tableName, false)
	if err != nil || table == "" {
		return err
	}
	_, err = l.cfg.Engine.WriteItems(ctx, auth.Owner(), engine.WriteItemsRequest{Table: table, Key: key, Change: change(func(items partition.Items) error {
		for i := 0; ; i++ {
			body, err := items.Get(itemOf(i))
			if err != nil || body == nil {
				return err
			}
			if err := items.Put(itemOf(i), nil, 0); err != nil {
				return err
			}
		}
	})})
	return err
}

// load returns a record, nil if there is none any more.
func (l *Log) load(ctx context.Context, table resource.RID, key string) (record []byte, err error) {
	count, want := 0, 0
	_, err = l.cfg.Engine.ReadItems(ctx, auth.Owner(), engine.ReadItemsRequest{
		Table: table, Key: key, Slices: []partition.Slice{{From: rowItems, To: rowsEnd}},
		Restart: func() { record, count, want = nil, 0, 0 },
		Visit: func(i *partition.Item) (bool, error) {
			r, err := row.DecodeRow(i.Body)
			if err != nil {
				return false, err
			}
			for _, c := range r.Cells {
				switch c.Column {
				case columnPart:
					record = append(record, c.Value...)
				case columnParts:
					if len(c.Value) == 4 {
						want = int(binary.BigEndian.Uint32(c.Value))
					}
				}
			}
			count++
			return true, nil
		},
	})
	if err == nil && count != want {
		err = fmt.Errorf("record of a batch: %d parts of %d", count, want)
	}
	if count == 0 {
		record = nil
	}
	return record, err
}

// keysMax bounds the keys of records that a replay has in memory.
const keysMax = 1 << 10

// keys returns the keys of records after a position that no call is at work on, and the
// position after which more may follow, nil for the end.
func (l *Log) keys(ctx context.Context, table resource.RID, after []byte) (found []string, next []byte, err error) {
	all := map[string]bool{}
	_, err = l.cfg.Engine.ReadItems(ctx, auth.Owner(), engine.ReadItemsRequest{
		Table: table, Range: partitionkey.Full(), After: after,
		Visit: func(i *partition.Item) (bool, error) {
			if key := string(i.Key); !l.isActive(key) {
				all[key] = true
			}
			if len(all) == keysMax {
				next = bytes.Clone(i.Position)
			}
			return next == nil, nil
		},
	})
	return slices.Sorted(maps.Keys(all)), next, err
}

// retryMax is the longest pause between two attempts to finish batches.
const retryMax = time.Minute

// replays finishes interrupted batches until the log is closed.
func (l *Log) replays() {
	pause := l.cfg.Retry
	for {
		left, err := l.replay(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		if err != nil {
			l.cfg.Logger.Warn("batches not finished, will retry", "in", pause, "error", err)
		}
		if left == 0 && err == nil {
			pause = l.cfg.Retry
			select {
			case <-l.wake:
			case <-l.ctx.Done():
				return
			}
		}
		if pacing.Sleep(l.ctx, pause) != nil {
			return
		}
		if left > 0 || err != nil {
			pause = min(2*pause, retryMax)
		}
	}
}

// replay finishes interrupted batches, and returns the number of those that are left.
func (l *Log) replay(ctx context.Context) (left int, err error) {
	table, err := l.cfg.Engine.SystemTable(ctx, tableName, false)
	if err != nil || table == "" {
		return 0, err
	}
	var after []byte
	for {
		keys, next, err := l.keys(ctx, table, after)
		if err != nil {
			return left, err
		}
		for _, key := range keys {
			done, err := l.finish(ctx, table, key)
			if err != nil {
				l.cfg.Logger.Warn("batch not finished, will retry", "batch", fmt.Sprintf("%x", key), "error", err)
			}
			if !done {
				left++
			}
		}
		if after = next; after == nil {
			return left, nil
		}
	}
}

// finish makes the changes of a batch again, and removes its record.
func (l *Log) finish(ctx context.Context, table resource.RID, key string) (done bool, err error) {
	record, err := l.load(ctx, table, key)
	if err != nil || record == nil {
		return err == nil, err
	}
	writes, err := l.cfg.Decode(record)
	if err != nil {
		return false, err
	}
	_, errs := l.cfg.Engine.WriteAllItems(ctx, auth.Owner(), writes)
	var kept []error
	for i, err := range errs {
		switch status.CodeOf(err) {
		case status.CodeNotFound, status.CodeBadRequest, status.CodeTooLarge:
			// It will not succeed later: the table was dropped, or the row is full.
			l.cfg.Logger.Warn("change of a batch discarded", "batch", fmt.Sprintf("%x", key), "container", writes[i].Table, "error", err)
		default:
			kept = append(kept, err)
		}
	}
	if err := errors.Join(kept...); err != nil {
		return false, err
	}
	return true, l.remove(ctx, key)
}
