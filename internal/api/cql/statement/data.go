package statement

import (
	"context"
	"crypto/sha256"
	"strconv"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// prepareData compiles a SELECT, a write or a batch.
func (p *Processor) prepareData(now *schema, parsed cql.Parsed, keyspace, text string) (*door.Statement, error) {
	prepared, err := now.system.Prepare(parsed, keyspace)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(keyspace + "\x00" + text))
	s := door.StatementOf(parsed, prepared)
	own := &plan{parsed: parsed, prepared: prepared, tables: now.refs(prepared.Tables), id: sum[:], result: s.Result}
	if prepared.Reads() {
		own.id = append(own.id, prepared.Tables[0].ID[:]...)
	}
	s.Plan = own
	if prepared.Reads() && now.ridOf(prepared.Tables[0]) == "" {
		s.Permission, s.On = "", "" // Everyone may read the system tables.
	}
	return s, nil
}

// executeData runs a SELECT, a write or a batch.
func (p *Processor) executeData(ctx context.Context, session *door.Session, now *schema, own *plan, r *door.Request) (*door.Result, error) {
	if !now.has(own.tables) {
		return nil, door.ErrStale
	}
	moment := p.moment(r.Parameters)
	if own.prepared.Reads() {
		if err := checkRead(r.Parameters); err != nil {
			return nil, err
		}
		return p.read(ctx, session, now, own, r, moment)
	}
	changes, err := own.prepared.Changes(door.ValuesOf(r.Values), moment, timestampOf(r.Parameters), p.config.Now().UnixMicro(), moment.Now.Unix())
	if err != nil {
		return nil, err
	}
	w := &writing{session: session, schema: now, changes: changes}
	batch, ok := own.parsed.Statement.(*cql.Batch)
	if err := checkWrite(r.Parameters, changes, ok); err != nil {
		return nil, err
	}
	if ok {
		w.logged = batch.Kind == cql.Logged
	}
	return p.write(ctx, w, own.prepared.Result)
}

// timestampOf returns the timestamp of a request, nil if it has none.
func timestampOf(p *frame.Parameters) *int64 {
	if p == nil || !p.Has(frame.QueryTimestamp) {
		return nil
	}
	return &p.Timestamp
}

// levelOf returns the level at which a read is charged, as the service maps them.
func levelOf(c frame.Consistency) resource.Consistency {
	switch c {
	case frame.EachQuorum, frame.All:
		return resource.Strong
	case frame.Two, frame.Three, frame.Quorum, frame.LocalQuorum, frame.Serial, frame.LocalSerial:
		return resource.BoundedStaleness
	}
	return resource.Eventual
}

// read runs a SELECT.
func (p *Processor) read(ctx context.Context, session *door.Session, now *schema, own *plan, r *door.Request, moment *table.Moment) (*door.Result, error) {
	of := own.prepared.Tables[0]
	options := &table.PageOptions{Secret: p.config.Secret, ID: own.id, Now: moment.Now.Unix(), Memory: r.Memory}
	level := resource.Eventual
	if at := r.Parameters; at != nil {
		if at.Has(frame.QueryPageSize) {
			options.Size = int(at.PageSize)
		}
		if at.Has(frame.QueryPagingState) {
			if options.State = at.PagingState; options.State == nil {
				options.State = []byte{}
			}
		}
		level = levelOf(at.Consistency)
	}
	var source table.Source
	stored := &items{engine: p.config.Engine, caller: session.Caller, name: of.Name, table: now.ridOf(of), level: level, retries: p.retries()}
	if source = stored; stored.table == "" {
		source = p.systemRows(ctx, now, of)
	}
	page, err := own.prepared.Select(ctx, source, door.ValuesOf(r.Values), moment, options)
	if err != nil {
		if page.Warning == "" {
			return nil, err
		}
		return &door.Result{Warnings: []string{page.Warning}}, err
	}
	result := &door.Result{
		Rows:   &door.Rows{Columns: own.result, Count: page.Count, Cells: page.Rows, PagingState: page.State},
		Charge: stored.spent.Charge, Payload: visited(stored.spent.Partitions),
	}
	if page.Warning != "" {
		result.Warnings = []string{page.Warning}
	}
	return result, nil
}

// systemRows returns the source of the rows of a system table.
func (p *Processor) systemRows(ctx context.Context, now *schema, of *table.Table) table.Source {
	if now.system.IsFeedRanges(of) {
		return now.system.FeedRanges(func(t *table.Table) []partitionkey.Range { return p.config.Engine.TableRanges(now.ridOf(t)) })
	}
	if kept := now.system.TracesOf(of, &p.traces); kept != nil {
		return kept
	}
	if of == now.system.IndexInfo() {
		return now.system.Built(func(t *table.Table, definition string) bool {
			return p.config.Engine.HasIndex(ctx, now.ridOf(t), definition)
		})
	}
	return now.system.RowsWith(of, p.builds)
}

// visited is the entry of the payload with the physical partitions that were asked.
func visited(partitions []resource.PartitionID) []frame.Pair[[]byte] {
	if len(partitions) == 0 {
		return nil
	}
	return []frame.Pair[[]byte]{{Name: "decan-partitions", Value: visitedText(partitions)}}
}

// visitedText returns the ids of physical partitions, separated by commas.
func visitedText(partitions []resource.PartitionID) (text []byte) {
	for i, id := range partitions {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(id), 10)
	}
	return text
}

// items is the source of the rows of a table.
type items struct {
	engine *engine.Engine
	caller auth.Caller
	name   string // of the table, in traces
	table  resource.RID
	level  resource.Consistency
	lookup *partition.Lookup // of an index; nil to visit all items
	spent  engine.ItemsResult
	retries
}

// Through implements table.Indexed.
func (s *items) Through(l table.Lookup) table.Source {
	s.lookup = &partition.Lookup{Definition: l.Definition, Value: l.Value, First: l.First, Whole: l.Whole}
	return s
}

// Key implements table.Source.
func (s *items) Key(ctx context.Context, key string, list []table.ItemSlice, visit func(item, body []byte) (more bool, err error)) error {
	slices := make([]partition.Slice, len(list))
	for i, one := range list {
		slices[i] = partition.Slice{From: one.From, To: one.To, Reverse: one.Reverse}
	}
	n := 0
	return s.retry(ctx, func() error {
		r, err := s.engine.ReadItems(ctx, s.caller, engine.ReadItemsRequest{
			Table: s.table, Key: key, Slices: slices, Lookup: s.lookup, Level: s.level,
			Visit:   func(i *partition.Item) (bool, error) { n++; return visit(i.Item, i.Body) },
			Restart: func() {}, // A partition that has moved, or has no throughput left, refuses before the first item.
		})
		s.spent.Add(r)
		s.read(ctx, "a partition key", n, r, err)
		return err
	})
}

// Tokens implements table.Source.
func (s *items) Tokens(ctx context.Context, least, greatest int64, after string, visit func(key, item, body []byte) (more bool, err error)) error {
	bounds := partitionkey.Range{Min: partitionkey.TokenEPK(least), Max: partitionkey.MaxEPK}
	if above := greatest + 1; above > greatest {
		bounds.Max = partitionkey.TokenEPK(above)
	}
	req := engine.ReadItemsRequest{Table: s.table, Range: bounds, AfterKey: after, Lookup: s.lookup, Level: s.level}
	n := 0
	req.Visit = func(i *partition.Item) (bool, error) {
		n++
		if !s.until.IsZero() {
			req.After, req.AfterKey = append(req.After[:0], i.Position...), "" // A retry continues there.
		}
		return visit(i.Key, i.Item, i.Body)
	}
	return s.retry(ctx, func() error {
		r, err := s.engine.ReadItems(ctx, s.caller, req)
		s.spent.Add(r)
		s.read(ctx, "a range of tokens", n, r, err)
		return err
	})
}

// Batch implements cql.Processor.
func (p *Processor) Batch(ctx context.Context, session *door.Session, b *door.Batch) (*door.Result, error) {
	now, err := p.schema()
	if err != nil {
		return nil, err
	}
	if p.config.Strict {
		if err := table.RefusedBatch(cql.BatchKind(b.Type)); err != nil {
			return nil, err
		}
	}
	moment := p.moment(b.Parameters)
	parts := make([]table.BatchPart, len(b.Statements))
	for i := range b.Statements {
		own := b.Statements[i].Statement.Plan.(*plan)
		if !now.has(own.tables) {
			return nil, door.ErrStale
		}
		if parts[i], err = own.prepared.Part(door.ValuesOf(b.Statements[i].Values), moment); err != nil {
			return nil, err
		}
	}
	changes, err := table.BatchChanges(cql.BatchKind(b.Type), parts, timestampOf(b.Parameters), p.config.Now().UnixMicro(), moment.Now.Unix())
	if err != nil {
		return nil, err
	}
	if err := checkWrite(b.Parameters, changes, true); err != nil {
		return nil, err
	}
	return p.write(ctx, &writing{session: session, schema: now, changes: changes, logged: b.Type == frame.Logged}, func(k *table.KeyChange) ([]table.ResultColumn, []byte, int, error) {
		return table.BatchResult(k, parts)
	})
}
