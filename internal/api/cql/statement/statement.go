// Package statement runs the statements of CQL: it connects the door of the native
// protocol with the language (package table) and the data (package engine).
//
// [Processor] implements cql.Processor. schema.go reads the definitions of the catalog,
// data.go runs SELECT, write.go INSERT, UPDATE, DELETE and batches, define.go the statements that
// change definitions.
//
// # Invariants
//
// A statement runs with the schema for which it was compiled: if a table of it has
// changed since, the result is cql.ErrStale and nothing was done. All connections see a
// change of the schema as soon as it is committed.
//
// The package knows no frame and no row: it decides nothing about data.
//
// Page: docs/cassandra.md
package statement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/batchlog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/materialize"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/internal/table/cql"
)

// Config holds the parts of a processor. Engine is required.
type Config struct {
	Engine *engine.Engine
	Node   table.Node // what the system tables tell about this node

	// Secret signs paging states. Pages of a statement end when it changes.
	Secret []byte

	// Strict refuses what the service's documentation says that it does not support.
	Strict bool

	// Retry is how long a statement is tried again while it is over the throughput of a
	// partition or of definitions, before it times out. 0 answers it as overloaded.
	Retry time.Duration

	// LargePartition is the size in bytes of a partition key above which a write warns.
	// 0 never warns.
	LargePartition int64

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil discards the log
}

// Processor runs statements. It is safe for concurrent use.
type Processor struct {
	config  Config
	batches *batchlog.Log
	views   *materialize.Keeper
	places  atomic.Int64 // the last result of sequence
	large   largeKeys
	traces  traces
	unique  func() [16]byte // timeUUID
	old     bool            // Config.Node presents itself as 3.11

	mu      sync.Mutex // held while the schema is read again
	current atomic.Pointer[schema]
}

var _ door.Processor = (*Processor)(nil)

// New returns a processor. It finishes no logged batch of an earlier run before Start.
func New(c Config) *Processor {
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Processor{config: c, traces: traces{count: tracesMax, limit: traceBytesMax}, old: strings.HasPrefix(c.Node.Release, "3.")}
	p.unique = p.timeUUID
	p.batches = batchlog.New(batchlog.Config{Engine: c.Engine, Decode: p.recorded, Logger: c.Logger})
	p.views = materialize.New(p.keeperConfig())
	return p
}

// Start finishes logged batches and updates of materialized views that were interrupted,
// and builds views, in the background.
func (p *Processor) Start() {
	p.batches.Start()
	p.views.Start()
}

// Close waits for all work in the background. The caller has ended all statements.
func (p *Processor) Close() {
	p.batches.Close()
	p.views.Close()
}

// plan is the part of a cql.Statement that is the processor's.
type plan struct {
	parsed   cql.Parsed
	prepared *table.Prepared // nil for statements without data
	tables   []tableRef      // of prepared
	id       []byte          // identifies the statement and its first table in paging states
	result   frame.Columns   // of a SELECT
}

// Prepare implements cql.Processor.
func (p *Processor) Prepare(ctx context.Context, _ *door.Session, keyspace, text string) (*door.Statement, error) {
	door.TraceEventf(ctx, "Parsing %s", text)
	s, parsed, err := p.prepare(keyspace, text)
	if err != nil {
		return nil, p.worded(err)
	}
	if err := p.refused(parsed.Statement, keyspace); err != nil {
		return nil, p.worded(err)
	}
	s.Verb, s.Names = verbOf(parsed.Statement, keyspace)
	return s, nil
}

// refused returns the error of a statement that the service does not support.
func (p *Processor) refused(s cql.Statement, keyspace string) error {
	if !p.config.Strict {
		return nil
	}
	now, err := p.schema()
	if err != nil {
		return err
	}
	return now.user.Refused(s, keyspace)
}

// worded returns an error in the words of the release that the server presents.
func (p *Processor) worded(err error) error {
	if p.old {
		return in311(err)
	}
	return err
}

func (p *Processor) prepare(keyspace, text string) (*door.Statement, cql.Parsed, error) {
	parsed, err := cql.Parse(text)
	if err != nil {
		if syntax := (*cql.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, parsed, &table.Error{Class: table.Syntax, Text: syntax.Error()}
		}
		return nil, parsed, err
	}
	if _, describes := parsed.Statement.(*cql.Describe); describes && p.old {
		word := strings.Fields(text)[0]
		return nil, parsed, &table.Error{Class: table.Syntax, Text: fmt.Sprintf("line 1:0 no viable alternative at input '%s' ([%s])", word, word)}
	}
	now, err := p.schema()
	if err != nil {
		return nil, parsed, err
	}
	switch e := parsed.Statement.(type) {
	case *cql.Select, *cql.Insert, *cql.Update, *cql.Delete, *cql.Batch:
		s, err := p.prepareData(now, parsed, keyspace, text)
		return s, parsed, err
	case *cql.Use:
		return &door.Statement{Kind: door.Use, Plan: &plan{parsed: parsed}}, parsed, nil
	case *cql.Truncate:
		s, err := p.prepareTruncate(now, parsed, e, keyspace)
		return s, parsed, err
	case *cql.Describe:
		return &door.Statement{Kind: door.Read, Result: describedColumns(e), Plan: &plan{parsed: parsed}}, parsed, nil
	}
	permission, on := now.defines(parsed.Statement, keyspace)
	return &door.Statement{Kind: door.Define, Permission: permission, On: on, Plan: &plan{parsed: parsed}}, parsed, nil
}

// Execute implements cql.Processor.
func (p *Processor) Execute(ctx context.Context, session *door.Session, s *door.Statement, r *door.Request) (*door.Result, error) {
	own := s.Plan.(*plan)
	now, err := p.schema()
	if err != nil {
		return nil, err
	}
	switch e := own.parsed.Statement.(type) {
	case *cql.Use:
		if now.system.Keyspace(e.Keyspace) == nil {
			return nil, &table.Error{Text: "Keyspace '" + e.Keyspace + "' does not exist"}
		}
		return &door.Result{Keyspace: e.Keyspace}, nil
	case *cql.Describe:
		return p.describe(now, e, r)
	case *cql.Truncate:
		return p.truncate(ctx, session, now, e, r)
	}
	if own.prepared != nil {
		return p.executeData(ctx, session, now, own, r)
	}
	done, err := p.define(ctx, session, own.parsed.Statement, r)
	return done, p.worded(err)
}

// moment returns the time of an execution.
func (p *Processor) moment(at *frame.Parameters) *table.Moment {
	now := p.config.Now()
	if at != nil && at.Has(frame.QueryNow) {
		now = time.Unix(int64(at.NowInSeconds), 0)
	}
	return &table.Moment{Now: now, TimeUUID: p.unique, UUID: randomUUID}
}

// timeUUID returns a new timeuuid of the present.
func (p *Processor) timeUUID() [16]byte {
	var rest [8]byte
	_, _ = rand.Read(rest[:])     // It never fails.
	rest[0] = rest[0]&0x3F | 0x80 // the variant of RFC 9562
	return table.TimeUUID(table.TimeUUIDTicks(p.config.Now()), rest)
}

// randomUUID returns a new uuid of version 4.
func randomUUID() (uuid [16]byte) {
	_, _ = rand.Read(uuid[:]) // It never fails.
	uuid[6], uuid[8] = uuid[6]&0x0F|0x40, uuid[8]&0x3F|0x80
	return uuid
}
