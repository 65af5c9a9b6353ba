package server

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
)

// errFraming ends a connection whose requests cannot be told apart for certain.
var errFraming = errors.New("the request does not say where its body ends")

// framing follows the requests on a connection as their bytes are read, and finds
// the one that announces its body in two ways, by Content-Length and by
// Transfer-Encoding. A proxy that trusts the other of the two sees another request
// begin in what is the body here, or the reverse (request smuggling). net/http drops
// the length and serves such a request, and the connection lives on.
//
// It reads lines as net/http does, up to each line feed, skips bodies by their
// length, and chunks by theirs. Anything else that is wrong is net/http's to refuse,
// which reads the same bytes afterwards.
//
// The zero value is at the start of a connection. One goroutine at a time uses it.
type framing struct {
	at   place
	skip uint64 // bytes of a body or a chunk that are still to come

	// What the headers so far announce.
	length  uint64
	sized   bool // with a Content-Length
	chunked bool // with a Transfer-Encoding

	line []byte // what came of a line whose end has not come; at most lineKept
	long bool   // it was longer than line
	err  error  // errFraming from the moment that it was found
}

type place uint8

const (
	inHeaders  place = iota // request line and headers, up to an empty line
	inBody                  // skip bytes are left
	inSize                  // the line before a chunk
	inChunk                 // skip bytes are left, and then the end of a line
	inTrailers              // lines after the last chunk, up to an empty line
)

// lineKept is how much of a line is remembered between two reads: enough for the
// headers that matter. A Content-Length that is longer than this is refused.
const lineKept = 256

// feed looks at bytes that were read from the connection. It returns how many of
// them may be passed on: all, or with an error those before the byte that completes
// what is wrong. What was asked before is still answered then.
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

// take goes by one line without its end.
func (f *framing) take(line []byte) error {
	switch f.at {
	case inHeaders:
		if len(line) == 0 {
			return f.beginBody()
		}
		return f.header(line)
	case inSize:
		return f.beginChunk(line)
	case inChunk: // What follows a chunk is empty, or net/http refuses it.
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

// beginBody is at the empty line behind the headers.
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
			return passed, nil // The next read tells.
		}
		return 0, wrong
	}
	return n, err
}

// framed returns a connection whose requests are followed.
func framed(conn net.Conn) net.Conn {
	switch c := conn.(type) {
	case *tls.Conn:
		return &framedTLS{Conn: c}
	case *peekedConn:
		return &framedConn{peekedConn: c}
	}
	return conn
}

// framedConn is a connection without TLS whose requests are followed.
type framedConn struct {
	*peekedConn
	framing framing
}

// Read reads what the client has sent, up to a request that cannot be told apart.
func (c *framedConn) Read(p []byte) (int, error) { return c.framing.read(c.peekedConn, p) }

// framedTLS is a TLS connection whose requests are followed. net/http asks it for
// its state, as it does a [tls.Conn], and its first read makes the handshake.
type framedTLS struct {
	*tls.Conn
	framing framing
}

// Read reads what the client has sent, up to a request that cannot be told apart.
func (c *framedTLS) Read(p []byte) (int, error) { return c.framing.read(c.Conn, p) }
