package cql

import (
	"fmt"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/table"
	syntax "github.com/decandb/decan/internal/table/cql"
)

// StatementOf returns a compiled statement on data as the door keeps it. Its Plan is p.
func StatementOf(parsed syntax.Parsed, p *table.Prepared) *Statement {
	s := &Statement{Plan: p, Markers: MarkersOf(p.Markers), Bytes: planBytes + markerBytes*len(p.Markers)}
	for _, at := range p.KeyMarkers {
		s.Keys = append(s.Keys, uint16(at))
	}
	for _, t := range p.Tables {
		s.Tables = append(s.Tables, Table{t.Keyspace, t.Name})
	}
	s.Permission = "MODIFY"
	switch parsed.Statement.(type) {
	case *syntax.Select:
		s.Kind, s.Permission = Read, "SELECT"
	case *syntax.Batch:
		s.Kind = Write
		s.Bytes += (writeBytes - markerBytes) * len(p.Markers)
	default:
		s.Kind = Modify
	}
	if len(s.Tables) > 0 {
		first := s.Tables[0]
		s.On = fmt.Sprintf("<table %s.%s>", first.Keyspace, first.Name)
		s.Result = ColumnsOf(first, p.Columns())
	}
	return s
}

// Approximate memory of a compiled statement, of each marker of one, and of each marker of a
// batch, whose statements may have one each.
const (
	planBytes   = 1 << 10
	markerBytes = 256
	writeBytes  = 800
)

// MarkersOf returns the markers of a statement as the protocol describes them.
func MarkersOf(markers []table.Marker) frame.Columns {
	list := make([]frame.Column, len(markers))
	for i, m := range markers {
		list[i] = frame.Column{Keyspace: m.Keyspace, Table: m.Table, Name: m.Name, Type: TypeOf(m.Type)}
	}
	return frame.NewColumns(list)
}

// ColumnsOf returns the columns of a result as the protocol describes them.
func ColumnsOf(of Table, columns []table.ResultColumn) frame.Columns {
	list := make([]frame.Column, len(columns))
	for i, c := range columns {
		list[i] = frame.Column{Keyspace: of.Keyspace, Table: of.Name, Name: c.Name, Type: TypeOf(c.Type)}
	}
	return frame.NewColumns(list)
}

// ValuesOf returns the values of a request as a statement takes them.
func ValuesOf(values []frame.Value) table.Values {
	v := table.Values{Bytes: make([][]byte, len(values))}
	for i, given := range values {
		v.Bytes[i] = given.Bytes
		if given.Unset {
			if v.Unset == nil {
				v.Unset = make([]bool, len(values))
			}
			v.Unset[i] = true
		}
	}
	return v
}
