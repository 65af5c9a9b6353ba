package server

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
)

// cassandra is the configuration of a server with the Cassandra API.
func cassandra(config Config) Config {
	config.Cassandra.On, config.Ports.CQL = true, "127.0.0.1:0,127.0.0.1:0"
	return config
}

// cqlClient signs in with a key.
func cqlClient(t *testing.T, s *Server, key string) *cqltest.Client {
	t.Helper()
	c, err := cqltest.Dial(s.CQLAddresses()[0], "decan", key, frame.V5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func mustCQL(t *testing.T, c *cqltest.Client, text string) [][]string {
	t.Helper()
	rows, err := c.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rows
}

// failsCQL runs a statement that is refused.
func failsCQL(t *testing.T, c *cqltest.Client, text string, code frame.ErrorCode, message string) {
	t.Helper()
	_, err := c.Query(text)
	if e := (*frame.Error)(nil); !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("%s: got %v, want %v with %q", text, err, code, message)
	}
}

// TestCQLPorts: both ports answer with and without TLS, serve the same data, and the
// system tables name the first one. A configuration that does not ask has no port.
func TestCQLPorts(t *testing.T) {
	t.Parallel()
	if off := start(t, Config{}); len(off.CQLAddresses()) != 0 {
		t.Errorf("ports that were not asked for: %v", off.CQLAddresses())
	}
	s := start(t, cassandra(Config{}))
	addresses := s.CQLAddresses()
	if len(addresses) != 2 {
		t.Fatalf("addresses %v", addresses)
	}
	mustCQL(t, cqlClient(t, s, s.Key()), "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, address := range addresses {
		for _, secure := range []bool{false, true} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if secure {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			c, err := cqltest.SignIn(conn, "decan", s.Key(), frame.V4)
			if err != nil {
				t.Fatalf("%s, TLS %t: %v", address, secure, err)
			}
			got := mustCQL(t, c, "SELECT rpc_address, rpc_port FROM system.local")
			if host, port, _ := net.SplitHostPort(addresses[0]); !slices.Equal(got[0], []string{"'" + host + "'", port}) {
				t.Errorf("local is at %v, want %s", got, addresses[0])
			}
			if rows := mustCQL(t, c, "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'ks'"); len(rows) != 1 {
				t.Errorf("%s does not see the keyspace", address)
			}
		}
	}
	only := start(t, cassandra(Config{TLS: TLSOptions{Only: true}}))
	if _, err := cqltest.Dial(only.CQLAddresses()[1], "decan", only.Key(), frame.V4); err == nil {
		t.Error("with --https-only, a client without TLS has signed in")
	}
	if _, metrics := ask(t, s, "GET", "metrics"); !strings.Contains(metrics, `decan_cql_requests_total{opcode="QUERY"} 9`) {
		t.Error("the metrics have no requests")
	}
}

// TestCQLAudit: the audit log has statements and attempts to sign in, and never a value.
func TestCQLAudit(t *testing.T) {
	t.Parallel()
	readonly := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("r", 64)))
	for level, want := range map[string][]string{
		"failures": {"SIGN IN  401 anonymous", "INSERT dbs/ks/colls/t 403 reader"},
		"changes": {
			"SIGN IN  401 anonymous", "CREATE KEYSPACE dbs/ks 200 master", "CREATE TABLE dbs/ks/colls/t 200 master", "INSERT dbs/ks/colls/t 200 master",
			"CREATE TABLE dbs/ks/colls/t 409 master", "BATCH dbs/ks/colls/t 200 master", "INSERT dbs/ks/colls/t 403 reader", "DROP KEYSPACE dbs/ks 200 master",
		},
		"all": {
			"SIGN IN  401 anonymous", "SIGN IN  200 master", "SIGN IN  200 reader", "CREATE KEYSPACE dbs/ks 200 master", "CREATE TABLE dbs/ks/colls/t 200 master",
			"INSERT dbs/ks/colls/t 200 master", "CREATE TABLE dbs/ks/colls/t 409 master", "BATCH dbs/ks/colls/t 200 master", "SELECT dbs/ks/colls/t 200 reader",
			"INSERT dbs/ks/colls/t 403 reader", "QUERY  400 reader", "DROP KEYSPACE dbs/ks 200 master",
		},
	} {
		var out lockedBuffer
		s := start(t, cassandra(Config{
			Keys: KeyOptions{Readonly: readonly}, AuditOutput: &out, Audit: AuditOptions{Log: "-", Level: level},
		}))
		if _, err := cqltest.Dial(s.CQLAddresses()[0], "decan", "AAAA", frame.V4); err == nil {
			t.Fatal("a wrong key is accepted")
		}
		owner, reader := cqlClient(t, s, s.Key()), cqlClient(t, s, readonly)
		mustCQL(t, owner, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		mustCQL(t, owner, "CREATE TABLE ks.t (k text PRIMARY KEY, v text)")
		mustCQL(t, owner, "INSERT INTO ks.t (k, v) VALUES ('secret', 'secret')")
		failsCQL(t, owner, "CREATE TABLE ks.t (k text PRIMARY KEY, v text)", frame.CodeAlreadyExists, "")
		if _, err := owner.Do(&frame.Batch{Type: frame.Unlogged, Statements: []frame.BatchStatement{{Text: "DELETE FROM ks.t WHERE k = 'secret'"}}, Parameters: frame.Parameters{Consistency: frame.One}}); err != nil {
			t.Fatal(err)
		}
		mustCQL(t, reader, "SELECT * FROM ks.t WHERE k = 'secret'")
		failsCQL(t, reader, "INSERT INTO ks.t (k, v) VALUES ('secret', '')", frame.CodeUnauthorized, "User decan has no MODIFY permission")
		failsCQL(t, reader, "SELEC", frame.CodeSyntax, "")
		mustCQL(t, owner, "DROP KEYSPACE ks")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var got []string
		charged := 0
		for line := range strings.Lines(out.String()) {
			var r struct {
				Door, Address, Caller, Operation, Resource string
				Status                                     int
				Charge                                     float64
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Door != "cql" || r.Address != "127.0.0.1" {
				t.Errorf("%s %v", line, err)
			}
			if r.Charge > 0 {
				charged++
			}
			got = append(got, fmt.Sprintf("%s %s %d %s", r.Operation, r.Resource, r.Status, r.Caller))
		}
		if strings.Contains(out.String(), "secret") {
			t.Error("the log has a value")
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", level, got, want)
		}
		if (charged > 0) != (level != "failures") {
			t.Errorf("%s: %d lines with a charge", level, charged)
		}
	}
}

// TestCQLAuditRequired: while a required audit log cannot be written, statements are
// refused.
func TestCQLAuditRequired(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{fail: true}
	s := start(t, cassandra(Config{AuditOutput: out, Audit: AuditOptions{Log: "-", Level: "all", Failure: "refuse"}}))
	c := cqlClient(t, s, s.Key())
	for {
		_, err := c.Query("SELECT key FROM system.local")
		if e := (*frame.Error)(nil); errors.As(err, &e) {
			if e.Code != frame.CodeUnavailable || !strings.Contains(e.Message, "The audit log cannot be written") {
				t.Errorf("%x %s", e.Code, e.Message)
			}
			out.mu.Lock()
			out.fail = false
			out.mu.Unlock()
			return
		}
	}
}

// TestCQLReplacedKey: a connection ends when its key is replaced, and those with other
// keys stay.
func TestCQLReplacedKey(t *testing.T) {
	t.Parallel()
	s := start(t, cassandra(Config{}))
	_, keys := ask(t, s, "POST", "listKeys", "x-decan-key", s.Key())
	var all struct{ SecondaryMasterKey string }
	if err := json.Unmarshal([]byte(keys), &all); err != nil {
		t.Fatal(err)
	}
	first, second := cqlClient(t, s, s.Key()), cqlClient(t, s, all.SecondaryMasterKey)
	mustCQL(t, second, "SELECT key FROM system.local")
	request, err := http.NewRequestWithContext(t.Context(), "POST", s.AdminEndpoint()+"regenerateKey", strings.NewReader(`{"keyKind":"secondary"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("x-decan-key", s.Key())
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	failsCQL(t, second, "SELECT key FROM system.local", frame.CodeUnauthorized, "The account key of this connection is no longer valid")
	if _, err := second.Query("SELECT key FROM system.local"); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
	mustCQL(t, first, "SELECT key FROM system.local")
}

// TestCQLRelease: with --cql-release 3.11 there is no version 5 of the protocol, and the
// system tables name that release.
func TestCQLRelease(t *testing.T) {
	t.Parallel()
	for release, want := range map[string][]string{"": {"'4.1.10'", "'3.4.6'", "'5'"}, "4.1": {"'4.1.10'", "'3.4.6'", "'5'"}, "3.11": {"'3.11.19'", "'3.4.4'", "'4'"}} {
		s := start(t, cassandra(Config{Cassandra: CassandraOptions{Release: release}}))
		c, err := cqltest.Dial(s.CQLAddresses()[0], "decan", s.Key(), frame.V4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if rows := mustCQL(t, c, "SELECT release_version, cql_version, native_protocol_version FROM system.local"); !slices.Equal(rows[0], want) {
			t.Errorf("%q: %v, want %v", release, rows[0], want)
		}
		five, err := cqltest.Dial(s.CQLAddresses()[0], "decan", s.Key(), frame.V5)
		if refused := err != nil && strings.Contains(err.Error(), "unsupported protocol version (5); supported versions are (3/v3, 4/v4)"); refused != (release == "3.11") {
			t.Errorf("%q: version 5: %v", release, err)
		}
		if five != nil {
			five.Close()
		}
		supported, err := c.Do(frame.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if versions, _ := frame.Lookup(supported.Message.(frame.Supported).Options, "CQL_VERSION"); "'"+versions[0]+"'" != want[1] {
			t.Errorf("%q: CQL_VERSION %v", release, versions)
		}
	}
	if _, err := Start(t.Context(), cassandra(Config{Cassandra: CassandraOptions{Release: "5.0"}})); err == nil || !strings.Contains(err.Error(), `--cql-release "5.0": use 4.1 or 3.11`) {
		t.Errorf("release 5.0: %v", err)
	}
}

// TestCQLStrict: with --cql-strict, what the service does not support is refused, prepared
// or not, and in batches of the protocol.
func TestCQLStrict(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		s := start(t, cassandra(Config{Cassandra: CassandraOptions{Strict: strict}}))
		c, err := cqltest.Dial(s.CQLAddresses()[0], "decan", s.Key(), frame.V4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		mustCQL(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		mustCQL(t, c, "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))")
		if strict {
			failsCQL(t, c, "SELECT DISTINCT k FROM ks.t", frame.CodeInvalid, "DISTINCT is not supported")
		} else {
			mustCQL(t, c, "SELECT DISTINCT k FROM ks.t")
		}
		for _, kind := range []frame.BatchType{frame.Logged, frame.Unlogged} {
			_, err := c.Do(&frame.Batch{Type: kind, Statements: []frame.BatchStatement{{Text: "INSERT INTO ks.t (k, c) VALUES (1, 1)"}}, Parameters: frame.Parameters{Consistency: frame.LocalQuorum}})
			if want := strict && kind == frame.Logged; (err != nil) != want || want && !strings.Contains(err.Error(), "LOGGED batch is not supported") {
				t.Errorf("strict %t, batch %v: %v", strict, kind, err)
			}
		}
	}
}

// TestCQLRefusals: refused attempts to sign in are counted by reason.
func TestCQLRefusals(t *testing.T) {
	t.Parallel()
	s := start(t, cassandra(Config{}))
	for _, c := range []struct{ user, key string }{{"decan", "AAAA"}, {"other", s.Key()}, {"", s.Key()}, {"decan", ""}} {
		_, err := cqltest.Dial(s.CQLAddresses()[0], c.user, c.key, frame.V4)
		if e := (*frame.Error)(nil); !errors.As(err, &e) || e.Code != frame.CodeBadCredentials {
			t.Errorf("%q: %v", c.user, err)
		}
	}
	_, metrics := ask(t, s, "GET", "metrics")
	for _, want := range []string{`{door="cql",reason="key"} 2`, `{door="cql",reason="malformed"} 1`, `{door="cql",reason="missing"} 1`} {
		if !strings.Contains(metrics, "decan_access_refused_total"+want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}
