// Package audit watches who comes to the doors of a server: it counts and logs
// those who are refused, and writes a log of who did what.
//
// Package server makes one [Watch] and hands each door its [Door]. A door tells it
// of refused sign-ins ([Door.Refused]) and, where an audit log is kept, of each
// request that the log is for ([Door.Write]). See audit.go for what is counted and
// logged, and log.go for the file.
//
// # Invariants
//
// Nothing in here sees a document, a partition key, an item id, an account key, a
// signature or a token. Memory does not grow with the number of addresses.
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

// Reasons of refusals that are not those of credentials; auth.Refusal has these.
const (
	ReasonHost  = "host"       // a Host header that is no name of the server
	ReasonPlain = "plain_http" // a request without TLS where only https is served
)

// Config says where a watch tells what it sees.
type Config struct {
	Registerer prometheus.Registerer // nil: the metric is counted and shown nowhere
	Logger     *slog.Logger          // nil: discard
	Log        *Log                  // the audit log; nil for none. It belongs to the caller.
}

// Watch is what all doors of one server tell. It is safe for concurrent use.
type Watch struct {
	refused *prometheus.CounterVec
	log     *Log
	logger  *slog.Logger

	mu sync.Mutex

	// What happened in this window, guarded by mu.
	seen    map[netip.Prefix]bool // addresses that have had a line of their own
	late    map[string]int        // refusals without a line, by reason
	address string                // of the latest of them
	window  *time.Timer           // its end; nil while nothing has happened
	closed  bool
}

// Bounds of the lines about refusals. An address is told of at once, the first time
// in a window; everything else is one line at the end of the window.
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

// Door returns the part of a watch that one door tells: data, compute or admin.
func (w *Watch) Door(name string) *Door {
	if w == nil {
		return nil
	}
	w.refused.WithLabelValues(name, "key") // A rate needs a zero to begin at.
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

// Door is one door of a server. A nil Door counts and writes nothing.
type Door struct {
	watch *Watch
	name  string
}

// Refused counts a request that was refused for one of few reasons, and logs it: at
// once, or with others at the end of the minute. remote is the address of the
// connection.
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

// endWindow begins the next window where there was something to tell, so that an
// attack that continues has a line in each minute.
func (w *Watch) endWindow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.summarize()
	}
}

// summarize logs what had no line of its own. The caller holds mu.
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

// host is an address without its port.
func host(remote string) string {
	if name, _, err := net.SplitHostPort(remote); err == nil {
		return name
	}
	return remote
}

// network is what counts as one address: of IPv6 the network, of which one client
// has all addresses.
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
