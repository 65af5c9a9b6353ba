package cql

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
)

// world is a server with a small processor.
type world struct {
	*Server
	small   *small
	keys    auth.Keys
	address string
	ended   chan error // the result of Serve

	verifier atomic.Pointer[auth.Verifier]
}

// start starts a server on a port, which is closed with the test.
func start(t testing.TB, config Config, listen string) *world {
	t.Helper()
	w := &world{
		small: newSmall(), ended: make(chan error, 1),
		keys: auth.Keys{Primary: auth.NewKey(), Secondary: auth.NewKey(), PrimaryReadonly: auth.NewKey(), SecondaryReadonly: auth.NewKey()},
	}
	verifier, err := auth.NewVerifier(w.keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.verifier.Store(verifier)
	config.Processor, config.Account, config.Verifier = w.small, "account", w.verifier.Load
	w.Server = New(config)
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	go func() { w.ended <- w.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := w.inflight.taken(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
		if n := w.Connections(); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
	return w
}

func newWorld(t testing.TB, config Config) *world {
	t.Helper()
	return start(t, config, "127.0.0.1:0")
}

// client is a connection to a server.
type client struct {
	t       testing.TB
	conn    net.Conn
	reader  *frame.Reader
	writer  *frame.Writer
	version frame.Version
	stream  int16
}

// answerTime bounds the waiting for an answer.
const answerTime = 10 * time.Second

// dial connects without signing in.
func (w *world) dial(t testing.TB, version frame.Version) *client {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	return clientOf(t, conn, version)
}

func clientOf(t testing.TB, conn net.Conn, version frame.Version) *client {
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, version: version, reader: frame.NewReader(conn, frame.BodyMax), writer: frame.NewWriter(conn)}
}

// connect connects and signs in with the primary key.
func (w *world) connect(t testing.TB, version frame.Version, options ...frame.Pair[string]) *client {
	t.Helper()
	c := w.dial(t, version)
	c.startup(options...)
	c.want(frame.AuthResponse{Token: token("account", w.keys.Primary)}, frame.AuthSuccess{})
	return c
}

func token(user, key string) []byte { return []byte("\x00" + user + "\x00" + key) }

// startup sends STARTUP, and switches to what it has agreed.
func (c *client) startup(options ...frame.Pair[string]) {
	c.t.Helper()
	c.want(frame.Startup{Options: append(options, frame.Pair[string]{Name: "CQL_VERSION", Value: "3.0.0"})}, frame.Authenticate{Class: authenticator})
	name, _ := frame.Lookup(options, "COMPRESSION")
	compression, _ := frame.ParseCompression(name)
	if c.version >= frame.V5 {
		c.reader.StartSegments(compression)
		c.writer.StartSegments(compression)
	} else {
		c.writer.SetCompression(compression)
	}
}

func (c *client) send(messages ...frame.Message) {
	c.t.Helper()
	for _, m := range messages {
		c.stream++
		if err := c.writer.Add(&frame.Frame{Version: c.version, Stream: c.stream, Message: m}); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.writer.Flush(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receive() frame.Frame {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		c.t.Fatal(err)
	}
	f, err := c.reader.Next()
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	return f
}

// ask sends a request and returns the answer.
func (c *client) ask(m frame.Message) frame.Frame {
	c.t.Helper()
	c.send(m)
	f := c.receive()
	if f.Stream != c.stream {
		c.t.Fatalf("answer on stream %d, want %d: %+v", f.Stream, c.stream, f.Message)
	}
	return f
}

// want sends a request whose answer is comparable.
func (c *client) want(m, want frame.Message) {
	c.t.Helper()
	if got := c.ask(m).Message; !same(got, want) {
		c.t.Fatalf("%+v: got %+v, want %+v", m, got, want)
	}
}

func same(a, b frame.Message) bool {
	if x, ok := a.(frame.AuthSuccess); ok {
		y, ok := b.(frame.AuthSuccess)
		return ok && string(x.Token) == string(y.Token)
	}
	return a == b
}

// fails sends a request whose answer is an error.
func (c *client) fails(m frame.Message, code frame.ErrorCode, message string) *frame.Error {
	c.t.Helper()
	e, ok := c.ask(m).Message.(*frame.Error)
	if !ok || e.Code != code || e.Message != message {
		c.t.Errorf("%+v: got %+v, want %x %s", m, e, code, message)
	}
	return e
}

// rows sends a request and returns the cells of its rows as text.
func (c *client) rows(m frame.Message) [][]string {
	c.t.Helper()
	answer := c.ask(m).Message
	result, ok := answer.(*frame.Rows)
	if !ok {
		c.t.Fatalf("%+v: got %+v, want rows", m, answer)
	}
	var all [][]string
	for row := range result.All() {
		var cells []string
		for _, cell := range row {
			cells = append(cells, string(cell))
		}
		all = append(all, cells)
	}
	return all
}

// ended checks that the server ends the connection.
func (c *client) ended() {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		c.t.Fatal(err)
	}
	var timeout net.Error
	if f, err := c.reader.Next(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("the connection is open: %+v, %v", f.Message, err)
	}
}

// quiet checks that no answer arrives for some time, and that the connection stays open.
func (c *client) quiet(d time.Duration) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
	if err := c.reader.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("an answer, or the end: %v", err)
	}
}

func query(text string, values ...[]byte) *frame.Query {
	q := &frame.Query{Text: text, Parameters: frame.Parameters{Consistency: frame.One}}
	for _, v := range values {
		q.Parameters.Flags = frame.QueryValues
		q.Parameters.Values = append(q.Parameters.Values, frame.Value{Bytes: v})
	}
	return q
}

// certificate returns a configuration for TLS with a new certificate.
func certificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
}
