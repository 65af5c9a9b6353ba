package deploycmd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// tables makes keyspaces and tables over the Cassandra API, which is the only way to
// make them. It connects when it is first needed, and again after a connection has ended.
type tables struct {
	remote.Cassandra
	account remote.Account
	conn    *remote.CQL
}

// answerTime bounds the waiting for one answer.
const answerTime = time.Minute

// isStatementError reports whether the server refused a statement, after which the
// connection can be used further.
func isStatementError(err error) bool {
	_, is := errors.AsType[*frame.Error](err)
	return is
}

func (t *tables) close() {
	if t.conn != nil {
		t.conn.Close()
	}
}

// run runs a statement and returns its rows.
func (t *tables) run(ctx context.Context, text string) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if t.conn == nil {
		conn, err := t.account.DialCQL(ctx, t.CQL)
		if err != nil {
			return nil, err
		}
		t.conn = conn
	}
	answer, err := t.conn.Exchange(ctx, &frame.Query{Text: text, Parameters: frame.Parameters{Consistency: frame.LocalQuorum}})
	if err != nil {
		if !isStatementError(err) {
			t.conn = nil // It has ended.
		}
		return nil, err
	}
	var out [][][]byte
	if rows, is := answer.Message.(*frame.Rows); is {
		for cells := range rows.All() {
			out = append(out, slices.Clone(cells))
		}
	}
	return out, nil
}

// quoted returns a name as CQL quotes it, and literal a string.
func quoted(name string) string  { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// read returns a keyspace or table that exists, in the form of a template.
func (t *tables) read(ctx context.Context, item deploy.Item) (*jsonc.Object, error) {
	if item.Kind == deploy.Keyspace {
		rows, err := t.run(ctx, "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = "+literal(item.Names[0]))
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return jsonc.NewObject("id", item.Names[0]), nil
	}
	where := fmt.Sprintf(" WHERE keyspace_name = %s AND table_name = %s", literal(item.Names[0]), literal(item.Names[1]))
	rows, err := t.run(ctx, "SELECT default_time_to_live FROM system_schema.tables"+where)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ttl := number(rows[0][0])
	if ttl == 0 {
		ttl = -1
	}
	schema, err := t.schema(ctx, where)
	if err != nil {
		return nil, err
	}
	return jsonc.NewObject("id", item.Names[1], "defaultTtl", ttl, "schema", schema), nil
}

// number returns an int of CQL.
func number(cell []byte) int64 {
	if len(cell) != 4 {
		return 0
	}
	return int64(int32(binary.BigEndian.Uint32(cell)))
}

// schema returns the columns and the key of a table.
func (t *tables) schema(ctx context.Context, where string) (*jsonc.Object, error) {
	rows, err := t.run(ctx, "SELECT column_name, type, kind, position, clustering_order FROM system_schema.columns"+where)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b [][]byte) int { return int(number(a[3]) - number(b[3])) })
	var columns, partition, cluster []any
	for _, row := range rows {
		name := string(row[0])
		columns = append(columns, jsonc.NewObject("name", name, "type", string(row[1])))
		switch string(row[2]) {
		case "partition_key":
			partition = append(partition, jsonc.NewObject("name", name))
		case "clustering":
			order := "Asc"
			if strings.EqualFold(string(row[4]), "desc") {
				order = "Desc"
			}
			cluster = append(cluster, jsonc.NewObject("name", name, "orderBy", order))
		}
	}
	return jsonc.NewObject("columns", jsonc.NewArray(columns...), "partitionKeys", jsonc.NewArray(partition...), "clusterKeys", jsonc.NewArray(cluster...)), nil
}

// write carries a change out.
func (t *tables) write(ctx context.Context, change deploy.Change) error {
	var err error
	switch {
	case change.Kind == deploy.Keyspace:
		_, err = t.run(ctx, "CREATE KEYSPACE IF NOT EXISTS "+quoted(change.Names[0])+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	case change.Action == deploy.Create:
		_, err = t.run(ctx, createTable(change))
	default:
		err = t.alter(ctx, change)
	}
	return err
}

// entries returns the names of a list of a schema.
func entries(schema any, member string) []*jsonc.Object {
	var out []*jsonc.Object
	list, _ := schema.(*jsonc.Object).Get(member)
	for _, item := range list.(*jsonc.Array).Items() {
		out = append(out, item.(*jsonc.Object))
	}
	return out
}

// member returns a text of an entry.
func member(o *jsonc.Object, name string) string {
	v, _ := o.Get(name)
	text, _ := v.(string)
	return text
}

// createTable returns the statement for a table that does not exist.
func createTable(change deploy.Change) string {
	schema, _ := change.Body.Get("schema")
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s.%s (", quoted(change.Names[0]), quoted(change.Names[1]))
	for _, column := range entries(schema, "columns") {
		fmt.Fprintf(&b, "%s %s, ", quoted(member(column, "name")), member(column, "type"))
	}
	names := func(list []*jsonc.Object) string {
		var out []string
		for _, o := range list {
			out = append(out, quoted(member(o, "name")))
		}
		return strings.Join(out, ", ")
	}
	fmt.Fprintf(&b, "PRIMARY KEY ((%s)", names(entries(schema, "partitionKeys")))
	var order []string
	for _, key := range entries(schema, "clusterKeys") {
		b.WriteString(", " + quoted(member(key, "name")))
		order = append(order, quoted(member(key, "name"))+" "+strings.ToUpper(member(key, "orderBy")))
	}
	b.WriteString("))")
	with := " WITH "
	if len(order) > 0 {
		b.WriteString(with + "CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")")
		with = " AND "
	}
	if ttl, _ := change.Body.Get("defaultTtl"); ttl != int64(-1) {
		fmt.Fprintf(&b, "%sdefault_time_to_live = %v", with, ttl)
	}
	return b.String()
}

// alter adds columns and changes the expiry.
func (t *tables) alter(ctx context.Context, change deploy.Change) error {
	name := quoted(change.Names[0]) + "." + quoted(change.Names[1])
	for _, column := range entries(change.Body, "columns") {
		if _, err := t.run(ctx, fmt.Sprintf("ALTER TABLE %s ADD %s %s", name, quoted(member(column, "name")), member(column, "type"))); err != nil {
			return err
		}
	}
	ttl, has := change.Body.Get("defaultTtl")
	if !has {
		return nil
	}
	if ttl == int64(-1) {
		ttl = int64(0)
	}
	_, err := t.run(ctx, fmt.Sprintf("ALTER TABLE %s WITH default_time_to_live = %v", name, ttl))
	return err
}
