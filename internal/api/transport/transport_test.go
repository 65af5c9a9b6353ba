package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// member is a connection that ends when it is closed or stopped.
type member struct {
	since int64
	busy  bool
	ctx   context.Context
	conn  net.Conn
	ended chan struct{} // closed when it may end
}

func (m *member) Serve() {
	defer m.conn.Close()
	select {
	case <-m.ended:
	case <-m.ctx.Done():
	}
}

func (m *member) Stop()                    {}
func (m *member) IdleSince() (int64, bool) { return m.since, !m.busy }

// farConn is a connection from an address.
type farConn struct {
	net.Conn
	from string
}

func (c farConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 7))
}

// newServer returns a server, and admits connections to it; each is idle later than
// those before.
func newServer(t *testing.T, config Config) (*Server, func(from string, busy bool) *accepted) {
	var next *member
	config.Open = func(ctx context.Context, conn net.Conn) Connection {
		next.ctx, next.conn = ctx, conn
		return next
	}
	config.Logger, config.Prefix = slog.New(slog.DiscardHandler), "test"
	s := New(config)
	t.Cleanup(s.cancel)
	clock := int64(0)
	return s, func(from string, busy bool) *accepted {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		clock++
		next = &member{since: clock, busy: busy, ended: make(chan struct{})}
		return s.admit(farConn{near, from})
	}
}

func (s *Server) has(c *accepted) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.open[c]
	return open
}

// TestPerAddress: at the limit of an address, its idle connections make room, and those
// of others stay. Loopback addresses have no limit, and a network of IPv6 is one address.
func TestPerAddress(t *testing.T) {
	s, admit := newServer(t, Config{Connections: 1000, PerAddress: 2})
	for range 3 {
		if admit("127.0.0.1", false) == nil || admit("::1", false) == nil {
			t.Fatal("a loopback address is limited")
		}
	}
	other, first := admit("192.0.2.2", false), admit("192.0.2.1", true)
	second := admit("::ffff:192.0.2.1", false)
	if third := admit("192.0.2.1", true); third == nil || s.has(second) || !s.has(first) || !s.has(other) {
		t.Error("the idle connection of the address has not made room")
	}
	if admit("192.0.2.1", false) != nil {
		t.Error("a third connection is admitted while both are busy")
	}
	one := admit("2001:db8::1", false)
	if admit("2001:db8::2", false) == nil || admit("2001:db8::3", false) == nil || s.has(one) {
		t.Error("addresses of one network count on their own")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		s.removeLocked(c)
	}
	if len(s.counts) != 0 {
		t.Errorf("counts remain: %v", s.counts)
	}
}

// TestIdlest: the connection that makes room is the one that is idle for longest. A busy
// one never makes room.
func TestIdlest(t *testing.T) {
	s, admit := newServer(t, Config{Connections: 4})
	var all []*accepted
	for _, busy := range []bool{true, false, false, false} {
		all = append(all, admit("192.0.2.1", busy))
	}
	for _, want := range []int{1, 2, 3} {
		if admit("192.0.2.1", true) == nil || s.has(all[want]) {
			t.Errorf("connection %d has not made room", want)
		}
		if gone := slices.IndexFunc(all, func(c *accepted) bool { return !s.has(c) }); gone != 1 {
			t.Errorf("connection %d has made room", gone)
		}
	}
	if admit("192.0.2.1", false) != nil || s.Connections() != 4 {
		t.Errorf("%d connections, and one more is admitted", s.Connections())
	}
}

// TestClose: Close waits for connections, until its context ends; then it ends theirs and
// closes them. Nothing is accepted afterwards.
func TestClose(t *testing.T) {
	for _, late := range []bool{false, true} {
		opened := make(chan *member, 1)
		s := New(Config{Connections: 1, Logger: slog.New(slog.DiscardHandler), Prefix: "test", Open: func(ctx context.Context, conn net.Conn) Connection {
			m := &member{ctx: ctx, conn: conn, ended: make(chan struct{})}
			opened <- m
			return m
		}})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(listener) }()
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		m := <-opened
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- s.Close(ctx) }()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		select {
		case err := <-closed:
			t.Errorf("Close has not waited: %v", err)
		default:
		}
		var want error
		if late {
			want = context.Canceled
			cancel()
		} else {
			close(m.ended)
		}
		if err := <-closed; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if s.Connections() != 0 || m.ctx.Err() == nil {
			t.Errorf("%d connections are open, and their context: %v", s.Connections(), m.ctx.Err())
		}
		again, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(again); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := again.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is open: %v", err)
		}
	}
}

// deadlineConn records deadlines, and reads and writes as much as it is given.
type deadlineConn struct {
	net.Conn
	reads, writes []time.Time
	pieces        []int
}

func (c *deadlineConn) Read(p []byte) (int, error) { return len(p), nil }

func (c *deadlineConn) Write(p []byte) (int, error) {
	c.pieces = append(c.pieces, len(p))
	return len(p), nil
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error { c.reads = append(c.reads, t); return nil }

func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	c.writes = append(c.writes, t)
	return nil
}

// TestWire: the deadline of reading is renewed after each piece and not before, that of
// writing before each piece; what is kept is not renewed; and a stopped wire has one in
// the past. A deadline that is late enough stays.
func TestWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(deadlineConn)
		stopping := false
		w := &Wire{Conn: c, ReadTime: time.Hour, WriteTime: time.Hour, Stopping: func() bool { return stopping }}
		inTime := func(at time.Time) bool {
			left := time.Until(at)
			return left >= time.Hour && left <= time.Hour+time.Hour/spare
		}
		read := func(n, want int) {
			t.Helper()
			if _, err := w.Read(make([]byte, n)); err != nil || len(c.reads) != want {
				t.Errorf("%d deadlines, want %d, %v", len(c.reads), want, err)
			}
		}
		expect := func(want int) {
			t.Helper()
			if err := w.Expect(); err != nil || !w.Expecting() || len(c.reads) != want || !inTime(c.reads[want-1]) {
				t.Errorf("deadlines %v, want %d, %v", c.reads, want, err)
			}
		}
		w.Keep()
		read(3*PieceBytes, 0)
		expect(1)
		read(PieceBytes-1, 1)
		read(1, 1) // It is late enough.
		for i := range 3 {
			time.Sleep(time.Hour/spare + 1)
			read(PieceBytes-1, 1+i)
			read(1, 2+i)
			if !inTime(c.reads[1+i]) {
				t.Errorf("deadlines %v", c.reads)
			}
		}
		expect(4)
		time.Sleep(time.Hour / spare)
		expect(4)
		time.Sleep(time.Nanosecond)
		expect(5)
		if err := w.Await(-1); err != nil || w.Expecting() || !c.reads[5].IsZero() {
			t.Errorf("%v, %v", c.reads, err)
		}
		read(3*PieceBytes, 6)
		if err := w.Await(-1); err != nil || len(c.reads) != 6 {
			t.Errorf("%v, %v", c.reads, err)
		}
		stopping = true
		if err := w.Expect(); err != nil || time.Until(c.reads[7]) > 0 {
			t.Errorf("%v, %v", c.reads, err)
		}
		if n, err := w.Write(make([]byte, 2*PieceBytes+1)); n != 2*PieceBytes+1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if want := []int{PieceBytes, PieceBytes, 1}; !slices.Equal(c.pieces, want) || len(c.writes) != 1 || !inTime(c.writes[0]) {
			t.Errorf("pieces of %v with deadlines %v, want %v", c.pieces, c.writes, want)
		}
		time.Sleep(time.Hour/spare + 1)
		if _, err := w.Write([]byte("x")); err != nil || len(c.writes) != 2 || !inTime(c.writes[1]) {
			t.Errorf("deadlines %v, %v", c.writes, err)
		}
	})
}

// TestPeek: a connection whose first bytes were read begins with them.
func TestPeek(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		_, _ = far.Write([]byte("abcdef")) // The reader notices.
		far.Close()
	}()
	first, begun, err := Peek(near, 3)
	if err != nil || string(first) != "abc" {
		t.Fatalf("%q, %v", first, err)
	}
	var got []byte
	for p := make([]byte, 2); ; {
		n, err := begun.Read(p)
		if got = append(got, p[:n]...); err != nil {
			break
		}
	}
	if string(got) != "abcdef" {
		t.Errorf("%q", got)
	}
	if _, _, err := Peek(near, 1); err == nil {
		t.Error("bytes after the end")
	}
}
