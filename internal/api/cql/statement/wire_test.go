package statement

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/row"
)

// node is a connection to a server that speaks CQL: Decan or Apache Cassandra.
type node struct {
	t      testing.TB
	key    string
	conn   net.Conn
	reader *frame.Reader
	writer *frame.Writer
	stream int16
}

// nodeTime bounds the waiting for an answer.
const nodeTime = 2 * time.Minute

// dialNode connects and signs in with a key, where the server asks for one.
func dialNode(t testing.TB, address, key string) *node {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n := &node{t: t, key: key, conn: conn, reader: frame.NewReader(conn, frame.BodyMax), writer: frame.NewWriter(conn)}
	answer := n.ask(frame.Startup{Options: []frame.Pair[string]{{Name: "CQL_VERSION", Value: "3.0.0"}}}).Message
	n.reader.StartSegments(frame.NoCompression)
	n.writer.StartSegments(frame.NoCompression)
	if _, ok := answer.(frame.Authenticate); ok {
		answer = n.ask(frame.AuthResponse{Token: []byte("\x00decan\x00" + key)}).Message
	}
	switch answer.(type) {
	case frame.Ready, frame.AuthSuccess:
		return n
	}
	t.Fatalf("%s: the answer to STARTUP is %+v", address, answer)
	return nil
}

// another connects to the same server.
func (n *node) another(t testing.TB) *node { return dialNode(t, n.conn.RemoteAddr().String(), n.key) }

// ask sends a request and returns the answer.
func (n *node) ask(m frame.Message) frame.Frame {
	n.t.Helper()
	n.stream = (n.stream + 1) & 0x3FF
	if err := n.writer.Write(&frame.Frame{Version: frame.V5, Stream: n.stream, Message: m}); err != nil {
		n.t.Fatal(err)
	}
	if err := n.conn.SetReadDeadline(time.Now().Add(nodeTime)); err != nil {
		n.t.Fatal(err)
	}
	f, err := n.reader.Next()
	if err != nil {
		n.t.Fatalf("no answer to %+v: %v", m, err)
	}
	if f.Stream != n.stream {
		n.t.Fatalf("answer on stream %d, want %d: %+v", f.Stream, n.stream, f.Message)
	}
	return f
}

// serveNode starts Decan's door on the world and connects to it.
func serveNode(t testing.TB, w *world) *node { return serveNodeWith(t, w, func(*door.Config) {}) }

// serveNodeWith is serveNode with other limits.
func serveNodeWith(t testing.TB, w *world, change func(*door.Config)) *node {
	t.Helper()
	key := auth.NewKey()
	verifier, err := auth.NewVerifier(auth.Keys{Primary: key}, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := door.Config{Processor: w.Processor, Account: "decan", Verifier: func() *auth.Verifier { return verifier }}
	change(&config)
	server := door.New(config)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		<-done
	})
	return dialNode(t, listener.Addr().String(), key)
}

// cassandraNode connects to the Apache Cassandra that DECAN_CASSANDRA names; nil without.
func cassandraNode(t testing.TB) *node {
	t.Helper()
	address := os.Getenv("DECAN_CASSANDRA")
	if address == "" {
		return nil
	}
	return dialNode(t, address, "")
}

// request is a statement with its values and parameters.
type request struct {
	text      string
	values    []frame.Value
	prepare   bool // PREPARE and EXECUTE instead of QUERY
	page      int  // rows of a page, 0 for one page
	timestamp int64
	now       int32 // seconds since 1970, 0 for the server's clock
	keyspace  string
	batch     []request // of a BATCH instead of text
	batchType frame.BatchType
}

// parameters returns the parameters as the protocol has them.
func (r *request) parameters() frame.Parameters {
	p := frame.Parameters{Consistency: frame.One, Values: r.values, PageSize: int32(r.page), Timestamp: r.timestamp, NowInSeconds: r.now, Serial: frame.Serial, Keyspace: r.keyspace}
	for flag, given := range map[frame.QueryFlags]bool{
		frame.QueryValues: len(r.values) > 0, frame.QueryPageSize: r.page > 0, frame.QueryTimestamp: r.timestamp != 0,
		frame.QueryNow: r.now != 0, frame.QueryKeyspace: r.keyspace != "",
	} {
		if given {
			p.Flags |= flag
		}
	}
	return p
}

// deletes says whether the request deletes from a table.
func (r *request) deletes(name string) bool {
	for _, one := range append(r.batch, *r) {
		if strings.Contains(one.text, "DELETE") && strings.Contains(one.text, name) {
			return true
		}
	}
	return false
}

// whole prints the request with its values and parameters.
func (r *request) whole() string {
	text := r.text
	for _, one := range r.batch {
		text += "\n    " + one.whole()
	}
	for _, v := range r.values {
		switch {
		case v.Unset:
			text += " unset"
		case v.Bytes == nil:
			text += " null"
		default:
			text += fmt.Sprintf(" 0x%x", v.Bytes)
		}
	}
	for name, n := range map[string]int64{"page": int64(r.page), "timestamp": r.timestamp, "now": int64(r.now)} {
		if n != 0 {
			text += fmt.Sprintf("; %s %d", name, n)
		}
	}
	return text
}

// pagesMax bounds the pages of one statement.
const pagesMax = 200

// run runs a statement and returns its answer as text: all pages, with a line between them.
func (n *node) run(r request) string {
	n.t.Helper()
	var out strings.Builder
	p := r.parameters()
	var message frame.Message = &frame.Query{Text: r.text, Parameters: p}
	switch {
	case r.batch != nil:
		b := &frame.Batch{Type: r.batchType, Parameters: p}
		for _, one := range r.batch {
			b.Statements = append(b.Statements, frame.BatchStatement{Text: one.text, Values: one.values})
		}
		message = b
	case r.prepare:
		answer := n.ask(&frame.Prepare{Text: r.text, Keyspace: r.keyspace, Flags: keyspaceFlag(r.keyspace)})
		prepared, ok := answer.Message.(*frame.Prepared)
		if !ok {
			return "prepare " + answerText(&answer, nil)
		}
		fmt.Fprintf(&out, "prepared %x (%s) keys %v result (%s)\n", prepared.ID, columnsText(prepared.Markers), prepared.Keys, columnsText(prepared.Result))
		message = &frame.Execute{ID: prepared.ID, MetadataID: prepared.MetadataID, Parameters: p}
	}
	columns := frame.Columns{}
	for range pagesMax {
		answer := n.ask(message)
		rows, ok := answer.Message.(*frame.Rows)
		if ok && len(rows.Metadata.Columns.All()) > 0 {
			columns = rows.Metadata.Columns
		}
		out.WriteString(answerText(&answer, &columns))
		if !ok || rows.Metadata.PagingState == nil {
			return out.String()
		}
		out.WriteString("-- page\n")
		switch m := message.(type) {
		case *frame.Query:
			m.Parameters.Flags |= frame.QueryPagingState
			m.Parameters.PagingState = rows.Metadata.PagingState
		case *frame.Execute:
			m.Parameters.Flags |= frame.QueryPagingState
			m.Parameters.PagingState = rows.Metadata.PagingState
		}
	}
	return out.String() + "-- more pages\n"
}

func keyspaceFlag(keyspace string) uint32 {
	if keyspace == "" {
		return 0
	}
	return 1
}

// columnsText prints names and types.
func columnsText(c frame.Columns) string {
	all := make([]string, 0, c.Len())
	for _, one := range c.All() {
		all = append(all, one.Keyspace+"."+one.Table+"."+one.Name+" "+one.Type.String())
	}
	return strings.Join(all, ", ")
}

// rowType returns the type of a column as package row has it.
func rowType(t *frame.Type) *row.Type {
	parts := make([]*row.Type, len(t.Params))
	for i := range t.Params {
		parts[i] = rowType(&t.Params[i])
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
	}
	return row.NativeNamed(strings.ReplaceAll(t.String(), "varchar", "text"))
}

// cellText prints a value as a literal; bytes which are no value of the type, or which the
// literal does not tell, in hexadecimal.
func cellText(t *frame.Type, v []byte) string {
	if v == nil {
		return "null"
	}
	own := rowType(t)
	if own == nil || own.Validate(v) != nil {
		return "0x" + hex.EncodeToString(v) + "!"
	}
	if len(v) == 0 && own.Kind != row.KindText && own.Kind != row.KindASCII {
		return "empty"
	}
	return own.Literal(v)
}

// answerText prints an answer. Rows without columns have those given.
func answerText(f *frame.Frame, known *frame.Columns) string {
	var out strings.Builder
	for _, w := range f.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	switch m := f.Message.(type) {
	case frame.Void:
		out.WriteString("ok\n")
	case frame.SetKeyspace:
		fmt.Fprintf(&out, "use %s\n", m.Keyspace)
	case *frame.SchemaChange:
		fmt.Fprintln(&out, strings.TrimSpace(strings.ToLower(m.Change+" "+m.Target)+" "+m.Keyspace+" "+m.Name))
	case *frame.Error:
		fmt.Fprintf(&out, "error %04x: %s", uint32(m.Code), m.Message)
		switch d := m.Details.(type) {
		case frame.AlreadyExists:
			fmt.Fprintf(&out, " {%s %s}", d.Keyspace, d.Table)
		case frame.FunctionFailure:
			fmt.Fprintf(&out, " {%s %s %s}", d.Keyspace, d.Function, d.Arguments)
		}
		out.WriteByte('\n')
	case *frame.Rows:
		columns := m.Metadata.Columns
		if len(columns.All()) == 0 && known != nil {
			columns = *known
		}
		names := make([]string, 0, columns.Len())
		for _, c := range columns.All() {
			names = append(names, c.Name+" "+c.Type.String())
		}
		fmt.Fprintf(&out, "# %s\n", strings.Join(names, " | "))
		for cells := range m.All() {
			for i, c := range cells {
				if i > 0 {
					out.WriteString(" | ")
				}
				out.WriteString(cellText(&columns.All()[i].Type, c))
			}
			out.WriteByte('\n')
		}
	default:
		fmt.Fprintf(&out, "%+v\n", m)
	}
	return out.String()
}
