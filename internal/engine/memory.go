package engine

import (
	"sync"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
)

// memoryStep is by how much the memory of a query grows at a time, in bytes, so that
// it seldom asks.
const memoryStep = 256 << 10

// memory is what all queries together may hold.
type memory struct {
	total   int64
	refused func() // counts a refusal

	mu sync.Mutex

	used int64
}

// bytes returns how much is in use.
func (m *memory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// account is the memory of one request. The goroutines of the request share it.
type account struct {
	pool *memory
	held int64 // guarded by pool.mu
}

// take grants need bytes, or more. A request that would have to hold more than
// there is in all is a BadRequest; one that has to wait for others is
// TooManyRequests.
func (a *account) take(need int64) (granted int64, err error) {
	m := a.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case a.held+need > m.total:
		return 0, query.TooMuchMemory(m.total)
	case m.used+need > m.total:
		m.refused()
		return 0, status.TooManyRequests(status.SubSystemBusy, memoryRetryAfter,
			"The queries that run hold %d of the %d bytes that they may use. Try again later.", m.used, m.total)
	}
	granted = max(need, min(memoryStep, m.total-m.used))
	a.held += granted
	m.used += granted
	return granted, nil
}

// give gives back a part of what was granted.
func (a *account) give(bytes int64) {
	if bytes == 0 {
		return
	}
	m := a.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.held -= bytes; a.held < 0 {
		panic("memory was given back twice")
	}
	m.used -= bytes
}

// close gives back everything.
func (a *account) close() {
	m := a.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= a.held
	a.held = 0
}
