package nosql_test

import (
	"cmp"
	"net/http"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/storage"
	"github.com/prometheus/client_golang/prometheus"
)

// testKey signs the requests of tests.
var testKey = mustKey(auth.ParseKey(auth.WellKnownKey))

func mustKey(key auth.Key, err error) auth.Key {
	if err != nil {
		panic(err)
	}
	return key
}

// settings are the options of a test's world.
type settings struct {
	nosql.Config
	consistency string // of the account; empty: Session
	full        bool   // the server merges
	bearerOnly  bool   // keys and resource tokens are refused
	deletes     bool   // deletions by a prefix of a key are allowed
	prefixes    bool   // permissions for a prefix of a key are allowed
	readOnly    string // a key that may only read
	bearer      auth.BearerRules

	scriptTime time.Duration // of a script; zero: ampleTime
}

// ampleTime is the time limit in worlds whose tests do not concern it: a machine
// may delay a test by more than the server's limits.
const ampleTime = time.Minute

// world is a whole database in memory, with the door.
type world struct {
	handler  http.Handler
	config   nosql.Config
	engine   *engine.Engine
	registry *prometheus.Registry
	closers  []func() error
}

func newWorld(t testing.TB, set settings) *world {
	t.Helper()
	w := &world{registry: prometheus.NewRegistry()}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	check(err)
	w.closers = append(w.closers, pool.Close)
	store, err := pool.Create("catalog")
	check(err)
	w.closers = append(w.closers, store.Close)
	names, err := catalog.Open(store, now)
	check(err)
	limits := resource.DefaultLimits()
	limits.PageTime = ampleTime
	node, err := cluster.Start(cluster.Config{
		Pool: pool, Catalog: names, Limits: limits, Now: now,
		// The LSNs of an answer depend on the node's background work.
		Maintenance:   -1,
		ConditionTime: ampleTime,
	})
	check(err)
	w.closers = append(w.closers, node.Close)
	scripts := script.New(script.Limits{Time: cmp.Or(set.scriptTime, ampleTime)})
	w.closers = append(w.closers, func() error { scripts.Close(); return nil })
	verifier, err := auth.NewVerifier(auth.Keys{Primary: auth.WellKnownKey, PrimaryReadonly: set.readOnly}, limits.ClockSkew)
	check(err)
	set.bearer.Only = set.bearerOnly
	verifier = verifier.WithBearer(set.bearer)
	if set.consistency == "" {
		set.consistency = "Session"
	}
	level, err := resource.ParseConsistency(set.consistency)
	check(err)
	cross := engine.Service
	if set.full {
		cross = engine.Full
	}
	w.engine = engine.New(engine.Config{
		Catalog:        names,
		Node:           node,
		Account:        resource.Account{ID: "decan", Region: "South Central US", Consistency: level},
		Limits:         limits,
		Verifier:       verifier,
		CrossPartition: cross,

		PrefixPermissions: set.prefixes,
		PrefixDeletes:     set.deletes,
		Scripts:           scripts,
		Now:               now,
	})
	config := set.Config
	config.Engine = w.engine
	config.Version = "test"
	config.Now = now
	config.Registerer = w.registry
	w.config = config
	w.handler = nosql.New(config)
	return w
}

// close closes in reverse order; a second call does nothing.
func (w *world) close() {
	for len(w.closers) > 0 {
		last := len(w.closers) - 1
		_ = w.closers[last]()
		w.closers = w.closers[:last]
	}
}
