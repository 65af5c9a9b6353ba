package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/server/servertest"
)

// Every kind of request has the same answer over HTTP/2, with TLS and without, as
// over HTTP/1.1.
func TestHTTP2Requests(t *testing.T) {
	t.Parallel()
	large := fmt.Sprintf(`{"id":"large","pk":"a","text":"%s"}`, strings.Repeat("x", 1<<20))
	key := []string{"x-ms-documentdb-partitionkey", `["a"]`}
	const container, docs = "dbs/d/colls/c", "dbs/d/colls/c/docs"
	for _, scheme := range []string{"http", "https"} {
		s := start(t, Config{})
		clients := map[int]*http.Client{1: {Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, 2: http2Client(t)}
		defer clients[1].CloseIdleConnections()
		send := func(version int, method, link, body string, headers ...string) (int, string, http.Header) {
			t.Helper()
			resp, err := clients[version].Do(signedRequest(t, s, scheme, method, link, body, headers...))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.ProtoMajor != version {
				t.Errorf("%s %s: %s, want version %d", method, link, resp.Proto, version)
			}
			return resp.StatusCode, string(text), resp.Header
		}
		for _, c := range []struct {
			method, link, body string
			headers            []string
			status             int
		}{
			{"POST", "dbs", `{"id":"d"}`, nil, 201},
			{"POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`, nil, 201},
			{"POST", docs, `{"id":"1","pk":"a"}`, key, 201},
			{"POST", docs, `{"id":"1","pk":"a","n":2}`, append([]string{"x-ms-documentdb-is-upsert", "True"}, key...), 200},
			{"POST", docs, large, key, 201},
			{"PUT", docs + "/1", `{"id":"1","pk":"a","n":3}`, key, 200},
			{"PATCH", docs + "/1", `{"operations":[{"op":"incr","path":"/n","value":1}]}`, key, 200},
			{"POST", docs, `[{"operationType":"Create","resourceBody":{"id":"2","pk":"a"}}]`, append([]string{"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"}, key...), 200},
			{"DELETE", docs + "/2", "", key, 204},
		} {
			if status, text, _ := send(2, c.method, c.link, c.body, c.headers...); status != c.status {
				t.Errorf("%s: %s %s: %d %.200s, want %d", scheme, c.method, c.link, status, text, c.status)
			}
		}
		_, _, headers := send(1, "GET", docs+"/1", "", key...)
		for _, c := range []struct {
			method, link, body string
			headers            []string
			status             int
		}{
			{"GET", "", "", nil, 200},
			{"GET", container, "", nil, 200},
			{"GET", container + "/pkranges", "", nil, 200},
			{"GET", docs + "/1", "", key, 200},
			{"GET", docs + "/large", "", key, 200},
			{"GET", docs + "/1", "", append([]string{"If-None-Match", headers.Get("Etag")}, key...), 304},
			{"GET", docs + "/9", "", key, 404},
			{"GET", docs, "", key, 200},
			{"HEAD", container, "", nil, 200},
			{"GET", docs, "", append([]string{"A-IM", "Incremental Feed"}, key...), 200},
			{"POST", docs, `{"query":"SELECT c.id, c.n FROM c ORDER BY c.n"}`, append([]string{"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json"}, key...), 200},
			{"POST", docs, `{"query":"SELECT"}`, append([]string{"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json"}, key...), 400},
			{"POST", docs, strings.Repeat(" ", 3<<20), key, 413},
		} {
			old, oldText, oldHeader := send(1, c.method, c.link, c.body, c.headers...)
			status, text, header := send(2, c.method, c.link, c.body, c.headers...)
			if c.method == "HEAD" && old != c.status {
				c.status = old // Any status is valid if both versions have it.
			}
			if status != c.status || old != c.status {
				t.Errorf("%s: %s %s: %d %.200s, with HTTP/1.1 %d, want %d", scheme, c.method, c.link, status, text, old, c.status)
			}
			activity, oldActivity := header.Get("X-Ms-Activity-Id"), oldHeader.Get("X-Ms-Activity-Id")
			if got, want := strings.ReplaceAll(text, activity, ""), strings.ReplaceAll(oldText, oldActivity, ""); got != want {
				t.Errorf("%s: %s %s: %.200s, with HTTP/1.1 %.200s", scheme, c.method, c.link, got, want)
			}
			for name := range oldHeader {
				if header[name] == nil && name != "Connection" {
					t.Errorf("%s: %s %s: no header %s", scheme, c.method, c.link, name)
				}
			}
		}
	}
}

// The rules for hosts, plain http and ambiguous requests hold for HTTP/2.
func TestHTTP2Refusals(t *testing.T) {
	t.Parallel()
	s, only := start(t, Config{}), start(t, Config{TLS: TLSOptions{Only: true}})
	client := http2Client(t)
	for _, c := range []struct {
		name   string
		server *Server
		scheme string
		change func(*http.Request)
		status int
	}{
		{"accepted", s, "http", func(*http.Request) {}, 200},
		{"foreign host", s, "http", func(r *http.Request) { r.Host = "evil.example.com" }, 403},
		{"foreign host over TLS", s, "https", func(r *http.Request) { r.Host = "evil.example.com" }, 403},
		{"plain", only, "http", func(*http.Request) {}, 403},
		{"TLS", only, "https", func(*http.Request) {}, 200},
		{"no signature", s, "https", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
	} {
		req := signedRequest(t, c.server, c.scheme, "GET", "", "")
		c.change(req)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %s, want %d", c.name, resp.Proto, resp.Status, c.status)
		}
	}
	const document = `{"id":"1","pk":"a"}`
	for _, c := range []struct {
		name   string
		fields []string
		data   string
		want   string // the status, or RST
	}{
		{"accepted", []string{":method", "POST", "content-length", "19"}, document, "404"},
		{"another Host", []string{":method", "POST", "host", "evil.example.com"}, "", "400"},
		{"two hosts", []string{":method", "POST", "host", "localhost", "host", "localhost"}, "", "400"},
		{"two lengths", []string{":method", "POST", "content-length", "4", "content-length", "5"}, "", "400"},
		{"a length with a sign", []string{":method", "POST", "content-length", "+4"}, "", "400"},
		{"chunks", []string{":method", "POST", "transfer-encoding", "chunked"}, "abcd", "400"},
		{"a connection header", []string{":method", "GET", "connection", "keep-alive"}, "", "400"},
		{"more than announced", []string{":method", "POST", "content-length", "2"}, document, "RST"},
		{"less than announced", []string{":method", "POST", "content-length", "99"}, document, "RST"},
		{"upper case", []string{":method", "GET", "X-Test", "1"}, "", "RST"},
		{"a line feed in a value", []string{":method", "GET", "x-test", "1\nx: 2"}, "", "RST"},
	} {
		for _, secure := range []bool{false, true} {
			raw := dialHTTP2(t, s.address(), secure)
			date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
			raw.request(1, c.data, append([]string{
				":path", "/dbs/d/colls/c/docs", ":scheme", "http", ":authority", "localhost",
				"x-ms-date", date, "authorization", servertest.Authorization(s.Key(), "POST", "docs", "dbs/d/colls/c", date),
			}, c.fields...)...)
			got := raw.answer(1)
			if got != c.want && (c.want != "RST" || got == "404") {
				t.Errorf("%s, TLS %t: %s, want %s", c.name, secure, got, c.want)
			}
		}
	}
}

// A client that speaks another protocol than the handshake chose is disconnected.
func TestHTTP2Preface(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	conn, err := tls.Dial("tcp", s.address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("the handshake chose %q", got)
	}
	fmt.Fprint(conn, accountRequest(s.Key(), "/", "1.1", "Host: localhost\r\n"))
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if text, _ := io.ReadAll(conn); bytes.Contains(text, []byte("200 OK")) {
		t.Errorf("HTTP/1.1 on a connection for HTTP/2: %s", text)
	}
	for _, raw := range []string{"PRI * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRIVATE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"} {
		if answer := sendRaw(t, s.address(), false, raw); strings.Contains(answer, "200 OK") {
			t.Errorf("%q: %s", raw, answer)
		}
	}
}

// Header lists that are too long are refused, in one frame and in many, and the
// server serves others.
func TestHTTP2HugeHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	base := []string{":method", "GET", ":path", "/", ":scheme", "http", ":authority", "localhost"}
	for _, secure := range []bool{false, true} {
		raw := dialHTTP2(t, s.address(), secure)
		raw.request(1, "", append(base, "x-large", strings.Repeat("x", 100<<10))...)
		if got := raw.answer(1); got != "401" { // within the limit
			t.Errorf("100 KB: %s", got)
		}
		many := base
		for range 128 {
			many = append(many, "x-large", strings.Repeat("x", 1000))
		}
		raw.request(3, "", many...)
		if got := raw.answer(3); got != "431" {
			t.Errorf("128 fields of 1,000 bytes: %s", got)
		}
		raw.request(5, "", append(base, "x-large", strings.Repeat("x", 300<<10))...)
		if got := raw.answer(0); got != "GOAWAY 1" && got != "GOAWAY 9" { // an error of the protocol or of the compression
			t.Errorf("300 KB: %s", got)
		}
		// Headers that never end.
		flood := dialHTTP2(t, s.address(), secure)
		flood.frame(frameHeaders, 0, 1, hpack(base...))
		sent, field := 0, hpack("x-field", strings.Repeat("x", 1000))
		for sent < 100<<20 {
			if flood.write(frameContinuation, 0, 1, bytes.Repeat(field, 16)) != nil {
				break
			}
			sent += 16 * len(field)
		}
		// What the system has buffered counts as sent.
		if sent > 32<<20 {
			t.Errorf("TLS %t: the server took %d bytes of headers", secure, sent)
		}
	}
	if resp, err := http2Client(t).Do(signedRequest(t, s, "http", "GET", "", "")); err != nil || resp.StatusCode != 200 {
		t.Errorf("another client: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// A client that opens requests and resets them at once is disconnected soon; one
// that resets some of its requests is not.
func TestHTTP2RapidResets(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	base := []string{":method", "GET", ":path", "/", ":scheme", "http", ":authority", "localhost"}
	raw := dialHTTP2(t, s.address(), false)
	go func() {
		for range raw.read {
		}
	}()
	head, reset := hpack(base...), []byte{0, 0, 0, 8}
	opened := 0
	for ; opened < 1_000_000; opened++ {
		id := uint32(2*opened + 1)
		if raw.write(frameHeaders, flagEndHeaders|flagEndStream, id, head) != nil || raw.write(frameReset, 0, id, reset) != nil {
			break
		}
	}
	// What the system has buffered counts as sent.
	if opened == 1_000_000 {
		t.Errorf("%d requests were reset", opened)
	}
	honest := dialHTTP2(t, s.address(), false)
	for i := range 2000 {
		id := uint32(2*i + 1)
		honest.frame(frameHeaders, flagEndHeaders|flagEndStream, id, head)
		if i%3 == 0 {
			honest.frame(frameReset, 0, id, reset)
		} else if got := honest.answer(id); got != "401" {
			t.Fatalf("request %d: %s", i, got)
		}
	}
	if text := scrape(t, s); !strings.Contains(text, "\ndecan_connections_flooded_total 1\n") {
		t.Error("the connection was not counted")
	}
}

// A request that the client has reset before its goroutine runs is not served.
func TestHTTP2ResetInTime(t *testing.T) {
	t.Parallel()
	ctx, reset := context.WithCancel(t.Context())
	reset()
	defer func() {
		got := recover()
		if err, ok := got.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("serveStream panicked with %v, want %v", got, http.ErrAbortHandler)
		}
	}()
	new(connection).serveStream(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was served") }),
		httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
}

// More requests than the bound are refused one by one; the others are served.
func TestHTTP2StreamLimit(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}, streamsMax), make(chan struct{})
	s, all := http2Door(t, nil, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		started <- struct{}{}
		<-release
	}))
	raw := dialHTTP2(t, s.data.listener.Addr().String(), false)
	for i := range streamsMax + 1 {
		raw.request(uint32(2*i+1), "", ":method", "GET", ":path", "/", ":scheme", "http", ":authority", "x")
	}
	if got := raw.answer(2*streamsMax + 1); got != "RST 7" { // REFUSED_STREAM
		t.Errorf("request %d: %s", streamsMax+1, got)
	}
	for range streamsMax {
		<-started
	}
	if got, want := all.memory.Taken(), int64((streamsMax-1)*streamMemory); got != want {
		t.Errorf("%d bytes are taken, want %d", got, want)
	}
	close(release)
	for i := range streamsMax {
		if got := raw.answer(uint32(2*i + 1)); got != "200" {
			t.Errorf("request %d: %s", i, got)
		}
	}
	if got := all.memory.Taken(); got != 0 {
		t.Errorf("%d bytes stay taken", got)
	}
}

// Concurrent requests of one connection, and long headers, count as memory of
// requests.
func TestHTTP2Memory(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	s, all := http2Door(t, func(all *connections) { all.memory = nosql.NewMemory(46<<10, nil) }, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		started <- struct{}{}
		<-release
	}))
	raw := dialHTTP2(t, s.data.listener.Addr().String(), true)
	base := []string{":method", "GET", ":path", "/", ":scheme", "http", ":authority", "x"}
	raw.request(1, "", append(base, "x-long", strings.Repeat("x", 40<<10))...)
	<-started
	if taken := all.memory.Taken(); taken < 40<<10 || taken > 42<<10 {
		t.Errorf("%d bytes are taken for 40 KB of headers", taken)
	}
	raw.request(3, "", base...)
	if got := raw.answer(3); got != "429" {
		t.Errorf("the second request: %s", got)
	}
	// Incomplete headers count as well, until their connection ends.
	other := dialHTTP2(t, s.data.listener.Addr().String(), false)
	other.frame(frameHeaders, 0, 1, hpack(base...))
	for range 3 {
		other.write(frameContinuation, 0, 1, hpack("x-long", strings.Repeat("x", 16000)))
	}
	if got := other.answer(1); got != "end" {
		t.Errorf("the connection with incomplete headers: %s", got)
	}
	close(release)
	if got := raw.answer(1); got != "200" {
		t.Errorf("the first request: %s", got)
	}
	for end := time.Now().Add(10 * time.Second); all.memory.Taken() != 0; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes stay taken", all.memory.Taken())
		}
	}
}

// Each slow request of a connection is ended after its time, and the others are served
// meanwhile.
func TestHTTP2SlowClients(t *testing.T) {
	t.Parallel()
	base := []string{":path", "/", ":scheme", "http", ":authority", "x"}
	post, get := append(base, ":method", "POST"), append(base, ":method", "GET")
	for _, c := range []struct {
		name string
		do   func(raw *rawHTTP2) string
		want string
		took time.Duration
		slow string // the label of the counter
	}{
		{"a body of one byte per second", func(raw *rawHTTP2) string {
			raw.frame(frameHeaders, flagEndHeaders, 1, hpack(post...))
			for range 30 {
				raw.frame(frameData, 0, 1, []byte("x"))
				time.Sleep(time.Second) // fake
			}
			return raw.answer(1)
		}, "408", 30 * time.Second, slowToSend},
		{"a body of 3 KB per second", func(raw *rawHTTP2) string {
			raw.frame(frameHeaders, flagEndHeaders, 1, hpack(post...))
			for range 100 {
				raw.frame(frameData, 0, 1, bytes.Repeat([]byte("x"), 3<<10))
				time.Sleep(time.Second) // fake
			}
			raw.frame(frameData, flagEndStream, 1, nil)
			return raw.answer(1)
		}, "200", 100 * time.Second, ""},
		{"a part of a frame", func(raw *rawHTTP2) string {
			raw.frame(frameHeaders, flagEndHeaders, 1, hpack(post...))
			raw.conn.Write([]byte{0, 1, 0, frameData, 0, 0, 0, 0, 1, 'x'})
			return raw.answer(0)
		}, "end", 30 * time.Second, slowToSend},
		{"a part of the headers", func(raw *rawHTTP2) string {
			raw.frame(frameHeaders, 0, 1, hpack(get...))
			for range 30 {
				time.Sleep(time.Second) // fake
				raw.write(frameContinuation, 0, 1, hpack("x", "x"))
			}
			return raw.answer(0)
		}, "end", 30 * time.Second, slowToSend},
		{"an answer that is not taken", func(raw *rawHTTP2) string {
			raw.request(1, "", append(get, "x-size", "1048576")...) // The window is 64 KB.
			return raw.answer(1)
		}, "200 RST 2", 30 * time.Second, slowToTake},
		{"a closed window", func(raw *rawHTTP2) string {
			raw.frame(frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0})
			raw.request(1, "", append(get, "x-size", "100")...)
			return raw.answer(1)
		}, "200 RST 2", 30 * time.Second, ""},
		{"nothing is read", func(raw *rawHTTP2) string {
			defer raw.readFrames()
			time.Sleep(31 * time.Second) // fake
			if raw.write(frameData, 0, 0, nil) == nil {
				return "open"
			}
			return "end"
		}, "end", 31 * time.Second, slowToTake},
		{"no request", func(raw *rawHTTP2) string {
			return raw.answer(0)
		}, "GOAWAY 0", 10 * time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener, all := pipeDoor(t, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
					if _, err := io.Copy(io.Discard, hr.Body); err != nil {
						hw.WriteHeader(http.StatusRequestTimeout)
						return
					}
					var size int
					fmt.Sscan(hr.Header.Get("x-size"), &size)
					hw.Write(make([]byte, size))
				}))
				raw := newRawHTTP2(t, listener.dial())
				if c.name != "nothing is read" {
					go raw.readFrames()
				}
				began := time.Now()
				got := c.do(raw)
				if took := time.Since(began); got != c.want || took < c.took || took > c.took+2*time.Second {
					t.Errorf("%s after %v, want %s after %v", got, took, c.want, c.took)
				}
				if c.want != "end" && c.want != "GOAWAY 0" {
					raw.request(3, "", get...)
					if got := raw.answer(3); got != "200" {
						t.Errorf("another request: %s", got)
					}
				}
				for _, label := range []string{slowToSend, slowToTake} {
					if got := tally(all.metrics.slow, label); (got > 0) != (label == c.slow) {
						t.Errorf("%v slow clients (%s) were counted", got, label)
					}
				}
				raw.conn.Close()
			})
		})
	}
}

// A request in progress when the server closes is answered; its client is told to
// open no other on this connection.
func TestHTTP2Drain(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	s, _ := http2Door(t, nil, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		started <- struct{}{}
		<-release
		fmt.Fprint(hw, "done")
	}))
	clients := []*rawHTTP2{dialHTTP2(t, s.data.listener.Addr().String(), false), dialHTTP2(t, s.data.listener.Addr().String(), true)}
	for _, raw := range clients {
		raw.request(1, "", ":method", "GET", ":path", "/", ":scheme", "http", ":authority", "x")
		<-started
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for i, raw := range clients {
		if got := raw.answer(0); got != "GOAWAY 0" {
			t.Errorf("client %d: %s, want GOAWAY", i, got)
		}
	}
	close(release)
	for i, raw := range clients {
		if got := raw.answer(1); got != "200" {
			t.Errorf("client %d: the request in progress: %s", i, got)
		}
		got := raw.answer(0)
		for got == "GOAWAY 0" {
			got = raw.answer(0)
		}
		if got != "end" {
			t.Errorf("client %d: the connection: %s", i, got)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// At the limit of connections, an HTTP/2 connection without a request is closed to make
// room, and one with a request is not.
func TestHTTP2MakesRoom(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	s, _ := http2Door(t, func(all *connections) { all.limit = 2 }, http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		started <- struct{}{}
		<-release
	}))
	address := s.data.listener.Addr().String()
	busyOne, idle := dialHTTP2(t, address, false), dialHTTP2(t, address, true)
	busyOne.request(1, "", ":method", "GET", ":path", "/", ":scheme", "http", ":authority", "x")
	<-started
	third := dialHTTP2(t, address, false)
	third.request(1, "", ":method", "GET", ":path", "/", ":scheme", "http", ":authority", "x")
	<-started
	if got := idle.answer(0); got != "end" {
		t.Errorf("the idle connection: %s", got)
	}
	close(release)
	for _, raw := range []*rawHTTP2{busyOne, third} {
		if got := raw.answer(1); got != "200" {
			t.Errorf("a connection with a request: %s", got)
		}
	}
}

// The frames are the same in whatever pieces they arrive.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	sent.WriteString(preface)
	frame := func(kind, flags byte, stream uint32, payload string) {
		sent.Write(rawFrame(kind, flags, stream, []byte(payload)))
	}
	frame(frameSettings, 0, 0, "")
	frame(frameHeaders, 0, 1, "abc")
	frame(frameContinuation, 0, 1, "")
	frame(frameContinuation, flagEndHeaders, 1, strings.Repeat("x", 300))
	frame(frameData, flagEndStream, 1, strings.Repeat("x", 20_000))
	frame(frameReset, 0, 1, "1234")
	frame(frameHeaders, flagEndHeaders, 3, "")
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		var f frames
		from, p := wrap(bytes.NewReader(sent.Bytes())), make([]byte, 1<<20)
		for {
			n, err := from.Read(p)
			if wrong := f.feed(p[:n]); wrong != nil {
				t.Fatalf("%s: %v", name, wrong)
			}
			if err != nil {
				break
			}
		}
		if f.opened != 2 || f.reset != 1 || f.part != 5 || f.incomplete() != 0 || f.block != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	var f frames
	if err := f.feed([]byte(preface[:20] + "x")); !errors.Is(err, errPreface) {
		t.Error(err)
	}
}
