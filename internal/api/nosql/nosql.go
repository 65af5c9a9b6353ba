// Package nosql is the door for clients that use the REST protocol of Azure
// Cosmos DB for NoSQL.
//
// Package server mounts the handler that [New] returns on the data plane's port.
// A handler decodes a request, calls the engine and encodes the result. Around all of
// them, handler.go authenticates, routes and turns errors into answers; http.go reads
// the requests of net/http and writes status, headers and body. Read [Config] first, then
// router.go, the table of everything this door supports, and headers.go, the list
// of every header.
//
// # Invariants
//
//   - Every answer carries an activity id, a charge and, where it may have a body,
//     a Content-Length; every error has a JSON body with code and message.
//   - A header whose value is unknown is absent, never empty.
//   - Nothing that would change the answer is ignored silently: a feature of a
//     later version is refused by name.
//   - I8: nothing in here decides anything about data.
//
// The package knows no partition and no storage.
//
// Page: docs/nosql.md
package nosql

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/prometheus/client_golang/prometheus"
)

// Config configures a door. Engine is required.
type Config struct {
	Engine     *engine.Engine
	Limits     resource.Limits       // the zero value: resource.DefaultLimits
	Endpoint   string                // URL that the account document advertises; empty: from the request's own scheme and Host header
	Direct     int                   // port of direct mode as clients reach it, on the host of the endpoint; 0: direct mode is off
	Version    string                // of this program, for response headers and error texts; empty: devel
	Now        func() time.Time      // nil: time.Now
	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: metrics are not published
	Switches   Switches
	Memory     *Memory // of the bodies and answers of running requests; nil for no limit

	// Admit returns why a request is refused, before anything else in it is read,
	// such as a Host header that does not name this server. The connection ends
	// with the answer. Nil admits every request.
	Admit func(*http.Request) error

	// Watch receives refused sign-ins and the events of the audit log; nil
	// disables it.
	Watch *audit.Door
}

// Switches are differences from the service, each off by default.
type Switches struct {
	// StrictItemIDs refuses a request whose path names an unusual item id as the
	// official emulator does on its main port: 401 for / \ # or a percent escape
	// in it or a space at its end, since the emulator signs another text than the
	// client, and 400 for control characters. The service accepts such ids.
	StrictItemIDs bool

	// SeveralTriggers allows a write to name up to ten triggers of each type. The
	// service runs one.
	SeveralTriggers bool

	// TrustForwardedProto takes the scheme of the advertised endpoint from
	// X-Forwarded-Proto. It is only safe directly after a proxy that sets the
	// header itself.
	TrustForwardedProto bool
}

// New returns the door as an HTTP handler, safe for concurrent use. It needs the
// raw request target, so no handler before it may clean or redirect paths, as
// http.ServeMux does. Two doors may share a Registerer, and then count together.
func New(cfg Config) http.Handler {
	h := newHandler(cfg)
	h.admit = cfg.Admit
	return h
}

func newHandler(cfg Config) *handler {
	h := &handler{
		engine:     cfg.Engine,
		account:    cfg.Engine.Account(),
		limits:     cfg.Limits,
		endpoint:   cfg.Endpoint,
		directPort: cfg.Direct,
		now:        cfg.Now,
		logger:     cfg.Logger,
		switches:   cfg.Switches,
		watch:      cfg.Watch,
		memory:     cfg.Memory,
	}
	if h.limits == (resource.Limits{}) {
		h.limits = resource.DefaultLimits()
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	version := cfg.Version
	if version == "" {
		version = "devel"
	}
	h.agent = "Decan/" + version
	h.serviceVersion = "version=" + version
	if h.account.ID == "" || strings.EqualFold(h.account.ID, "localhost") {
		// Clients reject the whole account document if it contains "localhost".
		h.account.ID = "decan"
	}
	if h.endpoint != "" && !strings.HasSuffix(h.endpoint, "/") {
		h.endpoint += "/"
	}
	h.metrics = newMetrics(cfg.Registerer)
	h.requests = sync.Pool{New: func() any { return new(request) }}
	return h
}

// handler is the door. Its fields are set by New and never change.
type handler struct {
	engine         *engine.Engine
	account        resource.Account
	limits         resource.Limits
	endpoint       string // with a trailing slash, or empty
	directPort     int    // 0 without direct mode
	now            func() time.Time
	logger         *slog.Logger
	switches       Switches
	admit          func(*http.Request) error // nil for all
	watch          *audit.Door
	agent          string // name and version of this program, for error texts
	serviceVersion string // value of the version headers
	metrics        *metrics
	memory         *Memory
	requests       sync.Pool // of *request, with the small buffers they have grown
	pages          sync.Pool // of *[]byte, the larger buffers of answers
}
