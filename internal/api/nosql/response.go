package nosql

import (
	"net/http"
	"strconv"

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
