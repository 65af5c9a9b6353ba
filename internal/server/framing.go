package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
)

// errFraming ends a connection on which the boundaries of requests are ambiguous.
var errFraming = errors.New("the end of the request's body is ambiguous")

// framing follows the requests on a connection as their bytes are read, and finds
// requests that announce their body in two ways, by Content-Length and by
// Transfer-Encoding. A proxy that uses the other of the two sees another request
// begin inside the body, or the reverse (request smuggling). net/http drops the
// length and serves such a request, and the connection stays open.
//
// It reads lines as net/http does, up to each line feed, and skips bodies and
// chunks by their length. It leaves all other errors to net/http, which reads the
// same bytes afterwards.
//
// The zero value is at the start of a connection. Only one goroutine at a time
// may use it.
type framing struct {
	at   place
	skip uint64 // bytes of a body or a chunk still to come

	// The body as announced by the headers so far.
	length  uint64
	sized   bool // with a Content-Length
	chunked bool // with a Transfer-Encoding

	line []byte // the beginning of an incomplete line; at most lineKept bytes
	long bool   // line is incomplete because the line was too long
	err  error  // errFraming once it was found
}

type place uint8

const (
	inHeaders  place = iota // request line and headers, up to an empty line
	inBody                  // skip bytes remain
	inSize                  // the line before a chunk
	inChunk                 // skip bytes remain, followed by the end of a line
	inTrailers              // lines after the last chunk, up to an empty line
)

// lineKept is how much of a line is kept between two reads: enough for the
// headers that matter. A longer Content-Length is refused.
const lineKept = 256

// feed checks bytes that were read from the connection. It returns how many of them may
// be passed on: all, or with an error those before the byte that completes the
// ambiguous request. In that case earlier requests are still answered.
func (f *framing) feed(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	for rest := p; len(rest) > 0; {
		if f.at == inBody || f.at == inChunk && f.skip > 0 {
			n := min(f.skip, uint64(len(rest)))
			rest, f.skip = rest[n:], f.skip-n
			if f.skip == 0 && f.at == inBody {
				f.at = inHeaders
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			f.keep(rest)
			return len(p), nil
		}
		line := rest[:end]
		if len(f.line) > 0 {
			f.keep(line)
			line = f.line
		}
		err := f.take(bytes.TrimSuffix(line, []byte("\r")))
		f.line, f.long = f.line[:0], false
		if err != nil {
			f.err = err
			return len(p) - len(rest) + end, err
		}
		rest = rest[end+1:]
	}
	return len(p), nil
}

// keep remembers a part of a line whose end is in a later read.
func (f *framing) keep(part []byte) {
	room := lineKept - len(f.line)
	f.long = f.long || len(part) > room
	f.line = append(f.line, part[:min(room, len(part))]...)
}

// take processes one line without its end.
func (f *framing) take(line []byte) error {
	switch f.at {
	case inHeaders:
		if len(line) == 0 {
			return f.beginBody()
		}
		return f.header(line)
	case inSize:
		return f.beginChunk(line)
	case inChunk: // Chunks are followed by an empty line, or net/http refuses them.
		f.at = inSize
	case inTrailers:
		if len(line) == 0 {
			f.at = inHeaders
		}
	}
	return nil
}

const (
	lengthName   = "content-length:"
	encodingName = "transfer-encoding:"
)

func (f *framing) header(line []byte) error {
	switch line[0] {
	case 'c', 'C':
		if len(line) < len(lengthName) || !bytes.EqualFold(line[:len(lengthName)], []byte(lengthName)) {
			return nil
		}
		length, err := strconv.ParseUint(string(bytes.TrimSpace(line[len(lengthName):])), 10, 63)
		if err != nil || f.long {
			return errFraming
		}
		f.sized, f.length = true, length
	case 't', 'T':
		f.chunked = f.chunked || len(line) >= len(encodingName) && bytes.EqualFold(line[:len(encodingName)], []byte(encodingName))
	}
	return nil
}

// beginBody is called at the empty line after the headers.
func (f *framing) beginBody() error {
	sized, chunked := f.sized, f.chunked
	f.sized, f.chunked = false, false
	switch {
	case sized && chunked:
		return errFraming
	case chunked:
		f.at = inSize
	case sized && f.length > 0:
		f.at, f.skip = inBody, f.length
	}
	return nil
}

// beginChunk reads the size in the line before a chunk.
func (f *framing) beginChunk(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 63)
	if err != nil {
		return errFraming
	}
	f.at, f.skip = inChunk, size
	if size == 0 {
		f.at = inTrailers
	}
	return nil
}

// read reads from a connection through the framing.
func (f *framing) read(conn net.Conn, p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := conn.Read(p)
	if passed, wrong := f.feed(p[:n]); wrong != nil {
		if passed > 0 {
			return passed, nil // The next read returns the error.
		}
		return 0, wrong
	}
	return n, err
}

// framed returns a connection with framing.
func framed(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *tls.Conn:
		return &framedTLS{Conn: c}
	case *peekedConn:
		return &framedConn{peekedConn: c}
	}
	return conn
}

// framedConn is a connection without TLS, with framing.
type framedConn struct {
	*peekedConn
	framing framing
}

// Read reads from the client, up to an ambiguous request.
func (c *framedConn) Read(p []byte) (int, error) { return c.framing.read(c.peekedConn, p) }

// framedTLS is a TLS connection with framing. net/http asks it for its state, as
// it does a [tls.Conn], and its first read makes the handshake.
type framedTLS struct {
	*tls.Conn
	framing framing
}

// Read reads from the client, up to an ambiguous request.
func (c *framedTLS) Read(p []byte) (int, error) { return c.framing.read(c.Conn, p) }
