// Package admin is the door for operators: health and metrics without a key, and with
// an account key profiles, statistics of physical partitions, containers with an exact
// number of them, and throughput, keys, roles and copy jobs in the form of the service's
// management API.
//
// Package server serves the handler of [New] on a port of its own. Read routes, the
// table of paths, first, then key.go, which authenticates callers.
//
// # Invariants
//
// Every path that shows or changes data or the process needs a key. Every error is a
// JSON object with code and message.
//
// Of the protocol of the data plane, the package knows only the signature.
//
// Page: docs/operating.md
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/copyjob"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config configures a door. Engine and Gatherer are required.
type Config struct {
	Engine   *engine.Engine
	Gatherer prometheus.Gatherer       // the metrics of /metrics
	CopyJobs *copyjob.Jobs             // nil: requests about copy jobs are refused
	Admit    func(*http.Request) error // returns why a request is refused, or nil; the refusal ends the connection; nil admits all
	Watch    *audit.Door               // counts refused requests and writes the audit log; may be nil
	Metrics  bool                      // /metrics needs an account key, which may be a read-only one
	Ready    func() error              // returns why the server does not serve, or nil; nil means always ready
	// Health returns the problem of the disk, or "", and the partitions with a problem;
	// nil means none.
	Health  func() (disk string, unwell []cluster.Unwell)
	Clock   *cluster.Clock   // nil: requests about the clock are refused
	Limits  resource.Limits  // the zero value: resource.DefaultLimits
	Version string           // the version of this program; default "devel"
	Now     func() time.Time // the clock of the engine; nil: time.Now
	Logger  *slog.Logger     // nil: discard
	Memory  Memory           // of the bodies of running requests; nil for no limit

	// Select runs a statement of the Cassandra API that only reads; nil: such statements
	// are refused.
	Select func(context.Context, auth.Caller, Select) (Selected, error)
}

// Memory limits the bytes of the bodies of all running requests together, on this port
// and others.
type Memory interface {
	// Take takes n bytes for a request that then has size bytes in total, if they fit.
	Take(n, size int) bool
	// Release returns n bytes.
	Release(n int)
	// Refusal returns the error for a request that does not fit.
	Refusal() error
}

// New returns the door as an HTTP handler that is safe for concurrent use.
func New(cfg Config) http.Handler {
	h := &handler{
		engine:  cfg.Engine,
		jobs:    cfg.CopyJobs,
		ready:   cfg.Ready,
		health:  cfg.Health,
		clock:   cfg.Clock,
		limits:  cfg.Limits,
		version: cfg.Version,
		now:     cfg.Now,
		watch:   cfg.Watch,
		locked:  cfg.Metrics,
		logger:  cfg.Logger,
		memory:  cfg.Memory,

		advising: make(chan struct{}, 1),
	}
	if h.ready == nil {
		h.ready = func() error { return nil }
	}
	if h.limits == (resource.Limits{}) {
		h.limits = resource.DefaultLimits()
	}
	if h.version == "" {
		h.version = "devel"
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	return h.admitted(cfg.Admit, h.routes(cfg))
}

// admitted answers the requests that admit refuses, and passes the others to next.
func (h *handler) admitted(admit func(*http.Request) error, next http.Handler) http.Handler {
	if admit == nil {
		return next
	}
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		if err := admit(hr); err != nil {
			hw.Header().Set("Connection", "close")
			h.fail(hw, hr, err)
			return
		}
		next.ServeHTTP(hw, hr)
	})
}

// handler is the door. New sets its fields, which never change.
type handler struct {
	engine  *engine.Engine
	jobs    *copyjob.Jobs // nil for none
	ready   func() error
	health  func() (disk string, unwell []cluster.Unwell)
	clock   *cluster.Clock // nil for none
	limits  resource.Limits
	version string
	now     func() time.Time
	watch   *audit.Door
	locked  bool // /metrics needs a key
	logger  *slog.Logger
	memory  Memory // nil for no limit

	advising chan struct{} // has an element while a simulation runs
}

// routes is the table of paths. The paths of health also answer HEAD.
func (h *handler) routes(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /alive", h.showAlive)
	mux.HandleFunc("GET /ready", h.showReady)
	mux.Handle("GET /metrics", h.metrics(promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{})))

	mux.HandleFunc("GET /{$}", h.keyed(h.showIndex))
	mux.HandleFunc("GET /partitions", h.keyed(h.listPartitions))
	mux.HandleFunc("POST /partitions/split", h.keyed(h.splitPartition))
	mux.HandleFunc("POST /partitions/merge", h.keyed(h.mergePartitions))
	mux.HandleFunc("POST /containers", h.keyed(h.createContainer))
	mux.HandleFunc("GET /clock", h.keyed(h.showClock))
	mux.HandleFunc("POST /clock/accept", h.keyed(h.acceptClock))
	h.throughputRoutes(mux)
	h.keyRoutes(mux)
	h.roleRoutes(mux)
	h.limitsRoutes(mux)
	h.queryRoutes(mux)
	h.selectRoutes(mux, cfg.Select)
	h.workloadRoutes(mux)
	h.adviseRoutes(mux)
	h.mergeRoutes(mux)
	h.copyRoutes(mux)
	mux.HandleFunc("GET /debug/pprof/", h.keyed(profile(pprof.Index)))
	mux.HandleFunc("GET /debug/pprof/cmdline", h.keyed(profile(pprof.Cmdline)))
	mux.HandleFunc("GET /debug/pprof/profile", h.keyed(profile(pprof.Profile)))
	mux.HandleFunc("GET /debug/pprof/symbol", h.keyed(profile(pprof.Symbol)))
	mux.HandleFunc("GET /debug/pprof/trace", h.keyed(profile(pprof.Trace)))
	return h.plain(mux)
}

// operation is a handler for an authenticated caller. Its error is answered as JSON; it
// must not have written anything before.
type operation func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error

// keyed calls serve for callers with an account key, and writes the audit log.
func (h *handler) keyed(serve operation) http.HandlerFunc {
	return func(hw http.ResponseWriter, hr *http.Request) {
		begun := h.now()
		caller, err := h.verify(hr, auth.Administer)
		changes := hr.Method != http.MethodGet || strings.HasSuffix(hr.URL.Path, "/readonlykeys")
		if h.watch.Wants(changes, http.StatusUnauthorized) { // There is an audit log.
			noted := &notedWriter{ResponseWriter: hw, code: http.StatusOK}
			hw = noted
			defer func() {
				if h.watch.Wants(changes, noted.code) {
					h.watch.Write(record(hr, caller, begun, noted.code))
				}
			}()
		}
		if err == nil {
			err = serve(hw, hr, caller)
		}
		if err != nil {
			h.fail(hw, hr, err)
		}
	}
}

// profile adapts a handler of net/http/pprof, which reports errors itself.
func profile(serve http.HandlerFunc) operation {
	return func(hw http.ResponseWriter, hr *http.Request, _ auth.Caller) error {
		serve(hw, hr)
		return nil
	}
}
