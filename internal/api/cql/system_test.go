package cql

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/table"
	syntax "github.com/decandb/decan/internal/table/cql"
)

// system has the system tables of package table, for a schema with the table of small.
type system struct{ *table.System }

func newSystem() system {
	schema, err := table.ReadSchema(nil)
	if err != nil {
		panic(err)
	}
	id := byte(0)
	environment := table.Environment{NewID: func() [16]byte { id++; return [16]byte{6: 0x40, 8: 0x80, 15: id} }}
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v text)",
	} {
		parsed, err := syntax.Parse(text)
		if err != nil {
			panic(err)
		}
		change, err := schema.Define(parsed.Statement, "", environment)
		if err != nil {
			panic(err)
		}
		schema = change.Schema
	}
	return system{table.NewSystem(schema, table.Node{
		Cluster: "decan", DataCenter: "dc1", Rack: "rack1", Release: "4.1.10", CQL: "3.4.6", Protocol: "5",
		Host: [16]byte{1, 6: 0x40, 8: 0x80}, Address: netip.MustParseAddrPort("127.0.0.1:9042"), Tokens: []int64{0}, Generation: 1,
	})}
}

// prepare compiles a statement on a system table. It returns nil for others.
func (y system) prepare(keyspace, text string) (*Statement, error) {
	parsed, err := syntax.Parse(text)
	if err != nil {
		return nil, nil // The small processor has statements of its own.
	}
	read, ok := parsed.Statement.(*syntax.Select)
	if !ok || !strings.HasPrefix(read.From.Keyspace, "system") && (read.From.Keyspace != "" || !strings.HasPrefix(keyspace, "system")) {
		return nil, nil
	}
	p, err := y.Prepare(parsed, keyspace)
	if err != nil {
		return nil, err
	}
	return StatementOf(parsed, p), nil
}

func (y system) execute(ctx context.Context, s *Statement, p *table.Prepared, r *Request) (*Result, error) {
	now := time.Now()
	page, err := p.Select(ctx, y.Rows(p.Tables[0]), ValuesOf(r.Values), &table.Moment{Now: now}, &table.PageOptions{
		Size: int(r.Parameters.PageSize), State: r.Parameters.PagingState, Secret: []byte("secret"), ID: []byte(s.On), Now: now.Unix(),
	})
	if err != nil {
		return nil, err
	}
	result := &Result{Rows: &Rows{Columns: s.Result, Count: page.Count, Cells: page.Rows, PagingState: page.State}}
	if page.Warning != "" {
		result.Warnings = []string{page.Warning}
	}
	return result, nil
}

// TestSystemTables: the system tables through the door, with the questions of drivers.
func TestSystemTables(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V5)
	if rows := c.rows(query("SELECT key, cluster_name FROM system.local WHERE key='local'")); fmt.Sprint(rows) != "[[local decan]]" {
		t.Error(rows)
	}
	if rows := c.rows(query("SELECT * FROM system.peers_v2")); len(rows) != 0 {
		t.Error(rows)
	}
	if rows := c.rows(query("SELECT column_name FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?", []byte("ks"), []byte("t"))); fmt.Sprint(rows) != "[[k] [v]]" {
		t.Error(rows)
	}
	p := c.ask(&frame.Prepare{Text: "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?"}).Message.(*frame.Prepared)
	if !slices.Equal(p.Keys, []uint16{0}) || p.Markers.All()[0].Type.String() != "varchar" {
		t.Errorf("%+v", p)
	}
	c.fails(query("SELECT * FROM system_schema.scylla_tables"), frame.CodeInvalid, "table scylla_tables does not exist")
}

// TestStatementOf: what the door learns of statements on data.
func TestStatementOf(t *testing.T) {
	y := newSystem()
	for _, c := range []struct {
		text       string
		kind       Kind
		permission string
		keys       []uint16
		markers    int
		columns    int
	}{
		{"SELECT * FROM ks.t WHERE k = ?", Read, "SELECT", []uint16{0}, 1, 2},
		{"INSERT INTO ks.t (v, k) VALUES (?, ?)", Modify, "MODIFY", []uint16{1}, 2, 0},
		{"UPDATE ks.t SET v = ? WHERE k = 1 IF v = ?", Modify, "MODIFY", nil, 2, 0},
		{"DELETE FROM ks.t WHERE k = ?", Modify, "MODIFY", []uint16{0}, 1, 0},
		{"BEGIN BATCH INSERT INTO ks.t (k) VALUES (?); DELETE FROM ks.t WHERE k = ?; APPLY BATCH", Write, "MODIFY", []uint16{1}, 2, 0},
	} {
		parsed, err := syntax.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := y.Prepare(parsed, "")
		if err != nil {
			t.Fatal(err)
		}
		s := StatementOf(parsed, p)
		if s.Kind != c.kind || s.Permission != c.permission || s.On != "<table ks.t>" || !slices.Equal(s.Keys, c.keys) ||
			s.Markers.Len() != c.markers || s.Result.Len() != c.columns || !slices.Equal(s.Tables, []Table{{"ks", "t"}}) {
			t.Errorf("%s: %+v", c.text, s)
		}
	}
	v := ValuesOf([]frame.Value{{Bytes: []byte("x")}, {}, {Unset: true}})
	if fmt.Sprint(v) != "{[[120] [] []] [false false true]}" || v.Bytes[1] != nil {
		t.Errorf("%v", v)
	}
	if v := ValuesOf([]frame.Value{{}}); v.Unset != nil {
		t.Errorf("%v", v)
	}
}
