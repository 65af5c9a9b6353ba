// Package engine is the one entrance for every operation of the database, free
// of any protocol: documents, queries, and the definitions of databases,
// containers and throughput.
//
// Doors call it: each operation takes a context, an authenticated caller and a
// request struct, and returns a result struct. The engine owns what lies
// between a door and a partition: permissions, name lookup, key extraction,
// routing, fan-out and merge, retry on a stale view, consistency, session
// tokens and continuation tokens. access.go decides what a caller may do. Read
// [Engine] first, then [DocumentRequest] with [Document], and [QueryRequest]
// with [Feed].
//
// # Invariants
//
// I6: each request has exactly one meter, made here and passed in the request
// structs. A result is filled in on an error, too: charge, session token, owner
// and the partitions that were asked. A continuation token holds one position
// in key order and never a partition id, so it survives splits. Every error
// that an operation returns is a *status.Error.
//
// The package knows no header, no frame and no status line. It writes no rows:
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

// CrossPartition selects what the engine does with a query whose rows from
// several partitions have to be merged.
type CrossPartition uint8

// The modes. Service is the default.
const (
	Service CrossPartition = iota // refuse it with 400/1004 and the plan, as the hosted gateway does; the client merges
	Full                          // merge in the engine
)

// Config holds the parts and settings of an engine. Catalog, Node and Account
// are required.
type Config struct {
	Catalog        *catalog.Catalog
	Node           *cluster.Node
	Account        resource.Account
	Limits         resource.Limits
	Verifier       *auth.Verifier // with the configured keys, some of which may have been replaced since; nil: Verify refuses every caller
	CrossPartition CrossPartition

	// TrailingPage adds a continuation to a final full page of a query without an
	// order. The page that follows is empty.
	TrailingPage bool

	// Serverless refuses provisioned throughput. Containers are created without
	// any.
	Serverless bool

	// PrefixPermissions allows permissions for a prefix of a hierarchical
	// partition key, which the service does not have.
	PrefixPermissions bool

	// PrefixDeletes allows DeleteByKey for a prefix of a hierarchical partition
	// key, which the service refuses.
	PrefixDeletes bool

	// Rebalance splits a container's partitions in the background until they
	// can carry its throughput. The engine calls it after a change that raises
	// the throughput beyond what they can carry. Nil refuses such a change.
	Rebalance func(container resource.RID)

	// MergeAll merges a container's partitions as far as its throughput and bytes
	// allow, and returns the partitions that remain. If dry is true, it changes
	// nothing and returns those that would remain. Nil refuses the operation.
	MergeAll func(ctx context.Context, container resource.RID, dry bool) ([]cluster.PartitionSize, error)

	// Scripts runs stored procedures, triggers and user-defined functions. Nil
	// refuses them. The caller closes it.
	Scripts *script.Runner

	// Yield yields the processor, and returns when goroutines that wait for one
	// have run. A query that takes long calls it several times per millisecond. Nil
	// means [runtime.Gosched], which does not look for packets that have just
	// arrived.
	Yield func()

	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: metrics are counted and not exported
}

// Engine carries out operations. It is safe for concurrent use and owns no
// goroutine that outlives a call, so it has no Close. The caller closes catalog
// and node.
type Engine struct {
	catalog *catalog.Catalog
	node    *cluster.Node
	account resource.Account
	limits  resource.Limits
	cross   CrossPartition

	trailing bool // see Config.TrailingPage

	configured        *auth.Verifier // Config.Verifier
	verifier          atomic.Pointer[keyring]
	prefixPermissions bool
	prefixDeletes     bool

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
	working partition.Work // admits writes of large documents
	memory  memory
	running running

	recorder recorder

	scripts  *script.Runner // nil for none
	programs programs

	// customClock is true if Config.Now is set. Plans then depend on the time
	// of that clock and are not cached.
	customClock bool
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
		prefixDeletes:     cfg.PrefixDeletes,

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
	e.customClock = e.now != nil
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

// Account returns the properties of the account that clients may read.
func (e *Engine) Account() resource.Account { return e.account }
