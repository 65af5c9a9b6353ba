// Package servertest is a client of the NoSQL protocol for tests and benchmarks.
//
// [Client] keeps one connection and sends prepared HTTP/1.1 requests on it, so that
// a benchmark measures the server. Unlike an SDK, it neither retries nor caches.
//
// Page: docs/testing.md
package servertest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
)

// Request is a prepared request. It can be sent any number of times during the
// fifteen minutes for which its signature is valid.
type Request struct{ raw []byte }

// Prepare signs and encodes a request. link is the path of the resource without a
// leading slash, such as dbs/d/colls/c/docs; headers are pairs of name and value. It
// panics if key is not an account key.
func Prepare(key, method, link string, body []byte, headers ...string) Request {
	kind, owner := Signed(link)
	return PrepareAs(key, method, "/"+link, kind, owner, body, headers...)
}

// PrepareAs is Prepare for a target whose signature covers another type and link than
// those in its path.
func PrepareAs(key, method, target, kind, owner string, body []byte, headers ...string) Request {
	date := strings.ToLower(time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1"+preparedHost+"x-ms-date: %s\r\nx-ms-version: 2020-07-15\r\nauthorization: %s\r\n",
		method, target, date, Authorization(key, method, kind, owner, date))
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&out, "%s: %s\r\n", headers[i], headers[i+1])
	}
	fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", len(body))
	out.Write(body)
	return Request{out.Bytes()}
}

// Bytes returns the request as it is sent.
func (r Request) Bytes() []byte { return r.raw }

// WithHost returns the request with another Host header, which the signature does
// not cover.
func (r Request) WithHost(host string) Request {
	return Request{bytes.Replace(r.raw, []byte(preparedHost), []byte("\r\nHost: "+host+"\r\n"), 1)}
}

// preparedHost is the Host header of Prepare.
const preparedHost = "\r\nHost: 127.0.0.1\r\n"

// WriteTo writes the request to w, for tests that do not wait for an answer.
func (r Request) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.raw)
	return int64(n), err
}

// Authorization returns the authorization header of a request. It panics if key is
// not an account key.
func Authorization(key, method, kind, link, date string) string {
	parsed, err := auth.ParseKey(key)
	if err != nil {
		panic(err)
	}
	return auth.Sign(parsed, method, kind, link, date)
}

// Signed returns the resource type and link that the signature of a path covers.
func Signed(link string) (kind, owner string) {
	segments := strings.Split(link, "/")
	if link == "" {
		return "", ""
	}
	if len(segments)%2 == 1 {
		return segments[len(segments)-1], strings.Join(segments[:len(segments)-1], "/")
	}
	if len(segments) == 6 && segments[4] == "operations" {
		return "colls", strings.Join(segments[:4], "/")
	}
	if segments[0] == "offers" {
		return "offers", strings.ToLower(segments[1])
	}
	return segments[len(segments)-2], link
}

// Response is an answer. Its body is valid until the next call of Do.
type Response struct {
	Status int
	Header textproto.MIMEHeader // nil unless the client keeps headers
	Body   []byte
}

// Client is one kept connection. It is not safe for concurrent use.
type Client struct {
	KeepHeaders bool // fill in Response.Header, which costs time

	conn   net.Conn
	reader *bufio.Reader
	body   []byte
}

// Dial connects to host:port.
func Dial(address string) (*Client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// DialTLS connects to host:port with TLS, whatever its certificate is.
func DialTLS(address string) (*Client, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends a prepared request and reads its answer. After an error the outcome is
// unknown, and the client cannot be used any more.
func (c *Client) Do(r Request) (Response, error) { return c.DoBytes(r.raw) }

// DoBytes is Do for a request in bytes.
func (c *Client) DoBytes(request []byte) (Response, error) {
	if _, err := c.conn.Write(request); err != nil {
		return Response{}, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return Response{}, err
	}
	if len(line) < 12 {
		return Response{}, fmt.Errorf("status line %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return Response{}, err
	}
	response := Response{Status: status}
	if c.KeepHeaders {
		response.Header = textproto.MIMEHeader{}
	}
	length := -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return Response{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, text, _ := bytes.Cut(line, []byte(":"))
		text = bytes.TrimSpace(text)
		if len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")) {
			if length, err = strconv.Atoi(string(text)); err != nil {
				return Response{}, err
			}
		}
		if c.KeepHeaders {
			response.Header.Add(string(name), string(text))
		}
	}
	if status == 204 || status == 304 {
		return response, nil
	}
	if length < 0 {
		return Response{}, errors.New("an answer without Content-Length")
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	response.Body = c.body[:length]
	_, err = io.ReadFull(c.reader, response.Body)
	return response, err
}
