package server

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/server/servertest"
)

// direct is the configuration of a server with direct mode.
func direct(config Config) Config {
	config.Direct.On = true
	return config
}

// insecure is TLS of clients that trust every certificate.
var insecure = &tls.Config{InsecureSkipVerify: true}

// directClient connects to a server in direct mode.
func directClient(tb testing.TB, s *Server) *rntbdtest.Client {
	tb.Helper()
	c, err := rntbdtest.Dial(s.DirectAddress(), insecure)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// TestDirectPorts: direct mode is off unless it is asked for. Its port has the
// certificate of the server and serves TLS only, unless a test asks for more.
func TestDirectPorts(t *testing.T) {
	t.Parallel()
	if off := start(t, Config{}); off.DirectAddress() != "" {
		t.Errorf("an address that was not asked for: %s", off.DirectAddress())
	}
	none := Config{}
	none.Ports.Direct = noListener
	if s := start(t, direct(none)); s.DirectAddress() != "" {
		t.Errorf("the address none is %s", s.DirectAddress())
	}

	config := direct(Config{Data: t.TempDir(), Version: "1.2.3"})
	s := start(t, config)
	pem, err := AuthorityPEM(config.Data, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		c, err := rntbdtest.Dial(s.DirectAddress(), &tls.Config{RootCAs: pool, ServerName: name})
		if err != nil {
			t.Fatal(name, err)
		}
		defer c.Close()
		agent, _ := c.Context.Token(2)
		version, _ := c.Context.Token(3)
		if c.Context.Status() != http.StatusOK || agent.Value != "Decan" || version.Value != "version=1.2.3" {
			t.Errorf("%+v", c.Context)
		}
	}
	if c, err := rntbdtest.Dial(s.DirectAddress(), nil); err == nil {
		c.Close()
		t.Error("a client without TLS is served")
	}

	plain := direct(Config{})
	plain.Direct.Plain = true
	c, err := rntbdtest.Dial(start(t, plain).DirectAddress(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	plain.TLS.Only = true
	if c, err := rntbdtest.Dial(start(t, plain).DirectAddress(), nil); err == nil {
		c.Close()
		t.Error("with --https-only, a client without TLS is served")
	}
}

// TestDirectAddress: without an address of its own, direct mode is where the data port
// is.
func TestDirectAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on           bool
		data, direct string
		want         string
		given        bool
	}{
		{false, "127.0.0.1:8081", "127.0.0.1:1", "", false},
		{true, "127.0.0.1:8081", "", "127.0.0.1:10251", false},
		{true, "0.0.0.0:443", "", "0.0.0.0:10251", false},
		{true, "[::1]:8081", "", "[::1]:10251", false},
		{true, ":8081", "", ":10251", false},
		{true, "127.0.0.1:0", "", "127.0.0.1:0", false},
		{true, "127.0.0.1:0", "127.0.0.1:10251", "127.0.0.1:10251", true},
		{true, "127.0.0.1:8081", "none", "", false},
	} {
		config := Config{Direct: DirectOptions{On: c.on}, Ports: PortOptions{Data: c.data, Direct: c.direct}}
		if got, given := config.directAddress(); got != c.want || given != c.given {
			t.Errorf("%+v: %q, %t", c, got, given)
		}
	}
}

// TestDirectPortInUse: a second server takes a free port for direct mode, and says so;
// an address that the user has named must be free.
func TestDirectPortInUse(t *testing.T) {
	t.Parallel()
	if taken, err := net.Listen("tcp", "127.0.0.1:"+directPort); err == nil {
		defer taken.Close() // Otherwise another program has it.
	}
	var log lockedBuffer
	config := direct(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	config.Ports.Data, config.Ports.Admin = "127.0.0.1:"+unusedPort(t), noListener
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, port, _ := net.SplitHostPort(s.DirectAddress()); port == directPort || port == "" {
		t.Errorf("direct mode is at %s", s.DirectAddress())
	}
	directClient(t, s)
	if text := log.String(); !strings.Contains(text, "direct mode cannot have its usual port and takes a free one") {
		t.Error(text)
	}

	config = direct(Config{})
	config.Ports.Data, config.Ports.Admin, config.Ports.Direct = "127.0.0.1:0", noListener, s.DirectAddress()
	second, err := Start(t.Context(), config)
	if err == nil {
		second.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "--direct-listen "+config.Ports.Direct) {
		t.Errorf("got %v", err)
	}
}

// unusedPort returns a port that was free a moment ago.
func unusedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// directRead is a point read of an item as .NET sends it, signed now.
func directRead(s *Server, path, collectionRID, item, key string) *rntbdtest.Frame {
	date := time.Now().UTC().Format(http.TimeFormat)
	f := rntbdtest.Request(rntbd.Document, rntbd.Read, rntbd.GUID{1: 1})
	names := strings.Split(item, "/")
	return f.Text(rntbd.RequestAuthorizationToken, servertest.Authorization(s.Key(), "get", "docs", item, date)).
		Int(rntbd.RequestPayloadPresent, rntbd.TypeByte, 0).
		Add(rntbd.RequestDate, rntbd.TypeSmallString, date).
		Text(rntbd.RequestReplicaPath, path).
		Text(rntbd.RequestDatabaseName, names[1]).
		Text(rntbd.RequestCollectionName, names[3]).
		Text(rntbd.RequestDocumentName, names[5]).
		Text(rntbd.RequestPartitionKey, key).
		Text(rntbd.RequestCollectionRID, collectionRID).
		Int(rntbd.RequestRemainingTimeMillisOnClient, rntbd.TypeULong, 30000).
		Int(rntbd.RequestClientRetryAttemptCount, rntbd.TypeULong, 0).
		Int(rntbd.RequestTransportRequestID, rntbd.TypeULong, 8).
		Int(rntbd.RequestSDKSupportedCapabilities, rntbd.TypeULong, 9)
}
