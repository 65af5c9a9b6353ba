package cql

import (
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/transport"
)

// TestStreams: as many requests at the same time as allowed. One more waits, or is
// refused if the client asks for that.
func TestStreams(t *testing.T) {
	for _, throw := range []string{"0", "1"} {
		w := newWorld(t, Config{Streams: 3})
		c := w.connect(t, frame.V4, frame.Pair[string]{Name: "throw_on_overload", Value: throw})
		c.send(query("SELECT k FROM test.block"), query("SELECT k FROM test.block"), query("SELECT k FROM test.block"))
		for range 3 {
			<-w.small.blocked
		}
		c.send(query("SELECT key FROM system.local"))
		fourth := c.stream
		if throw == "1" {
			f := c.receive()
			if e, ok := f.Message.(*frame.Error); !ok || f.Stream != fourth || e.Code != frame.CodeOverloaded ||
				e.Message != "Server is in overloaded state. Cannot accept more requests at this point" {
				t.Errorf("%+v", f)
			}
		} else {
			c.quiet(50 * time.Millisecond)
		}
		close(w.small.block)
		for n := 3; n < 6+int('1'-throw[0]); n++ {
			c.receive()
		}
		c.rows(query("SELECT key FROM system.local"))
	}
}

// TestBudget: the bytes of all connections are bounded. A request that does not fit
// waits, or is refused; one that is alone fits always.
func TestBudget(t *testing.T) {
	w := newWorld(t, Config{InflightBytes: 10_000})
	one, two := w.connect(t, frame.V4), w.connect(t, frame.V4, frame.Pair[string]{Name: "THROW_ON_OVERLOAD", Value: "1"})
	large := query("SELECT v FROM ks.t WHERE v = ?", make([]byte, 20_000))
	one.rows(large) // It is alone.

	one.send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	two.rows(query("SELECT v FROM ks.t WHERE v = ?", make([]byte, 5_000)))
	two.fails(large, frame.CodeOverloaded, "Server is in overloaded state. Cannot accept more requests at this point")
	two.rows(query("SELECT key FROM system.local"))
	one.send(large)
	one.quiet(50 * time.Millisecond)
	close(w.small.block)
	one.receive()
	one.receive()
}

// TestPreparedLimit: a statement as large as the memory for all, and a larger one.
func TestPreparedLimit(t *testing.T) {
	fits := "SELECT v FROM ks.t" + strings.Repeat(" ", 1000)
	w := newWorld(t, Config{PreparedBytes: int64(entryBytes + columnBytes + 100 + len(fits))})
	c := w.connect(t, frame.V4)
	if _, ok := c.ask(&frame.Prepare{Text: fits}).Message.(*frame.Prepared); !ok {
		t.Error("refused")
	}
	e := c.ask(&frame.Prepare{Text: fits + " "}).Message.(*frame.Error)
	if e.Code != frame.CodeInvalid || !strings.HasPrefix(e.Message, "Prepared statement of size 1791 bytes is larger than allowed maximum of 0 MB: SELECT v FROM ks.t  ") {
		t.Errorf("%x %s", e.Code, e.Message)
	}
}

// TestMalformed: malformed frames end their connection and no other.
func TestMalformed(t *testing.T) {
	w := newWorld(t, Config{})
	other := w.connect(t, frame.V5)
	for _, version := range []frame.Version{frame.V4, frame.V5} {
		c := w.connect(t, version)
		c.fails(&frame.Query{Parameters: frame.Parameters{Consistency: 99}}, frame.CodeProtocol, "Unknown code 99 for a consistency level")
		c.ended()
	}
	c := w.connect(t, frame.V5)
	if _, err := c.conn.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if e, ok := c.receive().Message.(*frame.Error); !ok || e.Message != "Invalid CRC of the header of a segment" {
		t.Errorf("%+v", e)
	}
	c.ended()
	other.rows(query("SELECT key FROM system.local"))
}

// TestFrameLimit: a request as large as allowed, and a larger one.
func TestFrameLimit(t *testing.T) {
	w := newWorld(t, Config{FrameBytes: 100_000})
	for _, version := range []frame.Version{frame.V4, frame.V5} {
		c := w.connect(t, version)
		overhead := len("SELECT v FROM ks.t WHERE v = ?") + 4 + 2 + 1 + 2 + 4
		if version == frame.V5 {
			overhead += 3
		}
		c.rows(query("SELECT v FROM ks.t WHERE v = ?", make([]byte, 100_000-overhead)))
		c.fails(query("SELECT v FROM ks.t WHERE v = ?", make([]byte, 100_000-overhead+1)), frame.CodeProtocol, "Request is too big: length 100001 exceeds maximum allowed length 100000.")
		c.ended()
	}
}

// TestTimeouts: clients that are silent, slow or idle are disconnected; those that wait
// for an answer are not.
func TestTimeouts(t *testing.T) {
	const short = 60 * time.Millisecond
	silent := newWorld(t, Config{LoginTimeout: short})
	silent.dial(t, frame.V4).ended()
	begun := silent.dial(t, frame.V4)
	begun.startup()
	begun.ended()
	secure := newWorld(t, Config{LoginTimeout: short, TLS: certificate(t)}).dial(t, frame.V4)
	if _, err := secure.conn.Write([]byte{transport.RecordTypeHandshake, 3, 1}); err != nil {
		t.Fatal(err)
	}
	secure.ended()

	slow := newWorld(t, Config{ReadTimeout: short})
	c := slow.connect(t, frame.V4)
	if _, err := c.conn.Write([]byte{4, 0, 0}); err != nil {
		t.Fatal(err)
	}
	c.ended()
	steady := slow.connect(t, frame.V4)
	steady.quiet(2 * short) // Not in a request: no limit.
	steady.rows(query("SELECT key FROM system.local"))

	idle := newWorld(t, Config{IdleTimeout: short})
	idle.connect(t, frame.V4).ended()
	waiting := idle.connect(t, frame.V4)
	waiting.send(query("SELECT k FROM test.block"))
	<-idle.small.blocked
	waiting.quiet(3 * short)
	close(idle.small.block)
	waiting.receive()
	waiting.ended()
}

// TestNoTimeouts: negative times are no limit, also of a handshake.
func TestNoTimeouts(t *testing.T) {
	w := newWorld(t, Config{TLS: certificate(t), LoginTimeout: -1, ReadTimeout: -1, WriteTimeout: -1, IdleTimeout: -1})
	c := w.dial(t, frame.V5)
	c = clientOf(t, tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true}), frame.V5)
	c.startup()
	c.want(frame.AuthResponse{Token: token("account", w.keys.Primary)}, frame.AuthSuccess{})
	c.rows(query("SELECT key FROM system.local"))
}

// TestSlowTaker: a client that takes no answers is disconnected.
func TestSlowTaker(t *testing.T) {
	w := newWorld(t, Config{WriteTimeout: 60 * time.Millisecond, IdleTimeout: -1})
	c := w.connect(t, frame.V4)
	c.want(query("INSERT INTO ks.t (k, v) VALUES (?, ?)", int32Bytes(1), make([]byte, 1<<20)), frame.Void{})
	for range 40 {
		c.send(query("SELECT v FROM ks.t"))
	}
	deadline := time.Now().Add(answerTime)
	for w.Connections() > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the connection is open")
		}
		runtime.Gosched()
	}
}

// TestConnections: at the limit, an idle connection makes room; if all are busy, the new
// one is refused.
func TestConnections(t *testing.T) {
	w := newWorld(t, Config{Connections: 2})
	one, two := w.connect(t, frame.V4), w.connect(t, frame.V4)
	one.send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	two.quiet(time.Millisecond) // Both fit.
	three := w.connect(t, frame.V4)
	two.ended()
	three.send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	w.dial(t, frame.V4).ended()
	if n := w.Connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
	close(w.small.block)
	one.receive()
	three.receive()
}

// TestIdle: a connection that has not signed in may make room before every other one,
// one with a running statement never does.
func TestIdle(t *testing.T) {
	s := New(Config{})
	open := func(since int64, signedIn, busy bool) (int64, bool) {
		c := newConnection(t.Context(), s, &net.TCPConn{})
		c.since.Store(since)
		c.signedIn.Store(signedIn)
		if busy {
			c.slots <- struct{}{}
		}
		return c.IdleSince()
	}
	early, idle := open(1, true, false)
	late, alsoIdle := open(2, true, false)
	stranger, silent := open(3, false, false)
	if !idle || !alsoIdle || !silent || stranger >= early || early >= late {
		t.Errorf("a stranger since %d %t, others since %d %t and %d %t", stranger, silent, early, idle, late, alsoIdle)
	}
	if _, idle := open(1, true, true); idle {
		t.Error("a busy connection is idle")
	}
}

// TestMetrics: what the door counts.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, Config{Connections: 1, Registerer: registry})
	w.dial(t, frame.V4)
	c := w.connect(t, frame.V4) // It displaces the first one.
	c.ask(&frame.Prepare{Text: "SELECT key FROM system.local"})
	c.ask(query("nonsense"))
	c.send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	w.dial(t, frame.V4).ended()
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	close(w.small.block)
	c.receive()
	if got["decan_cql_inflight_bytes"] < requestBytes {
		t.Errorf("%v bytes of a running request", got["decan_cql_inflight_bytes"])
	}
	delete(got, "decan_cql_inflight_bytes")
	if diff := cmp.Diff(map[string]float64{
		"decan_cql_requests_total PREPARE": 1, "decan_cql_requests_total QUERY": 2, "decan_cql_errors_total syntax error": 1,
		"decan_cql_connections_open": 1, "decan_cql_connections_displaced_total": 1, "decan_cql_connections_refused_total": 1,
		"decan_cql_prepared_statements": 1,
	}, got); diff != "" {
		t.Error(diff)
	}
}
