package rntbd_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
)

// certificate returns a configuration of a server whose name is localhost.
func certificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func pool(t testing.TB, config *tls.Config) *x509.CertPool {
	t.Helper()
	cert, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}

// TestContext: the answer to the context has what clients need, and its activity id.
func TestContext(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t), Agent: "Decan", Version: "version=1.2.3"})
	c := w.dial(t)
	got, err := c.Context.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "47000000" + "c8000000" + strings.Repeat("00", 15) + "01" + "000002" + "01000000" + "0100070a323032302d30372d3135" +
		"020007" + "05446563616e" + "030007" + "0d76657273696f6e3d312e322e33"; hex.EncodeToString(got) != want {
		t.Errorf("%x, want %s", got, want)
	}
	answer := c.want(request(1, "", []byte("hello")), 200, "hello")
	if answer.Told(rntbd.ResponseOwnerFullName) != "rntbdtest/1" || answer.Answered(rntbd.ResponseLSN) != 7 {
		t.Errorf("%+v", answer)
	}
	if answer.Tokens[0].ID != uint16(rntbd.ResponsePayloadPresent) || answer.Tokens[1].ID != uint16(rntbd.ResponseTransportRequestID) {
		t.Errorf("%+v", answer.Tokens)
	}
}

// TestRefusals: a context without what the protocol requires gets an answer that says
// so, and the connection ends. Tokens that are unknown, absent or 1 change nothing.
func TestRefusals(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	begin := func() *rntbdtest.Frame {
		return rntbdtest.Request(rntbd.Connection, rntbd.Connect, rntbd.GUID{3: 3})
	}
	for want, f := range map[string]*rntbdtest.Frame{
		"":                                    begin().Int(0x7777, rntbd.TypeULong, 1).Int(4, rntbd.TypeByte, 1).Add(2, rntbd.TypeString, "agent").Add(1, rntbd.TypeSmallString, "2018-09-17").Int(0, rntbd.TypeULong, 1),
		"The context has no ProtocolVersion.": begin().Add(1, rntbd.TypeSmallString, "2020-07-15").Add(2, rntbd.TypeSmallString, "agent"),
		"The context has a ProtocolVersion other than 1, which is not supported.": begin().Int(0, rntbd.TypeULong, 2).Add(1, rntbd.TypeSmallString, "x").Add(2, rntbd.TypeSmallString, "agent"),
		"The context has no ClientVersion.":                                       begin().Int(0, rntbd.TypeULong, 1).Int(1, rntbd.TypeULong, 1).Add(2, rntbd.TypeSmallString, "agent"),
		"The context has no UserAgent.":                                           begin().Int(0, rntbd.TypeULong, 1).Add(1, rntbd.TypeSmallString, "2020-07-15"),
	} {
		c := w.connect(t)
		answer, err := c.Greet(f)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Activity != f.Activity {
			t.Errorf("activity %s", answer.Activity)
		}
		if want == "" {
			if answer.Status() != 200 || answer.Payload != nil {
				t.Errorf("%d %s", answer.Status(), answer.Payload)
			}
			c.want(request(1, "", nil), 200, "")
			continue
		}
		if answer.Status() != 400 || string(answer.Payload) != `{"code":"BadRequest","message":"`+want+`"}` {
			t.Errorf("%d %s, want %s", answer.Status(), answer.Payload, want)
		}
		c.ended()
	}
}

// TestOutOfOrder: an answer does not wait for those of earlier requests.
func TestOutOfOrder(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	c := w.dial(t)
	c.send(request(1, "block", nil), request(2, "", []byte("second")))
	if f := c.receive(); f.Answered(rntbd.ResponseTransportRequestID) != 2 || string(f.Payload) != "second" {
		t.Errorf("%+v", f)
	}
	close(w.block)
	if f := c.receive(); f.Answered(rntbd.ResponseTransportRequestID) != 1 || f.Payload != nil {
		t.Errorf("%+v", f)
	}
}

// TestThousand: 1,000 requests that are all open at the same time on one connection are
// all answered, and the answers that are ready together share writes.
func TestThousand(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	c := w.dial(t)
	const n = 1000
	for i := range uint32(n) {
		c.send(request(i, "block", nil))
	}
	for range n {
		<-w.blocked
	}
	if open := w.value(t, "decan_direct_requests_open"); open != n {
		t.Errorf("%g open requests", open)
	}
	close(w.block)
	seen := map[int64]bool{}
	for range n {
		seen[c.receive().Answered(rntbd.ResponseTransportRequestID)] = true
	}
	if len(seen) != n {
		t.Errorf("%d different answers", len(seen))
	}
	if writes := w.value(t, "decan_direct_writes_total"); writes > n/2 {
		t.Errorf("%g writes", writes)
	}
	if requests := w.value(t, "decan_direct_requests_total"); requests != n {
		t.Errorf("%g requests", requests)
	}
}

// TestGoroutines: a request is served by a goroutine that has served others, as long as
// one waits.
func TestGoroutines(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.dial(t)
	const n = 200
	seen := map[string]bool{}
	for i := range uint32(n) {
		c.send(request(i, "stack", nil))
		goroutine, _, _ := strings.Cut(string(c.receive().Payload), "[")
		seen[goroutine] = true
	}
	if len(seen) > n/4 {
		t.Errorf("%d goroutines for %d requests, one after another", len(seen), n)
	}
}

// TestRecords: no TLS record has parts of two answers. Java's decoder moves what follows
// an answer in its buffer, which holds a record, over the payload of that answer.
func TestRecords(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	c := w.dial(t)
	const n = 300
	for i := range uint32(n) {
		c.send(request(i, "block", bytes.Repeat([]byte("p"), int(i%7)*100)))
		if i%50 == 49 {
			c.send(request(n+i, "size 20000", nil))
			if f := c.receive(); len(f.Payload) != 20000 {
				t.Errorf("a payload of %d bytes", len(f.Payload))
			}
		}
	}
	for range n {
		<-w.blocked
	}
	close(w.block)
	record := make([]byte, 32<<10)
	var rest []byte
	for answers := 0; answers < n; {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got, err := c.Read(record) // Read returns at most one record.
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, record[:got]...)
		if _, used, err := rntbdtest.Decode(rntbdtest.KindResponse, rest); err == nil {
			if used != len(rest) {
				t.Fatalf("%d bytes follow an answer in its record", len(rest)-used)
			}
			rest, answers = rest[:0], answers+1
		}
	}
	if writes := w.value(t, "decan_direct_writes_total"); writes > n/2 {
		t.Errorf("%g writes", writes)
	}
}

// TestPieces: a frame may arrive byte by byte, and several may arrive together.
func TestPieces(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.connect(t)
	wire, err := rntbdtest.Context().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint32(3) {
		if wire, err = request(id, "", bytes.Repeat([]byte("p"), 100)).Append(wire); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Greet(rntbdtest.Context()); err != nil {
		t.Fatal(err)
	}
	length := binary.LittleEndian.Uint32(wire)
	for i := range wire[length:] {
		if err := c.SendBytes(wire[int(length)+i:][:1]); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if f := c.receive(); len(f.Payload) != 100 {
			t.Errorf("%+v", f)
		}
	}
}

// TestSizes: payloads and heads of all sizes come and go whole, in whatever order.
func TestSizes(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	c := w.dial(t)
	sizes := []int{1, 100, 4 << 10, 4<<10 + 1, 8 << 10, 16 << 10, 16<<10 + 1, 65_535, 65_536, 200_000, 2 << 20, 3, 0}
	go func() {
		for i, size := range sizes {
			payload := bytes.Repeat([]byte{byte('a' + i)}, size)
			name := strings.Repeat("n", min(size, 65_535))
			if err := c.Send(request(uint32(i), name, payload)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range sizes {
		f := c.receive()
		i := f.Answered(rntbd.ResponseTransportRequestID)
		if want := bytes.Repeat([]byte{byte('a' + i)}, sizes[i]); !bytes.Equal(f.Payload, want) {
			t.Errorf("%d: %d bytes, want %d", i, len(f.Payload), len(want))
		}
	}
}

// TestPanic: a handler that panics fails its request and no other.
func TestPanic(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.dial(t)
	c.want(request(1, "panic", nil), 500, "")
	c.want(request(2, "", []byte("x")), 200, "x")
	if text := w.log.String(); !strings.Contains(text, "as the test wants") {
		t.Error(text)
	}
}

// TestClose: requests that were read are answered before their connection is closed,
// and nothing is accepted any more.
func TestClose(t *testing.T) {
	w := newWorld(t, rntbd.Config{TLS: certificate(t)})
	c, idle := w.dial(t), w.dial(t)
	c.send(request(1, "block", nil))
	<-w.blocked
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		w.close(t)
	}()
	idle.ended()
	select {
	case <-closed:
		t.Fatal("closed with an open request")
	default:
	}
	close(w.block)
	if f := c.receive(); f.Status() != 200 || f.Answered(rntbd.ResponseTransportRequestID) != 1 {
		t.Errorf("%+v", f)
	}
	c.ended()
	<-closed
	if c, err := rntbdtest.Dial(w.address, w.client); err == nil {
		c.Close()
		t.Error("a connection was accepted")
	}
	if text := w.log.String(); text != "" {
		t.Error(text)
	}
}

// TestGone: when a client is gone, the contexts of its requests end, and nothing is
// logged.
func TestGone(t *testing.T) {
	w := newWorld(t, rntbd.Config{})
	c := w.dial(t)
	c.send(request(1, "block", nil), request(2, "block", nil))
	<-w.blocked
	<-w.blocked
	c.Close()
	<-w.canceled
	<-w.canceled
	w.close(t)
	if text := w.log.String(); text != "" {
		t.Error(text)
	}
}
