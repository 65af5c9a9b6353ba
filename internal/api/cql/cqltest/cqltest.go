// Package cqltest is a client of the Cassandra API for tests and benchmarks.
//
// [Client] has one connection of the native protocol. Unlike a driver, it neither
// retries nor caches nor asks for the schema.
//
// Page: docs/testing.md
package cqltest

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// Client is a connection that has signed in, with one request at a time.
type Client struct {
	conn    net.Conn
	reader  *frame.Reader
	writer  *frame.Writer
	version frame.Version
}

// answerTime bounds the waiting for one answer.
const answerTime = time.Minute

// Dial connects and signs in. An error of the server is a *frame.Error.
func Dial(address, user, key string, version frame.Version) (*Client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := SignIn(conn, user, key, version)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// SignIn signs in on a connection, which it does not close after an error. A server that
// asks for no password gets none.
func SignIn(conn net.Conn, user, key string, version frame.Version) (*Client, error) {
	c := &Client{conn: conn, reader: frame.NewReader(conn, frame.BodyMax), writer: frame.NewWriter(conn), version: version}
	answer, err := c.Do(frame.Startup{Options: []frame.Pair[string]{{Name: frame.OptionCQLVersion, Value: "3.0.0"}}})
	if err != nil {
		return nil, err
	}
	if version >= frame.V5 {
		c.reader.StartSegments(frame.NoCompression)
		c.writer.StartSegments(frame.NoCompression)
	}
	if _, ready := answer.Message.(frame.Ready); ready {
		return c, nil
	}
	if _, err := c.Do(frame.AuthResponse{Token: []byte("\x00" + user + "\x00" + key)}); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends a request and returns its answer. An error of the server is a *frame.Error.
func (c *Client) Do(m frame.Message) (frame.Frame, error) {
	return c.Send(frame.Frame{Message: m})
}

// Send sends a request with flags and payload and returns its answer.
func (c *Client) Send(f frame.Frame) (frame.Frame, error) {
	f.Version, f.Stream = c.version, 1
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return frame.Frame{}, err
	}
	if err := c.writer.Add(&f); err != nil {
		return frame.Frame{}, err
	}
	if err := c.writer.Flush(); err != nil {
		return frame.Frame{}, err
	}
	answer, err := c.reader.Next()
	if err != nil {
		return frame.Frame{}, err
	}
	if e, failed := answer.Message.(*frame.Error); failed {
		return answer, e
	}
	return answer, nil
}

// Query runs a statement and returns its rows: the cells as CQL's literals, "null" for
// null. A statement without rows returns nil.
func (c *Client) Query(text string) ([][]string, error) {
	f, err := c.Do(&frame.Query{Text: text, Parameters: frame.Parameters{Consistency: frame.LocalQuorum}})
	if err != nil {
		return nil, err
	}
	return Literals(f.Message)
}

// Literals returns the rows of an answer as Client.Query does.
func Literals(answer frame.Message) ([][]string, error) {
	rows, ok := answer.(*frame.Rows)
	if !ok {
		return nil, nil
	}
	columns := rows.Metadata.Columns.All()
	all := make([][]string, 0, rows.Count)
	for cells := range rows.All() {
		line := make([]string, len(cells))
		for i, cell := range cells {
			if line[i] = "null"; cell == nil {
				continue
			}
			t, err := row.ParseType(strings.ReplaceAll(columns[i].Type.String(), "varchar", "text"), nil)
			if err != nil {
				return nil, fmt.Errorf("column %d: %w", i, err)
			}
			line[i] = t.Literal(cell)
		}
		all = append(all, line)
	}
	return all, nil
}
