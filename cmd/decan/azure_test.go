package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/decantest"
)

// publicHeaders are the headers of requests that the documentation of the service's REST
// API has, those of HTTP itself, and those that the vendor's SDKs send.
var publicHeaders = strings.Fields(`
	accept accept-encoding authorization content-length content-type if-match if-none-match prefer user-agent
	x-ms-activity-id x-ms-consistency-level x-ms-continuation x-ms-cosmos-allow-tentative-writes x-ms-cosmos-correlated-activityid
	x-ms-cosmos-include-physical-partition-throughput-info x-ms-cosmos-is-batch-request x-ms-cosmos-migrate-offer-to-autopilot
	x-ms-cosmos-migrate-offer-to-manual-throughput x-ms-cosmos-offer-autopilot-settings x-ms-cosmos-sdk-supportedcapabilities x-ms-date
	x-ms-documentdb-is-upsert x-ms-documentdb-isquery x-ms-documentdb-partitionkey x-ms-documentdb-partitionkeyrangeid x-ms-documentdb-populatequerymetrics x-ms-documentdb-populatequotainfo
	x-ms-documentdb-query x-ms-documentdb-query-enablecrosspartition x-ms-documentdb-script-enable-logging x-ms-max-item-count x-ms-offer-throughput x-ms-session-token x-ms-version`)

var publicPath = regexp.MustCompile(`^/(dbs|offers|dbs/[^/]+(/(colls|users)(/[^/]+(/(docs|sprocs|triggers|udfs|permissions|pkranges)(/[^/]+)?)?)?)?|offers/[^/]+)?$`)

// azure is a door like that of an account of Azure, which passes requests on to a server: it takes https, the paths
// and headers of the public REST API, and signatures as the documentation has them. It
// knows nothing of the headers that only Decan has.
type azure struct {
	key   []byte
	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	refusals []string // guarded by mu
	requests int      // guarded by mu
}

// refused returns why the account does not take a request.
func (a *azure) refused(r *http.Request) string {
	if !publicPath.MatchString(strings.TrimSuffix(r.URL.EscapedPath(), "/")) && r.URL.Path != "/" {
		return "the path is not public"
	}
	for name := range r.Header {
		if lower := strings.ToLower(name); !slices.Contains(publicHeaders, lower) && !strings.HasPrefix(lower, "x-decan-") {
			return "the header " + lower + " is not public"
		}
	}
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	kind, link := segments[len(segments)-1], strings.Join(segments[:len(segments)-1], "/")
	switch {
	case r.URL.Path == "/":
		kind, link = "", ""
	case len(segments)%2 == 0:
		kind, link = segments[len(segments)-2], strings.Join(segments, "/")
	}
	if kind == "offers" && link != "" {
		link = strings.ToLower(segments[1])
	}
	// The payload of the documentation: verb, kind, link, date, each with a line end, and an empty line.
	mac := hmac.New(sha256.New, a.key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(r.Method), kind, link, strings.ToLower(r.Header.Get("x-ms-date")))
	given, err := url.QueryUnescape(r.Header.Get("authorization"))
	if want := "type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || given != want {
		return "the signature is " + given + ", not " + want
	}
	return ""
}

// ServeHTTP refuses a request, or passes it on without what only Decan knows.
func (a *azure) ServeHTTP(hw http.ResponseWriter, r *http.Request) {
	why := a.refused(r)
	a.mu.Lock()
	a.requests++
	if why != "" {
		a.refusals = append(a.refusals, r.Method+" "+r.URL.Path+": "+why)
	}
	a.mu.Unlock()
	if why != "" {
		http.Error(hw, why, http.StatusBadRequest)
		return
	}
	dropDecan(r.Header)
	a.proxy.ServeHTTP(hw, r)
}

// dropDecan removes the headers that only Decan has.
func dropDecan(header http.Header) {
	for name := range header {
		if strings.HasPrefix(strings.ToLower(name), "x-decan-") {
			delete(header, name)
		}
	}
}

// decanOnly are the commands that talk to a server and cannot be used with an account of
// Azure, since they need the admin port or a plan of Decan's. docs/command-line.md names them.
var decanOnly = []string{"partitions", "limits", "queries", "copy", "explain"}

// withoutRequests are the commands that need no server if the state is a file.
var withoutRequests = []string{"resolver where", "resolver spread", "resolver plan"}

// TestAzure runs each command that can be used with an account of Azure against one, with
// a connection string of Azure's form: all its requests are public and signed as
// documented, and no server has an admin port.
func TestAzure(t *testing.T) {
	t.Parallel()
	s := decantest.Start(t, decan.Config{})
	target, err := url.Parse(s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	a := &azure{proxy: &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error { dropDecan(r.Header); return nil },
	}}
	if a.key, err = base64.StdEncoding.DecodeString(s.Key()); err != nil {
		t.Fatal(err)
	}
	account := httptest.NewUnstartedServer(a)
	account.Config.ErrorLog = log.New(io.Discard, "", 0) // Idle connections end during the handshake.
	account.StartTLS()
	defer account.Close()
	dir := t.TempDir()
	for name, text := range playFiles("azure") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: account.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := leaves(t)
	for _, p := range play {
		flags := map[string]bool{}
		for _, flag := range nodes[p.path].Flags {
			flags[flag.Name] = true
		}
		family, _, _ := strings.Cut(p.path, " ")
		if !flags["connection-string"] || slices.Contains(decanOnly, family) {
			continue
		}
		args := words(t, strings.NewReplacer("DIR", dir, "DB", "azure").Replace(p.path+" "+p.args))
		args = append(args, "--connection-string", "AccountEndpoint="+account.URL+"/;AccountKey="+s.Key()+";", "--ca", ca)
		var out, errs bytes.Buffer
		before := a.requests
		code := run(args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		want := p.code
		if strings.Contains(p.args, "ORDER BY") || strings.Contains(p.args, "COUNT(") { // The account leaves the merge of partitions to SDKs.
			want = 1
			if !strings.Contains(errs.String(), "name one partition key with --partition-key") {
				t.Errorf("a query over partitions: %s", &errs)
			}
		}
		if code != want || a.requests == before && !slices.Contains(withoutRequests, p.path) || len(a.refusals) > 0 {
			t.Errorf("decan %q ends with %d after %d requests and writes\n%s2>\n%srefused: %q", args, code, a.requests-before, &out, &errs, a.refusals)
		}
		a.refusals = nil
	}
	for path, node := range nodes {
		family, _, _ := strings.Cut(path, " ")
		endpoint, admin := false, false
		for _, flag := range node.Flags {
			endpoint, admin = endpoint || flag.Name == "endpoint", admin || flag.Name == "admin"
		}
		if path != "serve" && admin && !endpoint && !slices.Contains(decanOnly, family) {
			t.Errorf("%s needs the admin port and is not named", path)
		}
	}
	if a.requests < 50 {
		t.Errorf("%d requests", a.requests)
	}
}
