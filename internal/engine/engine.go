// Package engine is the one entrance for every operation of the database, free
// of any protocol: documents, queries, and the definitions of databases,
// containers and throughput.
//
// Doors call it: each operation takes a context, an authenticated caller and a
// request struct, and returns a result struct. The engine owns what lies
// between a door and a partition: permission, names, key extraction, routing,
// fan-out and merge, retry on a stale view, consistency, session tokens and
// continuation tokens. What the caller may do
// is decided in access.go. Read [Engine] first, then [DocumentRequest] with
// [Document], and [QueryRequest] with [Feed].
//
// # Invariants
//
// I6: each request has exactly one meter, made here and handed down in the
// request structs. A result is filled in on an error as well: charge, session
// token, owner and the partitions that were asked. A continuation token holds
// one position in key order and never a partition id, so it survives splits.
// Every error is a *status.Error.
//
// The package knows no header, no frame and no status line, and writes nothing:
// partitions do.
//
// Page: docs/engine.md
package engine

import (
	"container/list"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/prometheus/client_golang/prometheus"
)

// CrossPartition says what becomes of a query that several partitions have to
// answer together and that only a merging client or a merging server can.
type CrossPartition uint8

// The modes. Service is the default.
const (
	Service CrossPartition = iota // refuse with 400/1004 and the plan, as the hosted gateway does
	Full                          // merge here
)

// Config says what an engine works on. Catalog, Node and Account are required.
type Config struct {
	Catalog        *catalog.Catalog
	Node           *cluster.Node
	Account        resource.Account
	Limits         resource.Limits
	Verifier       *auth.Verifier // with the configured keys, of which some may have been replaced since; nil: Verify refuses everybody
	CrossPartition CrossPartition

	// TrailingPage gives a page of rows in no order that is full with the last row
	// a continuation, behind which an empty page is.
	TrailingPage bool

	// Serverless refuses provisioned throughput, and makes containers without.
	Serverless bool

	// PrefixPermissions allows permissions for a prefix of a hierarchical
	// partition key, which the service does not have.
	PrefixPermissions bool

	// Rebalance has a container's partitions split in the background until they
	// can carry its throughput. It is called when that was raised beyond them,
	// which nil refuses.
	Rebalance func(container resource.RID)

	// MergeAll has a container's partitions merged as far as its throughput and
	// bytes allow, and returns those that are left; with dry only those that would
	// be. Nil refuses it.
	MergeAll func(ctx context.Context, container resource.RID, dry bool) ([]cluster.PartitionSize, error)

	// Scripts runs user-defined functions; nil refuses them. It belongs to the
	// caller.
	Scripts *script.Runner

	// Yield lets run who waits for a processor, and comes back. Those that make
	// queries call it several times in a millisecond. Nil is [runtime.Gosched], which
	// finds nobody whose packet has just arrived.
	Yield func()

	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: metrics are counted and shown nowhere
}

// Engine carries out operations. It is safe for concurrent use and owns no
// goroutine that outlives a call, so it has no Close; catalog and node belong
// to the caller.
type Engine struct {
	catalog *catalog.Catalog
	node    *cluster.Node
	account resource.Account
	limits  resource.Limits
	cross   CrossPartition

	trailing bool // see Config.TrailingPage

	configured        *auth.Verifier // with the keys of the configuration; nil for none
	verifier          atomic.Pointer[keyring]
	prefixPermissions bool

	serverless bool
	rebalance  func(container resource.RID)
	mergeAll   func(ctx context.Context, container resource.RID, dry bool) ([]cluster.PartitionSize, error)

	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics
	control control
	indexes indexes
	plans   plans
	turns   *turns
	working partition.Work // of large documents
	memory  memory
	running running

	scripts  *script.Runner // nil for none
	programs programs

	// otherClock says that now is not the clock of the machine.
	otherClock bool
}

// New returns an engine over the catalog and node of cfg.
func New(cfg Config) *Engine {
	e := &Engine{
		catalog: cfg.Catalog,
		node:    cfg.Node,
		account: cfg.Account,
		limits:  cfg.Limits,
		cross:   cfg.CrossPartition,

		trailing: cfg.TrailingPage,

		configured:        cfg.Verifier,
		prefixPermissions: cfg.PrefixPermissions,

		serverless: cfg.Serverless,
		rebalance:  cfg.Rebalance,
		mergeAll:   cfg.MergeAll,

		now:     cfg.Now,
		logger:  cfg.Logger,
		metrics: newMetrics(cfg.Registerer, cfg.Scripts),
		scripts: cfg.Scripts,
		indexes: indexes{byRID: map[resource.RID]compiledIndex{}},
		plans:   plans{byKey: map[string]*list.Element{}},
	}
	e.turns = newTurns(e.limits.QueryQueue, cfg.Yield)
	e.working = e.largeWork
	e.turns.refused = e.metrics.refused.WithLabelValues("queue").Inc
	e.memory.total = e.limits.QueryMemoryBytes
	e.memory.refused = e.metrics.refused.WithLabelValues("memory").Inc
	e.metrics.work(cfg.Registerer, e)
	e.otherClock = e.now != nil
	if e.now == nil {
		e.now = time.Now
	}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	e.control = newControl(e.limits, e.now)
	e.refreshKeys()
	return e
}

// Account returns what the account document tells clients.
func (e *Engine) Account() resource.Account { return e.account }
