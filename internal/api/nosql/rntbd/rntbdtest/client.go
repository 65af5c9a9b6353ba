package rntbdtest

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
)

// timeout bounds each step of a client, so that a test fails instead of waiting.
const timeout = time.Minute

// Client is a connection. It is not safe for concurrent use, but one goroutine may send
// while another receives.
type Client struct {
	net.Conn
	Context *Frame // the answer to the context

	reader *bufio.Reader
	sent   []byte
}

// Dial connects to an address, with TLS unless config is nil, and sends a context.
func Dial(address string, config *tls.Config) (*Client, error) {
	c, err := Connect(address, config)
	if err != nil {
		return nil, err
	}
	if c.Context, err = c.Greet(Context()); err != nil {
		return nil, err
	}
	return c, nil
}

// Connect connects to an address, with TLS unless config is nil.
func Connect(address string, config *tls.Config) (*Client, error) {
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	if config != nil {
		conn = tls.Client(conn, config)
	}
	return &Client{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Context returns the context that .NET sends.
func Context() *Frame {
	return Request(rntbd.Connection, rntbd.Connect, rntbd.GUID{15: 1}).
		Int(0, rntbd.TypeULong, 1).
		Add(1, rntbd.TypeSmallString, "2020-07-15").
		Add(2, rntbd.TypeSmallString, "rntbdtest/1").
		Int(3, rntbd.TypeByte, 0).
		Int(4, rntbd.TypeByte, 0)
}

// Greet sends a context and returns its answer.
func (c *Client) Greet(f *Frame) (*Frame, error) {
	if err := c.Send(f); err != nil {
		return nil, err
	}
	return c.receive(KindContextResponse)
}

// Send sends frames in one write.
func (c *Client) Send(frames ...*Frame) error {
	c.sent = c.sent[:0]
	for _, f := range frames {
		var err error
		if c.sent, err = f.Append(c.sent); err != nil {
			return err
		}
	}
	return c.SendBytes(c.sent)
}

// SendBytes sends bytes, frames or not, in one write.
func (c *Client) SendBytes(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// Receive returns the next answer.
func (c *Client) Receive() (*Frame, error) { return c.receive(KindResponse) }

// Do sends a request and returns the next answer.
func (c *Client) Do(f *Frame) (*Frame, error) {
	if err := c.Send(f); err != nil {
		return nil, err
	}
	return c.Receive()
}

func (c *Client) receive(kind Kind) (*Frame, error) {
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	length, err := c.reader.Peek(4)
	if err != nil {
		return nil, err
	}
	wire := make([]byte, binary.LittleEndian.Uint32(length))
	if _, err := io.ReadFull(c.reader, wire); err != nil {
		return nil, err
	}
	f, _, err := Decode(kind, wire)
	if !errors.Is(err, errShort) || len(wire) < headMin {
		return f, err
	}
	size, err := c.reader.Peek(4)
	if err != nil {
		return nil, err
	}
	rest := make([]byte, 4+binary.LittleEndian.Uint32(size))
	if _, err := io.ReadFull(c.reader, rest); err != nil {
		return nil, err
	}
	f, _, err = Decode(kind, append(wire, rest...))
	return f, err
}

// Ended returns nil when the server has closed the connection, and an error if it sends
// something or nothing.
func (c *Client) Ended() error {
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	switch _, err := c.reader.ReadByte(); {
	case err == nil:
		return errors.New("the server has sent more")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	}
	return nil
}

// Pump sends n encoded requests, which next appends, with up to open of them unanswered,
// and reads the answers without decoding them, so that a benchmark measures the server.
// All answers must have a status below 300.
func (c *Client) Pump(n, open int, next func(dst []byte) []byte) error {
	if err := c.SetDeadline(time.Now().Add(10 * timeout)); err != nil {
		return err
	}
	for sent, answered := 0, 0; answered < n; {
		c.sent = c.sent[:0]
		for ; sent < n && sent-answered < open; sent++ {
			c.sent = next(c.sent)
		}
		if len(c.sent) > 0 {
			if _, err := c.Write(c.sent); err != nil {
				return err
			}
		}
		for first := true; answered < sent && (first || c.reader.Buffered() > 0); first = false {
			if err := c.skip(); err != nil {
				return err
			}
			answered++
		}
	}
	return nil
}

// skip reads an answer and forgets it.
func (c *Client) skip() error {
	head, err := c.reader.Peek(headMin + 4)
	if err != nil {
		return err
	}
	length, status := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	hasPayload := head[headMin+3] != 0 // PayloadPresent is the first token.
	if status >= 300 {
		return fmt.Errorf("status %d", status)
	}
	if _, err := c.reader.Discard(int(length)); err != nil || !hasPayload {
		return err
	}
	size, err := c.reader.Peek(4)
	if err != nil {
		return err
	}
	_, err = c.reader.Discard(4 + int(binary.LittleEndian.Uint32(size)))
	return err
}
