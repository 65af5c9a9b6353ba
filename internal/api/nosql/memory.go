package nosql

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/prometheus/client_golang/prometheus"
)

// Memory limits how many bytes the bodies and answers of all running requests
// take together. Bodies count as they arrive, never by the length that a client
// announces. It is safe for concurrent use. A nil Memory has no limit.
type Memory struct {
	limit   int64
	taken   atomic.Int64
	refused prometheus.Counter
	parsers chan struct{} // one element for each large body being parsed
}

const (
	// countedMin is the size up to which a body or an answer is not counted: it
	// fits into the buffers of the connection.
	countedMin = 4 << 10

	// smallMax is the size up to which a request may use the part of the memory
	// that is reserved for small requests: they pass while large ones are
	// refused.
	smallMax = 64 << 10

	// smallShare is the reserved part.
	smallShare = 8

	// parsedValue is the approximate memory of a value: an element of an array
	// takes 30 bytes, a member of an object 56, an object with one member 84.
	parsedValue = 64

	// memoryDefault is the default limit of a Memory.
	memoryDefault = 128 << 20

	// memoryRetry is the approximate time after which refused requests should be
	// retried. Requests take milliseconds, or seconds for slow clients.
	memoryRetry = time.Second
)

// NewMemory returns a Memory of limit bytes, 128 MB for 0, and registers its
// metrics with registry unless that is nil.
func NewMemory(limit int64, registry prometheus.Registerer) *Memory {
	if limit <= 0 {
		limit = memoryDefault
	}
	m := &Memory{limit: limit, parsers: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
	m.refused = register(registry, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "decan_requests_memory_refused_total",
		Help: "Requests refused because the bodies and answers of running requests take all the memory that they may.",
	}))
	register(registry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "decan_requests_memory_bytes",
		Help: "Bytes that the bodies, headers and answers of running requests take.",
	}, func() float64 { return float64(m.taken.Load()) }))
	return m
}

// Taken returns how many bytes are taken.
func (m *Memory) Taken() int64 { return m.taken.Load() }

// within reports whether a request with size bytes in total may raise the total
// of all requests to sum.
func (m *Memory) within(sum int64, size int) bool {
	limit := m.limit
	if size > smallMax {
		limit -= limit / smallShare
	}
	return sum <= limit
}

// Fits reports whether a request of size bytes would fit now. It takes nothing.
func (m *Memory) Fits(size int) bool {
	if m == nil || m.within(m.taken.Load()+int64(size), size) {
		return true
	}
	m.refused.Inc()
	return false
}

// Take takes n bytes for a request that then has size bytes in total, if they
// fit. The caller returns them with Release.
func (m *Memory) Take(n, size int) bool {
	if m == nil {
		return true
	}
	if m.within(m.taken.Add(int64(n)), size) {
		return true
	}
	m.taken.Add(int64(-n))
	m.refused.Inc()
	return false
}

// Add takes n bytes whether they fit or not: for answers of requests that have
// changed something and can no longer be refused.
func (m *Memory) Add(n int) {
	if m != nil {
		m.taken.Add(int64(n))
	}
}

// Release returns n bytes.
func (m *Memory) Release(n int) {
	if m == nil || n == 0 {
		return
	}
	if m.taken.Add(int64(-n)) < 0 {
		panic("nosql: more memory was released than taken")
	}
}

// Refusal returns the error for a request that does not fit.
func (m *Memory) Refusal() error {
	return refusal("The bodies and answers of running requests take all the memory that they may (--request-memory). Retry later.")
}

func refusal(text string) error {
	// Random, so that requests refused together do not return together.
	wait := memoryRetry/2 + rand.N(memoryRetry)
	return status.TooManyRequests(status.SubRequestRateTooLarge, wait, "%s", text)
}

// takeBody counts a body whose buffer has grown to size bytes.
func (r *request) takeBody(size int) bool {
	if size <= countedMin || size <= r.taken {
		return true
	}
	if !r.memory.Take(size-r.taken, size) {
		return false
	}
	r.taken = size
	return true
}

// takeParsed counts the memory of the values of a large body once they are
// parsed: a document of 1.6 MB with 100,000 numbers takes 6 MB more. It is at
// most half of the memory, so that each request fits if it is alone.
func (r *request) takeParsed(body []byte) bool {
	n := min(bytes.Count(body, []byte{','})*parsedValue, int(r.memory.limit/2)-r.taken)
	if n <= 0 {
		return true
	}
	if !r.memory.Take(n, r.taken+n) {
		return false
	}
	r.taken += n
	return true
}

// parse parses a body. Parsing a large one takes milliseconds without yielding,
// so the number parsed at the same time leaves one processor to others. An error
// that is not a *status.Error describes what is wrong with the body.
func (r *request) parse(body []byte) (value.Value, error) {
	if r.memory == nil || len(body) <= smallMax {
		return value.Parse(body)
	}
	if !r.takeParsed(body) {
		return value.Value{}, r.memory.Refusal()
	}
	select {
	case r.memory.parsers <- struct{}{}:
		defer func() { <-r.memory.parsers }()
		return value.Parse(body)
	case <-r.base.Done():
		return value.Value{}, status.New(status.CodeRequestTimeout, 0, "The body was not read in time.")
	}
}

// takeAnswer counts an answer of size bytes. If it does not fit, the error refuses it,
// provided that nothing is lost with it.
func (r *request) takeAnswer(size int) error {
	switch {
	case size <= countedMin:
		return nil
	case !r.operation.reads():
		r.memory.Add(size)
	case r.direct.from != nil && !r.direct.from.Room(size):
		return refusal("The answers that the client has not taken yet fill the memory that its connection may have. Retry later.")
	case !r.memory.Take(size, size):
		return r.memory.Refusal()
	}
	r.taken += size
	return nil
}
