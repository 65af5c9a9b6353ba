package nosql

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// This file is the HTTP door: the only one that reads an http.Request and writes to an
// http.ResponseWriter.

// ServeHTTP processes one request: it fills in the message, has it answered, and writes
// the answer.
func (h *handler) ServeHTTP(hw http.ResponseWriter, hr *http.Request) {
	r := h.begin(h.now())
	defer h.end(r) // Also if net/http is to end the connection.
	r.fill(hr)
	r.activity = activityID(r.header(headerGivenActivityID))

	var fault error
	if h.admit != nil {
		fault = h.admit(hr)
		r.last = fault != nil
	}
	answer := h.respond(r, fault)
	if r.unread {
		h.refuse(hw, hr, r, answer)
	} else {
		h.write(hw, r, answer)
	}
	h.count(r, answer)
}

// fill takes the message from hr.
func (r *request) fill(hr *http.Request) {
	r.ctx = hr.Context()
	r.message = message{
		base:    r.ctx,
		method:  hr.Method,
		uri:     hr.RequestURI,
		headers: httpHeaders(hr.Header),
		remote:  hr.RemoteAddr,
		host:    hostOf(hr),
		secure:  hr.TLS != nil,
		length:  hr.ContentLength,
	}
	if hr.Body != nil {
		r.source = hr.Body
	}
	if r.uri == "" {
		r.uri = hr.URL.RequestURI() // The request came from no connection.
	}
}

// httpHeaders are headers in the form of net/http.
type httpHeaders http.Header

// get returns the first value of the header, of Prefer all values.
func (h httpHeaders) get(name string) string {
	values := h[name]
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 1 && name == headerPrefer:
		return strings.Join(values, ",")
	}
	return values[0]
}

// hostOf returns the host that a request was sent to, if Config.Admit allowed it,
// and without a Host header the address of the connection.
func hostOf(hr *http.Request) string {
	if hr.Host == "" {
		if address, ok := hr.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			return address.String()
		}
	}
	return hr.Host
}

// fieldsMax is the maximum number of headers of an answer.
const fieldsMax = 32

// writer assigns headers without canonicalizing their names again, and with one
// slice for all their values.
type writer struct {
	header http.Header
	texts  []string
}

func (w *writer) set(name, value string) {
	if value == "" {
		return
	}
	if len(w.texts) == cap(w.texts) {
		// A larger array would leave the earlier values in the old one.
		w.texts = make([]string, 0, fieldsMax)
	}
	w.texts = append(w.texts, value)
	n := len(w.texts)
	w.header[name] = w.texts[n-1 : n : n]
}

// composed are the values of headers that are made for one answer. They share
// one string, which is the only allocation for them.
type composed struct {
	buf   []byte
	parts [10]part
	count int
}

// part is a header whose value ends at a position of the buffer, where the next
// one begins.
type part struct {
	name string
	end  int
}

// end ends the value of a header.
func (c *composed) end(name string) {
	c.parts[c.count] = part{name, len(c.buf)}
	c.count++
}

// setAll sets the headers.
func (c *composed) setAll(w *writer) {
	all, begin := string(c.buf), 0
	for _, p := range c.parts[:c.count] {
		w.set(p.name, all[begin:p.end])
		begin = p.end
	}
}

// locationMax is the length of the longest target for which an answer has its URL:
// some clients limit all headers of an answer together to 8 KB.
const locationMax = 1 << 10

// compose sets the headers with figures and links: charge, time, length, LSNs, the
// URL, the owner and the size of the partition.
func (h *handler) compose(w *writer, r *request, answer *response) {
	c := composed{buf: r.head[:0]}
	result := &r.result
	c.buf = appendCharge(c.buf, result.Charge)
	c.end(headerCharge)
	c.buf = strconv.AppendFloat(c.buf, millis(h.now().Sub(r.begun)), 'f', 3, 64)
	c.end(headerDuration)
	if answer.status != http.StatusNoContent && answer.status != http.StatusNotModified {
		// The length is set, so that no answer is chunked: one client reads error
		// bodies only with their length.
		c.buf = strconv.AppendInt(c.buf, int64(len(answer.body)), 10)
		c.end(headerContentLength)
	}
	if len(result.Partitions) > 0 {
		c.buf = strconv.AppendUint(c.buf, uint64(result.LSN), 10)
		c.end(headerLSN)
	}
	if result.ItemLSN > 0 {
		c.buf = strconv.AppendUint(c.buf, uint64(result.ItemLSN), 10)
		c.end(headerItemLSN)
	}
	if uri := r.uri; answer.status < http.StatusBadRequest && r.target.count > 0 && len(uri) <= locationMax {
		c.buf = h.appendAdvertised(c.buf, r)
		c.buf = append(c.buf, strings.TrimPrefix(origin(uri), "/")...)
		c.end(headerLocation)
	}
	c.buf = appendOwnerLink(c.buf, result.Owner)
	c.end(headerAltContentPath)
	if result.OwnerRID != "" && answer.status != http.StatusNotFound { // The service has none with a 404.
		c.buf = result.OwnerRID.AppendText(c.buf)
		c.end(headerContentPath)
	}
	if size := &result.Size; size.Known {
		w.set(headerQuota, unlimited)
		c.buf = appendUsage(c.buf, size.Documents, size.Bytes, size.Bytes)
		c.end(headerUsage)
	}
	c.setAll(w)
	r.head = c.buf
}

// write sends status, headers and body. The answer's own headers are set first,
// so they cannot replace those of the door.
func (h *handler) write(hw http.ResponseWriter, r *request, answer *response) {
	w := writer{header: hw.Header()}
	for _, f := range answer.fields[:answer.count] {
		w.set(f.name, f.value)
	}
	result := &r.result
	h.compose(&w, r, answer)
	w.set(headerActivityID, r.activity)
	w.set(headerSession, result.Session)
	w.set(headerETag, string(answer.etag))
	if len(result.Partitions) > 0 {
		visited := formatPartitions(result.Partitions)
		w.set(headerVisited, visited)
		switch {
		case r.former:
			w.set(headerRangeID, r.partition.String())
		case len(result.Partitions) == 1:
			w.set(headerRangeID, visited)
		}
	}
	w.set(headerSchemaVersion, schemaVersion)
	w.set(headerServiceVersion, h.serviceVersion)
	w.set(headerGatewayVersion, h.serviceVersion)
	if answer.status != http.StatusNoContent && answer.status != http.StatusNotModified {
		if answer.media != "" {
			w.set(headerContentType, answer.media)
		} else if answer.binary {
			w.set(headerContentType, typeBinary)
		} else if len(answer.body) > 0 {
			w.set(headerContentType, typeJSON)
		}
	}
	if r.last {
		w.set(headerConnection, "close")
	}
	hw.WriteHeader(answer.status)
	if len(answer.body) > 0 && r.method != http.MethodHead {
		send(r.base, hw, answer.body)
	}
}

// Gatherer is a connection that can send the bytes written to it in fewer pieces.
// net/http divides an answer larger than its buffer of 4 KB into two: that costs
// twice the system calls, and the client wakes up for a half.
type Gatherer interface {
	// Gather calls write and sends the bytes that it has written at the latest
	// when it returns.
	Gather(write func())
}

type gathererKey struct{}

// WithConn is for [http.Server.ConnContext]: answers to a connection that is a
// [Gatherer] use it.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	if g, ok := conn.(Gatherer); ok {
		return context.WithValue(ctx, gathererKey{}, g)
	}
	return ctx
}

// Bodies of these sizes are gathered: smaller ones mostly fit into one piece with
// the headers, and for larger ones the first piece is a small part.
const gatherMin, gatherMax = 3 << 10, 64 << 10

// send writes a body. It ignores errors, which mean that the client has
// disconnected.
func send(ctx context.Context, hw http.ResponseWriter, body []byte) {
	if len(body) >= gatherMin && len(body) <= gatherMax {
		if g, ok := ctx.Value(gathererKey{}).(Gatherer); ok {
			g.Gather(func() {
				_, _ = hw.Write(body)
				_ = http.NewResponseController(hw).Flush()
			})
			return
		}
	}
	_, _ = hw.Write(body)
}

// drainedMax is how many bytes of a refused body are read and dropped after the
// answer. Clients that send the whole body before they read an answer receive it
// only so; .NET takes the reset of the connection for a fault of the network and
// repeats the request for minutes. The server limits the time.
const drainedMax = 1 << 30

// refuse answers a request whose body was not read. The answer is sent before the
// rest of the body arrives, which is then read and dropped: see drainedMax.
//
// With HTTP/2 the end of the answer tells the client to stop sending, and clients wait
// for it.
func (h *handler) refuse(hw http.ResponseWriter, hr *http.Request, r *request, answer *response) {
	if hr.ProtoMajor == 2 {
		h.write(hw, r, answer)
		return
	}
	control := http.NewResponseController(hw)
	_ = control.EnableFullDuplex() // Otherwise net/http reads a part of the body first.
	h.write(hw, r, answer)
	_ = control.Flush()
	r.release()
	if !strings.EqualFold(r.header("Expect"), "100-continue") {
		_, _ = io.CopyN(io.Discard, hr.Body, drainedMax) // A disconnected client needs no answer.
	}
}
