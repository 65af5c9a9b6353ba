package shellcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/value"
)

// cqlClient runs statements over a connection to the Cassandra API, one after another; a
// cancelled one ends the connection.
type cqlClient struct {
	*remote.CQL
	keyspace string
	tables   []string // for completion
}

// cqlPageSize is how many rows a page has.
const cqlPageSize = 1000

// openCQL makes statements CQL.
func (s *shell) openCQL(ctx context.Context, address string) error {
	conn, err := s.DialCQL(ctx, cmp.Or(address, s.CQL))
	if err != nil {
		return err
	}
	if s.cql != nil {
		s.cql.Close()
	}
	s.cql = &cqlClient{CQL: conn}
	return nil
}

// closeCQL makes statements queries again.
func (s *shell) closeCQL(context.Context, string) error {
	if s.cql != nil {
		s.cql.Close()
		s.cql = nil
	}
	return nil
}

// runCQL runs a statement, and connects again first if the last one was cancelled.
func (s *shell) runCQL(ctx context.Context, text string) error {
	if err := s.cql.wake(ctx); err != nil {
		return err
	}
	return s.show(func(out io.Writer, width int) (string, error) {
		w, err := rows.NewWriter(s.format, out, rows.Options{Width: width})
		if err != nil {
			return "", err
		}
		defer w.Discard()
		cost, err := s.cql.statement(ctx, text, w.Write)
		if errors.Is(err, errPagerClosed) {
			err = nil
		}
		if err != nil {
			return "", err
		}
		if cost.rows < 0 {
			return cost.String(), nil
		}
		return cost.String(), w.Close()
	})
}

// wake connects again if the connection has ended, and returns to its keyspace.
func (c *cqlClient) wake(ctx context.Context) error {
	again, err := c.Wake(ctx)
	if err != nil || !again || c.keyspace == "" {
		return err
	}
	_, err = c.statement(ctx, `USE "`+strings.ReplaceAll(c.keyspace, `"`, `""`)+`"`, func(value.Value) error { return nil })
	return err
}

// cqlCost is what a statement has cost.
type cqlCost struct {
	rows    int64 // -1 for a statement without rows
	charge  float64
	charged bool
	took    time.Duration
}

// String returns the cost as one line.
func (c cqlCost) String() string {
	var parts []string
	if c.rows >= 0 {
		parts = append(parts, console.Counted(c.rows, "row"))
	}
	if c.charged {
		parts = append(parts, console.Units(c.charge))
	}
	return strings.Join(append(parts, console.Took(c.took)), ", ")
}

// chargeKey is the part of an answer with the request units, a double.
const chargeKey = "RequestCharge"

// statement runs a statement and calls take with each row, as a JSON object.
func (c *cqlClient) statement(ctx context.Context, text string, take func(value.Value) error) (cqlCost, error) {
	began := time.Now()
	cost := cqlCost{rows: -1}
	q := &frame.Query{Text: text, Parameters: frame.Parameters{Consistency: frame.Quorum, Flags: frame.QueryPageSize, PageSize: cqlPageSize}}
	for {
		answer, err := c.Exchange(ctx, q)
		if err != nil {
			return cost, err
		}
		if charge, has := frame.Lookup(answer.Payload, chargeKey); has && len(charge) == 8 {
			cost.charge, cost.charged = cost.charge+math.Float64frombits(binary.BigEndian.Uint64(charge)), true
		}
		cost.took = time.Since(began)
		switch m := answer.Message.(type) {
		case frame.SetKeyspace:
			c.keyspace, c.tables = m.Keyspace, nil
			return cost, nil
		case *frame.SchemaChange:
			c.tables = nil
			return cost, nil
		case *frame.Rows:
			cost.rows = max(cost.rows, 0)
			n, err := eachRow(m, take)
			cost.rows += n
			if err != nil {
				return cost, err
			}
			if m.Metadata.PagingState == nil {
				return cost, nil
			}
			q.Parameters.Flags |= frame.QueryPagingState
			q.Parameters.PagingState = m.Metadata.PagingState
		default:
			return cost, nil
		}
	}
}

// eachRow calls take with each row of a result.
func eachRow(result *frame.Rows, take func(value.Value) error) (n int64, err error) {
	columns := result.Metadata.Columns.All()
	types := make([]*row.Type, len(columns))
	for i := range columns {
		types[i] = typeOf(&columns[i].Type)
	}
	for cells := range result.All() {
		members := make([]value.Member, len(cells))
		for i, cell := range cells {
			members[i] = value.Member{Name: columns[i].Name, Value: cellValue(types[i], cell)}
		}
		if err := take(value.Object(members)); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// cellValue returns a cell as the value that Cassandra's JSON has for it; a type that
// has none here is in hexadecimal.
func cellValue(t *row.Type, cell []byte) value.Value {
	if cell == nil {
		return value.Null()
	}
	if t == nil {
		return value.String("0x" + hex.EncodeToString(cell))
	}
	v, err := value.Parse(bytes.Clone(t.AppendJSON(nil, cell)))
	if err != nil { // NaN and infinities.
		return value.String(t.Format(cell))
	}
	return v
}

// typeOf returns a type of the protocol as one of package row; nil for an unknown one.
func typeOf(t *frame.Type) *row.Type {
	parts := make([]*row.Type, len(t.Params))
	for i := range t.Params {
		if parts[i] = typeOf(&t.Params[i]); parts[i] == nil {
			return nil
		}
	}
	switch t.ID {
	case frame.TypeList:
		return row.ListOf(parts[0])
	case frame.TypeSet:
		return row.SetOf(parts[0])
	case frame.TypeMap:
		return row.MapOf(parts[0], parts[1])
	case frame.TypeTuple:
		return row.TupleOf(parts...)
	case frame.TypeUDT:
		return row.UDTOf(t.Keyspace, t.Name, t.Fields, parts)
	case frame.TypeCustom:
		if t.Class == frame.ClassPrefix+"DurationType" {
			return row.NativeNamed("duration")
		}
		return nil
	}
	return row.NativeNamed(t.String())
}

// names returns the tables of the keyspace for completion.
func (c *cqlClient) names() []string {
	if c.tables != nil || c.keyspace == "" {
		return c.tables
	}
	ctx, cancel := context.WithTimeout(context.Background(), namesWait)
	defer cancel()
	tables := []string{}
	_, err := c.statement(ctx, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '"+strings.ReplaceAll(c.keyspace, "'", "''")+"'", func(r value.Value) error {
		tables = append(tables, r.Get("table_name").Text())
		return nil
	})
	if err == nil {
		c.tables = tables
	}
	return c.tables
}
