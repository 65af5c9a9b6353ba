package nosql_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/auth"
)

// sign adds date and signature.
func sign(hr *http.Request) *http.Request {
	kind, link := nosql.Signed(hr.RequestURI)
	date := now().Format(http.TimeFormat)
	hr.Header.Set("x-ms-date", date)
	hr.Header.Set("authorization", auth.Sign(testKey, hr.Method, kind, link, date))
	return hr
}

// call sends a request directly to the handler. The names of the answer's headers
// are those that a client of net/http receives.
func (w *world) call(t testing.TB, method, target, body string, headers ...string) *http.Response {
	t.Helper()
	hr := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, sign(hr))
	answer := recorder.Result()
	for name, values := range maps.Clone(answer.Header) {
		delete(answer.Header, name)
		answer.Header[http.CanonicalHeaderKey(name)] = values
	}
	return answer
}

// must is call for requests that prepare a test.
func (w *world) must(t testing.TB, method, target, body string, headers ...string) string {
	t.Helper()
	answer := w.call(t, method, target, body, headers...)
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 400 {
		t.Fatalf("%s %s: %d %s %v", method, target, answer.StatusCode, content, err)
	}
	return string(content)
}

// shop creates the database d with the container c on /pk.
func shop(t testing.TB, partitions int) *world {
	t.Helper()
	w := newWorld(t, settings{})
	t.Cleanup(w.close)
	w.must(t, "POST", "/dbs", `{"id":"d"}`)
	w.must(t, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, "x-decan-partition-count", fmt.Sprint(partitions))
	return w
}

// TestBodySize tests both sides of the limit of 2,097,152 bytes over a real
// connection: the client receives the answer even while it is still sending.
func TestBodySize(t *testing.T) {
	t.Parallel()
	const limit = 2_097_152
	w := shop(t, 1)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	const frame = `{"id":"1","pk":"a"}`
	for _, c := range []struct {
		size, want int
	}{{limit, 201}, {limit + 1, 413}, {4 * limit, 413}} {
		for _, chunked := range []bool{false, true} {
			// White space counts as received but is not stored.
			body := frame + strings.Repeat(" ", c.size-len(frame))
			hr, err := http.NewRequest("POST", server.URL+"/dbs/d/colls/c/docs", struct{ io.Reader }{strings.NewReader(body)})
			if err != nil {
				t.Fatal(err)
			}
			if !chunked {
				hr.ContentLength = int64(len(body))
			}
			hr.RequestURI = "/dbs/d/colls/c/docs"
			sign(hr)
			hr.RequestURI = ""
			hr.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
			hr.Header.Set("x-ms-documentdb-is-upsert", "True")
			answer, err := http.DefaultClient.Do(hr)
			if err != nil {
				t.Fatalf("size %d: %v", c.size, err)
			}
			content, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			checkAnswer(t, fmt.Sprintf("size %d", c.size), answer, content)
			if got := answer.StatusCode; got != c.want && !(c.want == 201 && got == 200) {
				t.Errorf("size %d, chunked %t: status %d, want %d: %.200s", c.size, chunked, got, c.want, content)
			}
		}
	}
}

// TestHugeBody shows that a client that sends 50 MB before it reads anything
// receives the 413, and can use the connection for the next request. .NET does
// so; when the connection was reset, it repeated the request for minutes.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	w := shop(t, 1)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	for _, chunked := range []bool{false, true} {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		answers := bufio.NewReader(connection)
		for range 2 {
			hr := sign(httptest.NewRequest("POST", "/dbs/d/colls/c/docs", io.LimitReader(spaces{}, size)))
			hr.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
			if !chunked {
				hr.ContentLength = size
			}
			if err := hr.Write(connection); err != nil {
				t.Fatalf("chunked %t: sending: %v", chunked, err)
			}
			answer, err := http.ReadResponse(answers, hr)
			if err != nil {
				t.Fatalf("chunked %t: reading the answer: %v", chunked, err)
			}
			content, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("chunked %t: status %d, want 413: %s %v", chunked, answer.StatusCode, content, err)
			}
		}
	}
}

// spaces is a reader of blanks without end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestConcurrent shows that requests do not share buffers: each receives its own
// activity id and its own document.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := shop(t, 4)
	const workers, documents = 8, 20
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range documents {
				id := fmt.Sprintf("%d-%d", worker, i)
				activity := fmt.Sprintf("%08d-0000-4000-8000-%012d", worker, i)
				key := fmt.Sprintf("[%q]", id)
				body := fmt.Sprintf(`{"id":%q,"pk":%q,"text":%q}`, id, id, strings.Repeat(id, 50))
				for _, answer := range []*http.Response{
					w.call(t, "POST", "/dbs/d/colls/c/docs", body, "x-ms-documentdb-partitionkey", key, "x-ms-activity-id", activity),
					w.call(t, "GET", "/dbs/d/colls/c/docs/"+id, "", "x-ms-documentdb-partitionkey", key, "x-ms-activity-id", activity),
				} {
					content, _ := io.ReadAll(answer.Body)
					if answer.StatusCode >= 300 || !strings.HasPrefix(string(content), strings.TrimSuffix(body, "}")) || answer.Header.Get("x-ms-activity-id") != activity {
						t.Errorf("%s: %d %v %s", id, answer.StatusCode, answer.Header, content)
						return
					}
				}
				missing := w.call(t, "GET", "/dbs/d/colls/c/docs/none", "", "x-ms-documentdb-partitionkey", key, "x-ms-activity-id", activity)
				if content, _ := io.ReadAll(missing.Body); missing.StatusCode != 404 || !strings.Contains(string(content), activity) {
					t.Errorf("%s: %d %s", id, missing.StatusCode, content)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestSignedByRID shows that requests addressed by RIDs are accepted with the
// clients' signature: over the last RID alone, in lower case.
func TestSignedByRID(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`)
	var container, offers struct {
		RID    string `json:"_rid"`
		Self   string `json:"_self"`
		Offers []struct {
			Self string `json:"_self"`
			RID  string `json:"_rid"`
		}
	}
	for target, into := range map[string]any{"/dbs/d/colls/c": &container, "/offers": &offers} {
		if err := json.Unmarshal([]byte(w.must(t, "GET", target, "")), into); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		target, kind, rid string
		want              int
	}{
		{"/" + container.Self + "docs", "docs", container.RID, 200},
		{"/" + container.Self + "pkranges/", "pkranges", container.RID, 200},
		{"/" + strings.TrimSuffix(container.Self, "/"), "colls", container.RID, 200},
		{"/" + offers.Offers[0].Self, "offers", offers.Offers[0].RID, 200},
		{"/" + container.Self + "docs", "docs", offers.Offers[0].RID, 401},
		{"/dbs/d/colls/c/docs", "docs", "c", 401},
	} {
		hr := httptest.NewRequest("GET", c.target, nil)
		date := now().Format(http.TimeFormat)
		hr.Header.Set("x-ms-date", date)
		hr.Header.Set("authorization", auth.Sign(testKey, "GET", c.kind, strings.ToLower(c.rid), date))
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, hr)
		if recorder.Code != c.want {
			t.Errorf("%s signed over %s: %d, want %d: %s", c.target, c.rid, recorder.Code, c.want, recorder.Body)
		}
	}
}

// TestMetrics shows what is counted, and that two doors can share a registry.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := shop(t, 2)
	w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`)
	w.call(t, "GET", "/dbs/d/colls/c/docs/1", "", "x-ms-documentdb-partitionkey", `["b"]`)
	w.call(t, "GET", "/nowhere", "")
	nosql.New(nosql.Config{Engine: w.engine, Registerer: w.registry, Now: now}).ServeHTTP(httptest.NewRecorder(),
		sign(httptest.NewRequest("GET", "/dbs", nil)))

	want := []string{
		"container_create 201 1",
		"database_create 201 1",
		"database_list 200 1",
		"document_create 201 1",
		"document_read 404 1",
		"unknown 400 1",
	}
	got := w.series(t, "decan_nosql_requests_total")
	if !slices.Equal(got, want) {
		t.Errorf("requests: %q, want %q", got, want)
	}
	visited := slices.DeleteFunc(w.series(t, "decan_nosql_partitions_visited_total"), func(s string) bool { return strings.HasSuffix(s, " 0") })
	if want := []string{"document_create 1", "document_read 1"}; !slices.Equal(visited, want) {
		t.Errorf("partitions visited: %q, want %q", visited, want)
	}
	if got := w.series(t, "decan_nosql_charge_total"); len(got) != 1 || got[0] == "0" {
		t.Errorf("charge: %q", got)
	}
	if got := w.series(t, "decan_nosql_request_duration_seconds"); !slices.Contains(got, "document_create 1") {
		t.Errorf("durations: %q", got)
	}
}

// series returns the series of a metric: the values of its labels and its
// value, or the number of observations.
func (w *world) series(t *testing.T, name string) []string {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var words []string
			for _, label := range metric.GetLabel() {
				words = append(words, label.GetValue())
			}
			figure := metric.GetCounter().GetValue()
			if metric.GetHistogram() != nil {
				figure = float64(metric.GetHistogram().GetSampleCount())
			}
			out = append(out, strings.Join(append(words, fmt.Sprint(figure)), " "))
		}
	}
	slices.Sort(out)
	return out
}

// discard is a response writer that keeps nothing.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkPointRead measures the door, the engine and the partition, without a
// network.
func BenchmarkPointRead(b *testing.B) {
	w := shop(b, 1)
	body := fmt.Sprintf(`{"id":"1","pk":"a","text":%q}`, strings.Repeat("x", 1000))
	w.must(b, "POST", "/dbs/d/colls/c/docs", body)
	hr := sign(httptest.NewRequest("GET", "/dbs/d/colls/c/docs/1", nil))
	hr.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
	b.Run("size=1KiB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := discard{header: http.Header{}}
			w.handler.ServeHTTP(&d, hr)
			if d.status != http.StatusOK {
				b.Fatal(d.status)
			}
		}
	})
}

// BenchmarkUpsert is the same for a write of 1 KiB, answered without a body.
func BenchmarkUpsert(b *testing.B) {
	w := shop(b, 1)
	body := fmt.Sprintf(`{"id":"1","pk":"a","text":%q}`, strings.Repeat("x", 1000))
	hr := httptest.NewRequest("POST", "/dbs/d/colls/c/docs", nil)
	hr.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
	hr.Header.Set("x-ms-documentdb-is-upsert", "True")
	hr.Header.Set("prefer", "return=minimal")
	sign(hr)
	b.Run("size=1KiB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hr.Body = io.NopCloser(strings.NewReader(body))
			hr.ContentLength = int64(len(body))
			d := discard{header: http.Header{}}
			w.handler.ServeHTTP(&d, hr)
			if d.status >= 300 {
				b.Fatal(d.status)
			}
		}
	})
}
