package main

import (
	big "encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// hostileStreams are kinds of hostile clients that speak HTTP/2.
var hostileStreams = []hostile{
	{"resets its requests", func(conn net.Conn, _ *rand.Rand) {
		go drain(conn)
		openStreams(conn)
		head := hostileRead("small")
		for id := uint32(1); id < 100_000; id += 2 {
			if _, err := conn.Write(append(streamFrame(1, 5, id, head), streamFrame(3, 0, id, []byte{0, 0, 0, 8})...)); err != nil {
				return
			}
		}
	}, false},
	{"sends HTTP/2 headers without end", func(conn net.Conn, _ *rand.Rand) {
		go drain(conn)
		openStreams(conn)
		conn.Write(streamFrame(1, 0, 1, hostileRead("small")))
		field := streamFields("x", strings.Repeat("x", 1000))
		for range 1000 {
			if _, err := conn.Write(streamFrame(9, 0, 1, field)); err != nil {
				return
			}
		}
	}, false},
	{"closes the windows of its requests", func(conn net.Conn, _ *rand.Rand) {
		openStreams(conn)
		conn.Write(streamFrame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0}))
		head := hostileRead("large")
		for id := uint32(1); id < 200; id += 2 {
			conn.Write(streamFrame(1, 5, id, head))
		}
		conn.SetReadDeadline(time.Now().Add(2 * hostileTimeout)) // The connection stays open.
		drain(conn)
	}, false},
	{"sends many bodies slowly", func(conn net.Conn, _ *rand.Rand) {
		openStreams(conn)
		for id := uint32(1); id < 200; id += 2 {
			conn.Write(streamFrame(1, 4, id, streamFields(append(signedFields("POST", "dbs/crash/colls/c/docs"), "x-ms-documentdb-partitionkey", `["t","u"]`)...)))
			conn.Write(streamFrame(0, 0, id, make([]byte, 8<<10)))
		}
		conn.SetReadDeadline(time.Now().Add(2 * hostileTimeout))
		drain(conn)
	}, false},
}

// openStreams begins an HTTP/2 connection.
func openStreams(conn net.Conn) {
	io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	conn.Write(streamFrame(4, 0, 0, nil))
}

// streamFrame returns a frame.
func streamFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := big.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	out = big.BigEndian.AppendUint32(append(out, flags), stream)
	return append(out, payload...)
}

// streamFields encodes pairs of name and value, of less than 2 KB each, as literals.
func streamFields(fields ...string) []byte {
	var out []byte
	for i, field := range fields {
		if i%2 == 0 {
			out = append(out, 0)
		}
		if n := len(field); n < 127 {
			out = append(out, byte(n))
		} else {
			out = append(out, 127, byte((n-127)&127|128), byte((n-127)>>7))
		}
		out = append(out, field...)
	}
	return out
}

// signedFields are the fields of a signed request.
func signedFields(method, link string) []string {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	kind, owner := servertest.Signed(link)
	return []string{
		":method", method, ":path", "/" + link, ":scheme", "http", ":authority", "localhost",
		"x-ms-date", date, "authorization", servertest.Authorization(server.WellKnownKey, method, kind, owner, date),
	}
}

// hostileRead is a signed read of a document.
func hostileRead(id string) []byte {
	return streamFields(append(signedFields("GET", "dbs/crash/colls/c/docs/"+id), "x-ms-documentdb-partitionkey", `["t","u"]`)...)
}
