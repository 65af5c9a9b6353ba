package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/internal/status"
)

// start runs a server on free loopback ports and closes it with the test.
func start(tb testing.TB, config Config) *Server {
	tb.Helper()
	config.Ports.Data, config.Ports.Admin = "127.0.0.1:0", "127.0.0.1:0"
	config.Throughput.Enforcement = cmp.Or(config.Throughput.Enforcement, "off") // Most tests send more requests than the throughput of a container allows.
	s, err := Start(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func (s *Server) address() string { return s.data.listener.Addr().String() }

// call sends one signed request on a new connection.
func call(tb testing.TB, s *Server, method, link, body string, headers ...string) servertest.Response {
	tb.Helper()
	c, err := servertest.Dial(s.address())
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	c.KeepHeaders = true
	r, err := c.Do(servertest.Prepare(s.Key(), method, link, []byte(body), headers...))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestBothProtocolsOnOnePort(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, Config{Data: data, TLS: TLSOptions{Hosts: []string{"db.example.com", "192.0.2.7"}}})
	pem, err := AuthorityPEM(data, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "db.example.com", "192.0.2.7"} {
		conn, err := tls.Dial("tcp", s.address(), &tls.Config{RootCAs: pool, ServerName: name})
		if err != nil {
			t.Errorf("https as %s: %v", name, err)
			continue
		}
		conn.Close()
	}
	if conn, err := tls.Dial("tcp", s.address(), &tls.Config{RootCAs: pool, ServerName: "other.example.com"}); err == nil {
		conn.Close()
		t.Error("the certificate covers a name it was not made for")
	}
	if r := call(t, s, "GET", "", ""); r.Status != 200 {
		t.Errorf("plain http: got %d %s, want 200", r.Status, r.Body)
	}
}

// TestEndpointsFollowTheRequest shows that mapped ports and container names work.
func TestEndpointsFollowTheRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, scheme := range []string{"http", "https"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", scheme+"://"+s.address()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		sign(req, s.Key())
		req.Host = "cosmos.internal:9443"
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want := `"databaseAccountEndpoint":"` + scheme + `://cosmos.internal:9443/"`; !strings.Contains(string(body), want) {
			t.Errorf("%s: got %s, want it to hold %s", scheme, body, want)
		}
	}
	fixed := start(t, Config{Account: AccountOptions{Endpoint: "https://db.example.com/"}})
	if r := call(t, fixed, "GET", "", ""); !strings.Contains(string(r.Body), `"databaseAccountEndpoint":"https://db.example.com/"`) {
		t.Errorf("got %s, want the fixed endpoint", r.Body)
	}
}

func TestCertificateIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	leaf := func(now time.Time, hosts ...string) []byte {
		get, err := selfMade(dir, hosts, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		pair, err := get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate[0]
	}
	first := leaf(now)
	if string(leaf(now)) != string(first) {
		t.Error("a second start made another certificate")
	}
	named := leaf(now, "db.example.com")
	if string(named) == string(first) {
		t.Error("a new name did not make a new certificate")
	}
	if string(leaf(now.Add(leafLife-leafRenewal/2), "db.example.com")) == string(named) {
		t.Error("a certificate near its expiry was not replaced")
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := selfMade(dir, nil, time.Now); err == nil {
		t.Error("a damaged authority was replaced without an error")
	}
	orphan := t.TempDir()
	if err := os.WriteFile(filepath.Join(orphan, "ca.pem"), first, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := selfMade(orphan, nil, time.Now); err == nil {
		t.Error("an authority without its key was replaced without an error")
	}
	info, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the authority's key has mode %v, want 0600", info.Mode().Perm())
	}
}

// TestCertificateRenewalCutShort leaves a new key and the old certificate, like a
// process that dies between writing the two files. The next start makes both again
// under the same authority.
func TestCertificateRenewalCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	if _, err := selfMade(dir, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	authority, old := read("ca.pem"), read("server.pem")
	if _, err := selfMade(dir, []string{"db.example.com"}, time.Now); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "server.pem"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := selfMade(dir, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem")); err != nil {
		t.Error(err)
	}
	if read("ca.pem") != authority {
		t.Error("the authority was replaced, which clients trust")
	}
}

func TestSilentClientHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for range 20 {
		silent, err := net.Dial("tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	if r := call(t, s, "GET", "", ""); r.Status != 200 {
		t.Errorf("got %d, want 200", r.Status)
	}
	if err := s.Close(); err != nil { // while the silent clients are still connected
		t.Error(err)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"consistency":      {Config{Account: AccountOptions{Consistency: "Perfect"}}, `--consistency "Perfect": use Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual`},
		"cross-partition":  {Config{Protocol: ProtocolOptions{CrossPartition: "maybe"}}, `--cross-partition "maybe": use service or full`},
		"account":          {Config{Account: AccountOptions{ID: "LocalHost"}}, "special meaning"},
		"key":              {Config{Keys: KeyOptions{Primary: "not base64!"}}, "--key"},
		"well-known key":   {Config{Ports: PortOptions{Admin: ":0"}}, "--insecure-key"},
		"half a pair":      {Config{TLS: TLSOptions{Cert: "a.pem"}}, "both"},
		"no certificate":   {Config{TLS: TLSOptions{Cert: "a.pem", Key: "b.pem"}}, "a.pem"},
		"address":          {Config{Ports: PortOptions{Data: "here"}}, `--listen "here"`},
		"unusable address": {Config{Ports: PortOptions{Data: "127.0.0.1:99999"}}, "--listen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.Ports.Data = cmp.Or(c.config.Ports.Data, "127.0.0.1:0")
			c.config.Ports.Admin = cmp.Or(c.config.Ports.Admin, noListener)
			s, err := Start(t.Context(), c.config)
			if err == nil {
				s.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want it to name %q", err, c.want)
			}
		})
	}
}

// TestOwnKeyBeyondLoopback shows that a server with its own key may listen on any
// address.
func TestOwnKeyBeyondLoopback(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 64)))
	for _, config := range []Config{
		{Keys: KeyOptions{Primary: key}, Ports: PortOptions{Data: "0.0.0.0:0"}},
		{Keys: KeyOptions{Insecure: true}, Ports: PortOptions{Data: "0.0.0.0:0"}},
	} {
		if _, err := config.complete(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnusableDataDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Ports: PortOptions{Data: "127.0.0.1:0", Admin: noListener}, Data: file}); err == nil {
		t.Error("a file served as data directory")
	}
	if content, err := os.ReadFile(file); err != nil || len(content) != 0 {
		t.Errorf("the file was changed: %q %v", content, err)
	}
}

// TestCloseFinishesRequests closes the server while a request's body is still
// being sent: the request is answered.
func TestCloseFinishesRequests(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	if r := call(t, s, "POST", "dbs", `{"id":"d"}`); r.Status != 201 {
		t.Fatalf("got %d %s", r.Status, r.Body)
	}
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.Endpoint()+"dbs/d/colls", reader)
	if err != nil {
		t.Fatal(err)
	}
	sign(req, s.Key())
	// The client sends the body when the server asks for it: then a handler runs.
	req.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	answered := make(chan int, 1)
	go func() {
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	io.WriteString(writer, `{"id":"c",`)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	io.WriteString(writer, `"partitionKey":{"paths":["/pk"]}}`)
	writer.Close()
	if got := <-answered; got != 201 {
		t.Errorf("the request in progress got %d, want 201", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// sign adds what a client adds to a request.
func sign(req *http.Request, key string) {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	kind, link := servertest.Signed(strings.Trim(req.URL.Path, "/"))
	req.Header.Set("x-ms-date", date)
	req.Header.Set("authorization", servertest.Authorization(key, req.Method, kind, link, date))
}

// TestCloseLeavesNothing starts and closes servers with data, load and clients
// that stay connected: all their goroutines end with Close.
func TestCloseLeavesNothing(t *testing.T) { // not parallel: it counts goroutines
	cycle := func(data string) {
		s, err := Start(t.Context(), Config{Data: data, Ports: PortOptions{Data: "127.0.0.1:0", Admin: "127.0.0.1:0", Compute: "127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		silent, err := net.Dial("tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		kept, err := servertest.Dial(s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Close()
		if err := s.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 2); err != nil && status.CodeOf(err) != status.CodeConflict {
			t.Fatal(err)
		}
		for i := range 4 {
			body := fmt.Appendf(nil, `{"id":"x","pk":"%d"}`, i)
			r, err := kept.Do(servertest.Prepare(s.Key(), "POST", "dbs/d/colls/c/docs", body,
				"x-ms-documentdb-partitionkey", fmt.Sprintf(`["%d"]`, i), "x-ms-documentdb-is-upsert", "True"))
			if err != nil || r.Status != 201 && r.Status != 200 {
				t.Fatalf("%v %d %s", err, r.Status, r.Body)
			}
		}
		policy := `{"id":"c","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"excludedPaths":[{"path":"/*"}]}}`
		if r, err := kept.Do(servertest.Prepare(s.Key(), "PUT", "dbs/d/colls/c", []byte(policy))); err != nil || r.Status != 200 {
			t.Fatalf("%v %d %s", err, r.Status, r.Body) // Close interrupted its rebuild
		}
	}
	data := t.TempDir()
	cycle("") // goroutines of the first server that stay for the whole process
	cycle(data)
	before := runtime.NumGoroutine()
	for range 25 {
		cycle("")
		cycle(data)
	}
	// A connection's last goroutine may still be ending.
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before 50 servers, %d after them\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
}
