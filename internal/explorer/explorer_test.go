package explorer

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// ask sends a request to a page, with headers as pairs.
func ask(h http.Handler, method, target string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:8081"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// TestHeaders: every answer forbids inline code, code of other origins, and frames around
// the page.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	for _, target := range []string{"/_explorer/", "/_explorer/index.html", "/_explorer/app.js", "/_explorer/style/base.css", "/_explorer/mark.svg", "/_explorer/config.json", "/_explorer/none", "/_explorer"} {
		r := ask(h, "GET", target)
		csp := r.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy %q lacks %s", target, csp, part)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy %q allows inline code", target, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
	}
}

// TestFiles requests each embedded file in both forms, and again with its etag.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := New(Config{})
	types := map[string]string{".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
	err := fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, _ := web.ReadFile(name)
		target := Path + strings.TrimPrefix(name, "web/")
		plain := ask(h, "GET", target)
		if got := body(t, plain); plain.StatusCode != 200 || got != string(want) {
			t.Errorf("%s: %d with %d bytes, want %d", target, plain.StatusCode, len(got), len(want))
		}
		if got := plain.Header.Get("Content-Type"); !strings.HasPrefix(got, types[path.Ext(name)]) || types[path.Ext(name)] == "" {
			t.Errorf("%s has the type %q", target, got)
		}
		packed := ask(h, "GET", target, "Accept-Encoding", "gzip, br")
		reader, err := gzip.NewReader(packed.Body)
		if err != nil {
			return err
		}
		if got, err := io.ReadAll(reader); err != nil || string(got) != string(want) || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s compressed: %d bytes, %v", target, len(got), err)
		}
		if again := ask(h, "GET", target, "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != 304 || body(t, again) != "" {
			t.Errorf("%s with its etag: %d", target, again.StatusCode)
		}
		if head := ask(h, "HEAD", target); head.StatusCode != 200 || body(t, head) != "" || head.ContentLength != int64(len(want)) {
			t.Errorf("HEAD %s: %d, %d bytes", target, head.StatusCode, head.ContentLength)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for target, code := range map[string]int{"/_explorer": 308, "/_explorer/": 200, "/_explorer/web/app.js": 404, "/_explorer/../explorer.go": 404, "/_explorer/admin/partitions": 404} {
		if r := ask(h, "GET", target); r.StatusCode != code {
			t.Errorf("%s: %d, want %d", target, r.StatusCode, code)
		}
	}
	if r := ask(h, "POST", "/_explorer/"); r.StatusCode != 405 || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", r.StatusCode, r.Header.Get("Allow"))
	}
}

var reference = regexp.MustCompile(`(?:from |import\(|import )"(\./[\w.-]+)"|(?:src|href)="([\w./-]+)"`)

// TestReferences: each file that another one names exists, so the page needs no network
// and nothing that is not embedded.
func TestReferences(t *testing.T) {
	t.Parallel()
	h, seen := New(Config{}), map[string]bool{"index.html": true}
	for open := []string{"index.html"}; len(open) > 0; open = open[1:] {
		text, err := web.ReadFile("web/" + open[0])
		if err != nil {
			t.Errorf("%s: %v", open[0], err)
			continue
		}
		for _, m := range reference.FindAllStringSubmatch(string(text), -1) {
			name := path.Clean(m[1] + m[2])
			if !seen[name] {
				seen[name] = true
				open = append(open, name)
			}
			if r := ask(h, "GET", Path+name); r.StatusCode != 200 {
				t.Errorf("%s names %s: %d", open[0], name, r.StatusCode)
			}
		}
	}
	_ = fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, _ error) error {
		if name = strings.TrimPrefix(name, "web/"); !entry.IsDir() && !seen[name] {
			t.Errorf("no file names %s", name)
		}
		return nil
	})
}

// forbidden are ways of turning text into code or markup, or of keeping a key.
var forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|sessionStorage|document\.cookie|indexedDB|https?://[^w]|setAttribute\("style"|\bstyle="|\bon[a-z]+="`)

// TestSources: no file makes markup or code from text, stores anything, or names another
// origin.
func TestSources(t *testing.T) {
	t.Parallel()
	_ = fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, _ error) error {
		if entry.IsDir() {
			return nil
		}
		text, err := web.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.FindString(string(text)); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		if lines := strings.Count(string(text), "\n"); lines > 400 {
			t.Errorf("%s has %d lines: divide it", name, lines)
		}
		return nil
	})
}

// static is an import that a browser follows before it runs a module.
var static = regexp.MustCompile(`(?m)^import [^(\n]*"(\./[\w.-]+)"|(?:src|href)="([\w./-]+)"`)

// TestWeight: what a browser loads for the first screen, and all screens together.
// docs/explorer.md publishes the bounds.
func TestWeight(t *testing.T) {
	t.Parallel()
	const boundFirst, boundAll = 60 << 10, 140 << 10
	h, total, first := New(Config{}).(*handler), 0, 0
	for name, f := range h.files {
		if name != "" {
			total += len(f.compressed)
		}
	}
	seen := map[string]bool{"index.html": true}
	for open := []string{"index.html"}; len(open) > 0; open = open[1:] {
		text, err := web.ReadFile("web/" + open[0])
		if err != nil {
			t.Fatal(err)
		}
		first += len(h.files[open[0]].compressed)
		for _, m := range static.FindAllStringSubmatch(string(text), -1) {
			if name := path.Clean(m[1] + m[2]); !seen[name] {
				seen[name] = true
				open = append(open, name)
			}
		}
	}
	t.Logf("%d files, %d bytes compressed; %d files, %d bytes for the first screen", len(h.files)-1, total, len(seen), first)
	if first > boundFirst || total > boundAll {
		t.Errorf("the first screen has %d bytes compressed and all have %d: at most %d and %d", first, total, boundFirst, boundAll)
	}
}

// TestConfig: what the page knows before anyone has signed in. It offers the well-known
// key only if that is in use, on loopback.
func TestConfig(t *testing.T) {
	t.Parallel()
	read := func(h http.Handler, host string) (d description) {
		r := ask(h, "GET", "/_explorer/config.json", "Host", host)
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil || r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", host, r.StatusCode, err)
		}
		return d
	}
	known := New(Config{Version: "1.2", Account: "decan", Consistency: "Session", WellKnown: func() bool { return true }})
	for _, host := range []string{"localhost", "localhost:8081", "LOCALHOST.:1", "a.localhost:1", "127.0.0.1:8081", "127.9.9.9", "[::1]", "[::1]:8081"} {
		if d := read(known, host); !d.WellKnown || d.Version != "1.2" || d.Account != "decan" || d.Consistency != "Session" {
			t.Errorf("%s: %+v", host, d)
		}
	}
	for _, host := range []string{"", "db.example.com", "db.example.com:8081", "localhost.example.com", "notlocalhost", "192.0.2.7:8081", "[2001:db8::1]:8081", "127.0.0.1.example.com"} {
		if d := read(known, host); d.WellKnown {
			t.Errorf("%s is offered the well-known key", host)
		}
	}
	if d := read(New(Config{WellKnown: func() bool { return false }}), "localhost"); d.WellKnown || d.Admin || d.Bearer {
		t.Errorf("%+v", d)
	}
	if d := read(New(Config{Bearer: true, Admin: http.NotFoundHandler()}), "localhost"); d.WellKnown || !d.Admin || !d.Bearer {
		t.Errorf("%+v", d)
	}
}

// TestAdmin: the administration is called with its own path, whatever the method, and
// without the headers of the page.
func TestAdmin(t *testing.T) {
	t.Parallel()
	h := New(Config{Admin: http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		_, _ = io.WriteString(hw, hr.Method+" "+hr.URL.String())
	})})
	if got := body(t, ask(h, "PUT", "/_explorer/admin/limits?database=a%2Fb")); got != "PUT /limits?database=a%2Fb" {
		t.Errorf("the administration got %q", got)
	}
	if got := body(t, ask(h, "GET", "/_explorer/admin/sqlDatabases/a%2Fb/x")); got != "GET /sqlDatabases/a%2Fb/x" {
		t.Errorf("the administration got %q", got)
	}
	if r := ask(h, "GET", "/_explorer/admin"); r.StatusCode != 404 {
		t.Errorf("/_explorer/admin: %d", r.StatusCode)
	}
}
