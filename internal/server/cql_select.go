package server

import (
	"context"
	"sync"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/api/cql/statement"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// selector runs statements of the Cassandra API that only read, for the admin API. The
// zero value refuses them.
type selector struct {
	mu        sync.RWMutex // held for reading while a statement runs
	processor *statement.Processor
}

// use replaces the processor, nil for none, when no statement runs any more.
func (s *selector) use(p *statement.Processor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processor = p
}

// run runs one page of SELECT JSON or DESCRIBE.
func (s *selector) run(ctx context.Context, caller auth.Caller, page admin.Select) (admin.Selected, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.processor == nil {
		return admin.Selected{}, status.New(status.CodeUnavailable, 0, "The Cassandra API is starting or closing.")
	}
	done, err := s.processor.ReadJSON(ctx, caller, statement.JSONQuery{Text: page.Query, Keyspace: page.Keyspace, Rows: page.Rows, State: page.State})
	return admin.Selected(done), err
}
