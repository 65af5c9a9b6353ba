package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/cql/statement"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// selector runs statements of the Cassandra API that only read, for the admin API. The
// zero value refuses them.
type selector struct {
	mu        sync.RWMutex // held for reading while a statement runs
	processor *statement.Processor
}

func (s *selector) use(p *statement.Processor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processor = p
}

// columnJSON is the name of the only column of SELECT JSON.
const columnJSON = "[json]"

// run runs one page of SELECT JSON or DESCRIBE.
func (s *selector) run(ctx context.Context, caller auth.Caller, page admin.Select) (admin.Selected, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.processor == nil {
		return admin.Selected{}, status.New(status.CodeUnavailable, 0, "The Cassandra API is starting or closing.")
	}
	session := &cql.Session{Caller: caller, Version: frame.V5}
	request := &cql.Request{Keyspace: page.Keyspace, Parameters: &frame.Parameters{Consistency: frame.LocalOne, Flags: frame.QueryPageSize, PageSize: int32(page.Rows)}}
	if page.State != nil {
		request.Parameters.Flags |= frame.QueryPagingState
		request.Parameters.PagingState = page.State
	}
	for {
		prepared, err := s.processor.Prepare(ctx, session, page.Keyspace, page.Query)
		if err != nil {
			return admin.Selected{}, wordSelect(err)
		}
		if prepared.Kind != cql.Read || prepared.Markers.Len() > 0 {
			return admin.Selected{}, status.BadRequest("Only SELECT JSON and DESCRIBE are run here, with values in the text.")
		}
		done, err := s.processor.Execute(ctx, session, prepared, request)
		if errors.Is(err, cql.ErrStale) {
			continue
		}
		if err != nil {
			return admin.Selected{}, wordSelect(err)
		}
		return selectedRows(done)
	}
}

// wordSelect returns an error of a statement as one of the admin API.
func wordSelect(err error) error {
	if e, ok := errors.AsType[*table.Error](err); ok {
		return status.BadRequest("%s", e.Text)
	}
	if e, ok := errors.AsType[*row.Error](err); ok {
		return status.BadRequest("%s", e.Text)
	}
	if e, ok := errors.AsType[*frame.Error](err); ok {
		return status.BadRequest("%s", e.Message)
	}
	return err
}

// selectedRows returns a result whose only column is JSON, or whose columns are all
// text.
func selectedRows(done *cql.Result) (admin.Selected, error) {
	out := admin.Selected{Charge: done.Charge, Warnings: done.Warnings, Partitions: visitedPartitions(done)}
	if done.Rows == nil {
		return out, nil
	}
	columns, cells := done.Rows.Columns.All(), done.Rows.Cells
	whole := len(columns) == 1 && columns[0].Name == columnJSON
	for _, c := range columns {
		if c.Type.ID != frame.TypeVarchar {
			return out, status.BadRequest("The column %s is no text: write SELECT JSON.", c.Name)
		}
	}
	out.State = done.Rows.PagingState
	for range done.Rows.Count {
		var object map[string]*string
		if !whole {
			object = make(map[string]*string, len(columns))
		}
		for _, c := range columns {
			var cell *string
			cell, cells = nextCell(cells)
			switch {
			case !whole:
				object[c.Name] = cell
			case cell != nil:
				out.Rows = append(out.Rows, json.RawMessage(*cell))
			}
		}
		if !whole {
			text, err := json.Marshal(object)
			if err != nil {
				return out, err
			}
			out.Rows = append(out.Rows, text)
		}
	}
	return out, nil
}

// nextCell returns the first of cells, nil for null, and the rest. The cells are the
// server's own and complete.
func nextCell(cells []byte) (cell *string, rest []byte) {
	n := int32(binary.BigEndian.Uint32(cells))
	if cells = cells[4:]; n < 0 {
		return nil, cells
	}
	text := string(cells[:n])
	return &text, cells[n:]
}

// visitedPartitions returns the entry of a result that names the partitions asked.
func visitedPartitions(done *cql.Result) string {
	for _, p := range done.Payload {
		if p.Name == "decan-partitions" {
			return strings.ReplaceAll(string(p.Value), " ", "")
		}
	}
	return ""
}
