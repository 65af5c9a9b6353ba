package statement

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// JSONQuery is a statement without values that only reads, for callers that speak no CQL.
type JSONQuery struct {
	Text     string
	Keyspace string // in use; may be empty
	Rows     int    // of the page, at most
	State    []byte // of the page before; nil for the first
}

// JSONPage is a page of a result.
type JSONPage struct {
	Rows       []json.RawMessage // objects; those of SELECT JSON are its texts
	State      []byte            // nil after the last page
	Charge     float64           // request units
	Partitions string            // the physical partitions that were asked, with commas
	Warnings   []string
}

// columnJSON is the name of the only column of SELECT JSON.
const columnJSON = "[json]"

// ReadJSON runs SELECT JSON or DESCRIBE; other statements are refused with BadRequest, as
// are mistakes in the text.
func (p *Processor) ReadJSON(ctx context.Context, caller auth.Caller, q JSONQuery) (JSONPage, error) {
	session := &door.Session{Caller: caller, Version: frame.V5}
	request := &door.Request{Keyspace: q.Keyspace, Parameters: &frame.Parameters{Consistency: frame.LocalOne, Flags: frame.QueryPageSize, PageSize: int32(q.Rows)}}
	if q.State != nil {
		request.Parameters.Flags |= frame.QueryPagingState
		request.Parameters.PagingState = q.State
	}
	for {
		prepared, err := p.Prepare(ctx, session, q.Keyspace, q.Text)
		if err != nil {
			return JSONPage{}, wordJSON(err)
		}
		if prepared.Kind != door.Read || prepared.Markers.Len() > 0 {
			return JSONPage{}, status.BadRequest("Only SELECT JSON and DESCRIBE are run here, with values in the text.")
		}
		done, err := p.Execute(ctx, session, prepared, request)
		if errors.Is(err, door.ErrStale) {
			continue // The schema has changed in between.
		}
		if err != nil {
			return JSONPage{}, wordJSON(err)
		}
		return jsonPage(done)
	}
}

// wordJSON returns an error of a statement as one that other doors answer with.
func wordJSON(err error) error {
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

// jsonPage returns a result whose only column is JSON, or whose columns are all
// text.
func jsonPage(done *door.Result) (JSONPage, error) {
	out := JSONPage{Charge: done.Charge, Warnings: done.Warnings, Partitions: askedPartitions(done)}
	if done.Rows == nil {
		return out, nil
	}
	columns, cells := done.Rows.Columns.All(), done.Rows.Cells
	whole := len(columns) == 1 && columns[0].Name == columnJSON
	for _, c := range columns {
		if c.Type.ID != frame.TypeVarchar {
			return out, status.BadRequest("The column %s is not a text: write SELECT JSON.", c.Name)
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

// askedPartitions returns the entry of a result that names the partitions asked.
func askedPartitions(done *door.Result) string {
	for _, p := range done.Payload {
		if p.Name == "decan-partitions" {
			return string(p.Value)
		}
	}
	return ""
}
