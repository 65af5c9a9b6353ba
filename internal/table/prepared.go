package table

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// Prepared is a SELECT, INSERT, UPDATE, DELETE or batch that was compiled for a schema.
// It is immutable.
type Prepared struct {
	Tables  []*Table // each once
	Markers []Marker // in the order of the text

	// KeyMarkers are the markers of the columns of the partition key, in its order, nil
	// unless each has one.
	KeyMarkers []int

	query  *query
	writes []*write
	batch  *cql.Batch
	times  term // of BEGIN BATCH USING TIMESTAMP; nil for none
}

// Values are the values of the markers of a statement.
type Values struct {
	Bytes [][]byte // nil is null
	Unset []bool   // values that the client has not set; nil for none
}

func (v Values) binding(m *Moment) *binding {
	return &binding{moment: m, values: v.Bytes, unset: v.Unset}
}

// Prepare compiles a statement on data. inUse is the keyspace in use, which may be
// empty. The error is an *Error.
func (s *Schema) Prepare(p cql.Parsed, inUse string) (*Prepared, error) {
	prepared := &Prepared{}
	a := newTerms(p, s.UserType)
	var err error
	switch e := p.Statement.(type) {
	case *cql.Select:
		err = prepared.selects(a, s, e, inUse)
	case *cql.Batch:
		err = prepared.batches(a, s, e, inUse)
	case *cql.Insert, *cql.Update, *cql.Delete:
		err = prepared.modifies(a, s, e, inUse)
	default:
		err = invalid("The statement has no values")
	}
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(a.markers, func(m Marker) bool { return m.Type == nil }) {
		// Apache Cassandra has an internal error.
		return nil, invalid("An option of USING that is given again must not be a bind marker the first time")
	}
	prepared.Markers = a.markers
	prepared.KeyMarkers = keyMarkers(a.markers, prepared.Tables)
	return prepared, nil
}

func (p *Prepared) selects(a *terms, s *Schema, e *cql.Select, inUse string) error {
	t, err := s.Table(e.From, inUse)
	if err != nil {
		return err
	}
	if p.query, err = a.compileSelect(t, e); err != nil {
		return err
	}
	p.Tables = []*Table{t}
	return nil
}

func (p *Prepared) modifies(a *terms, s *Schema, e cql.Statement, inUse string) error {
	var name cql.Name
	switch e := e.(type) {
	case *cql.Insert:
		name = e.Table
	case *cql.Update:
		name = e.Table
	case *cql.Delete:
		name = e.Table
	}
	if name.Keyspace == "" {
		name.Keyspace = inUse
	}
	if err := unmodifiable(name.Keyspace); err != nil {
		return err
	}
	t, err := s.Table(name, inUse)
	if err != nil {
		return err
	}
	w, err := a.compileWrite(t, e)
	if err != nil {
		return err
	}
	if p.writes = append(p.writes, w); !slices.Contains(p.Tables, t) {
		p.Tables = append(p.Tables, t)
	}
	if p.batch == nil {
		return w.check()
	}
	return nil
}

func (p *Prepared) batches(a *terms, s *Schema, e *cql.Batch, inUse string) (err error) {
	p.batch = e
	for _, one := range e.Statements {
		if err := p.modifies(a, s, one, inUse); err != nil {
			return err
		}
	}
	if p.times, err = a.optional(e.Using.Timestamp, receiver{t: native(row.KindBigInt), name: "[timestamp]"}); err != nil {
		return err
	}
	if err := checkBatch(e.Kind, e.Using, p.writes); err != nil {
		return err
	}
	for _, w := range p.writes {
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

// Reads says whether the statement is a SELECT.
func (p *Prepared) Reads() bool { return p.query != nil }

// Conditional says whether the statement has a condition.
func (p *Prepared) Conditional() bool { return slices.ContainsFunc(p.writes, (*write).conditional) }

// Columns returns the columns of the result: none for a write, whose result has columns
// of its own if it is conditional.
func (p *Prepared) Columns() []ResultColumn {
	if p.query == nil {
		return nil
	}
	return p.query.resultColumns()
}

// Select reads a page of a SELECT. The error is an *Error, or one of the source; then the
// page has only its warning.
func (p *Prepared) Select(ctx context.Context, source Source, v Values, m *Moment, options *PageOptions) (Page, error) {
	return p.query.run(ctx, source, v.binding(m), options)
}

// Changes returns what a write does, one change for each partition key of each table. The
// timestamp of the request is times, nil if it has none: then the writer of a partition
// gives one, or fallback is the one of a batch of several partition keys. now is in
// seconds since 1970. The error is an *Error.
func (p *Prepared) Changes(v Values, m *Moment, times *int64, fallback, now int64) ([]*KeyChange, error) {
	b := v.binding(m)
	if p.batch == nil {
		all, err := p.writes[0].bind(b, times, now)
		if err == nil && len(all) > 1 && times == nil {
			all, err = p.writes[0].bind(b, &fallback, now)
		}
		return all, err
	}
	if p.times != nil && !p.times.unset(b) {
		bytes, err := p.times.bind(b)
		switch {
		case err != nil:
			return nil, err
		case len(bytes) == 0:
			return nil, invalid("Invalid null value of timestamp")
		}
		n := row.Integer(bytes)
		if err := checkTimestamp(n); err != nil {
			return nil, err
		}
		times = &n
	}
	parts := make([]BatchPart, 0, len(p.writes))
	for _, w := range p.writes {
		parts = append(parts, BatchPart{write: w, b: b})
	}
	return changesOf(parts, times, fallback, now)
}

// BatchPart is a prepared write of a batch with its values.
type BatchPart = batchPart

// Part returns the statement with values as a part of a batch. The error is an *Error if
// it cannot be one.
func (p *Prepared) Part(v Values, m *Moment) (BatchPart, error) {
	if p.batch != nil || len(p.writes) != 1 {
		return BatchPart{}, invalid("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	}
	return BatchPart{write: p.writes[0], b: v.binding(m)}, nil
}

// BatchChanges returns what the statements of a batch do, as [Prepared.Changes] does.
func BatchChanges(kind cql.BatchKind, parts []BatchPart, times *int64, fallback, now int64) ([]*KeyChange, error) {
	writes := make([]*write, len(parts))
	for i := range parts {
		writes[i] = parts[i].write
	}
	if err := checkBatch(kind, cql.Using{}, writes); err != nil {
		return nil, err
	}
	return changesOf(parts, times, fallback, now)
}

// changesOf binds the parts of a batch. Those of several partition keys get one timestamp
// in any case, because no writer knows that of another.
func changesOf(parts []batchPart, times *int64, fallback, now int64) ([]*KeyChange, error) {
	all, err := bindBatch(parts, times, now)
	if err == nil && len(all) > 1 && times == nil {
		all, err = bindBatch(parts, &fallback, now)
	}
	return all, err
}
