package nosql_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/api/nosql"
)

// Large requests leave the last eighth to small ones, which may use all of it.
func TestMemoryIsShared(t *testing.T) {
	t.Parallel()
	const mb, small = 1 << 20, 64 << 10
	for _, c := range []struct {
		taken, n, size int
		want           bool
	}{
		{0, 7 * mb, 7 * mb, true},
		{0, 7*mb + 1, 7*mb + 1, false},
		{6 * mb, mb, 2 * mb, true},
		{6*mb + 1, mb, 2 * mb, false},
		{7 * mb, small, small, true},
		{7 * mb, 1, small + 1, false},
		{8*mb - small, small, small, true},
		{8*mb - small + 1, small, small, false},
		{9 * mb, 1, 1, false},
	} {
		m := nosql.NewMemory(8*mb, nil)
		m.Add(c.taken)
		if got := m.Take(c.n, c.size); got != c.want {
			t.Errorf("%d are taken; %d more for a request of %d: %t", c.taken, c.n, c.size, got)
		}
		want := int64(c.taken)
		if c.want {
			want += int64(c.n)
		}
		if got := m.Taken(); got != want {
			t.Errorf("%d are taken; after %d more for a request of %d: %d", c.taken, c.n, c.size, got)
		}
	}
}

// Whatever requests run at the same time, they never take more than the limit,
// and release all of it.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	m := nosql.NewMemory(limit, nil)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			for round := range 2000 {
				n := 1 + (i*7919+round*104729)%(limit/4)
				if m.Take(n, n) {
					if m.Taken() > 2*limit { // those about to be refused count for a moment
						t.Errorf("%d bytes are taken", m.Taken())
					}
					m.Release(n)
				}
			}
		})
	}
	wait.Wait()
	if m.Taken() != 0 {
		t.Errorf("%d bytes are left", m.Taken())
	}
}

// crowded is a database whose requests may take 16 MB together.
func crowded(t *testing.T) (*nosql.Memory, *httptest.Server, *world) {
	t.Helper()
	m := nosql.NewMemory(16<<20, nil)
	w := newWorld(t, settings{Config: nosql.Config{Memory: m}})
	t.Cleanup(w.close)
	w.must(t, "POST", "/dbs", `{"id":"d"}`)
	w.must(t, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	return m, server, w
}

func sized(id string, size int) string {
	text := fmt.Sprintf(`{"id":%q,"pk":"a","text":"`, id)
	return text + strings.Repeat("x", size-len(text)-2) + `"}`
}

// head is the head of a signed request.
func head(method, path string, length int, headers ...string) string {
	hr := sign(httptest.NewRequest(method, path, nil))
	hr.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
	hr.Header.Set("Content-Length", strconv.Itoa(length))
	for i := 0; i < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)
	_ = hr.Header.Write(&out)
	return out.String() + "\r\n"
}

// While little memory is free, large bodies and answers are refused with a time
// to wait, small ones pass, and requests that have changed something are
// answered.
func TestMemoryIsShort(t *testing.T) {
	t.Parallel()
	m, _, w := crowded(t)
	key := []string{"x-ms-documentdb-partitionkey", `["a"]`}
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("large", 1<<20), key...)
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("small", 1000), key...)
	w.must(t, "POST", "/dbs/d/colls/c/sprocs", `{"id":"large","body":"function () { getContext().getResponse().setBody('x'.repeat(1000000)); }"}`)
	query := append([]string{"x-ms-documentdb-isquery", "true", "content-type", "application/query+json"}, key...)
	requests := []struct {
		what, method, path, body string
		headers                  []string
		want, short, full        int // with free memory, without any for large requests, and without any
	}{
		{"a large create", "POST", "docs", sized("new", 1<<20), append([]string{"x-ms-documentdb-is-upsert", "true"}, key...), 200, 429, 429},
		{"a small create", "POST", "docs", sized("tiny", 1000), append([]string{"x-ms-documentdb-is-upsert", "true"}, key...), 200, 200, 200},
		{"a create of 10 KB", "POST", "docs", sized("some", 10_000), append([]string{"x-ms-documentdb-is-upsert", "true"}, key...), 200, 200, 429},
		{"a large read", "GET", "docs/large", "", key, 200, 429, 429},
		{"a small read", "GET", "docs/small", "", key, 200, 200, 200},
		{"a large page", "GET", "docs", "", key, 200, 429, 429},
		{"a large page of a query", "POST", "docs", `{"query":"SELECT * FROM c"}`, query, 200, 429, 429},
		{"a small page of a query", "POST", "docs", `{"query":"SELECT c.id FROM c"}`, query, 200, 200, 429},
		{"a procedure", "POST", "sprocs/large", `[]`, key, 200, 200, 200},
		{"a large patch", "PATCH", "docs/large", `{"operations":[{"op":"set","path":"/n","value":1}]}`, key, 200, 200, 200},
	}
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("new", 100), key...)
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("tiny", 100), key...)
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("some", 100), key...)
	for _, taken := range []int{0, 14<<20 - 100, 16 << 20} {
		m.Add(taken)
		for _, r := range requests {
			want := r.want
			switch {
			case taken >= 16<<20:
				want = r.full
			case taken > 0:
				want = r.short
			}
			answer := w.call(t, r.method, "/dbs/d/colls/c/"+r.path, r.body, r.headers...)
			content, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != want {
				t.Errorf("%d bytes are taken; %s: %d %.200s, want %d", taken, r.what, answer.StatusCode, content, want)
			}
			if answer.StatusCode == 429 {
				wait, err := strconv.Atoi(answer.Header.Get("x-ms-retry-after-ms"))
				if err != nil || wait < 500 || wait > 1500 || answer.Header.Get("x-ms-substatus") != "3200" {
					t.Errorf("%s: header %v", r.what, answer.Header)
				}
			}
			if got := m.Taken(); got != int64(taken) {
				t.Fatalf("%d bytes are taken after %s, want %d", got, r.what, taken)
			}
		}
		m.Release(taken)
	}
}

// A refused request is answered before its body has been sent, and its connection
// serves the next one.
func TestRefusedBeforeItsBody(t *testing.T) {
	t.Parallel()
	m, server, _ := crowded(t)
	m.Add(15 << 20)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for _, size := range []int{100_000, 1 << 20} {
		body := sized("1", size)
		if _, err := io.WriteString(conn, head("POST", "/dbs/d/colls/c/docs", len(body))); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		if answer.StatusCode != 429 || err != nil {
			t.Fatalf("%d bytes: %d %s %v", size, answer.StatusCode, content, err)
		}
		checkAnswer(t, "a refused body", answer, content)
		if _, err := io.WriteString(conn, body); err != nil {
			t.Fatal(err)
		}
	}
	m.Release(15 << 20)
	body := sized("1", 1<<20)
	if _, err := io.WriteString(conn, head("POST", "/dbs/d/colls/c/docs", len(body))+body); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(reader, nil); err != nil || answer.StatusCode != 201 {
		t.Errorf("%v %v", answer, err)
	}
}

// If memory runs out while a body arrives, the request also ends with 429; in
// every case its memory is released.
func TestNoMemoryIsLeftTaken(t *testing.T) {
	t.Parallel()
	m, server, w := crowded(t)
	w.must(t, "POST", "/dbs/d/colls/c/docs", sized("large", 1<<20), "x-ms-documentdb-partitionkey", `["a"]`)
	dial := func(text string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn, bufio.NewReader(conn)
	}
	body := sized("1", 1<<20)
	create := head("POST", "/dbs/d/colls/c/docs", len(body))

	// The request has begun, as the server shows by asking for the body, when
	// others take the memory.
	conn, reader := dial(head("POST", "/dbs/d/colls/c/docs", len(body), "Expect", "100-continue"))
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = reader.ReadString('\n')
	m.Add(16 << 20)
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(reader, nil); err != nil || answer.StatusCode != 429 {
		t.Errorf("a body without room: %v %v", answer, err)
	}
	conn.Close()
	m.Release(16 << 20)

	for _, text := range []string{
		create + body[:len(body)/2], // disconnects in the middle of the body
		create,
		head("POST", "/dbs/d/colls/c/docs", 3<<20) + strings.Repeat("x", 3<<20), // too large
		create + strings.Repeat("x", len(body)),                                 // not JSON
		create + body,                                                           // disconnects before the answer
		head("GET", "/dbs/d/colls/c/docs", 0),                                   // disconnects in the middle of the answer
		head("GET", "/dbs/d/colls/c/docs/large", 0),
		"POST /dbs/d/colls/c/docs HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + body, // not authenticated
	} {
		conn, _ := dial(text)
		conn.Close()
	}
	conn, reader = dial(create + body)
	if answer, err := http.ReadResponse(reader, nil); err != nil || answer.StatusCode >= 500 {
		t.Errorf("%v %v", answer, err)
	}
	conn.Close()
	server.Close() // waits for all requests
	if m.Taken() != 0 {
		t.Errorf("%d bytes are left taken", m.Taken())
	}
}

// A large document counts with the memory of its parsed values, so one with many
// values is refused where one with long text passes; alone, both pass.
func TestMemoryOfManyValues(t *testing.T) {
	t.Parallel()
	m, _, w := crowded(t)
	headers := []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-is-upsert", "true"}
	values := `{"id":"values","pk":"a","list":[1` + strings.Repeat(",1", 500_000) + `]}`
	text := sized("text", len(values))
	for _, c := range []struct{ taken, text, values int }{{0, 201, 201}, {8 << 20, 200, 429}} {
		m.Add(c.taken)
		for body, want := range map[string]int{text: c.text, values: c.values} {
			answer := w.call(t, "POST", "/dbs/d/colls/c/docs", body, headers...)
			if content, _ := io.ReadAll(answer.Body); answer.StatusCode != want {
				t.Errorf("%d bytes are taken; %.20s: %d %.200s, want %d", c.taken, body, answer.StatusCode, content, want)
			}
			if got := m.Taken(); got != int64(c.taken) {
				t.Fatalf("%d bytes are taken afterwards, want %d", got, c.taken)
			}
		}
		m.Release(c.taken)
	}
}

// While as many large bodies are parsed as may be, a large one waits, whatever it is for,
// until there is a place or its request ends, and small ones pass. What becomes of a body,
// its place is free afterwards.
func TestLargeBodiesWaitToBeParsed(t *testing.T) {
	t.Parallel()
	m, _, w := crowded(t)
	parsers := m.Parsers()
	if got, want := cap(parsers), max(1, runtime.GOMAXPROCS(0)-1); got != want {
		t.Fatalf("%d large bodies are parsed at a time, want %d", got, want)
	}
	upsert := []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-is-upsert", "true"}
	const values = 50_000
	large := `{"id":"large","pk":"a","list":[1` + strings.Repeat(",1", values) + `]}`
	requests := []struct {
		what, body string
		headers    []string
		want       int
	}{
		{"a document", large, upsert, 201},
		{"a batch", `[{"operationType":"Upsert","resourceBody":` + large + `}]`, batchHeaders, 200},
		{"no JSON", large + "]", upsert, 400},
		{"a batch that is no JSON", "[" + large, batchHeaders, 400},
	}
	for range cap(parsers) {
		parsers <- struct{}{}
	}
	if answer := w.call(t, "POST", "/dbs/d/colls/c/docs", sized("small", 1000), upsert...); answer.StatusCode != 201 {
		t.Errorf("a small body beside large ones: %d", answer.StatusCode)
	}
	for _, r := range requests {
		ctx, cancel := context.WithCancel(t.Context())
		hr := httptest.NewRequest("POST", "/dbs/d/colls/c/docs", strings.NewReader(r.body)).WithContext(ctx)
		for pair := range slices.Chunk(r.headers, 2) {
			hr.Header.Set(pair[0], pair[1])
		}
		recorder, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			w.handler.ServeHTTP(recorder, sign(hr))
		}()
		// It counts with its values from when it is about to be parsed.
		for ended := false; !ended && m.Taken() < values*64; {
			select {
			case <-done:
				ended = true
			default:
				runtime.Gosched()
			}
		}
		cancel()
		<-done
		if content := recorder.Body.String(); recorder.Code != 408 || !strings.Contains(content, "The body was not read in time.") {
			t.Errorf("%s that is given up while it waits: %d %.200s", r.what, recorder.Code, content)
		}
		if n := m.Taken(); n != 0 {
			t.Fatalf("%d bytes are left taken by %s", n, r.what)
		}
	}
	<-parsers
	for _, r := range requests {
		answer := w.call(t, "POST", "/dbs/d/colls/c/docs", r.body, r.headers...)
		if content, _ := io.ReadAll(answer.Body); answer.StatusCode != r.want {
			t.Errorf("%s: %d %.200s, want %d", r.what, answer.StatusCode, content, r.want)
		}
		if n := len(parsers); n != cap(parsers)-1 {
			t.Fatalf("%d places are taken after %s, want %d", n, r.what, cap(parsers)-1)
		}
	}
}
