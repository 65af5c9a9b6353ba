package rntbd_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
)

// world is a server with a handler that does what the name of the document says.
type world struct {
	server   *rntbd.Server
	address  string
	client   *tls.Config // of clients; nil without TLS
	log      *lines
	memory   *memory
	registry *prometheus.Registry

	blocked  chan struct{} // gets an element for each blocked request
	block    chan struct{} // closed to let them continue
	made     chan struct{} // gets an element for each answer of a request that was late
	canceled chan struct{} // gets an element for each blocked request whose context has ended
}

// lines are a log that tests read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// memory is a limit that counts.
type memory struct {
	limit int64 // 0 for none
	taken atomic.Int64
}

func (m *memory) Take(n, _ int) bool {
	if taken := m.taken.Add(int64(n)); m.limit > 0 && taken > m.limit {
		m.taken.Add(int64(-n))
		return false
	}
	return true
}

func (m *memory) Add(n int) { m.taken.Add(int64(n)) }

func (m *memory) Release(n int) {
	if m.taken.Add(int64(-n)) < 0 {
		panic("more was released than taken")
	}
}

func newWorld(t testing.TB, config rntbd.Config) *world {
	t.Helper()
	w := &world{log: new(lines), memory: new(memory), registry: prometheus.NewRegistry(), blocked: make(chan struct{}, 10_000), canceled: make(chan struct{}, 10_000), made: make(chan struct{}, 10_000), block: make(chan struct{})}
	if config.TLS != nil {
		w.client = &tls.Config{RootCAs: pool(t, config.TLS), ServerName: "localhost"}
	} else {
		config.Plain = true
	}
	if m, ok := config.Memory.(*memory); ok {
		w.memory = m
	}
	config.Handler, config.Memory, config.Registerer = w, w.memory, w.registry
	config.Logger = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.server = rntbd.New(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(listener) }()
	t.Cleanup(func() {
		w.close(t)
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if taken := w.memory.taken.Load(); taken != 0 {
			t.Errorf("%d bytes are taken at the end", taken)
		}
	})
	return w
}

func (w *world) close(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.server.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Serve answers with the payload, or as the name says: "block", "panic", "size N",
// "late N", which blocks first, and "stack", whose answer begins with the goroutine.
func (w *world) Serve(ctx context.Context, r *rntbd.Request, answer *rntbd.Response) {
	answer.Begin(200)
	answer.Int(rntbd.ResponseLSN, 7)
	name, number, _ := strings.Cut(r.Text(rntbd.RequestDocumentName), " ")
	switch {
	case r.Fault == rntbd.TooLarge:
		answer.Begin(413)
	case r.Fault == rntbd.NoMemory:
		answer.Begin(429)
	case name == "block":
		w.blocked <- struct{}{}
		select {
		case <-w.block:
		case <-ctx.Done():
			w.canceled <- struct{}{}
		}
	case name == "panic":
		panic("as the test wants")
	case name == "size", name == "late":
		n, _ := strconv.Atoi(number)
		if name == "late" {
			w.blocked <- struct{}{}
			<-w.block
		}
		if room := r.Room(n); room {
			answer.Payload = bytes.Repeat([]byte("x"), n)
		} else {
			answer.Begin(429)
		}
		if name == "late" {
			w.made <- struct{}{}
		}
	case name == "stack":
		stack := make([]byte, 64)
		answer.Payload = stack[:runtime.Stack(stack, false)]
	default:
		answer.Payload = append([]byte{}, r.Payload...)
	}
	answer.Text(rntbd.ResponseOwnerFullName, r.Client.UserAgent)
}

func (w *world) dial(t testing.TB) *client {
	t.Helper()
	c, err := rntbdtest.Dial(w.address, w.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{Client: c, t: t}
}

// connect connects without a context.
func (w *world) connect(t testing.TB) *client {
	t.Helper()
	c, err := rntbdtest.Connect(w.address, w.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{Client: c, t: t}
}

// value returns the value of a metric, the sum of its labels.
func (w *world) value(t testing.TB, name string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// client fails its test instead of returning errors.
type client struct {
	*rntbdtest.Client
	t testing.TB
}

// request returns a request with a number and the name of a document.
func request(id uint32, name string, payload []byte) *rntbdtest.Frame {
	present := int64(0)
	if len(payload) > 0 {
		present = 1
	}
	f := rntbdtest.Request(rntbd.Document, rntbd.Read, rntbd.GUID{0: byte(id), 15: 2}).
		Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, present).
		Text(rntbd.RequestDocumentName, name).
		Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, int64(id))
	f.Payload = payload
	return f
}

func (c *client) send(frames ...*rntbdtest.Frame) {
	c.t.Helper()
	if err := c.Send(frames...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive() *rntbdtest.Frame {
	c.t.Helper()
	f, err := c.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// want sends a request and checks the status and the payload of its answer.
func (c *client) want(f *rntbdtest.Frame, status int, payload string) *rntbdtest.Frame {
	c.t.Helper()
	c.send(f)
	got := c.receive()
	if got.Status() != status || string(got.Payload) != payload || got.Activity != f.Activity {
		c.t.Errorf("%d %.100q %s, want %d %.100q %s", got.Status(), got.Payload, got.Activity, status, payload, f.Activity)
	}
	sent, _ := f.Token(uint16(rntbd.RequestTransportRequestID))
	if id, _ := sent.Int(); got.Answered(rntbd.ResponseTransportRequestID) != id {
		c.t.Errorf("answer to %d, want %d", got.Answered(rntbd.ResponseTransportRequestID), id)
	}
	return got
}

func (c *client) ended() {
	c.t.Helper()
	if err := c.Ended(); err != nil {
		c.t.Fatal(err)
	}
}
