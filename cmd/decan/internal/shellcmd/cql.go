package shellcmd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/value"
)

// cqlClient is a connection to the Cassandra API, in version 4 of its protocol. It runs
// one statement after another; a cancelled one ends the connection.
type cqlClient struct {
	at       cqlPlace
	conn     net.Conn
	reader   *frame.Reader
	keyspace string
	tables   []string // for completion
}

const (
	cqlUser      = "decan"
	cqlFrameMax  = frame.BodyMax
	cqlDialWait  = 10 * time.Second
	cqlPageSize  = 1000
	cqlUserAgent = "decan shell"
)

// cqlPlace is where the Cassandra API is.
type cqlPlace struct {
	host     string // and port
	user     string
	password string
	tls      *tls.Config // nil for none
}

// place reads an address: HOST:PORT, or tls://USER@HOST:PORT for TLS or another user,
// as a Cassandra account of Azure needs.
func (s *shell) place(address string) (cqlPlace, error) {
	p := cqlPlace{host: address, user: cqlUser, password: s.Key}
	rest, secure := strings.CutPrefix(address, "tls://")
	if user, host, named := strings.Cut(rest, "@"); named {
		p.user, rest = user, host
	}
	p.host = rest
	if _, _, err := net.SplitHostPort(p.host); err != nil {
		return p, fmt.Errorf("%s is no address of the Cassandra API: give HOST:PORT or tls://USER@HOST:PORT", address)
	}
	if secure {
		config, err := s.TLS()
		if err != nil {
			return p, err
		}
		p.tls = config
	}
	return p, nil
}

// dialCQL connects and authenticates.
func dialCQL(ctx context.Context, at cqlPlace) (*cqlClient, error) {
	ctx, cancel := context.WithTimeout(ctx, cqlDialWait)
	defer cancel()
	var conn net.Conn
	var err error
	if at.tls != nil {
		conn, err = (&tls.Dialer{Config: at.tls}).DialContext(ctx, "tcp", at.host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", at.host)
	}
	if err != nil {
		return nil, fmt.Errorf(`no Cassandra API answers at %s (give its address with \cql ADDRESS or --cql): %s`, at.host, err.Error())
	}
	c := &cqlClient{at: at, conn: conn, reader: frame.NewReader(conn, cqlFrameMax)}
	if err := c.begin(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the Cassandra API at %s: %w", at.host, err)
	}
	return c, nil
}

// begin sends the first messages of a connection.
func (c *cqlClient) begin(ctx context.Context) error {
	answer, err := c.exchange(ctx, &frame.Startup{Options: []frame.Pair[string]{
		{Name: "CQL_VERSION", Value: "3.4.6"}, {Name: "DRIVER_NAME", Value: cqlUserAgent},
	}})
	if err != nil {
		return err
	}
	if _, asks := answer.Message.(frame.Authenticate); asks {
		answer, err = c.exchange(ctx, &frame.AuthResponse{Token: []byte("\x00" + c.at.user + "\x00" + c.at.password)})
		if err != nil {
			return err
		}
	}
	switch answer.Message.(type) {
	case frame.Ready, frame.AuthSuccess:
		return nil
	}
	return fmt.Errorf("it answered %s to a new connection", answer.Message.Opcode())
}

func (c *cqlClient) close() { c.conn.Close() }

// exchange sends a message and returns the answer; an answer that is an error is
// returned as one. When the context ends, the connection does.
func (c *cqlClient) exchange(ctx context.Context, message frame.Message) (frame.Frame, error) {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	sent := frame.Frame{Version: frame.V4, Message: message}
	text, err := sent.Append(nil)
	if err != nil {
		return frame.Frame{}, err
	}
	w := bufio.NewWriter(c.conn)
	if _, err := w.Write(text); err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	if err := w.Flush(); err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	answer, err := c.reader.Next()
	if err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	if failed, is := answer.Message.(*frame.Error); is {
		return answer, failed
	}
	return answer, nil
}

// broken returns the error of a connection that ended.
func (c *cqlClient) broken(ctx context.Context, err error) error {
	c.conn.Close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server has closed the connection")
	}
	return err
}

// openCQL makes statements CQL.
func (s *shell) openCQL(ctx context.Context, address string) error {
	if address == "" {
		address = s.CQL
	}
	at, err := s.place(address)
	if err != nil {
		return err
	}
	client, err := dialCQL(ctx, at)
	if err != nil {
		return err
	}
	if s.cql != nil {
		s.cql.close()
	}
	s.cql = client
	return nil
}

// closeCQL makes statements queries again.
func (s *shell) closeCQL(context.Context, string) error {
	if s.cql != nil {
		s.cql.close()
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

// wake connects again if the connection has ended.
func (c *cqlClient) wake(ctx context.Context) error {
	if _, err := c.exchange(ctx, &frame.Options{}); err == nil {
		return nil
	}
	again, err := dialCQL(ctx, c.at)
	if err != nil {
		return err
	}
	keyspace := c.keyspace
	*c = *again
	if keyspace == "" {
		return nil
	}
	_, err = c.statement(ctx, `USE "`+strings.ReplaceAll(keyspace, `"`, `""`)+`"`, func(value.Value) error { return nil })
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
		answer, err := c.exchange(ctx, q)
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
