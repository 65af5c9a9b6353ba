package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server/servertest"
)

// lockedBuffer is a buffer that many goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex

	text bytes.Buffer
	fail bool
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail {
		return 0, errors.New("no space left")
	}
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ask sends a request to the admin port.
func ask(t *testing.T, s *Server, method, path string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.AdminEndpoint()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestRefusedSignInsAreTold shows that refused sign-ins are counted by door and reason.
// The first one from an address is logged at once, the others together.
func TestRefusedSignInsAreTold(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 64))
	date := "Mon, 01 Jan 2024 00:00:00 GMT"
	for _, headers := range [][]string{
		{},
		{"authorization: nonsense\r\n"},
		{"authorization: type%3Dresource%26ver%3D1%26sig%3Dabcd;efgh;\r\n"},
		{"authorization: type%3Daad%26ver%3D1.0%26sig%3Dabcd\r\n"},
		{"x-ms-date: " + date + "\r\nauthorization: " + servertest.Authorization(s.Key(), "GET", "", "", strings.ToLower(date)) + "\r\n"},
	} {
		sendRaw(t, s.address(), false, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+strings.Join(headers, "")+"\r\n")
	}
	sendRaw(t, s.address(), false, accountRequest(other, "/", "1.1", "Host: localhost\r\n"))
	sendRaw(t, s.address(), false, accountRequest(s.Key(), "/", "1.1", "Host: evil.example\r\n"))
	if code, _ := ask(t, s, "GET", "partitions", "x-decan-key", other); code != 401 {
		t.Errorf("another key: %d", code)
	}
	if code, _ := ask(t, s, "GET", "partitions"); code != 401 {
		t.Errorf("no key: %d", code)
	}
	_, metrics := ask(t, s, "GET", "metrics")
	for _, want := range []string{
		`{door="data",reason="missing"} 1`, `{door="data",reason="malformed"} 1`, `{door="data",reason="resource_token"} 1`, `{door="data",reason="bearer_token"} 1`,
		`{door="data",reason="date"} 1`, `{door="data",reason="key"} 1`, `{door="data",reason="host"} 1`, `{door="admin",reason="key"} 1`, `{door="admin",reason="missing"} 1`,
	} {
		if !strings.Contains(metrics, "decan_access_refused_total"+want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if n := strings.Count(text, `msg="access refused"`); n != 1 {
		t.Errorf("%d lines about one address, want 1:\n%s", n, text)
	}
	if !strings.Contains(text, `msg="more access refused" count=8`) || !strings.Contains(text, "address=127.0.0.1") {
		t.Errorf("the others are not in one line:\n%s", text)
	}
	if strings.Contains(text, other) || strings.Contains(text, "sig=") {
		t.Error("the log has a secret")
	}
}

// TestMetricsBehindTheKey requests the metrics with each credential that a scraper can
// send.
func TestMetricsBehindTheKey(t *testing.T) {
	t.Parallel()
	readonly := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("r"), 64))
	s := start(t, Config{Access: AccessOptions{ProtectMetrics: true}, Keys: KeyOptions{Readonly: readonly}})
	for _, test := range []struct {
		name    string
		headers []string
		code    int
	}{
		{"nothing", nil, 401},
		{"the key", []string{"x-decan-key", s.Key()}, 200},
		{"the key as a bearer", []string{"Authorization", "Bearer " + s.Key()}, 200},
		{"a read-only key as a bearer", []string{"Authorization", "bearer " + readonly}, 200},
		{"another key", []string{"Authorization", "Bearer " + auth.NewKey()}, 401},
		{"no key", []string{"Authorization", "Bearer x"}, 401},
	} {
		code, body := ask(t, s, "GET", "metrics", test.headers...)
		if code != test.code || strings.Contains(body, "decan_nosql") != (code == 200) {
			t.Errorf("%s: got %d, want %d: %.80s", test.name, code, test.code, body)
		}
	}
	for _, path := range []string{"alive", "ready"} {
		if code, _ := ask(t, s, "GET", path); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := ask(t, s, "GET", "partitions", "Authorization", "Bearer "+readonly); code != 403 {
		t.Errorf("a read-only key on another path: %d, want 403", code)
	}
}

// TestHTTPSOnly sends plain requests to ports that accept only https.
func TestHTTPSOnly(t *testing.T) {
	t.Parallel()
	s := start(t, Config{TLS: TLSOptions{Only: true}, Ports: PortOptions{Compute: "127.0.0.1:0"}})
	admin := strings.TrimSuffix(strings.TrimPrefix(s.AdminEndpoint(), "https://"), "/")
	if !strings.HasPrefix(s.Endpoint(), "https://") || admin == s.AdminEndpoint() {
		t.Errorf("endpoints %s and %s", s.Endpoint(), s.AdminEndpoint())
	}
	for _, address := range []string{s.address(), admin} {
		next := "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
		answer := sendRaw(t, address, false, strings.Replace(accountRequest(s.Key(), "/", "1.1", "Host: localhost\r\n"), "Connection: close\r\n", "", 1)+next)
		if !strings.HasPrefix(answer, "HTTP/1.1 403") || !strings.Contains(answer, "--https-only") || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("plain: %s", answer)
		}
	}
	if answer := sendRaw(t, s.address(), true, accountRequest(s.Key(), "/", "1.1", "Host: localhost\r\n")); !strings.Contains(answer, `"databaseAccountEndpoint":"https://localhost/"`) {
		t.Errorf("https: %s", answer)
	}
	if answer := sendRaw(t, admin, true, "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Errorf("https on the admin port: %s", answer)
	}
}

// auditLines returns the last line of each operation in an audit log, by operation.
func auditLines(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	lines := map[string]map[string]any{}
	for line := range strings.Lines(text) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines[record["operation"].(string)] = record
	}
	return lines
}

// TestAuditLog checks that each level records who did what, and nothing about
// documents or keys.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"failures": "unknown",
		"changes":  "container_create database_create document_upsert unknown",
		"all":      "container_create database_create document_read document_upsert unknown",
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "audit.log")
			s := start(t, Config{Audit: AuditOptions{Log: file, Level: level}})
			call(t, s, "POST", "dbs", `{"id":"d"}`)
			call(t, s, "POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
			call(t, s, "POST", "dbs/d/colls/c/docs", `{"id":"secret-id","pk":"secret-key","v":"secret-value"}`,
				"x-ms-documentdb-partitionkey", `["secret-key"]`, "x-ms-documentdb-is-upsert", "true")
			call(t, s, "GET", "dbs/d/colls/c/docs/secret-id", "", "x-ms-documentdb-partitionkey", `["secret-key"]`)
			sendRaw(t, s.address(), false, accountRequest(auth.NewKey(), "/dbs", "1.1", "Host: localhost\r\n"))
			ask(t, s, "POST", "listKeys", "x-decan-key", s.Key())
			if err := os.Rename(file, file+".1"); err != nil {
				t.Fatal(err)
			}
			if err := s.ReopenAudit(); err != nil {
				t.Fatal(err)
			}
			call(t, s, "DELETE", "dbs/d", "")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			first, err := os.ReadFile(file + ".1")
			if err != nil {
				t.Fatal(err)
			}
			second, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(first)
			for _, secret := range []string{"secret", s.config.Keys.Primary, "sig"} {
				if strings.Contains(text, secret) {
					t.Errorf("the log has %q:\n%s", secret, text)
				}
			}
			lines := auditLines(t, text)
			for _, operation := range strings.Fields(want) {
				if lines[operation] == nil {
					t.Errorf("no line about %s:\n%s", operation, text)
				}
			}
			if listed := lines["POST /listKeys"]; (listed != nil) != (level != "failures") {
				t.Errorf("listed keys: %v", listed)
			}
			if lines["document_read"] != nil && level != "all" {
				t.Error("a read is in the log")
			}
			if refused := lines["unknown"]; refused == nil || refused["status"] != 401.0 || refused["caller"] != "anonymous" || refused["address"] != "127.0.0.1" || refused["door"] != "data" {
				t.Errorf("a refused sign-in: %v", refused)
			}
			if level == "failures" {
				return
			}
			if write := lines["document_upsert"]; write["resource"] != "dbs/d/colls/c/docs" || write["caller"] != "master" || write["status"] != 201.0 || write["activity_id"] == "" {
				t.Errorf("a write: %v", write)
			}
			if after := auditLines(t, string(second)); after["database_delete"] == nil || len(after) != 1 {
				t.Errorf("after the file was renamed: %s", second)
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("the log has mode %v", info.Mode())
			}
		})
	}
}
