package nosql

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

// response is a handler's answer, in addition to the engine's result, which the
// adapter finds in the request.
type response struct {
	status int
	body   []byte // nil for none
	binary bool   // the body is not JSON
	media  string // the type of a body for browsers
	etag   resource.ETag
	fields [8]field // further headers
	count  int
}

type field struct{ name, value string }

// set adds a header, unless the value is empty.
func (p *response) set(name, value string) {
	if value == "" {
		return
	}
	p.fields[p.count] = field{name, value}
	p.count++
}

// answer starts the request's one response.
func (r *request) answer(status int, body []byte) *response {
	r.response = response{status: status, body: body, etag: r.result.ETag}
	return &r.response
}

// resource answers with a definition.
func (r *request) resource(status int, res *engine.Resource) *response {
	return r.answer(status, res.Body)
}

// feed answers with a page of rows in the envelope of their kind, such as
// Documents.
func (r *request) feed(plural string, page *engine.Feed) *response {
	size := 64 + len(plural)
	for _, row := range page.Rows {
		size += len(row) + 1
	}
	out := append(r.room(size), `{"_rid":"`...)
	out = page.ParentRID.AppendText(out)
	out = append(out, `","`...)
	out = append(out, plural...)
	out = append(out, `":[`...)
	for i, row := range page.Rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, row...)
	}
	out = append(out, `],"_count":`...)
	out = strconv.AppendInt(out, int64(len(page.Rows)), 10)
	out = append(out, '}')
	r.out = out
	answer := r.answer(http.StatusOK, out)
	answer.set(headerItemCount, strconv.Itoa(len(page.Rows)))
	answer.set(headerContinuation, page.Continuation)
	return answer
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
	if uri := r.uri(); answer.status < http.StatusBadRequest && r.target.count > 0 && len(uri) <= locationMax {
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
	if len(answer.body) > 0 && r.http.Method != http.MethodHead {
		send(hw, r.http, answer.body)
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
func send(hw http.ResponseWriter, hr *http.Request, body []byte) {
	if len(body) >= gatherMin && len(body) <= gatherMax {
		if g, ok := hr.Context().Value(gathererKey{}).(Gatherer); ok {
			g.Gather(func() {
				_, _ = hw.Write(body)
				_ = http.NewResponseController(hw).Flush()
			})
			return
		}
	}
	_, _ = hw.Write(body)
}

// refuse answers a request whose body was not read. The answer is sent before the
// rest of the body arrives, which is then read and dropped: see drainedMax.
//
// With HTTP/2 the end of the answer tells the client to stop sending, and clients wait
// for it.
func (h *handler) refuse(hw http.ResponseWriter, r *request, answer *response) {
	if r.http.ProtoMajor == 2 {
		h.write(hw, r, answer)
		return
	}
	control := http.NewResponseController(hw)
	_ = control.EnableFullDuplex() // Otherwise net/http reads a part of the body first.
	h.write(hw, r, answer)
	_ = control.Flush()
	r.release()
	if !strings.EqualFold(r.header("Expect"), "100-continue") {
		_, _ = io.CopyN(io.Discard, r.http.Body, drainedMax) // A disconnected client needs no answer.
	}
}

// formatCharge writes request units in the form that clients parse: with a point
// and at most two decimals.
func formatCharge(charge float64) string { return string(appendCharge(nil, charge)) }

func appendCharge(out []byte, charge float64) []byte {
	out = strconv.AppendFloat(out, charge, 'f', 2, 64)
	for out[len(out)-1] == '0' {
		out = out[:len(out)-1]
	}
	if out[len(out)-1] == '.' {
		out = out[:len(out)-1]
	}
	return out
}

func formatPartitions(ids []resource.PartitionID) string {
	if len(ids) == 1 {
		return ids[0].String()
	}
	var digits [128]byte
	out := digits[:0]
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(id), 10)
	}
	return string(out)
}
