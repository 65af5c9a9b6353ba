package nosql

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// bare is a handler for tests that need no engine.
func bare() *handler {
	return &handler{agent: "Decan/test", serviceVersion: "version=test", limits: resource.DefaultLimits(), metrics: newMetrics(nil), now: time.Now}
}

// only returns the value of a header with exactly the given name.
func only(h http.Header, name string) string {
	if values := h[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// TestHeaderNames checks that every header of a request has the spelling of
// net/http, since another spelling would never be found, and that those of
// responses are in lower case.
func TestHeaderNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "headers.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	checked, group := 0, 0
	for _, decl := range file.Decls {
		for _, spec := range decl.(*ast.GenDecl).Specs {
			constant := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(constant.Names[0].Name, "header") {
				continue
			}
			name, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want := http.CanonicalHeaderKey(name)
			if group > 0 && !slices.Contains([]string{headerContentType, headerContentLength, headerConnection, headerAllow}, name) {
				want = strings.ToLower(name)
			}
			if name != want {
				t.Errorf("%s is %q, want %q", constant.Names[0].Name, name, want)
			}
			checked++
		}
		group++
	}
	if checked < 50 {
		t.Errorf("%d names checked, want all of them", checked)
	}
}

func TestActivityID(t *testing.T) {
	t.Parallel()
	const given = "6F2C3c1e-0000-4abc-9def-0123456789ab"
	if got := activityID(given); got != given {
		t.Errorf("a GUID is not echoed: %q", got)
	}
	seen := map[string]bool{}
	for _, bad := range []string{"", "x", given + "0", strings.Replace(given, "-", "0", 1), strings.Replace(given, "a", "g", 1), "6f2c3c1e00004abc9def0123456789ab\r\nx:"} {
		got := activityID(bad)
		if got == bad || !isGUID(got) || got[14] != '4' || !strings.ContainsRune("89ab", rune(got[19])) {
			t.Errorf("activityID(%q) = %q, want a fresh GUID of version 4", bad, got)
		}
		if seen[got] {
			t.Errorf("%q was minted twice", got)
		}
		seen[got] = true
	}
}

func TestFormatCharge(t *testing.T) {
	t.Parallel()
	for charge, want := range map[float64]string{0: "0", 1: "1", 5.5: "5.5", 6.67: "6.67", 2.999: "3", 100: "100", 1234567.891: "1234567.89", 0.05: "0.05"} {
		if got := formatCharge(charge); got != want {
			t.Errorf("formatCharge(%v) = %q, want %q", charge, got, want)
		}
	}
}

// TestErrors shows how each kind of error is answered.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		err     error
		status  int
		headers map[string]string
		body    string // without the activity line; empty for no body
	}{
		{
			"not found", status.NotFound(), 404, nil,
			`{"code":"NotFound","message":"Message: {\"Errors\":[\"Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found\"]}"}`,
		},
		{
			"owner", status.OwnerNotFound(), 404,
			map[string]string{headerSubStatus: "1003"},
			`{"code":"NotFound","message":"Owner resource does not exist."}`,
		},
		{
			"plan", status.CrossPartition(`{"a":"b"}`), 400,
			map[string]string{headerSubStatus: "1004"},
			`{"code":"BadRequest","message":"The cross partition query can not be directly served by the gateway. The client has to follow the query plan that comes with this error, or ask for full execution with x-decan-cross-partition: full.","additionalErrorInfo":"{\"a\":\"b\"}"}`,
		},
		{
			"query", status.BadRequest("%s", `{"errors":[]}`), 400, nil,
			`{"code":"BadRequest","message":"Message: {\"errors\":[]}"}`,
		},
		{
			"throttled", status.TooManyRequests(status.SubRequestRateTooLarge, 1500*time.Microsecond, "Wait."), 429,
			map[string]string{headerSubStatus: "3200", headerRetryAfter: "2"},
			`{"code":"TooManyRequests","message":"Wait."}`,
		},
		{
			"verb", methodNotAllowed("PUT", "GET, POST"), 405,
			map[string]string{headerAllow: "GET, POST"},
			`{"code":"MethodNotAllowed","message":"PUT is not a verb of this resource, which has GET, POST."}`,
		},
		{"unchanged", status.New(status.CodeNotModified, 0, ""), 304, nil, ""},
		{
			"wrapped", errors.Join(errors.New("x"), status.Conflict()), 409, nil,
			`{"code":"Conflict","message":"Entity with the specified id already exists in the system."}`,
		},
		{
			"cause is not shown", status.Unavailable(errors.New("disk secret"), "Later."), 503, nil,
			`{"code":"ServiceUnavailable","message":"Later."}`,
		},
		{
			"no status", errors.New("secret"), 500, nil,
			`{"code":"InternalServerError","message":"The server failed to carry out the request. Its log has the reason under the activity id."}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			h := bare()
			h.logger = textLogger(&log)
			r := &request{activity: "11111111-2222-4333-8444-555555555555"}
			r.fill(httptest.NewRequest("GET", "/", nil))
			r.result = engine.Result{Charge: 1.5, Session: "0:-1#7", ETag: `"e"`}
			recorder := httptest.NewRecorder()
			h.write(recorder, r, h.failure(r, c.err))

			if recorder.Code != c.status {
				t.Errorf("status %d, want %d", recorder.Code, c.status)
			}
			header := recorder.Header()
			for name, want := range map[string]string{headerActivityID: r.activity, headerCharge: "1.5", headerSession: "0:-1#7"} {
				if only(header, name) != want {
					t.Errorf("%s is %q, want %q", name, only(header, name), want)
				}
			}
			for _, name := range []string{headerSubStatus, headerRetryAfter, headerAllow} {
				if got := only(header, name); got != c.headers[name] {
					t.Errorf("%s is %q, want %q", name, got, c.headers[name])
				}
			}
			body := recorder.Body.String()
			if c.body == "" {
				if body != "" || header.Get(headerContentLength) != "" {
					t.Errorf("there is a body: %q", body)
				}
				return
			}
			if !json.Valid([]byte(body)) || header.Get(headerContentType) != typeJSON || header.Get(headerContentLength) != strconv.Itoa(len(body)) {
				t.Errorf("not a JSON body of known length: %q, %v", body, header)
			}
			if got := strings.Replace(body, `\r\nActivityId: `+r.activity+`, Decan/test`, "", 1); got != c.body || got == body {
				t.Errorf("body %s, want %s and the activity line", body, c.body)
			}
			if logged := log.String(); (c.status >= 500) != strings.Contains(logged, "secret") && c.name != "wrapped" {
				t.Errorf("log: %q", logged)
			}
		})
	}
}

// TestAbsentIsNotEmpty shows that a header with an unknown value is absent.
func TestAbsentIsNotEmpty(t *testing.T) {
	t.Parallel()
	r := &request{activity: "x"}
	r.fill(httptest.NewRequest("GET", "/", nil))
	recorder := httptest.NewRecorder()
	bare().write(recorder, r, r.feed("Documents", &engine.Feed{}))
	for name, values := range recorder.Header() {
		if len(values) != 1 || values[0] == "" {
			t.Errorf("%s: %q", name, values)
		}
	}
	for _, name := range []string{headerSession, headerContinuation, headerETag, headerVisited, headerRangeID, headerLSN, headerContentPath, headerAltContentPath} {
		if _, found := recorder.Header()[name]; found {
			t.Errorf("%s is there without a value to have", name)
		}
	}
	if got, want := recorder.Body.String(), `{"_rid":"","Documents":[],"_count":0}`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

// TestPartitionHeaders shows which headers report the visited partitions.
func TestPartitionHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ids            []resource.PartitionID
		visited, which string
	}{
		{[]resource.PartitionID{3}, "3", "3"},
		{[]resource.PartitionID{3, 14, 0}, "3,14,0", ""},
	} {
		r := &request{result: engine.Result{Partitions: c.ids, LSN: 12}}
		r.fill(httptest.NewRequest("GET", "/", nil))
		recorder := httptest.NewRecorder()
		bare().write(recorder, r, r.answer(200, nil))
		header := recorder.Header()
		if only(header, headerVisited) != c.visited || only(header, headerRangeID) != c.which || only(header, headerLSN) != "12" {
			t.Errorf("%v: headers %v", c.ids, header)
		}
	}
}

// TestPoolForgets shows that the next request finds nothing of the last one.
func TestPoolForgets(t *testing.T) {
	t.Parallel()
	r := &request{activity: "x", operation: opDocumentRead, body: make([]byte, 3, 8), out: make([]byte, bufferKept+1)}
	r.result.Session = "s"
	r.fill(httptest.NewRequest("GET", "/dbs", nil))
	r.end()
	if r.base != nil || r.headers != nil || r.ctx != nil || r.activity != "" || r.operation != 0 || r.result.Session != "" || len(r.body) != 0 || cap(r.body) != 8 || r.out != nil {
		t.Errorf("left over: %+v", r)
	}
}

// TestPanic shows that a panic fails only one request: with an answer, and with
// the reason only in the log.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := bare()
	h.logger = textLogger(&log)
	h.now = time.Now
	h.requests.New = func() any { return new(request) }
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest("GET", "/dbs", nil)) // There is no engine.
	if recorder.Code != 500 || strings.Contains(recorder.Body.String(), "nil pointer") || !strings.Contains(log.String(), "nil pointer") {
		t.Errorf("%d %s\nlog: %s", recorder.Code, recorder.Body, log.String())
	}
	if id := only(recorder.Header(), headerActivityID); !strings.Contains(log.String(), id) {
		t.Errorf("the log does not have the activity id %s: %s", id, log.String())
	}
}

// TestAdvertised shows which endpoint the account advertises to clients.
func TestAdvertised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, forwarded string
		trust             bool
		endpoint, want    string
	}{
		{target: "http://127.0.0.1:49152/", want: "http://127.0.0.1:49152/"},
		{target: "https://db.test/", want: "https://db.test/"},
		{target: "http://[::1]:8081/", want: "http://[::1]:8081/"},
		{target: "http://db.test/", forwarded: "https", want: "http://db.test/"},
		{target: "http://db.test/", forwarded: "https", trust: true, want: "https://db.test/"},
		{target: "https://db.test/", forwarded: "HTTP", trust: true, want: "http://db.test/"},
		{target: "http://db.test/", endpoint: "https://fixed/", want: "https://fixed/"},
	} {
		h := bare()
		h.endpoint, h.switches.TrustForwardedProto = c.endpoint, c.trust
		r := new(request)
		hr := httptest.NewRequest("GET", c.target, nil)
		hr.Header.Set(headerForwardedProto, c.forwarded)
		r.fill(hr)
		if got := h.advertised(r); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestUsage shows the units of the usage header, as the service sends them:
// documentSize in MB, the other sizes in KB, each rounded up.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		usage engine.Usage
		want  string
	}{
		{engine.Usage{}, "documentSize=0;documentsSize=0;documentsCount=0;collectionSize=0;"},
		{engine.Usage{Documents: 1, DocumentBytes: 1, IndexBytes: 1024}, "documentSize=1;documentsSize=1;documentsCount=1;collectionSize=2;"},
		{engine.Usage{Documents: 2000, DocumentBytes: 884 << 10, IndexBytes: 524 << 10}, "documentSize=1;documentsSize=884;documentsCount=2000;collectionSize=1408;"},
		{engine.Usage{Documents: 5, DocumentBytes: 3<<20 + 1}, "documentSize=4;documentsSize=3073;documentsCount=5;collectionSize=3073;"},
	} {
		r := with()
		answer := r.describe(http.StatusOK, &engine.Resource{Usage: &c.usage})
		got := ""
		for _, f := range answer.fields[:answer.count] {
			if f.name == headerUsage {
				got = f.value
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.usage, got, c.want)
		}
	}
}
