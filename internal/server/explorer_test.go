package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server/servertest"
)

// explored runs a server with the Data Explorer.
func explored(t *testing.T, config Config) *Server {
	t.Helper()
	config.Explorer.On = true
	return start(t, config)
}

// browse sends a request as a browser or another program does, and does not follow
// redirects. The header Host is the host that the request names.
func browse(t *testing.T, base, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(base, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(all)
}

// signed returns the headers that sign a request.
func signed(key, method, resourceType, link string) []string {
	date := time.Now().UTC().Format(http.TimeFormat)
	return []string{"x-ms-date", date, "Authorization", servertest.Authorization(key, method, resourceType, link, strings.ToLower(date))}
}

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestBrowsersAreLedToTheExplorer: GET / of a browser leads to the page, and every other
// request for the account is answered as without the page.
func TestBrowsersAreLedToTheExplorer(t *testing.T) {
	t.Parallel()
	with, without := explored(t, Config{}), start(t, Config{})
	for _, test := range []struct {
		name, method, path string
		headers            []string
		code               int
	}{
		{"browser", "GET", "/", []string{"Accept", browserAccept}, 303},
		{"browser with a query", "GET", "/?x=1", []string{"Accept", browserAccept}, 303},
		{"nothing", "GET", "/", nil, 401},
		{"client that takes all", "GET", "/", []string{"Accept", "*/*"}, 401},
		{"SDK", "GET", "/", append(signed(with.Key(), "get", "", ""), "Accept", "application/json"), 200},
		{"signed and HTML", "GET", "/", append(signed(with.Key(), "get", "", ""), "Accept", browserAccept), 200},
		{"POST", "POST", "/", []string{"Accept", browserAccept}, 401},
		{"list", "GET", "/dbs", []string{"Accept", browserAccept}, 401},
		{"page", "GET", "/_explorer/", nil, 200},
		{"page without slash", "GET", "/_explorer", nil, 308},
		{"file", "GET", "/_explorer/app.js", nil, 200},
		{"a name that begins like it", "GET", "/_explorers", nil, 401},
	} {
		res, text := browse(t, with.Endpoint(), test.method, test.path, test.headers...)
		if res.StatusCode != test.code {
			t.Errorf("%s: %d, want %d: %.100s", test.name, res.StatusCode, test.code, text)
		}
		if test.code == 303 && res.Header.Get("Location") != "/_explorer/" {
			t.Errorf("%s: led to %q", test.name, res.Header.Get("Location"))
		}
	}
	if res, text := browse(t, without.Endpoint(), "GET", "/", "Accept", browserAccept); res.StatusCode != 200 || !strings.Contains(text, "This is a Decan server") {
		t.Errorf("without the page: %d %.100s", res.StatusCode, text)
	}
	if res, _ := browse(t, without.Endpoint(), "GET", "/_explorer/"); res.StatusCode != 401 {
		t.Errorf("without the page: %d for its path", res.StatusCode)
	}
}

// TestExplorerAdmin: the administration below the page needs the account key for every
// path, has no profiles, and exists only where the admin port is as reachable.
func TestExplorerAdmin(t *testing.T) {
	t.Parallel()
	readonly := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("r"), 64))
	s := explored(t, Config{Keys: KeyOptions{Readonly: readonly}})
	call(t, s, "POST", "dbs", `{"id":"d"}`)
	call(t, s, "POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/k"]}}`)
	key := []string{"x-decan-key", s.Key()}
	for _, test := range []struct {
		name, path string
		headers    []string
		code       int
	}{
		{"no key", "/_explorer/admin/partitions?database=d&container=c", nil, 401},
		{"another key", "/_explorer/admin/partitions?database=d&container=c", []string{"x-decan-key", auth.NewKey()}, 401},
		{"a read-only key", "/_explorer/admin/partitions?database=d&container=c", []string{"x-decan-key", readonly}, 403},
		{"the key", "/_explorer/admin/partitions?database=d&container=c", key, 200},
		{"signed", "/_explorer/admin/partitions?database=d&container=c", signed(s.Key(), "get", "", "partitions"), 200},
		{"signed for another path", "/_explorer/admin/partitions?database=d&container=c", signed(s.Key(), "get", "", "limits"), 401},
		{"metrics without a key", "/_explorer/admin/metrics", nil, 401},
		{"metrics", "/_explorer/admin/metrics", key, 200},
		{"profiles", "/_explorer/admin/debug/pprof/", key, 404},
		{"no such path", "/_explorer/admin/none", key, 404},
	} {
		if res, text := browse(t, s.Endpoint(), "GET", test.path, test.headers...); res.StatusCode != test.code {
			t.Errorf("%s: %d, want %d: %.100s", test.name, res.StatusCode, test.code, text)
		}
	}

	for _, test := range []struct {
		name  string
		ports PortOptions
		only  bool
		want  bool
	}{
		{"both on loopback", PortOptions{Data: "127.0.0.1:0", Admin: "127.0.0.1:0"}, false, true},
		{"no admin port", PortOptions{Data: "127.0.0.1:0", Admin: "none"}, false, false},
		{"only the data port for all", PortOptions{Data: "0.0.0.0:0", Admin: "127.0.0.1:0"}, false, false},
		{"both for all", PortOptions{Data: "0.0.0.0:0", Admin: "0.0.0.0:0"}, false, true},
		{"only the admin port for all", PortOptions{Data: "127.0.0.1:0", Admin: "0.0.0.0:0"}, false, true},
		{"keys refused", PortOptions{Data: "127.0.0.1:0", Admin: "127.0.0.1:0"}, true, false},
	} {
		config := Config{Ports: test.ports, Tokens: TokenOptions{Only: test.only}}
		if got := config.explorerAdmin(); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

// TestOrigins: pages of other origins get 403 on both ports, whatever they send, and
// programs that are not browsers are served under every allowed name.
func TestOrigins(t *testing.T) {
	t.Parallel()
	s := explored(t, Config{Account: AccountOptions{Endpoint: "https://db.example.com/"}, Access: AccessOptions{Hosts: []string{"box.example.com"}}})
	port := s.Endpoint()[strings.LastIndex(s.Endpoint(), ":"):]
	own := "localhost" + strings.TrimSuffix(port, "/")
	navigate := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, test := range []struct {
		name    string
		method  string
		headers []string
		refused bool
	}{
		{"SDK", "GET", nil, false},
		{"SDK by another allowed name", "GET", []string{"Host", "box.example.com"}, false},
		{"SDK by a name that is not allowed", "GET", []string{"Host", "evil.example"}, true},
		{"SDK on undici", "POST", []string{"Sec-Fetch-Mode", "cors"}, false},
		{"own page", "POST", []string{"Host", own, "Origin", "http://" + own, "Sec-Fetch-Site", "same-origin"}, false},
		{"own page over TLS of a proxy", "POST", []string{"Host", own, "Origin", "https://" + own}, false},
		{"own page in capitals", "POST", []string{"Host", own, "Origin", "http://" + strings.ToUpper(own)}, false},
		{"own page by --endpoint", "POST", []string{"Origin", "https://db.example.com"}, false},
		{"typed address", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, false},
		{"link on another page", "GET", append([]string{"Sec-Fetch-Site", "cross-site"}, navigate...), false},
		{"rebound name", "GET", []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}, true},
		{"another origin", "GET", []string{"Origin", "https://evil.example"}, true},
		{"another origin writes", "POST", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, true},
		{"another port", "POST", []string{"Host", own, "Origin", "http://localhost:1", "Sec-Fetch-Site", "same-site"}, true},
		{"a sandbox", "POST", []string{"Origin", "null"}, true},
		{"an empty origin", "POST", []string{"Origin", ""}, true},
		{"two origins", "POST", []string{"Host", own, "Origin", "http://" + own, "Origin", "https://evil.example"}, true},
		{"a host inside another origin", "POST", []string{"Host", own, "Origin", "https://evil.example/" + own}, true},
		{"an image", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, true},
		{"a frame", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, true},
		{"a form", "POST", append([]string{"Sec-Fetch-Site", "cross-site"}, navigate...), true},
		{"the same site", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, true},
		{"a preflight", "OPTIONS", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, true},
	} {
		for _, door := range []struct{ name, base, path string }{
			{"data", s.Endpoint(), "/dbs"}, {"page", s.Endpoint(), "/_explorer/admin/partitions"}, {"admin", s.AdminEndpoint(), "/partitions"},
		} {
			headers := append(signed(auth.NewKey(), test.method, "dbs", ""), test.headers...)
			if door.name == "admin" {
				for i := range headers { // The admin port has another number.
					headers[i] = strings.ReplaceAll(headers[i], strings.TrimSuffix(port, "/"), s.AdminEndpoint()[strings.LastIndex(s.AdminEndpoint(), ":"):len(s.AdminEndpoint())-1])
				}
			}
			res, text := browse(t, door.base, test.method, door.path, headers...)
			// The key is wrong, so a request that is not refused at once is 401, or 404 or 405
			// for a method that the path lacks.
			if got := res.StatusCode == http.StatusForbidden; got != test.refused {
				t.Errorf("%s on %s: %d, refused is to be %t: %.200s", test.name, door.name, res.StatusCode, test.refused, text)
			}
			if h := res.Header.Get("Access-Control-Allow-Origin"); h != "" {
				t.Errorf("%s on %s may be read by %q", test.name, door.name, h)
			}
		}
	}
	_, metrics := browse(t, s.AdminEndpoint(), "GET", "/metrics")
	for _, door := range []string{"data", "admin"} {
		if !strings.Contains(metrics, `decan_access_refused_total{door="`+door+`",reason="origin"}`) {
			t.Errorf("refused pages of other origins are not counted on %s", door)
		}
	}
}

// TestNamedOrigins: pages of named origins send requests to the port for clients and read
// the answers; others, and the admin port, are as without them.
func TestNamedOrigins(t *testing.T) {
	t.Parallel()
	s := explored(t, Config{Access: AccessOptions{Origins: []string{"https://app.example.com", "http://localhost:3000"}}})
	for _, origin := range []string{"https://app.example.com", "http://localhost:3000", "HTTPS://APP.example.com"} {
		res, _ := browse(t, s.Endpoint(), "OPTIONS", "/dbs", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization,x-ms-date", "Access-Control-Request-Private-Network", "true", "Sec-Fetch-Site", "cross-site")
		h := res.Header
		if res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != origin || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "DELETE") ||
			h.Get("Access-Control-Allow-Headers") != "authorization,x-ms-date" || h.Get("Access-Control-Allow-Private-Network") != "true" || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s asks: %d %v", origin, res.StatusCode, h)
		}
		res, text := browse(t, s.Endpoint(), "GET", "/dbs", append(signed(s.Key(), "get", "dbs", ""), "Origin", origin, "Sec-Fetch-Site", "cross-site")...)
		if res.StatusCode != 200 || res.Header.Get("Access-Control-Allow-Origin") != origin || res.Header.Get("Access-Control-Expose-Headers") != "*" || res.Header.Get("Vary") != "Origin" {
			t.Errorf("%s reads: %d %v %s", origin, res.StatusCode, res.Header, text)
		}
		if res, _ := browse(t, s.AdminEndpoint(), "GET", "/partitions", "Origin", origin, "x-decan-key", s.Key()); res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s reads the admin port: %d", origin, res.StatusCode)
		}
	}
	for _, origin := range []string{"https://app.example.com.evil.example", "https://evil.example", "http://app.example.com", "https://app.example.com:444", "null"} {
		for _, method := range []string{"OPTIONS", "GET"} {
			res, _ := browse(t, s.Endpoint(), method, "/dbs", append(signed(s.Key(), "get", "dbs", ""), "Origin", origin, "Access-Control-Request-Method", "GET")...)
			if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: %d %v", origin, method, res.StatusCode, res.Header)
			}
		}
	}
	if res, _ := browse(t, s.Endpoint(), "OPTIONS", "/dbs", "Host", "evil.example", "Origin", "https://app.example.com", "Access-Control-Request-Method", "GET"); res.StatusCode != 403 {
		t.Errorf("a rebound name asks: %d", res.StatusCode)
	}
	for _, wrong := range []string{"*", "app.example.com", "https://*.example.com", "https://app.example.com/", "https://app.example.com/x", "ftp://app.example.com", "https://", "null", "https://u@app.example.com"} {
		_, err := Start(context.Background(), Config{Ports: PortOptions{Data: "127.0.0.1:0", Admin: "none"}, Access: AccessOptions{Origins: []string{wrong}}})
		if err == nil || !strings.Contains(err.Error(), "--cors-origins") {
			t.Errorf("--cors-origins %q: %v", wrong, err)
		}
	}
}
