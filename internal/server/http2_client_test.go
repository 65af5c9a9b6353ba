package server

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/server/servertest"
)

// http2Client returns a client that speaks only HTTP/2, with TLS and without.
func http2Client(tb testing.TB) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)} // Another test verifies the certificate.
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// signedRequest returns a signed request. headers are pairs of name and value.
func signedRequest(tb testing.TB, s *Server, scheme, method, link, body string, headers ...string) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, scheme+"://"+s.address()+"/"+link, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	kind, owner := servertest.Signed(link)
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2020-07-15")
	req.Header.Set("Authorization", servertest.Authorization(s.Key(), method, kind, owner, date))
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

// http2Door is a door over TCP, with TLS and without. change may change the limits
// of its connections.
func http2Door(t *testing.T, change func(*connections), handler http.Handler) (*Server, *connections) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openTestDoor(t, inner, change, handler)
}

// pipeDoor is a door over pipes, for simulated time.
func pipeDoor(t *testing.T, handler http.Handler) (*pipeListener, *connections) {
	inner := newPipeListener()
	_, all := openTestDoor(t, inner, nil, handler)
	return inner, all
}

func openTestDoor(t *testing.T, inner net.Listener, change func(*connections), handler http.Handler) (*Server, *connections) {
	config, err := Config{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := config.certificates()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{config: config, log: slog.New(slog.DiscardHandler), plan: planDescriptors(1<<20, true, 0, connectionsMax, false, false)}
	registry := prometheus.NewRegistry()
	all, _ := s.connections(nosql.NewMemory(0, registry), registry)
	if change != nil {
		change(all)
	}
	s.data = s.openDoor(listenMixed(inner, all, certificates), all, handler)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, all
}

// Frames that only clients of tests send.
const (
	frameData     = 0
	frameSettings = 4
	frameGoAway   = 7
	frameWindow   = 8
	flagEndStream = 1
)

// rawHTTP2 is a client that sends any frames.
type rawHTTP2 struct {
	t    *testing.T
	conn net.Conn
	read chan received     // closed at the end of the connection; nil if the client reads nothing
	seen map[uint32]string // what was received for each stream, 0 for the connection
	sent map[uint32]bool   // streams that the server has ended
}

// received is a frame from the server.
type received struct {
	head    [9]byte
	payload []byte
}

func dialHTTP2(t *testing.T, address string, secure bool) *rawHTTP2 {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(60 * time.Second))
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // Another test verifies the certificate.
	}
	t.Cleanup(func() { conn.Close() })
	raw := newRawHTTP2(t, conn)
	go raw.readFrames()
	return raw
}

func newRawHTTP2(t *testing.T, conn net.Conn) *rawHTTP2 {
	t.Helper()
	raw := &rawHTTP2{t: t, conn: conn, read: make(chan received, 10_000), seen: map[uint32]string{}, sent: map[uint32]bool{}}
	if _, err := io.WriteString(conn, preface); err != nil {
		t.Fatal(err)
	}
	raw.frame(frameSettings, 0, 0, []byte{0, 1, 0, 0, 0, 0}) // no table for headers
	raw.frame(frameWindow, 0, 0, []byte{0x40, 0, 0, 0})      // the window of the connection; those of its streams are 64 KB
	return raw
}

func (raw *rawHTTP2) readFrames() {
	defer close(raw.read)
	for {
		var got received
		if _, err := io.ReadFull(raw.conn, got.head[:]); err != nil {
			return
		}
		got.payload = make([]byte, binary.BigEndian.Uint32(got.head[:])>>8)
		if _, err := io.ReadFull(raw.conn, got.payload); err != nil {
			return
		}
		raw.read <- got
	}
}

func rawFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	out = append(out, flags)
	out = binary.BigEndian.AppendUint32(out, stream)
	return append(out, payload...)
}

func (raw *rawHTTP2) write(kind, flags byte, stream uint32, payload []byte) error {
	_, err := raw.conn.Write(rawFrame(kind, flags, stream, payload))
	return err
}

func (raw *rawHTTP2) frame(kind, flags byte, stream uint32, payload []byte) {
	raw.t.Helper()
	if err := raw.write(kind, flags, stream, payload); err != nil {
		raw.t.Fatal(err)
	}
}

// request sends a request. fields are pairs of name and value.
func (raw *rawHTTP2) request(stream uint32, data string, fields ...string) {
	raw.t.Helper()
	var pseudo, regular []string
	for i := 0; i < len(fields); i += 2 {
		if fields[i][0] == ':' {
			pseudo = append(pseudo, fields[i], fields[i+1])
		} else {
			regular = append(regular, fields[i], fields[i+1])
		}
	}
	block := hpack(append(pseudo, regular...)...)
	flags, kind := byte(0), byte(frameHeaders)
	if data == "" {
		flags = flagEndStream
	}
	for len(block) > frameMax {
		raw.frame(kind, flags, stream, block[:frameMax])
		block, kind, flags = block[frameMax:], frameContinuation, 0
	}
	raw.frame(kind, flags|flagEndHeaders, stream, block)
	if data != "" {
		_ = raw.write(frameData, flagEndStream, stream, []byte(data)) // The server may have refused the headers.
	}
}

// answer reads frames until the stream has ended, and returns its status, and how it
// ended if that was an error. For stream 0 it returns the next message for the
// connection. After the connection has ended it is "end".
func (raw *rawHTTP2) answer(stream uint32) string {
	for stream == 0 && raw.seen[0] == "" || stream != 0 && !raw.sent[stream] {
		got, open := <-raw.read
		if !open {
			return "end"
		}
		head, payload := got.head, got.payload
		id := binary.BigEndian.Uint32(head[5:])
		switch head[3] {
		case frameHeaders:
			raw.seen[id] += statusIn(payload)
		case frameReset:
			raw.seen[id] = strings.TrimSpace(fmt.Sprintf("%s RST %d", raw.seen[id], binary.BigEndian.Uint32(payload)))
			raw.sent[id] = true
		case frameGoAway:
			raw.seen[0] = fmt.Sprintf("GOAWAY %d", binary.BigEndian.Uint32(payload[4:]))
		}
		if (head[3] == frameHeaders || head[3] == frameData) && head[4]&flagEndStream != 0 {
			raw.sent[id] = true
		}
	}
	got := raw.seen[stream]
	if stream == 0 {
		raw.seen[0] = ""
	}
	return got
}

// statusIn returns the status in the first field of headers from net/http.
func statusIn(block []byte) string {
	for len(block) > 0 && block[0]&0xE0 == 0x20 {
		block = block[1:] // the size of the table
	}
	if indexed := map[byte]string{0x88: "200", 0x89: "204", 0x8B: "304", 0x8C: "400", 0x8D: "404", 0x8E: "500"}[block[0]]; indexed != "" {
		return indexed
	}
	// A literal with the name :status, at any index, and three digits, as they are
	// or in Huffman's code: 0, 1 and 2 have five bits, 3 to 9 six.
	if name := block[0] & 0x0F; name < 8 || name > 14 {
		return fmt.Sprintf("%x", block)
	}
	if block[1] == 3 {
		return string(block[2:5])
	}
	bits, text := uint64(0), ""
	for _, b := range block[2 : 2+block[1]&0x7F] {
		bits = bits<<8 | uint64(b)
	}
	for left := 8 * int(block[1]&0x7F); len(text) < 3; {
		if five := bits >> (left - 5) & 31; five <= 2 {
			text, left = text+string(rune('0'+five)), left-5
		} else {
			text, left = text+string(rune('3'+bits>>(left-6)&63-0x19)), left-6
		}
	}
	return text
}

// hpack encodes fields, pairs of name and value, as literals.
func hpack(fields ...string) []byte {
	var out []byte
	text := func(s string) {
		if n := len(s); n < 127 {
			out = append(out, byte(n))
		} else {
			out = append(out, 127)
			for n -= 127; n >= 128; n >>= 7 {
				out = append(out, byte(n&127|128))
			}
			if n >= 0 {
				out = append(out, byte(n))
			}
		}
		out = append(out, s...)
	}
	for i := 0; i < len(fields); i += 2 {
		out = append(out, 0)
		text(fields[i])
		text(fields[i+1])
	}
	return out
}
