package statement

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/batchlog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// writing is a write or a batch with its values.
type writing struct {
	session *door.Session
	schema  *schema
	changes []*table.KeyChange // one for each partition key of each table
	logged  bool
}

// change is a change of table as the partition evaluates it.
type change struct {
	*table.KeyChange
	of    *Processor
	table resource.RID
	later bool // the answer does not wait for the materialized views
}

// Evaluate implements partition.Change. It takes the views as they are now, not as the
// statement was compiled: a view that is built meanwhile relies on every later evaluation.
func (c change) Evaluate(i partition.Items) error {
	now, err := c.of.schema()
	if err != nil {
		return err
	}
	c.Projections = nil
	if v := now.viewed[c.table]; v != nil {
		c.Projections = v.Projections
	}
	err = c.KeyChange.Evaluate(deletions{i})
	if c.later && c.Projected {
		c.of.views.Later(c.table, c.Key)
	}
	return err
}

// deletions words the error of deletions of ranges that are too many for one partition key.
type deletions struct{ partition.Items }

// Put implements partition.Items.
func (d deletions) Put(item string, body []byte, due int64) error {
	err := d.Items.Put(item, body, due)
	if item == table.MetaItem && status.CodeOf(err) == status.CodeTooLarge {
		return &table.Error{Text: fmt.Sprintf("The deletions of ranges of one partition key need %d bytes, more than a row may have: delete larger ranges or the partition, or wait for gc_grace_seconds", len(body))}
	}
	return err
}

// write carries out changes. Those of one partition key are one effect, and all of a
// logged batch are made in the end, or none. result makes the result of a conditional
// write.
func (p *Processor) write(ctx context.Context, w *writing, result func(*table.KeyChange) ([]table.ResultColumn, []byte, int, error)) (*door.Result, error) {
	spent, err := p.carryOut(ctx, w)
	if err != nil {
		p.settleLater(w)
		return nil, err
	}
	written := spent
	settled, err := p.settle(ctx, w)
	spent.Add(settled)
	if settled.Charge > 0 {
		door.TraceEventf(ctx, "Updated materialized views in physical partitions %s: %.2f RU", visitedText(settled.Partitions), settled.Charge)
	}
	if err != nil {
		return nil, err
	}
	done := &door.Result{Charge: spent.Charge, Payload: visited(spent.Partitions), Warnings: p.warnOfSize(w, written)}
	if len(w.changes) != 1 || !w.changes[0].Conditional() {
		return done, nil
	}
	one := w.changes[0]
	if one.ShowsFirst() {
		read, err := p.readFirst(ctx, w, one)
		if err != nil {
			return nil, err
		}
		done.Charge += read.Charge
	}
	columns, cells, count, err := result(one)
	if err != nil {
		return nil, err
	}
	done.Rows = &door.Rows{Columns: door.ColumnsOf(door.Table{Keyspace: one.Table.Keyspace, Name: one.Table.Name}, columns), Count: count, Cells: cells}
	return done, nil
}

// readFirst reads the first row of a partition, which the result of a change shows. Another
// write may have changed it after the conditions were evaluated.
func (p *Processor) readFirst(ctx context.Context, w *writing, c *table.KeyChange) (engine.ItemsResult, error) {
	source := &items{engine: p.config.Engine, caller: w.session.Caller, table: w.schema.ridOf(c.Table), level: resource.Strong, retries: p.retries()}
	err := c.ReadFirst(ctx, source)
	return source.spent, err
}

// carryOut makes the changes. Its errors have the type of the write.
func (p *Processor) carryOut(ctx context.Context, w *writing) (engine.ItemsResult, error) {
	if w.logged && len(w.changes) > 1 {
		return p.writeLogged(ctx, w)
	}
	kind := frame.WriteSimple
	switch {
	case len(w.changes) == 0:
		return engine.ItemsResult{}, nil
	case w.changes[0].Conditional():
		kind = frame.WriteCAS
	case w.changes[0].Table.Counter():
		kind = frame.WriteCounter
	case len(w.changes) > 1:
		kind = frame.WriteUnloggedBatch
	}
	read, err := p.readBefore(ctx, w)
	if err != nil {
		return read, &door.WriteError{Type: kind, Err: err}
	}
	spent, err := p.writeAll(ctx, w)
	spent.Add(read)
	if err != nil {
		return spent, &door.WriteError{Type: kind, Err: err}
	}
	return spent, nil
}

// readBefore settles what changes of several partition keys read before they write: an
// element of a list that does not exist must be found before anything is written.
func (p *Processor) readBefore(ctx context.Context, w *writing) (read engine.ItemsResult, err error) {
	if len(w.changes) < 2 || !slices.ContainsFunc(w.changes, (*table.KeyChange).ReadsLists) {
		return read, nil
	}
	for _, c := range w.changes {
		if c.Table.Counter() {
			continue
		}
		spent, err := p.settleChange(ctx, w, c)
		read.Add(spent)
		if err != nil {
			return read, err
		}
	}
	return read, nil
}

// settleChange settles a change, and returns what it has read for that.
func (p *Processor) settleChange(ctx context.Context, w *writing, c *table.KeyChange) (engine.ItemsResult, error) {
	source := &items{engine: p.config.Engine, caller: w.session.Caller, table: w.schema.ridOf(c.Table), level: resource.Eventual, retries: p.retries()}
	err := c.Settle(ctx, source, p.sequence)
	return source.spent, err
}

// writeAll makes changes that do not depend on each other. It returns one of their
// errors.
func (p *Processor) writeAll(ctx context.Context, w *writing) (spent engine.ItemsResult, err error) {
	left := p.requests(w)
	return spent, p.retries().retry(ctx, func() error {
		done, errs := p.config.Engine.WriteAllItems(ctx, w.session.Caller, left)
		spent.Add(done)
		wrote(ctx, w, len(left), done)
		var refused []engine.WriteItemsRequest
		var over error
		for i, err := range errs {
			switch {
			case status.CodeOf(err) == status.CodeTooManyRequests:
				refused, over = append(refused, left[i]), err
			case err != nil:
				return err
			}
		}
		left = refused
		return over
	})
}

func (p *Processor) requests(w *writing) []engine.WriteItemsRequest {
	all := make([]engine.WriteItemsRequest, len(w.changes))
	for i, c := range w.changes {
		rid := w.schema.ridOf(c.Table)
		all[i] = engine.WriteItemsRequest{Table: rid, Key: c.Key, Change: change{KeyChange: c, of: p, table: rid}}
	}
	return all
}

// writeLogged carries out a logged batch of several partition keys.
func (p *Processor) writeLogged(ctx context.Context, w *writing) (engine.ItemsResult, error) {
	record, read, err := p.record(ctx, w)
	if err != nil {
		return read, err
	}
	door.TraceEventf(ctx, "Recording a logged batch of %d partition keys", len(w.changes))
	spent, err := p.batches.Write(ctx, w.session.Caller, record, p.requests(w))
	wrote(ctx, w, len(w.changes), spent)
	spent.Add(read)
	if err != nil {
		err = loggedError(err)
	}
	return spent, err
}

// record settles the changes of a logged batch, and returns its record and what it has
// read for that.
func (p *Processor) record(ctx context.Context, w *writing) (record []byte, read engine.ItemsResult, err error) {
	record = binary.AppendUvarint([]byte{recordVersion}, uint64(len(w.changes)))
	for _, c := range w.changes {
		rid := w.schema.ridOf(c.Table)
		spent, err := p.settleChange(ctx, w, c)
		read.Add(spent)
		if err != nil {
			return nil, read, err
		}
		record = appendPart(appendPart(record, []byte(rid)), c.Append(nil))
	}
	return record, read, nil
}

// loggedError words the error of a logged batch. Clients may repeat one that was perhaps
// not recorded. One that was recorded is finished later, whatever has failed.
func loggedError(err error) error {
	failed, code := (*batchlog.Error)(nil), status.CodeOf(err)
	if !errors.As(err, &failed) {
		return err
	}
	kind := frame.WriteBatchLog
	switch {
	case !failed.Recorded && code == status.CodeTooLarge:
		return &table.Error{Text: "Batch too large"}
	case !failed.Recorded && code != status.CodeUnavailable && code != status.CodeRequestTimeout:
		return &door.WriteError{Type: kind, Err: failed.Err}
	case failed.Recorded:
		kind = frame.WriteBatch
		if code == status.CodeTooLarge || code == status.CodeForbidden {
			return &door.WriteError{Type: kind, Err: failed.Err}
		}
	}
	timeout := status.New(status.CodeRequestTimeout, 0, "The batch was not finished in time.")
	timeout.Cause = failed.Err
	return &door.WriteError{Type: kind, Err: timeout}
}

// sequence returns a number for places in lists, which rises like the clock.
func (p *Processor) sequence() int64 {
	for {
		last := p.places.Load()
		next := max(last+1, p.config.Now().UnixMicro())
		if p.places.CompareAndSwap(last, next) {
			return next
		}
	}
}

// The record of a logged batch, version 1: version, number of changes, and of each the
// container and the encoded change, each with its length.
const recordVersion = 1

func appendPart(dst, part []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}

var errRecord = errors.New("the record of a batch is corrupt")

// recorded returns the writes of a record. It leaves out those of tables that were dropped
// or truncated, and those that may bring back what was deleted after them.
func (p *Processor) recorded(record []byte) (writes []engine.WriteItemsRequest, err error) {
	now, err := p.schema()
	if err != nil {
		return nil, err
	}
	if len(record) == 0 || record[0] != recordVersion {
		return nil, errRecord
	}
	rest := record[1:]
	count, used := binary.Uvarint(rest)
	if used <= 0 {
		return nil, errRecord
	}
	rest = rest[used:]
	part := func() []byte {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			err = errRecord
			return nil
		}
		one := rest[used : used+int(n)]
		rest = rest[used+int(n):]
		return one
	}
	for ; count > 0; count-- {
		rid, encoded := part(), part()
		if err != nil {
			return nil, err
		}
		t := now.tableOf(resource.RID(rid))
		if t == nil {
			continue
		}
		c, err := table.DecodeKeyChange(t, encoded)
		if err != nil {
			return nil, err
		}
		if !c.Stale(p.config.Now().Unix()) {
			writes = append(writes, engine.WriteItemsRequest{Table: resource.RID(rid), Key: c.Key, Change: change{KeyChange: c, of: p, table: resource.RID(rid), later: true}})
		}
	}
	if len(rest) > 0 {
		return nil, errRecord
	}
	return writes, nil
}
