package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/server/servertest"
)

// pipeListener accepts the connections that dial makes, without a network, so
// that time can be simulated.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

// admittingListener accepts as many connections as all allows.
type admittingListener struct {
	net.Listener

	all *connections
}

// Accept returns the next connection that is admitted.
func (l admittingListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.all.admit(conn); c != nil {
			return c, nil
		}
	}
}

// testDoor is a door over pipes, with the default deadlines.
func testDoor(t *testing.T, handler http.Handler) (*pipeListener, *connections) {
	config, err := Config{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{config: config, log: slog.New(slog.DiscardHandler), plan: planDescriptors(1<<20, true, 0, connectionsMax, false, false)}
	registry := prometheus.NewRegistry()
	all, _ := s.connections(nosql.NewMemory(0, registry), registry)
	listener := newPipeListener()
	s.openDoor(admittingListener{listener, all}, all, handler)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener, all
}

// readAll is a handler that answers with the size of the body, and reports the
// result.
func readAll(told chan error) http.Handler {
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		n, err := io.Copy(io.Discard, hr.Body)
		if err != nil {
			told <- err
			return
		}
		fmt.Fprint(hw, n)
		told <- nil
	})
}

// A client that sends one byte of a body per second is disconnected when the time
// for a piece is over; one that sends 3 KB per second uploads 2 MB, which takes
// eleven minutes.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		first     int // bytes at the beginning
		chunk     int // then in each second
		cut       bool
		after     time.Duration // minimum time; the maximum is some seconds more
		announced bool
	}{
		{"trickle", 0, 1, true, 30 * time.Second, true},
		{"trickle chunked", 0, 1, true, 30 * time.Second, false},
		{"trickle after a start", 100 << 10, 1, true, 30 * time.Second, true},
		{"honest", 0, 3 << 10, false, 682 * time.Second, true},
		{"honest chunked", 0, 3 << 10, false, 682 * time.Second, false},
		{"at once", 2 << 20, 1, false, time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1)
				listener, all := testDoor(t, readAll(told))
				conn := listener.dial()
				defer conn.Close()
				go io.Copy(io.Discard, conn)
				began := time.Now()
				length := "Content-Length: 2097152"
				if !c.announced {
					length = "Transfer-Encoding: chunked"
				}
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", length)
				var err error
				for sent, size := 0, 0; err == nil && sent < 2<<20; sent += size {
					if size = min(c.chunk, 2<<20-sent); sent == 0 && c.first > 0 {
						size = c.first
					}
					piece := bytes.Repeat([]byte("x"), size)
					if !c.announced {
						piece = fmt.Appendf(nil, "%x\r\n%s\r\n", size, piece)
					}
					_, err = conn.Write(piece)
					time.Sleep(time.Second) // fake
				}
				if err == nil && !c.announced {
					_, err = conn.Write([]byte("0\r\n\r\n"))
				}
				took := time.Since(began)
				if cut := <-told; (cut != nil) != c.cut || (err != nil) != c.cut {
					t.Errorf("the body ended with %v, sending with %v", cut, err)
				}
				if took < c.after || took > c.after+3*time.Second {
					t.Errorf("after %v, want %v", took, c.after)
				}
				want := 0.0
				if c.cut {
					want = 1
				}
				if got := tally(all.metrics.slow, slowToSend); got != want {
					t.Errorf("%v slow senders were counted, want %v", got, want)
				}
			})
		})
	}
}

// A request that is processed for an hour is not canceled, with a body or without. If
// its client disconnects within that time, the request notices.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x"} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 2)
			listener, _ := testDoor(t, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
				io.Copy(io.Discard, hr.Body)
				select {
				case <-time.After(time.Hour):
					hw.Write([]byte("done"))
					ended <- nil
				case <-hr.Context().Done():
					ended <- hr.Context().Err()
				}
			}))
			for _, stays := range []bool{true, false} {
				conn := listener.dial()
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if stays {
					answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatalf("body %q: %v", body, err)
					}
					if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "done" {
						t.Errorf("body %q: %q %v", body, text, err)
					}
				} else {
					synctest.Wait()
				}
				conn.Close()
				if err := <-ended; (err == nil) != stays {
					t.Errorf("body %q, client stays: %t; the request ended with %v", body, stays, err)
				}
			}
		})
	}
}

// A client that takes one byte of an answer per second is disconnected. One that
// takes 3 KB per second is not, nor one that waits between two answers.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, c := range []struct {
		name  string
		chunk int
		pause time.Duration
		cut   bool
	}{
		{"nothing", 0, 0, true},
		{"trickle", 1, time.Second, true},
		{"honest", 3 << 10, time.Second, false},
		{"quick", 64 << 10, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				told := make(chan error, 1)
				listener, all := testDoor(t, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
					hw.Header().Set("Content-Length", fmt.Sprint(size))
					_, err := hw.Write(make([]byte, size))
					told <- err
				}))
				conn := listener.dial()
				defer conn.Close()
				for range 2 {
					if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
					if c.chunk == 0 {
						break
					}
					answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
					if err != nil {
						t.Fatal(err)
					}
					for err == nil {
						_, err = io.CopyN(io.Discard, answer.Body, int64(c.chunk))
						time.Sleep(c.pause) // fake
					}
					if c.cut != errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("the answer ended with %v", err)
					}
					if c.cut {
						break
					}
					if err := <-told; err != nil {
						t.Fatal(err)
					}
					time.Sleep(9 * time.Minute) // fake, and within the time for quiet connections
				}
				if c.cut {
					if err := <-told; err == nil {
						t.Error("writing did not fail")
					}
				}
				want := 0.0
				if c.cut {
					want = 1
				}
				if got := tally(all.metrics.slow, slowToTake); got != want {
					t.Errorf("%v slow readers were counted, want %v", got, want)
				}
			})
		})
	}
}

// Connections that send nothing, stop in their headers, or are quiet after an
// answer are closed, each in its time.
func TestQuietConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sent string
		want time.Duration
	}{
		{"GET / HTTP/1.1\r\nHos", 30 * time.Second},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			listener, _ := testDoor(t, readAll(make(chan error, 1)))
			conn := listener.dial()
			fmt.Fprint(conn, c.sent)
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%q: closed after %v, want %v", c.sent, took, c.want)
			}
			conn.Close()
		})
	}
}

// The port of clients closes connections that send nothing or stop in the TLS
// handshake, and serves others at the same time.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sent string
		want time.Duration
	}{
		{"", firstByteTimeout},
		{"\x16\x03\x01", handshakeTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			s := &Server{config: Config{Clients: ClientOptions{ReadTimeout: time.Minute}}, plan: descriptors{connections: 10}}
			all, _ := s.connections(nosql.NewMemory(0, registry), registry)
			inner := newPipeListener()
			listener := listenMixed(inner, all, &tls.Config{})
			conn := inner.dial()
			if c.sent != "" {
				io.WriteString(conn, c.sent)
			}
			other := inner.dial()
			go io.WriteString(other, "x")
			if _, err := listener.Accept(); err != nil {
				t.Error(err)
			}
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%q: closed after %v, want %v", c.sent, took, c.want)
			}
			synctest.Wait()
			if n := all.count(); n != 1 {
				t.Errorf("%d connections are counted, want that of the other", n)
			}
			other.Close()
			listener.Close()
		})
	}
}

// tally returns the value of a counter with these labels.
func tally(counter *prometheus.CounterVec, values ...string) float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter.WithLabelValues(values...))
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   netip.AddrPort
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

func newConnections(limit, perAddress int) *connections {
	return &connections{limit: limit, perAddress: perAddress, port: portData, metrics: newConnectionMetrics(), began: time.Now(), counts: map[netip.Prefix]int{}}
}

// dialFrom admits a connection from an address; closed reports whether it was
// closed.
func (s *connections) dialFrom(address string) (c *connection, closed func() bool) {
	conn := &fakeConn{from: netip.AddrPortFrom(netip.MustParseAddr(address), 1000)}
	return s.admit(conn), func() bool { return conn.closed }
}

// When there are too many connections, one of the address with the most is
// closed, the one that has been quiet for longest; busy ones stay.
func TestDisplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newConnections(4, 3)
		open := func(address string) (*connection, func() bool) {
			time.Sleep(time.Second) // fake: each is younger than the one before
			return s.dialFrom(address)
		}
		_, first := open("192.0.2.1")
		second, secondClosed := open("192.0.2.1")
		_, third := open("192.0.2.1")
		_, other := open("198.51.100.1")
		second.state.Store(busy)

		if c, _ := open("192.0.2.1"); c == nil || !first() || third() || other() || secondClosed() {
			t.Error("want the connection of the address that has been quiet for longest closed")
		}
		c, _ := open("203.0.113.1")
		if c == nil || !third() || other() || secondClosed() || s.count() != 4 {
			t.Errorf("want the third closed, a connection of the address with the most")
		}
		for _, c := range s.open {
			c.state.Store(busy)
		}
		if c, closed := open("203.0.113.2"); c != nil || !closed() || s.count() != 4 {
			t.Error("want a refusal while all are busy")
		}
		if got := tally(s.metrics.refused, portData, tooManyInAll); got != 1 {
			t.Errorf("%v refusals were counted", got)
		}
		if got := tally(s.metrics.displaced, portData, tooManyInAll); got != 2 {
			t.Errorf("%v displaced ones were counted", got)
		}

		// After some time, incomplete headers count as quiet.
		c.state.Store(reading)
		c.since.Store(s.now())
		if c, _ := open("203.0.113.2"); c != nil {
			t.Error("a request was cut off in its headers")
		}
		time.Sleep(readingMin) // fake
		if c, _ := open("203.0.113.2"); c == nil {
			t.Error("a connection with endless headers was not closed")
		}
	})
}

// Each address has its own limit except loopback ones, and IPv6 addresses count
// by networks.
func TestAddressLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addresses []string
		want      int // the number of its connections
	}{
		{[]string{"192.0.2.1", "192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1"}, 2},
		{[]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, 4},
		{[]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"}, 4},
		{[]string{"::1", "::1", "::1"}, 3},
		{[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"}, 3},
	} {
		s := newConnections(10, 2)
		for _, address := range c.addresses {
			if a, _ := s.dialFrom(address); a == nil {
				t.Errorf("%v: %s was refused although others are quiet", c.addresses, address)
			}
		}
		if got := s.count(); got != c.want {
			t.Errorf("%v: %d connections, want %d", c.addresses, got, c.want)
		}
		for _, a := range s.open {
			a.state.Store(busy)
		}
		if a, closed := s.dialFrom(c.addresses[0]); (a == nil) != (c.want < len(c.addresses)) || (a == nil) != closed() {
			t.Errorf("%v: one more while all are busy: %v", c.addresses, a)
		}
	}
	unbounded := newConnections(10, -1)
	for range 10 {
		unbounded.dialFrom("192.0.2.1")
	}
	if got := unbounded.count(); got != 10 {
		t.Errorf("%d connections of one address, want 10", got)
	}
}

// With thousands of connections, a new connection displaces a quiet one, even if
// quiet ones are rare.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := newConnections(n, -1)
	for i := range n {
		c, _ := s.dialFrom("127.0.0.1")
		if i%1000 != 999 {
			c.state.Store(busy)
		}
	}
	for i := range 6 {
		c, _ := s.dialFrom("127.0.0.1")
		if (c != nil) != (i < 5) {
			t.Errorf("newcomer %d: %v; five are quiet", i, c)
		}
		if c != nil {
			c.state.Store(busy)
		}
	}
	for _, c := range append([]*connection{}, s.open...) {
		s.remove(c)
		s.remove(c)
	}
	if s.count() != 0 || len(s.counts) != 0 {
		t.Errorf("%d are left, %v", s.count(), s.counts)
	}
}

// rawRequest is the head of a signed create, followed by body.
func rawRequest(s *Server, length int, headers string) string {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	return fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: %s\r\nx-ms-version: 2020-07-15\r\nauthorization: %s\r\nx-ms-documentdb-partitionkey: [\"t\",\"u\"]\r\nContent-Length: %d\r\n%s\r\n",
		benchLink, date, servertest.Authorization(s.Key(), "POST", "docs", "dbs/bench/colls/c", date), length, headers)
}

// heapNow returns the size of the heap without garbage.
func heapNow() int64 {
	runtime.GC()
	runtime.GC() // frees the content of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A thousand connections announce 2 MB each and send nothing, or a few bytes:
// together they take less than 50 MB, including the clients' side in this
// process.
func TestAnnouncedBodies(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	clients := int(min(1000, (files.Cur-200)/3))
	server := start(t, Config{})
	if err := server.CreateContainer(context.Background(), "bench", queryBenchContainer, 1); err != nil {
		t.Fatal(err)
	}
	before := heapNow()
	conns := make([]net.Conn, clients)
	for i := range conns {
		conn, err := net.Dial("tcp", server.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		if _, err := io.WriteString(conn, rawRequest(server, 2<<20, "Expect: 100-continue\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range conns {
		// The server sends it when it begins to read the body.
		line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		if _, err := io.ReadFull(conn, line); err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 100 ")) {
			t.Fatalf("client %d: %v %q", i, err, line)
		}
		if i%2 == 0 {
			io.WriteString(conn, `{"id":"`)
		}
	}
	taken := heapNow() - before
	t.Logf("%d connections that announce 2 MB take %.1f MB", clients, float64(taken)/1e6)
	if most := int64(clients) * 50_000; taken > most {
		t.Errorf("%d connections that announce 2 MB take %d bytes, want at most %d", clients, taken, most)
	}
}
