package cqltest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// Raw is a connection of version 4 for benchmarks, with one request at a time. It sends
// prepared bytes and decodes no rows, so that it costs little next to a server.
type Raw struct {
	client *Client
	buffer []byte // of the last answer
}

// rawBuffer is the first size of the buffer of answers: one read gets a row of 1 KB.
const rawBuffer = 4 << 10

// DialRaw connects and signs in.
func DialRaw(address, user, key string) (*Raw, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := SignIn(conn, user, key, frame.V4)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Raw{client: c, buffer: make([]byte, rawBuffer)}, nil
}

// Close closes the connection.
func (r *Raw) Close() error { return r.client.Close() }

// Execution is an EXECUTE as bytes, with a key of which only the digits change.
type Execution struct {
	request []byte
	at      int // of the digits
	digits  int
}

// Prepare prepares a statement and returns its execution with values, the first of which
// is a key of digits. The answer has no description of its columns.
func (r *Raw) Prepare(text string, key string, rest ...[]byte) (Execution, error) {
	f, err := r.client.Do(&frame.Prepare{Text: text})
	if err == nil {
		err = r.client.conn.SetDeadline(time.Time{}) // Do has none of its own.
	}
	if err != nil {
		return Execution{}, fmt.Errorf("%s: %w", text, err)
	}
	prepared, ok := f.Message.(*frame.Prepared)
	if !ok {
		return Execution{}, fmt.Errorf("%s: the answer is %T", text, f.Message)
	}
	e := &frame.Execute{ID: prepared.ID, Parameters: frame.Parameters{Consistency: frame.LocalOne, Flags: frame.QueryValues | frame.QuerySkipMetadata}}
	e.Parameters.Values = []frame.Value{{Bytes: []byte(key)}}
	for _, v := range rest {
		e.Parameters.Values = append(e.Parameters.Values, frame.Value{Bytes: v})
	}
	var out bytes.Buffer
	if err := frame.NewWriter(&out).Write(&frame.Frame{Version: frame.V4, Stream: 1, Message: e}); err != nil {
		return Execution{}, err
	}
	return Execution{request: out.Bytes(), at: bytes.Index(out.Bytes(), []byte(key)), digits: len(key)}, nil
}

// With sets the key to a number, and returns the request until the next call.
func (e *Execution) With(key int64) []byte {
	for i := e.digits - 1; i >= 0; i, key = i-1, key/10 {
		e.request[e.at+i] = byte('0' + key%10)
	}
	return e.request
}

// Do sends a request and reads the answer, which must be a RESULT with a body of at least
// so many bytes.
func (r *Raw) Do(request []byte, least int) error {
	if _, err := r.client.conn.Write(request); err != nil {
		return err
	}
	n, err := io.ReadAtLeast(r.client.conn, r.buffer, frame.HeaderSize)
	if err != nil {
		return err
	}
	size := frame.HeaderSize + int(binary.BigEndian.Uint32(r.buffer[frame.HeaderSize-4:]))
	if size > len(r.buffer) {
		r.buffer = append(r.buffer[:n], make([]byte, size-n)...)
	}
	switch {
	case n > size:
		return errors.New("more than one answer")
	case n < size:
		if _, err := io.ReadFull(r.client.conn, r.buffer[n:size]); err != nil {
			return err
		}
	}
	if opcode := frame.Opcode(r.buffer[4]); opcode != frame.OpResult || size-frame.HeaderSize < least {
		return fmt.Errorf("opcode %s, %d bytes: %.200q", opcode, size, r.buffer[:size])
	}
	return nil
}
