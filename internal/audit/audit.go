// Package audit counts and logs refused requests, and writes the audit log of who did
// what.
//
// Package server creates one [Watch] and gives each door a [Door]. The doors report
// refused requests ([Door.Refused]) and, with an audit log, the requests at its level
// ([Door.Wants], [Door.Write]). audit.go has the refusals, log.go the file.
//
// # Invariants
//
// The package never sees a document, a partition key, an item id, an account key, a
// signature or a token. Its memory does not grow with the number of addresses.
//
// Page: docs/access.md
package audit

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The reasons of refusals that do not concern credentials; [auth.Refusal] has the others.
const (
	ReasonHost   = "host"       // the Host header is not a name of the server
	ReasonOrigin = "origin"     // the request comes from a page of another origin
	ReasonPlain  = "plain_http" // the request does not use TLS, and the server serves only https
)

// Config configures a watch.
type Config struct {
	Registerer prometheus.Registerer // may be nil
	Logger     *slog.Logger          // nil: discard
	Log        *Log                  // the audit log, which the caller owns; nil for none
}

// Watch collects the reports of all doors of a server. It is safe for concurrent use.
type Watch struct {
	refused *prometheus.CounterVec
	log     *Log
	logger  *slog.Logger

	mu sync.Mutex

	// The refusals in this window, guarded by mu.
	seen    map[netip.Prefix]bool // addresses with a line of their own
	late    map[string]int        // refusals without a line, by reason
	address string                // of the latest refusal without a line
	window  *time.Timer           // its end; nil before the first refusal
	closed  bool
}

// The limits of log lines about refusals. The first refusal of an address in a window is
// logged at once; the others are one line at the end of the window.
const (
	windowLength = time.Minute
	addressesMax = 16 // with a line of their own in a window
)

// New returns a watch. The caller closes it.
func New(config Config) *Watch {
	w := &Watch{
		log:    config.Log,
		logger: config.Logger,
		seen:   map[netip.Prefix]bool{},
		late:   map[string]int{},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_access_refused_total",
			Help: "Requests refused because of who sent them or how, by door and reason.",
		}, []string{"door", "reason"}),
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	if config.Registerer != nil {
		config.Registerer.MustRegister(w.refused)
	}
	return w
}

// Door returns the part of a watch for one door: data, compute or admin.
func (w *Watch) Door(name string) *Door {
	if w == nil {
		return nil
	}
	w.refused.WithLabelValues(name, "key") // A rate needs a first value of zero.
	return &Door{watch: w, name: name}
}

// Close logs what has not been logged yet. Refusals after it are counted only.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.window != nil {
		w.window.Stop()
		w.summarize()
	}
}

// Door is one door of a server. The methods of a nil Door do nothing.
type Door struct {
	watch *Watch
	name  string
}

// Refused counts a refused request, and logs it at once, or with others at the end of
// the minute. reason is one of a few; remote is the address of the connection.
func (d *Door) Refused(reason, remote string) {
	if d == nil {
		return
	}
	w := d.watch
	w.refused.WithLabelValues(d.name, reason).Inc()

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.window == nil {
		w.window = time.AfterFunc(windowLength, w.endWindow)
	}
	from := network(remote)
	if !w.seen[from] && len(w.seen) < addressesMax {
		w.seen[from] = true
		w.logger.Warn("access refused", "door", d.name, "reason", reason, "address", host(remote))
		return
	}
	w.late[reason]++
	w.address = host(remote)
}

// endWindow ends the window. The next refusal begins another, so a continuing attack is
// logged once per minute.
func (w *Watch) endWindow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.summarize()
	}
}

// summarize logs the refusals without a line of their own, and ends the window. The
// caller holds mu.
func (w *Watch) summarize() {
	count := 0
	attributes := []any{}
	for reason, n := range w.late {
		count += n
		attributes = append(attributes, slog.Int(reason, n))
	}
	if count > 0 {
		w.logger.Warn("more access refused", "count", count, slog.Group("reasons", attributes...), "last_address", w.address)
	}
	clear(w.late)
	clear(w.seen)
	w.window = nil
}

// host returns an address without its port.
func host(remote string) string {
	if name, _, err := net.SplitHostPort(remote); err == nil {
		return name
	}
	return remote
}

// network returns what counts as one address: for IPv6 the network of 64 bits, because
// one client can have all its addresses.
func network(remote string) netip.Prefix {
	addr, err := netip.ParseAddr(host(remote))
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
