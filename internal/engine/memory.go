package engine

import (
	"sync"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
)

// memoryStep is how many bytes a query gets at a time, so that it rarely asks.
const memoryStep = 256 << 10

// memory is the budget that all queries share.
type memory struct {
	total   int64
	refused func() // counts a refusal

	mu sync.Mutex

	used int64
}

// bytes returns how many bytes are in use.
func (m *memory) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// account is the part of the budget that one request holds. The goroutines of
// the request share it.
type account struct {
	pool *memory
	held int64 // guarded by pool.mu
}

// take grants need bytes or more. The error is BadRequest if the request alone
// needs more than the budget, and TooManyRequests if other requests hold too
// much of it.
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
			"The running queries use %d of the %d bytes that they may use. Try again later.", m.used, m.total)
	}
	granted = max(need, min(memoryStep, m.total-m.used))
	a.held += granted
	m.used += granted
	return granted, nil
}

// give returns some of the granted bytes to the budget.
func (a *account) give(bytes int64) {
	if bytes == 0 {
		return
	}
	m := a.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.held -= bytes; a.held < 0 {
		panic("memory returned twice")
	}
	m.used -= bytes
}

// close returns all granted bytes to the budget.
func (a *account) close() {
	m := a.pool
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= a.held
	a.held = 0
}
