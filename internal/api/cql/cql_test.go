package cql

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// TestConnect: every version with every compression, on plain connections and with TLS.
func TestConnect(t *testing.T) {
	config := certificate(t)
	w := newWorld(t, Config{TLS: config})
	for version := frame.V3; version <= frame.V5; version++ {
		for _, compression := range []string{"", "lz4", "snappy", "LZ4"} {
			for _, secure := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,%s,%v", version, compression, secure), func(t *testing.T) {
					c := w.dial(t, version)
					if secure {
						c = clientOf(t, tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true}), version)
					}
					supported := c.ask(frame.Options{}).Message.(frame.Supported)
					if got := fmt.Sprint(supported.Options); got != "[{PROTOCOL_VERSIONS [3/v3 4/v4 5/v5]} {COMPRESSION [snappy lz4]} {CQL_VERSION [3.4.6]}]" {
						t.Error(got)
					}
					options := []frame.Pair[string]{{Name: "DRIVER_NAME", Value: "test"}}
					if compression != "" {
						options = append(options, frame.Pair[string]{Name: "COMPRESSION", Value: compression})
					}
					if version == frame.V5 && compression == "snappy" {
						c.fails(frame.Startup{Options: append(options, frame.Pair[string]{Name: "CQL_VERSION", Value: "3.0.0"})},
							frame.CodeProtocol, "Snappy compression is not supported in protocol V5")
						return
					}
					if name, given := frame.Lookup(options, "COMPRESSION"); given {
						known, _ := frame.ParseCompression(name)
						if version < frame.V5 {
							c.reader.SetCompression(known)
						}
					}
					c.startup(options...)
					c.want(frame.AuthResponse{Token: token("account", w.keys.Secondary)}, frame.AuthSuccess{})
					c.want(frame.Register{Events: []string{}}, frame.Ready{})
					if rows := c.rows(query("SELECT key FROM system.local")); fmt.Sprint(rows) != "[[local]]" {
						t.Error(rows)
					}
					large := strings.Repeat("x", 300_000)
					c.ask(query("INSERT INTO ks.t (k, v) VALUES (?, ?)", int32Bytes(1), []byte(large)))
					if rows := c.rows(query("SELECT v FROM ks.t WHERE k = 1")); len(rows) != 1 || rows[0][0] != large {
						t.Errorf("%d rows", len(rows))
					}
				})
			}
		}
	}
	only := newWorld(t, Config{TLS: config, TLSOnly: true})
	c := only.dial(t, frame.V4)
	c.send(frame.Options{})
	c.ended()
	none := newWorld(t, Config{})
	c = none.dial(t, frame.V4)
	if err := tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("TLS without a certificate")
	}
}

// raw sends bytes and returns the answer as bytes in hex.
func (w *world) raw(t *testing.T, version frame.Version, request string) string {
	t.Helper()
	c := w.dial(t, version)
	b, err := hex.DecodeString(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.conn.Write(b); err != nil {
		t.Fatal(err)
	}
	f := c.receive()
	out, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(out)
}

// TestFirstAnswers: what a client hears that does not begin as it should, byte for byte.
func TestFirstAnswers(t *testing.T) {
	answer := func(version frame.Version, stream int16, text string) string {
		f := frame.Frame{Version: version, Stream: stream, Message: &frame.Error{Code: frame.CodeProtocol, Message: text}}
		b, err := f.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(b)
	}
	const modern, old = " supported versions are (3/v3, 4/v4, 5/v5)", " supported versions are (3/v3, 4/v4)"
	for _, c := range []struct {
		name    string
		release Release
		request string
		want    string
	}{
		{"version 66", Release41, "420000030500000000", answer(5, 0, "Invalid or unsupported protocol version (66);"+modern)},
		{"version 6", Release41, "060000030500000000", answer(5, 0, "Invalid or unsupported protocol version (6);"+modern)},
		{"version 2, one byte", Release41, "02", answer(5, 0, "Invalid or unsupported protocol version (2);"+modern)},
		{"HTTP", Release41, hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), answer(5, 0, "Invalid or unsupported protocol version (71);"+modern)},
		{"version 5 of 3.11", Release311, "050000030500000000", answer(4, 0, "Invalid or unsupported protocol version (5);"+old)},
		{"opcode 68", Release41, "040000034400000000", answer(5, 3, "Unknown opcode 68")},
		{"RESULT", Release41, "040000030800000000", answer(5, 3, "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)")},
		{"QUERY", Release41, "0400000507000000080000000171000100", answer(4, 0, "Unexpected message QUERY, expecting STARTUP or OPTIONS")},
		{"QUERY of 3.11", Release311, "0400000507000000080000000171000100", answer(4, 5, "Unexpected message QUERY, expecting STARTUP or OPTIONS")},
		{"no map", Release41, "040000050100000000", answer(4, 5, "Not enough bytes to read a 2 bytes number")},
		{"too long", Release41, "040000050100010001", answer(4, 5, "Request is too big: length 65537 exceeds maximum allowed length 65536.")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newWorld(t, Config{Release: c.release}).raw(t, 5, c.request); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestStartup: options of STARTUP and the order of the first messages.
func TestStartup(t *testing.T) {
	w := newWorld(t, Config{})
	for version, want := range map[string]string{
		"-": "Missing value CQL_VERSION in STARTUP message", "abc": "Invalid version value: abc", "3": "Invalid version value: 3",
		"2.9.9": "CQL version 2.9.9 is not supported by the binary protocol (supported version are >= 3.0.0)",
		"3.0.0": "", "3.0": "", "3.4.6": "", "4.0.0": "", "10.0.0": "", "3.4.5-SNAPSHOT": "",
	} {
		c := w.dial(t, frame.V4)
		m := frame.Startup{}
		if version != "-" {
			m.Options = []frame.Pair[string]{{Name: "cql_version", Value: version}}
		}
		if want == "" {
			c.want(m, frame.Authenticate{Class: authenticator})
			c.fails(frame.Options{}, frame.CodeProtocol, "Unexpected message OPTIONS, expecting SASL_RESPONSE")
			c.fails(m, frame.CodeProtocol, "Unexpected message STARTUP, expecting SASL_RESPONSE")
			c.fails(query("q"), frame.CodeProtocol, "Unexpected message QUERY, expecting SASL_RESPONSE")
		} else {
			c.fails(m, frame.CodeProtocol, want)
			c.startup() // The connection can still begin.
		}
	}
	c := w.dial(t, frame.V4)
	c.fails(frame.Startup{Options: []frame.Pair[string]{{Name: "CQL_VERSION", Value: "3.0.0"}, {Name: "COMPRESSION", Value: "NoSuch"}}},
		frame.CodeProtocol, "Unknown compression algorithm: nosuch")
	signed := w.connect(t, frame.V4)
	signed.fails(frame.Startup{}, frame.CodeProtocol, "Unexpected message STARTUP, the connection is already initialized")
	signed.fails(frame.AuthResponse{}, frame.CodeProtocol, "Unexpected message AUTH_RESPONSE, the connection is already initialized")
	if _, ok := signed.ask(frame.Options{}).Message.(frame.Supported); !ok {
		t.Error("OPTIONS as a heartbeat is not answered")
	}
	signed.version = frame.V3
	signed.fails(frame.Options{}, frame.CodeProtocol, "Invalid message version. Got 3/v3 but previous messages on this connection had version 4/v4")
	signed.ended()
}

// TestKeys: all keys sign in; read-only ones read only; everything else is refused.
func TestKeys(t *testing.T) {
	w := newWorld(t, Config{})
	for _, c := range []struct{ name, token, want string }{
		{"wrong key", string(token("account", "c29tZXRoaW5nIGVsc2UgdGhhdCBpcyBsb25n")), "Provided username account and/or password are incorrect"},
		{"wrong user", string(token("other", w.keys.Primary)), "Provided username other and/or password are incorrect"},
		{"no parts", "", "Authentication ID must not be null"},
		{"no user", string(token("", w.keys.Primary)), "Authentication ID must not be null"},
		{"no password", string(token("account", "")), "Password must not be null"},
		{"four parts", string(token("account", "a\x00b")), "Credential format error: username or password is empty or contains NUL(\\0) character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := w.dial(t, frame.V5)
			client.startup()
			client.fails(frame.AuthResponse{Token: []byte(c.token)}, frame.CodeBadCredentials, c.want)
			client.ended()
		})
	}
	for _, key := range []string{w.keys.PrimaryReadonly, w.keys.SecondaryReadonly} {
		c := w.dial(t, frame.V4)
		c.startup()
		c.want(frame.AuthResponse{Token: token("account", key)}, frame.AuthSuccess{})
		c.want(query("USE ks"), frame.SetKeyspace{Keyspace: "ks"})
		if rows := c.rows(query("SELECT k FROM t")); len(rows) != 0 {
			t.Error(rows)
		}
		const refused = "User account has no MODIFY permission on <table ks.t> or any of its parents"
		c.fails(query("INSERT INTO t (k) VALUES (1)"), frame.CodeUnauthorized, refused)
		prepared := c.ask(&frame.Prepare{Text: "INSERT INTO t (k) VALUES (1)"}).Message.(*frame.Prepared)
		c.fails(&frame.Execute{ID: prepared.ID}, frame.CodeUnauthorized, refused)
		c.fails(&frame.Batch{Statements: []frame.BatchStatement{{ID: prepared.ID}}}, frame.CodeUnauthorized, refused)
		c.fails(query("CREATE TABLE ks.u"), frame.CodeUnauthorized, "User account has no CREATE permission on <keyspace ks> or any of its parents")
	}
	if calls := w.small.called(); calls["Batch"] != 0 {
		t.Error(calls)
	}
}

// TestUse: requests that were sent together are in the keyspace of the USE before them.
func TestUse(t *testing.T) {
	w := newWorld(t, Config{})
	for _, version := range []frame.Version{frame.V4, frame.V5} {
		c := w.connect(t, version)
		c.fails(query("SELECT k FROM t"), frame.CodeInvalid, "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
		use := c.ask(&frame.Prepare{Text: "use other"}).Message.(*frame.Prepared)
		c.send(query("/* c */ USE ks"), query("SELECT k FROM t"), &frame.Execute{ID: use.ID}, query("SELECT k FROM t"), query("USE\n\"ks\""), query("SELECT k FROM t"))
		got := map[int16]string{}
		first := c.stream - 5
		for range 6 {
			f := c.receive()
			switch m := f.Message.(type) {
			case *frame.Rows:
				got[f.Stream-first] = m.Metadata.Columns.All()[0].Keyspace
			case frame.SetKeyspace:
				got[f.Stream-first] = "set " + m.Keyspace
			default:
				t.Errorf("%+v", m)
			}
		}
		if want := "map[0:set ks 1:ks 2:set other 3:other 4:set ks 5:ks]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		if version >= frame.V5 {
			q := query("SELECT k FROM t")
			q.Parameters.Flags, q.Parameters.Keyspace = frame.QueryKeyspace, "other"
			if got := c.ask(q).Message.(*frame.Rows).Metadata.Columns.All()[0].Keyspace; got != "other" {
				t.Error(got)
			}
			p := c.ask(frame.PrepareIn("other", "SELECT k FROM t")).Message.(*frame.Prepared)
			if p.Result.All()[0].Keyspace != "other" {
				t.Error(p.Result)
			}
		}
	}
	for text, want := range map[string]bool{"use x": true, "USE\"x\"": true, " -- c\n// d\nuse\tx": true, "used": false, "use": false, "/* use x": false, "select": false, "": false, "use/**/x": true} {
		if isUse(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestOutOfOrder: a slow statement does not delay another one of its connection.
func TestOutOfOrder(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V5)
	c.send(query("SELECT k FROM test.block"))
	slow := c.stream
	<-w.small.blocked
	c.rows(query("SELECT key FROM system.local"))
	close(w.small.block)
	if f := c.receive(); f.Stream != slow {
		t.Errorf("stream %d, want %d", f.Stream, slow)
	}
}

// TestPrepared: ids, markers, values, and what makes a statement unprepared.
func TestPrepared(t *testing.T) {
	w := newWorld(t, Config{Prepared: 2})
	c := w.connect(t, frame.V5)
	const insert, read = "INSERT INTO ks.t (k, v) VALUES (?, ?)", "SELECT v FROM ks.t WHERE k = :key"
	put := c.ask(&frame.Prepare{Text: insert}).Message.(*frame.Prepared)
	if want := md5.Sum([]byte(insert)); !bytes.Equal(put.ID, want[:]) {
		t.Errorf("id %x, want %x", put.ID, want)
	}
	if none := md5.Sum(nil); !bytes.Equal(put.MetadataID, none[:]) || put.Result.Len() != 0 {
		t.Errorf("metadata %x of no columns", put.MetadataID)
	}
	if !slices.Equal(put.Keys, []uint16{0}) || put.Markers.Len() != 2 {
		t.Errorf("markers %+v of keys %v", put.Markers, put.Keys)
	}
	get := c.ask(&frame.Prepare{Text: read}).Message.(*frame.Prepared)
	if get.Markers.All()[0].Name != "key" || get.Result.Len() != 1 {
		t.Errorf("%+v", get)
	}
	values := frame.Parameters{Flags: frame.QueryValues, Values: []frame.Value{{Bytes: int32Bytes(1)}, {Bytes: []byte("one")}}}
	c.want(&frame.Execute{ID: put.ID, MetadataID: put.MetadataID, Parameters: values}, frame.Void{})
	values.Values = values.Values[:1]
	c.fails(&frame.Execute{ID: put.ID, Parameters: values}, frame.CodeInvalid, "there were 2 markers(?) in CQL but 1 bound variables")
	c.fails(query(insert, int32Bytes(1)), frame.CodeInvalid, "Invalid amount of bind variables")

	// Names in any order, and names without a marker.
	named := frame.Parameters{Flags: frame.QueryValues | frame.QueryNamed | frame.QuerySkipMetadata, Names: []string{"x", "key"}, Values: []frame.Value{{}, {Bytes: int32Bytes(1)}}}
	execute := &frame.Execute{ID: get.ID, MetadataID: get.MetadataID, Parameters: named}
	answer := c.ask(execute).Message.(*frame.Rows)
	if !answer.Metadata.Skip || answer.Metadata.NewID != nil || answer.Count != 1 {
		t.Errorf("%+v", answer)
	}
	execute.Parameters.Names = []string{"x", "y"}
	c.fails(execute, frame.CodeInvalid, "there were 1 markers(?) in CQL but 2 bound variables")
	execute.Parameters.Names = []string{"x", "key"}

	// A client that knows other columns gets the new ones.
	execute.MetadataID = []byte("0123456789abcdef")
	answer = c.ask(execute).Message.(*frame.Rows)
	if answer.Metadata.Skip || !bytes.Equal(answer.Metadata.NewID, get.MetadataID) {
		t.Errorf("%+v", answer.Metadata)
	}
	execute.MetadataID = get.MetadataID

	// Prepared again by another client: no further work.
	before := w.small.called()["Prepare"]
	w.connect(t, frame.V4).ask(&frame.Prepare{Text: read})
	if after := w.small.called()["Prepare"]; after != before {
		t.Errorf("prepared %d times more", after-before)
	}
	// A third statement evicts the one that was not used for longest.
	unpreparedText := func(id []byte) string {
		return fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)", id)
	}
	other := c.ask(&frame.Prepare{Text: "SELECT key FROM system.local"}).Message.(*frame.Prepared)
	e := c.fails(&frame.Execute{ID: put.ID, Parameters: values}, frame.CodeUnprepared, unpreparedText(put.ID))
	if d, ok := e.Details.(frame.Unprepared); !ok || !bytes.Equal(d.ID, put.ID) {
		t.Errorf("%+v", e)
	}
	c.ask(execute)
	// A change of the table forgets its statements, and no others.
	c.ask(query("ALTER TABLE ks.t ADD x int"))
	c.fails(execute, frame.CodeUnprepared, unpreparedText(get.ID))
	if _, ok := c.ask(&frame.Execute{ID: other.ID}).Message.(*frame.Rows); !ok {
		t.Error("a statement on another table is unprepared")
	}
	c.fails(&frame.Execute{ID: []byte("short")}, frame.CodeUnprepared, unpreparedText([]byte("short")))

	// A statement that the processor finds stale.
	w.small.mu.Lock()
	w.small.stale = 1
	w.small.mu.Unlock()
	c.fails(&frame.Execute{ID: other.ID}, frame.CodeUnprepared, unpreparedText(other.ID))
	w.small.mu.Lock()
	w.small.stale = 2
	w.small.mu.Unlock()
	c.rows(query("SELECT key FROM system.local"))
}

// TestConditional: the result of a statement with IF has its columns although the client
// asks for none.
func TestConditional(t *testing.T) {
	w := newWorld(t, Config{})
	for _, version := range []frame.Version{frame.V3, frame.V5} {
		c := w.connect(t, version)
		p := c.ask(&frame.Prepare{Text: "INSERT INTO ks.t (k, v) VALUES (7, 'x') IF NOT EXISTS"}).Message.(*frame.Prepared)
		answer := c.ask(&frame.Execute{ID: p.ID, MetadataID: p.MetadataID, Parameters: frame.Parameters{Flags: frame.QuerySkipMetadata}}).Message.(*frame.Rows)
		if p.Result.Len() != 0 || answer.Metadata.Skip || answer.Metadata.Columns.All()[0].Name != "[applied]" {
			t.Errorf("%+v", answer)
		}
	}
}

// TestPages: pages follow one another with the state of the page before.
func TestPages(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V4)
	for k := range 5 {
		c.want(query("INSERT INTO ks.t (k) VALUES (?)", int32Bytes(k)), frame.Void{})
	}
	q := query("SELECT k FROM ks.t")
	q.Parameters.Flags, q.Parameters.PageSize = frame.QueryPageSize, 2
	var counts []int
	for {
		rows := c.ask(q).Message.(*frame.Rows)
		counts = append(counts, rows.Count)
		if rows.Metadata.PagingState == nil {
			break
		}
		q.Parameters.Flags |= frame.QueryPagingState
		q.Parameters.PagingState = rows.Metadata.PagingState
	}
	if !slices.Equal(counts, []int{2, 2, 1}) {
		t.Error(counts)
	}
	q.Parameters.PagingState = []byte("bad")
	c.fails(q, frame.CodeProtocol, "Invalid value for the paging state")
	q.Parameters.PagingState = []byte{}
	c.fails(q, frame.CodeProtocol, "Invalid value for the paging state")
	c.want(frame.Register{Events: []string{}}, frame.Ready{}) // The connection is intact.
}

// TestEvents: a change of the schema reaches the clients that asked for it, before its
// answer reaches the one that made it.
func TestEvents(t *testing.T) {
	w := newWorld(t, Config{})
	maker, other, deaf := w.connect(t, frame.V5), w.connect(t, frame.V4), w.connect(t, frame.V4)
	maker.want(frame.Register{Events: []string{frame.SchemaChanges}}, frame.Ready{})
	other.want(frame.Register{Events: []string{frame.SchemaChanges, frame.StatusChanges, frame.TopologyChanges}}, frame.Ready{})
	maker.send(query("CREATE TABLE ks.u (k int PRIMARY KEY)"))
	want := "CREATED TABLE ks.u"
	for _, c := range []*client{maker, other} {
		f := c.receive()
		if e, ok := f.Message.(*frame.Event); !ok || f.Stream != frame.EventStream || e.Schema.String() != want || f.Version != c.version {
			t.Errorf("%+v, want an event", f)
		}
	}
	if f := maker.receive(); f.Stream != maker.stream || f.Message.(*frame.SchemaChange).String() != want {
		t.Errorf("%+v", f)
	}
	w.NodeChanged(frame.StatusChanges, frame.Up, netip.MustParseAddrPort("10.0.0.2:10350"))
	if e := other.receive().Message.(*frame.Event); e.Change != frame.Up || e.Address.String() != "10.0.0.2:10350" {
		t.Errorf("%+v", e)
	}
	for _, c := range []*client{maker, deaf} {
		c.want(frame.Register{Events: []string{}}, frame.Ready{}) // The next frame is its answer: there was no event.
	}
	deaf.fails(frame.Register{Events: []string{"x"}}, frame.CodeProtocol, "Invalid value 'x' for Type")
	deaf.ended()
}

// TestBatch: statements by text and id, and what may not be in a batch.
func TestBatch(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V4)
	p := c.ask(&frame.Prepare{Text: "INSERT INTO ks.t (k, v) VALUES (?, ?)"}).Message.(*frame.Prepared)
	values := []frame.Value{{Bytes: int32Bytes(1)}, {Bytes: []byte("one")}}
	good := frame.BatchStatement{ID: p.ID, Values: values}
	c.want(&frame.Batch{}, frame.Void{})
	c.want(&frame.Batch{Statements: []frame.BatchStatement{good, {Text: "INSERT INTO ks.t (k, v) VALUES (2, 'two')"}}}, frame.Void{})
	if rows := c.rows(query("SELECT v FROM ks.t")); fmt.Sprint(rows) != "[[one] [two]]" {
		t.Error(rows)
	}
	c.fails(&frame.Batch{Statements: []frame.BatchStatement{good, {Text: "SELECT v FROM ks.t"}}}, frame.CodeInvalid,
		"Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	c.fails(&frame.Batch{Statements: []frame.BatchStatement{{ID: p.ID, Values: values[:1]}}}, frame.CodeInvalid, "There were 2 markers(?) in CQL but 1 bound variables")
	if e := c.ask(&frame.Batch{Statements: []frame.BatchStatement{{ID: []byte("0123456789abcdef")}}}).Message.(*frame.Error); e.Code != frame.CodeUnprepared {
		t.Errorf("%+v", e)
	}
	if e := c.ask(&frame.Batch{Statements: []frame.BatchStatement{{Text: "nonsense"}}}).Message.(*frame.Error); e.Code != frame.CodeSyntax {
		t.Errorf("%+v", e)
	}
	w.small.mu.Lock()
	w.small.stale = 1
	w.small.mu.Unlock()
	if e := c.ask(&frame.Batch{Statements: []frame.BatchStatement{good}}).Message.(*frame.Error); e.Code != frame.CodeUnprepared {
		t.Errorf("%+v", e)
	}
	if calls := w.small.called()["Batch"]; calls != 2 {
		t.Errorf("%d batches ran, want 2", calls)
	}
}

// TestAttachments: charge, warnings and traces.
func TestAttachments(t *testing.T) {
	w := newWorld(t, Config{})
	for _, version := range []frame.Version{frame.V3, frame.V4, frame.V5} {
		c := w.connect(t, version)
		f := c.ask(query("warn"))
		if version == frame.V3 {
			if f.Payload != nil || f.Warnings != nil {
				t.Errorf("%+v", f)
			}
			continue
		}
		charge, _ := frame.Lookup(f.Payload, "RequestCharge")
		if len(charge) != 8 || math.Float64frombits(binary.BigEndian.Uint64(charge)) != 2.85 || !slices.Equal(f.Warnings, []string{"careful"}) {
			t.Errorf("%+v", f)
		}
		if f = c.ask(&frame.Prepare{Text: "warn"}); f.Payload == nil {
			t.Errorf("PREPARED has no charge: %+v", f)
		}
		c.stream++
		if err := c.writer.Write(&frame.Frame{Version: version, Stream: c.stream, Flags: frame.FlagTracing, Payload: []frame.Pair[[]byte]{{Name: "x"}}, Message: query("warn")}); err != nil {
			t.Fatal(err)
		}
		f = c.receive()
		w.small.mu.Lock()
		last := w.small.traces[len(w.small.traces)-1]
		w.small.mu.Unlock()
		if f.Flags&frame.FlagTracing == 0 || f.TraceID != last.ID || last.Query != "warn" || f.TraceID[6]>>4 != 1 || f.TraceID[8]>>6 != 2 {
			t.Errorf("%+v, %+v", f, last)
		}
	}
}

// TestFailures: what goes wrong in a statement is an answer, and the connection is
// intact.
func TestFailures(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V4)
	const internal = "Internal error. The log of the server says more."
	c.fails(query("panic"), frame.CodeServer, internal)
	c.fails(query("secret"), frame.CodeServer, internal)
	c.fails(query("nonsense"), frame.CodeSyntax, "line 1:0 no viable alternative at input 'nonsense'")
	e := c.ask(query("throttled")).Message.(*frame.Error)
	parts := strings.Split(e.Message, ",")
	if e.Code != frame.CodeOverloaded || !strings.HasPrefix(e.Message, "Request rate is large: ActivityID=") || len(parts) < 2 || parts[1] != " RetryAfterMs=7" {
		t.Errorf("%+v", e)
	}
	c.rows(query("SELECT key FROM system.local"))
}

// TestClose: requests that were read are answered, and Serve returns.
func TestClose(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.connect(t, frame.V5)
	c.send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	closed := make(chan error, 1)
	go func() { closed <- w.Close(context.Background()) }()
	if err := <-w.ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	close(w.small.block)
	if _, ok := c.receive().Message.(*frame.Rows); !ok {
		t.Error("no rows")
	}
	c.ended()
	if err := <-closed; err != nil {
		t.Error(err)
	}

	// A statement that does not end is canceled when the time is over.
	w = newWorld(t, Config{})
	w.connect(t, frame.V5).send(query("SELECT k FROM test.block"))
	<-w.small.blocked
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
