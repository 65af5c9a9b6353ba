package rntbd_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
)

// wire returns a frame as bytes.
func wire(t testing.TB, f *rntbdtest.Frame) []byte {
	t.Helper()
	b, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestViolations: a client that breaks the protocol is disconnected with a reason in
// the log. Another connection does not notice.
func TestViolations(t *testing.T) {
	good := wire(t, request(1, "", []byte("abc")))
	head := len(good) - 4 - 3
	patched := func(at int, b ...byte) []byte {
		changed := bytes.Clone(good)
		copy(changed[at:], b)
		return changed
	}
	for name, c := range map[string]struct {
		wire []byte
		want string
	}{
		"short":         {patched(0, 23, 0, 0, 0), "a frame has 23 bytes, and between 24 and 1048576 are allowed"},
		"long":          {patched(0, 1, 0, 16, 0), "a frame has 1048577 bytes, and between 24 and 1048576 are allowed"},
		"endless":       {patched(0, 255, 255, 255, 255), "a frame has 4294967295 bytes"},
		"type":          {patched(26, 0x0F), "has the unknown type 0x0F"},
		"token":         {patched(31, 255, 255), "is longer than its frame"},
		"context":       {wire(t, rntbdtest.Context()), "a second context"},
		"huge payload":  {patched(head, 1, 0, 0, 1), "a payload has 16777217 bytes"},
		"http":          {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "a frame has 542393671 bytes"},
		"extra payload": {append(wire(t, request(2, "", nil)), "abcdefgh"...), "a frame has 1684234849 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, rntbd.Config{})
			other, bad := w.dial(t), w.dial(t)
			other.send(request(9, "block", nil))
			<-w.blocked
			if err := bad.SendBytes(c.wire); err != nil {
				t.Fatal(err)
			}
			if name == "extra payload" {
				bad.receive()
			}
			bad.ended()
			close(w.block)
			if f := other.receive(); f.Status() != 200 {
				t.Errorf("%+v", f)
			}
			w.close(t)
			text := w.log.String()
			if !strings.Contains(text, c.want) || !strings.Contains(text, "reason=protocol") || !strings.Contains(text, "client=rntbdtest/1") {
				t.Error(text)
			}
			if n := w.value(t, "decan_direct_connections_ended_total"); n != 1 {
				t.Errorf("%g connections were ended", n)
			}
		})
	}
}

// TestFirstFrame: what comes instead of a context ends the connection with a reason.
func TestFirstFrame(t *testing.T) {
	long := rntbdtest.Context().Text(0x7777, strings.Repeat("x", 17<<10))
	for name, c := range map[string]struct {
		wire []byte
		want string
	}{
		"a request": {wire(t, request(1, "", nil)), "the first frame is Read of Document instead of a context"},
		"too long":  {wire(t, long), "and between 24 and 16384 are allowed"},
		"http":      {[]byte("GET / HTTP/1.1\r\n\r\n"), "a frame has 542393671 bytes"},
		"garbage":   {append(wire(t, rntbdtest.Context())[:24], bytes.Repeat([]byte{0xFF}, 100)...), "has the unknown type 0xFF"},
	} {
		w := newWorld(t, rntbd.Config{})
		bad := w.connect(t)
		if err := bad.SendBytes(c.wire); err != nil {
			t.Fatal(err)
		}
		bad.ended()
		w.close(t)
		if text := w.log.String(); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestPlain: a server that requires TLS does not serve clients without it, and one that
// does not serves both on one port.
func TestPlain(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	secure := w.client
	w.client = nil
	c := w.connect(t)
	c.send(rntbdtest.Context())
	c.ended()
	if text := w.log.String(); !strings.Contains(text, "the client does not use TLS") {
		t.Error(text)
	}
	// A first frame whose length looks like the beginning of TLS is none.
	w.client = secure
	w.dial(t)

	both := newWorld(t, rntbd.Config{TLS: certificate(t), Plain: true})
	for _, config := range []*tls.Config{both.client, nil} {
		both.client = config
		c := both.connect(t)
		f := rntbdtest.Context()
		if config == nil {
			// The length of this frame is 0x0316, whose bytes are those of a TLS record.
			f.Text(0x7777, strings.Repeat("x", 0x316-len(wire(t, f))-5))
		}
		if answer, err := c.Greet(f); err != nil || answer.Status() != 200 {
			t.Fatal(answer, err)
		}
		c.want(request(1, "", nil), 200, "")
	}
}

// TestUntrusted: a client that does not trust the certificate leaves a line that says
// what to do.
func TestUntrusted(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	w.client = &tls.Config{ServerName: "localhost"}
	if c, err := rntbdtest.Dial(w.address, w.client); err == nil {
		c.Close()
		t.Fatal("the certificate is trusted")
	}
	for !strings.Contains(w.log.String(), "reason=tls") {
		runtime.Gosched()
	}
	if text := w.log.String(); !strings.Contains(text, "if it does not trust the certificate, see decan cert") || !strings.Contains(text, "reason=tls") {
		t.Error(text)
	}
}

// TestPayloadLimits: a payload of the maximum size is served; a longer one is dropped,
// its request refused, and the connection continues.
func TestPayloadLimits(t *testing.T) {
	w := newWorld(t, rntbd.Config{PayloadBytes: 100_000})
	c := w.dial(t)
	large := strings.Repeat("x", 100_000)
	c.want(request(1, "", []byte(large)), 200, large)
	c.want(request(2, "", []byte(large+"x")), 413, "")
	c.want(request(3, "", bytes.Repeat([]byte("x"), 16<<20)), 413, "")
	c.want(request(4, "", []byte("x")), 200, "x")
}

// TestMemory: a request for which there is no memory is dropped and refused, whether
// its tokens or its payload are large, and the connection continues. Small requests are
// not counted.
func TestMemory(t *testing.T) {
	m := &memory{limit: 1}
	w := newWorld(t, rntbd.Config{Memory: m})
	c := w.dial(t)
	c.want(request(1, "", []byte("small")), 200, "small")
	c.want(request(2, "", bytes.Repeat([]byte("x"), 5000)), 429, "")
	c.want(request(3, strings.Repeat("n", 60_000), bytes.Repeat([]byte("x"), 5000)), 429, "")
	c.want(request(4, strings.Repeat("n", 60_000), nil), 429, "")
	c.want(request(5, "", bytes.Repeat([]byte("x"), 1<<20)), 429, "")
	c.want(request(6, "size 5000", nil), 200, strings.Repeat("x", 5000)) // An answer that exists is sent.
	c.want(request(7, "", []byte("small")), 200, "small")

	m.limit = 0
	c.send(request(8, "block", bytes.Repeat([]byte("x"), 1<<20)))
	<-w.blocked
	if taken := m.taken.Load(); taken != 1<<20 {
		t.Errorf("%d bytes are taken", taken)
	}
	close(w.block)
	c.receive()
}

// TestMemoryArrives: an announced length alone takes no memory, and a connection that
// ends inside of a payload returns what it has taken.
func TestMemoryArrives(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.dial(t)
	f := wire(t, request(1, "", bytes.Repeat([]byte("x"), 2<<20)))
	if err := c.SendBytes(f[:len(f)-2<<20+10_000]); err != nil {
		t.Fatal(err)
	}
	// Another connection is served while this one waits.
	w.dial(t).want(request(2, "", []byte("x")), 200, "x")
	if taken := w.memory.taken.Load(); taken > 20_000 {
		t.Errorf("%d bytes are taken", taken)
	}
	c.Close()
}

// TestOpenRequests: a client that has as many open requests as allowed is not read
// until one is answered.
func TestOpenRequests(t *testing.T) {
	w := newWorld(t, rntbd.Config{Requests: 3})
	c := w.dial(t)
	for id := range uint32(3) {
		c.send(request(id, "block", nil))
		<-w.blocked
	}
	c.send(request(3, "fourth", nil))
	w.dial(t).want(request(9, "", []byte("x")), 200, "x")
	if open := w.value(t, "decan_direct_requests_open"); open != 3 {
		t.Errorf("%g open requests", open)
	}
	close(w.block)
	for range 4 {
		c.receive()
	}
}

// TestSilent: a client that does not send its context in time, and one that stops in
// the middle of a frame, are disconnected; one that is idle is not.
func TestSilent(t *testing.T) {
	w := newWorld(t, rntbd.Config{LoginTimeout: 50 * time.Millisecond, ReadTimeout: 50 * time.Millisecond})
	idle := w.dial(t)
	nothing, begun, half := w.connect(t), w.connect(t), w.dial(t)
	if err := begun.SendBytes(wire(t, rntbdtest.Context())[:30]); err != nil {
		t.Fatal(err)
	}
	if err := half.SendBytes(wire(t, request(1, "", []byte("abc")))[:30]); err != nil {
		t.Fatal(err)
	}
	nothing.ended()
	begun.ended()
	half.ended()
	idle.want(request(1, "", []byte("x")), 200, "x")
	w.close(t)
	if text := w.log.String(); !strings.Contains(text, "reason=slow") {
		t.Error(text)
	}
}

// TestSlowReader: a client that takes no answers is not read, then disconnected. What its
// answers take is bounded, and returned.
func TestSlowReader(t *testing.T) {
	w := newWorld(t, rntbd.Config{WriteTimeout: 100 * time.Millisecond, Requests: 64})
	c := w.dial(t)
	var most int64
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for id := range uint32(1000) {
			if c.Send(request(id, "size 1000000", nil)) != nil {
				return
			}
		}
	}()
	w.dial(t).want(request(1, "", []byte("x")), 200, "x")
	for w.server.Connections() > 1 {
		most = max(most, w.memory.taken.Load())
		runtime.Gosched()
	}
	<-sent
	if most > 34<<20 {
		t.Errorf("%d bytes were taken", most)
	}
	if text := w.log.String(); !strings.Contains(text, "reason=slow") {
		t.Error(text)
	}
}

// TestHeldAnswers: many reads whose answers are made at the same time get answers as long
// as the client has room for them, and 429 without it. The connection continues, and has
// room again when the client has taken them.
func TestHeldAnswers(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.dial(t)
	const requests, size = 64, 1 << 20
	for id := range uint32(requests) {
		c.send(request(id, "late 1048576", nil))
	}
	for range requests {
		<-w.blocked
	}
	close(w.block)
	for range requests {
		<-w.made
	}
	if taken := w.memory.taken.Load(); taken > 33<<20 {
		t.Errorf("%d bytes are taken", taken)
	}
	got := map[int]int{}
	for range requests {
		f := c.receive()
		got[f.Status()]++
		if f.Status() == 200 && len(f.Payload) != size {
			t.Errorf("%d bytes", len(f.Payload))
		}
	}
	if got[200] < 31 || got[429] == 0 || got[200]+got[429] != requests {
		t.Errorf("answers by status: %v", got)
	}
	for id := range uint32(requests) {
		c.want(request(id, "size 1048576", nil), 200, strings.Repeat("x", size))
	}
}

// TestRoomForWrites: requests that change something are not refused: so many are served
// at the same time as there is room for the largest answers, the others wait. One that
// wants no item in its answer needs no room.
func TestRoomForWrites(t *testing.T) {
	w := newWorld(t, rntbd.Config{PayloadBytes: 4 << 20})
	c := w.dial(t)
	patch := func(id uint32) *rntbdtest.Frame {
		f := request(id, "late 2097152", nil)
		f.Word = uint32(rntbd.Document) | uint32(rntbd.Patch)<<16
		return f
	}
	const requests, fit = 20, 8
	for id := range uint32(requests) {
		c.send(patch(id))
	}
	for range fit {
		<-w.blocked
	}
	silent := request(100, "late 0", nil).Int(rntbd.RequestReturnPreference, rntbd.TypeByte, 1)
	silent.Word = patch(0).Word
	c.send(silent)
	<-w.blocked
	select {
	case <-w.blocked:
		t.Error("a request is served for whose answer there is no room")
	default:
	}
	close(w.block)
	for range requests + 1 {
		if f := c.receive(); f.Status() != 200 {
			t.Errorf("%d", f.Status())
		}
	}
}

// TestConnectionLimit: at the limit, the connection that has been idle for longest
// makes room, one without a context first. If all are busy, a new one is refused.
func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, rntbd.Config{Connections: 2})
	first, second := w.dial(t), w.dial(t)
	first.want(request(1, "", nil), 200, "") // Now second is idle for longer.
	third := w.dial(t)
	second.ended()
	third.want(request(1, "", nil), 200, "")

	first.send(request(2, "block", nil))
	third.send(request(2, "block", nil))
	<-w.blocked
	<-w.blocked
	refused, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if _, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	close(w.block)
	first.receive()
	third.receive()
	if n := w.value(t, "decan_direct_connections_displaced_total"); n != 1 {
		t.Errorf("%g connections have made room", n)
	}
	if n := w.value(t, "decan_direct_connections_refused_total"); n != 1 {
		t.Errorf("%g connections were refused", n)
	}
	if n := w.value(t, "decan_direct_connections_open"); n != 2 {
		t.Errorf("%g connections are open", n)
	}
}

// TestStrangers: connections without a context make room before those with one.
func TestStrangers(t *testing.T) {
	w := newWorld(t, rntbd.Config{Connections: 2})
	known, stranger := w.dial(t), w.connect(t)
	for w.server.Connections() < 2 {
		runtime.Gosched()
	}
	w.dial(t)
	stranger.ended()
	known.want(request(1, "", nil), 200, "")
}
