package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// TestUnclearRequestsEndTheirConnection sends raw bytes of requests with
// ambiguous bodies, and one more request after each: that one is never answered.
func TestUnclearRequestsEndTheirConnection(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for _, test := range []struct {
		name, raw string
		status    string // of the last answer
		answers   int
	}{
		{"both", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request", 1},
		{"both, in reverse order and in other letter case", "POST / HTTP/1.1\r\nHost: localhost\r\ntransfer-ENCODING:chunked\r\ncontent-length:4\r\n\r\n0\r\n\r\n", "400 Bad Request", 1},
		{"both, lines that end in a line feed", "POST / HTTP/1.1\nHost: localhost\nContent-Length: 4\nTransfer-Encoding: chunked\n\n0\r\n\r\n", "400 Bad Request", 1},
		{"both, without a body", "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request", 1},
		{"both after a good one", "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\nPOST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request", 2},
		{"both on an old protocol", "POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request", 1},
		{"chunks on an old protocol", "POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request", -1},
		{"two lengths", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "400 Bad Request", 1},
		{"a list of lengths", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4, 4\r\n\r\nabcd", "400 Bad Request", 1},
		{"a length with a sign", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +4\r\n\r\nabcd", "400 Bad Request", 1},
		{"a negative length", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", "400 Bad Request", 1},
		{"a hexadecimal length", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x4\r\n\r\nabcd", "400 Bad Request", 1},
		{"a length beyond numbers", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", "400 Bad Request", 1},
		{"a length far to the right", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strings.Repeat(" ", 5000) + "4\r\n\r\nabcd", "400 Bad Request", -1},
		{"blank before the colon", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 4\r\n\r\nabcd", "400 Bad Request", 1},
		{"blank before the colon of the encoding", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400 Bad Request", 1},
		{"a folded name", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-\r\n Length: 4\r\n\r\nabcd", "400 Bad Request", 1},
		{"a bare carriage return", "POST / HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 4\r\n\r\n", "400 Bad Request", 1},
		{"a zero byte", "POST / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n", "400 Bad Request", 1},
		{"a bare carriage return for an empty line", "POST / HTTP/1.1\r\nHost: localhost\r\n\rContent-Length: 4\r\n\r\n", "400 Bad Request", 1},
		{"an unknown encoding", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501 Not Implemented", 1},
		{"two encodings", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501 Not Implemented", 1},
		{"the encoding identity", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", "501 Not Implemented", 1},
		{"a chunk of no size", "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n", "401 Unauthorized", 1},
	} {
		for _, secure := range []bool{false, true} {
			name := fmt.Sprintf("%s, TLS %v", test.name, secure)
			answer := sendRaw(t, s.address(), secure, test.raw+"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nx-ms-activity-id: 11111111-2222-4333-8444-555555555555\r\n\r\n")
			last := answer[max(0, strings.LastIndex(answer, "HTTP/1.1 ")):]
			if !strings.HasPrefix(last, "HTTP/1.1 "+test.status) || !strings.Contains(last, "Connection: close") {
				t.Errorf("%s: got %q, want %s and the end of the connection", name, answer, test.status)
			}
			if n := strings.Count(answer, "HTTP/1.1 "); test.answers > 0 && n != test.answers {
				t.Errorf("%s: %d answers, want %d: %q", name, n, test.answers, answer)
			}
			if strings.Contains(answer, "11111111-2222") {
				t.Errorf("%s: the smuggled request is answered: %q", name, answer)
			}
		}
	}
}

// TestClearRequestsAreAnswered sends unusual but valid requests, one after
// another on one connection.
func TestClearRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	raws := []string{
		"POST /dbs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nab\ncd\r\n1F\r\n0123456789012345678901234567890\r\n0\r\nTrailer: x\r\n\r\n",
		"POST /dbs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
		"POST /dbs HTTP/1.1\r\nHost: localhost\r\nContent-Length:\t58 \r\n\r\n\nContent-Length: 1\nTransfer-Encoding: chunked\n\n\r\n\r\nabcdefg",
		"\r\nPOST /dbs HTTP/1.1\r\nHost: localhost\r\nX-Content-Length: 9\r\nX: Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
		"GET /dbs HTTP/1.1\r\nHost: localhost\r\nX: a\r\n Content-Length: 7\r\n\tTransfer-Encoding: chunked\r\n\r\n",
		"GET /dbs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
	}
	for _, secure := range []bool{false, true} {
		answer := sendRaw(t, s.address(), secure, strings.Join(raws, ""))
		if n := strings.Count(answer, "HTTP/1.1 401 "); n != len(raws) {
			t.Errorf("TLS %v: %d answers, want %d: %s", secure, n, len(raws), answer)
		}
	}
}

// read returns what the framing passes of the requests, and its error.
func readFramed(f *framing, from io.Reader, size int) (passed []byte, err error) {
	p := make([]byte, size)
	for {
		n, err := from.Read(p)
		good, wrong := f.feed(p[:n])
		passed = append(passed, p[:good]...)
		if wrong != nil || err != nil {
			return passed, errors.Join(wrong, err)
		}
	}
}

// FuzzFraming compares the framing with net/http: on any bytes, cut into any pieces,
// they agree on where each request ends, as long as net/http accepts the requests.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n"), uint8(1))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: x\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), uint8(7))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), uint8(200))
	f.Fuzz(func(t *testing.T, raw []byte, size uint8) {
		var whole, pieces framing
		passed, err := readFramed(&whole, bytes.NewReader(raw), max(1, len(raw)))
		again, err2 := readFramed(&pieces, iotest.OneByteReader(bytes.NewReader(raw)), int(size)+1)
		if !bytes.Equal(passed, again) || errors.Is(err, errFraming) != errors.Is(err2, errFraming) {
			t.Fatalf("in pieces %q (%v), as a whole %q (%v)", again, err2, passed, err)
		}
		// The requests that net/http reads completely from all of the bytes must
		// be among those that pass, unless their length is announced in two ways.
		reader := bufio.NewReader(bytes.NewReader(raw))
		for {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			if len(request.TransferEncoding) == 0 && !request.ProtoAtLeast(1, 1) {
				return // The framing ignores the announcement of chunks by an HTTP/1.0 request.
			}
			if end := len(raw) - reader.Buffered(); reader.Buffered() < len(raw) && len(raw) < 4096 && len(passed) < end {
				head := raw[:end]
				if !bytes.Contains(bytes.ToLower(head), []byte("content-length")) || !bytes.Contains(bytes.ToLower(head), []byte("transfer-encoding")) {
					if !errors.Is(whole.err, errFraming) || len(request.TransferEncoding) == 0 {
						t.Fatalf("net/http takes a request up to byte %d, the framing passes %d: %q", end, len(passed), raw)
					}
				}
			}
		}
	})
}

// BenchmarkFraming measures the cost of the framing for a point read and for a
// large write.
func BenchmarkFraming(b *testing.B) {
	read := httptest.NewRequest("GET", "/dbs/d/colls/c/docs/1", nil)
	var head bytes.Buffer
	fmt.Fprintf(&head, "GET %s HTTP/1.1\r\nHost: localhost:8081\r\n", read.URL.Path)
	for i := range 14 {
		fmt.Fprintf(&head, "x-ms-header-number-%d: %s\r\n", i, strings.Repeat("v", 40))
	}
	for name, raw := range map[string]string{
		"read":        head.String() + "Content-Length: 0\r\n\r\n",
		"write=1MiB":  head.String() + "Content-Length: 1048576\r\n\r\n" + strings.Repeat("{\n", 1<<19),
		"chunks=1KiB": head.String() + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("100\r\n"+strings.Repeat("x", 256)+"\r\n", 4) + "0\r\n\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			var f framing
			whole := []byte(raw)
			b.ReportAllocs()
			for b.Loop() {
				for rest := whole; len(rest) > 0; {
					n := min(4096, len(rest))
					if _, err := f.feed(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
