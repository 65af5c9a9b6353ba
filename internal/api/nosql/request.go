package nosql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// request is one request in the door. The adapter takes it from a pool and
// returns it after the answer is written, so a handler keeps nothing of it.
type request struct {
	message
	direct    directRequest   // zero for a request of the REST protocol
	action    action          // instead of that of method and target; zero for none
	ctx       context.Context // base, or base with the time limit of the request
	target    target
	caller    auth.Caller
	activity  string // the client's if it sent a GUID, otherwise a new one
	operation operation
	sub       status.Sub    // of an error answer
	last      bool          // the connection ends with this answer
	result    engine.Result // the engine's result, also with errors
	former    bool          // the result is in the name of a partition that others have replaced
	response  response
	begun     time.Time // when its headers had arrived

	key       partitionkey.Key     // referenced by engine requests, so that they allocate nothing
	clip      partitionkey.Range   // likewise
	partition resource.PartitionID // likewise

	body []byte // as received; grown and reused
	out  []byte // the answer being built; grown and reused
	head []byte // values of the answer's headers; grown and reused

	pages  *sync.Pool // pool of large answer buffers; nil for none
	memory *Memory    // of all requests; nil for no limit
	taken  int        // bytes of memory to release at the end of the request
	unread bool       // the request is refused before its whole body was read

	cancel  context.CancelFunc // of ctx; nil if the request has no time limit
	timeout time.Duration      // of ctx
}

const (
	// bufferKept is the maximum size of a buffer that returns to the pool with
	// its request: a request holds these while it waits for its body.
	bufferKept = 16 << 10
	// pageKept is the maximum size of an answer's buffer that returns to a pool
	// of its own.
	pageKept = 256 << 10
)

// end releases the memory of the request, clears its references and keeps small
// buffers for the next request.
func (r *request) end() {
	r.release()
	body, out, head, pages := r.body, r.out, r.head, r.pages
	*r = request{head: head[:0]}
	if cap(body) <= bufferKept {
		r.body = body[:0]
	}
	switch {
	case cap(out) <= bufferKept:
		r.out = out[:0]
	case cap(out) <= pageKept && pages != nil:
		page := out // Only here on the heap.
		pages.Put(&page)
	}
}

// room returns an empty buffer for an answer of size bytes.
func (r *request) room(size int) []byte {
	if size <= cap(r.out) {
		return r.out[:0]
	}
	if size > bufferKept && size <= pageKept && r.pages != nil {
		if page, found := r.pages.Get().(*[]byte); found && cap(*page) >= size {
			return (*page)[:0]
		}
	}
	return make([]byte, 0, size)
}

// release returns the request's memory to the budget.
func (r *request) release() {
	r.memory.Release(r.taken)
	r.taken = 0
}

// limitTime ends the request's context after timeout.
func (r *request) limitTime(timeout time.Duration) {
	r.timeout = timeout
	r.ctx, r.cancel = context.WithTimeout(r.base, timeout)
}

// received restarts the request's time limit if reading its body took a part of
// it. The server limits how long a body may take.
func (r *request) received() {
	if r.cancel == nil {
		return
	}
	if deadline, _ := r.ctx.Deadline(); r.timeout-time.Until(deadline) > time.Second {
		r.cancel()
		r.limitTime(r.timeout)
	}
}

// header returns the value of the header, whose name is in canonical form, or "".
func (r *request) header(name string) string { return r.headers.get(name) }

// flag reports whether a boolean header is true, in any case.
func (r *request) flag(name string) bool {
	return strings.EqualFold(r.header(name), "true")
}

// link returns the engine's name of the resource in the path.
func (r *request) link() engine.Link {
	return engine.Link{Database: r.target.id(0), Container: r.target.id(1), Document: r.target.id(2)}
}

// container is link without the last id, for resources in a container that are
// not documents.
func (r *request) container() engine.Link {
	return engine.Link{Database: r.target.id(0), Container: r.target.id(1)}
}

// readBody reads the body into the request's buffer: at most limit bytes,
// otherwise 413. The buffer grows with the arriving bytes, whatever length is
// announced. A body that exceeds the available memory is 429.
func (r *request) readBody(limit int) ([]byte, error) {
	if encoding := r.header(headerContentEncoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, status.Unsupported("Content-Encoding " + encoding)
	}
	if r.payload != nil {
		return r.readPayload(limit)
	}
	source := r.source
	if source == nil {
		return nil, nil
	}
	announced := r.length
	if announced > int64(limit) {
		return nil, tooLarge(r, limit)
	}
	if announced > countedMin && !r.memory.Fits(int(announced)) {
		r.unread = true
		return nil, r.memory.Refusal()
	}
	buffer := r.body[:0]
	if first := int(min(announced+1, countedMin)); first > cap(buffer) {
		buffer = make([]byte, 0, first)
	}
	for {
		if len(buffer) == cap(buffer) {
			size := nextSize(len(buffer), announced, limit)
			if !r.takeBody(size) {
				r.body, r.unread = nil, true
				return nil, r.memory.Refusal()
			}
			buffer = append(make([]byte, 0, size), buffer...)
		}
		n, err := source.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > limit {
			r.body = nil
			return nil, tooLarge(r, limit)
		}
		if err == io.EOF {
			r.body = buffer
			r.received()
			return buffer, nil
		}
		if err != nil {
			return nil, bodyError(err)
		}
	}
}

// readPayload is readBody for a door that has read the body, and counted its memory.
func (r *request) readPayload(limit int) ([]byte, error) {
	if len(r.payload) > limit {
		return nil, tooLarge(r, limit)
	}
	return r.payload, nil
}

// nextSize returns the next size of the buffer of a body that has filled the last
// one: four times as large, but at most one byte more than what may still arrive.
// That byte detects the end.
func nextSize(size int, announced int64, limit int) int {
	most := limit
	if announced >= 0 {
		most = int(announced)
	}
	return min(max(4*size, countedMin), max(most, size)+1)
}

// tooLarge refuses a body of more than limit bytes.
func tooLarge(r *request, limit int) error {
	r.unread = true
	return status.TooLarge("Request size is too large: the body is longer than %d bytes.", limit)
}

func bodyError(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return status.New(status.CodeRequestTimeout, 0, "The body did not arrive in time.")
	}
	return status.BadRequest("The body ends before the length that was announced.")
}

// readObject reads the body as a JSON object; size is its length as text.
func (r *request) readObject(limit int) (object value.Value, size int, err error) {
	object, size, err = r.readJSON(limit)
	if err == nil && object.Kind() != value.KindObject {
		return value.Value{}, 0, status.BadRequest("The body is a JSON %s where an object is expected.", object.Kind())
	}
	return object, size, err
}

// readJSON reads the body as JSON, text or binary; size is its length as text.
func (r *request) readJSON(limit int) (v value.Value, size int, err error) {
	body, err := r.readBody(limit)
	if err != nil {
		return value.Value{}, 0, err
	}
	if len(body) == 0 {
		return value.Value{}, 0, status.BadRequest("The request has no body: a JSON object is expected.")
	}
	if body, err = r.jsonText(body, limit); err != nil {
		return value.Value{}, 0, err
	}
	v, err = r.parse(body)
	if status.From(err) != nil {
		return value.Value{}, 0, err
	}
	if err != nil {
		return value.Value{}, 0, status.BadRequest("The body is not valid JSON: %s.", err)
	}
	return v, len(body), nil
}

// options reads the headers that every request on documents may have.
func (r *request) options() (engine.Options, error) {
	opts := engine.Options{
		Session:     r.header(headerGivenSession),
		SessionList: r.fromJSOrPython(),
		Consistency: r.header(headerConsistency),
		IntendedRID: r.header(headerIntendedRID),
	}
	if err := r.spender(&opts); err != nil {
		return opts, err
	}
	// The strategy wins over x-ms-consistency-level, as in the service: .NET sends
	// both.
	strategy := r.header(headerReadStrategy)
	if strategy == "" {
		return opts, nil
	}
	opts.Consistency = ""
	switch strings.ToLower(strategy) {
	case "eventual":
		opts.Consistency = resource.Eventual.String()
	case "session":
		opts.Consistency = resource.Session.String()
	case "latestcommitted":
		// A single server always answers with the latest committed version.
	case "globalstrong":
		opts.Consistency = resource.Strong.String()
	default:
		return opts, status.BadRequest("The read consistency strategy %q is none of Eventual, Session, LatestCommitted and GlobalStrong.", strategy)
	}
	return opts, nil
}

// fromJSOrPython reports whether the request comes from the JavaScript or the Python SDK, which
// differ from the others in two ways:
//
//   - They read a session token that is a list. The SDKs of .NET and Java take a list for
//     one token with a wrong LSN, and are refused with 404/1002 from then on.
//   - They do not continue a query correctly after 410/1002: the JavaScript one asks for
//     the same partition again, without end, and the Python one begins the partition again
//     or fails. For these, the partitions that have replaced the one that they name
//     answer, in its name: an unknown id in the answer makes the Python one list the
//     partitions, and then begin again.
func (r *request) fromJSOrPython() bool {
	agent := r.header(headerUserAgent)
	return strings.Contains(agent, "azure-cosmos-js/") || strings.Contains(agent, "azsdk-python-cosmos")
}

// spender returns who spends the throughput of the request.
func (r *request) spender(opts *engine.Options) error {
	switch priority := r.header(headerPriority); {
	case priority == "", strings.EqualFold(priority, "high"):
	case strings.EqualFold(priority, "low"):
		opts.LowPriority = true
	default:
		return status.BadRequest("The priority level %q is neither High nor Low.", priority)
	}
	text := r.header(headerBucket)
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > resource.BucketsMax {
		return status.BadRequest("The throughput bucket %q is not one of 1 to %d.", text, resource.BucketsMax)
	}
	opts.Bucket = uint8(n)
	return nil
}

// partitionKey reads the partition key header; nil means that it is absent.
func (r *request) partitionKey() (*partitionkey.Key, error) {
	text := r.header(headerPartitionKey)
	if text == "" {
		return nil, nil
	}
	key, err := partitionkey.Parse(text)
	if err != nil {
		return nil, keyError(err)
	}
	r.key = key
	return &r.key, nil
}

// keyError translates the one error type of packages below status.
func keyError(err error) error {
	var e *partitionkey.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("read the partition key: %w", err)
	}
	if e.Mismatch {
		return status.PartitionKeyMismatch("%s", e.Message)
	}
	return status.BadRequest("%s", e.Message)
}

// rangeID reads the id of a physical partition: its id, or container RID, comma,
// id. The RID is returned separately, for the engine to compare.
func (r *request) rangeID() (id *resource.PartitionID, rid string, err error) {
	text := r.header(headerGivenRangeID)
	if text == "" {
		return nil, "", nil
	}
	digits := text
	if i := strings.LastIndexByte(text, ','); i >= 0 {
		rid, digits = text[:i], text[i+1:]
	}
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 32)
	if err != nil {
		return nil, "", status.BadRequest("The partition key range id %q is not a number.", text)
	}
	r.partition = resource.PartitionID(n)
	return &r.partition, strings.TrimSpace(rid), nil
}

// epkRange reads the part of the key space that the request is limited to; nil
// means all of it. Equal ends mean that one hashed key.
func (r *request) epkRange() (*partitionkey.Range, error) {
	start, end := r.header(headerStartEPK), r.header(headerEndEPK)
	if start == "" && end == "" {
		return nil, nil
	}
	r.clip = partitionkey.Full()
	if err := parseEPK(&r.clip.Min, start, "start"); err != nil {
		return nil, err
	}
	if err := parseEPK(&r.clip.Max, end, "end"); err != nil {
		return nil, err
	}
	switch order := r.clip.Min.Compare(r.clip.Max); {
	case order > 0:
		return nil, status.BadRequest("The effective partition key range begins behind its end.") // words: the text is tested
	case order == 0:
		r.clip.Max = r.clip.Min + "\xFF"
	}
	return &r.clip, nil
}

// parseEPK sets epk from digits; without digits it leaves the end of the key
// space unchanged.
func parseEPK(epk *partitionkey.EPK, digits, end string) error {
	if digits == "" {
		return nil
	}
	parsed, err := partitionkey.ParseEPK(digits)
	if err != nil {
		return status.BadRequest("The %s of the effective partition key range is not valid: %s", end, err)
	}
	*epk = parsed
	return nil
}

// maxItems reads the page size: 0 is the default, negative means as many as fit.
func (r *request) maxItems() (int, error) {
	text := r.header(headerMaxItemCount)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < -1 {
		return 0, status.BadRequest("The page size %q in x-ms-max-item-count is neither a positive number nor -1.", text)
	}
	return int(n), nil
}

// tokenLimit checks the limit for continuations. Each is below the lowest limit, 1
// KB.
func (r *request) tokenLimit() error {
	text := r.header(headerTokenLimit)
	if text == "" {
		return nil
	}
	if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
		return status.BadRequest("The limit %q in x-ms-documentdb-responsecontinuationtokenlimitinkb is not a positive number of KB.", text)
	}
	return nil
}

// page reads the headers of feeds without a partition key: page size and
// continuation.
func (r *request) page(link engine.Link) (engine.QueryRequest, error) {
	maxItems, err := r.maxItems()
	if err == nil {
		err = r.tokenLimit()
	}
	return engine.QueryRequest{Link: link, MaxItems: maxItems, Continuation: r.header(headerGivenContinuation)}, err
}

// scope reads the headers that limit a feed of documents, in addition to the
// page.
func (r *request) scope() (engine.QueryRequest, error) {
	if !r.memory.Fits(countedMin) {
		r.unread = r.source != nil && r.length != 0
		return engine.QueryRequest{}, r.memory.Refusal() // Before building a page that would be dropped.
	}
	req, err := r.page(r.container())
	if err != nil {
		return req, err
	}
	if req.Options, err = r.options(); err != nil {
		return req, err
	}
	if req.Key, err = r.partitionKey(); err != nil {
		return req, err
	}
	if req.Clip, err = r.epkRange(); err != nil {
		return req, err
	}
	var rid string
	if req.Partition, rid, err = r.rangeID(); err != nil {
		return req, err
	}
	if req.IntendedRID == "" {
		req.IntendedRID = rid
	}
	if r.header(headerStartID) != "" || r.header(headerEndID) != "" {
		return req, status.Unsupported("A range of resource ids (x-ms-start-id, x-ms-end-id)")
	}
	return req, nil
}

// minimal reports whether the client requests no body after a write.
func (r *request) minimal() bool {
	if strings.EqualFold(r.header(headerContentOnWrite), "false") {
		return true
	}
	for preference := range strings.SplitSeq(r.header(headerPrefer), ",") {
		if strings.EqualFold(strings.TrimSpace(preference), "return=minimal") {
			return true
		}
	}
	return false
}

// isQuery reports whether a POST is a query. Clients mark it in three ways.
func (r *request) isQuery() bool {
	if r.flag(headerIsQuery) || r.flag(headerIsQueryGo) {
		return true
	}
	media, _, _ := strings.Cut(r.header(headerContentType), ";")
	media = strings.TrimSpace(media)
	return strings.EqualFold(media, typeQuery) || strings.EqualFold(media, typeSQL)
}
