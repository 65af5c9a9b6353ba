package frame

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vector is a frame of testdata/cql-frames.json, whose description says what the fields
// hold.
type vector struct {
	Name        string
	Direction   string
	Version     Version
	Opcode      string
	Stream      int16
	Flags       string
	Hex         string
	Compression string
	PlainBody   string `json:"plain_body"`
	Envelope    string
	Envelopes   []struct {
		Envelope string
		Meaning  map[string]any
	}
	EnvelopeSHA   string `json:"envelope_sha256"`
	Segments      []json.RawMessage
	PlainSegments []struct {
		Header  string
		CRC24   string `json:"header_crc24"`
		CRC32   string `json:"payload_crc32"`
		Payload int    `json:"payload_length"`
	} `json:"uncompressed_segments"`
	Meaning map[string]any
}

func vectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/cql-frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Frames, Constructed []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return append(file.Frames, file.Constructed...)
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readerOf returns a reader of the bytes of a vector.
func (v *vector) readerOf(b []byte) *Reader {
	r := NewReader(bytes.NewReader(b), BodyMax)
	c, _ := ParseCompression(v.Compression)
	if v.Segments != nil {
		r.StartSegments(c)
	} else {
		r.SetCompression(c)
	}
	return r
}

// writerOf returns the writer for a vector.
func (v *vector) writerOf(to *bytes.Buffer) *Writer {
	w := NewWriter(to)
	c, _ := ParseCompression(v.Compression)
	if v.Segments != nil {
		w.StartSegments(c)
	} else {
		w.SetCompression(c)
	}
	return w
}

// TestVectors decodes and encodes the recorded frames.
func TestVectors(t *testing.T) {
	all := vectors(t)
	if len(all) != 150 {
		t.Fatalf("%d vectors, want 150", len(all))
	}
	for i := range all {
		v := &all[i]
		t.Run(v.Name, func(t *testing.T) {
			wire := unhex(t, v.Hex)
			r := v.readerOf(wire)
			var frames []Frame
			var envelopes []byte
			for {
				h, err := r.Header()
				if err != nil {
					break
				}
				body, err := r.Body()
				if err != nil {
					t.Fatal(err)
				}
				f, err := Decode(h, body)
				if err != nil {
					t.Fatal(err)
				}
				if v.Envelopes == nil {
					v.checkHeader(t, h)
				}
				frames = append(frames, f)
				if envelopes, err = f.Append(envelopes); err != nil {
					t.Fatal(err)
				}
			}
			v.checkEnvelopes(t, wire, envelopes)
			if v.Envelopes == nil {
				if len(frames) != 1 {
					t.Fatalf("%d frames, want 1", len(frames))
				}
				if diff := cmp.Diff(normal(t, v.Meaning), normal(t, meaning(&frames[0]))); diff != "" {
					t.Errorf("meaning (-want +got):\n%s", diff)
				}
			}
			for i, e := range v.Envelopes {
				if diff := cmp.Diff(normal(t, e.Meaning), normal(t, meaning(&frames[i]))); diff != "" {
					t.Errorf("meaning of envelope %d (-want +got):\n%s", i, diff)
				}
			}
			var out bytes.Buffer
			w := v.writerOf(&out)
			for i := range frames {
				if err := w.Add(&frames[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			v.checkWire(t, wire, out.Bytes(), frames)
		})
	}
}

func (v *vector) checkHeader(t *testing.T, h Header) {
	t.Helper()
	want := Header{Version: v.Version, Response: v.Direction != "request", Stream: v.Stream, Length: h.Length}
	if _, err := fmt.Sscanf(v.Flags, "0x%x", &want.Flags); err != nil {
		t.Fatal(err)
	}
	for op := range opcodes {
		if Opcode(op).String() == v.Opcode {
			want.Opcode = Opcode(op)
		}
	}
	if h != want {
		t.Errorf("header %+v, want %+v", h, want)
	}
}

// checkEnvelopes compares the frames, encoded without compression, with the vector.
func (v *vector) checkEnvelopes(t *testing.T, wire, got []byte) {
	t.Helper()
	var want []byte
	switch {
	case v.EnvelopeSHA != "":
		if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != v.EnvelopeSHA {
			t.Errorf("envelope of %d bytes differs", len(got))
		}
		return
	case v.Envelopes != nil:
		for _, e := range v.Envelopes {
			want = append(want, unhex(t, e.Envelope)...)
		}
	case v.Envelope != "":
		want = unhex(t, v.Envelope)
	case v.PlainBody != "":
		body := unhex(t, v.PlainBody)
		h := ParseHeader((*[HeaderSize]byte)(wire))
		h.Flags &^= FlagCompressed
		h.Length = uint32(len(body))
		want = append(h.Append(nil), body...)
	default:
		want = wire
	}
	if !bytes.Equal(got, want) {
		t.Errorf("envelope\n%x, want\n%x", got, want)
	}
}

// checkWire compares what a writer wrote with the vector: the same bytes where nothing
// is compressed, otherwise bytes with the same content.
func (v *vector) checkWire(t *testing.T, wire, got []byte, frames []Frame) {
	t.Helper()
	if v.Compression == "" {
		if !bytes.Equal(got, wire) {
			t.Errorf("wire\n%x, want\n%x", got, wire)
		}
		return
	}
	r := v.readerOf(got)
	for i := range frames {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(normal(t, meaning(&frames[i])), normal(t, meaning(&f))); diff != "" {
			t.Error(diff)
		}
	}
	if !bytes.Equal(got, wire) {
		t.Logf("compressed in another way: %d bytes, recorded %d", len(got), len(wire))
		if len(got) > len(wire)+len(wire)/4 {
			t.Errorf("%d bytes, recorded %d", len(got), len(wire))
		}
	}
}

// TestLargeSegments compares the segments of an envelope that is too large for one.
func TestLargeSegments(t *testing.T) {
	found := false
	for _, v := range vectors(t) {
		if v.PlainSegments == nil {
			continue
		}
		found = true
		f, err := v.readerOf(unhex(t, v.Hex)).Next()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		w := NewWriter(&out)
		w.StartSegments(NoCompression)
		if err := w.Write(&f); err != nil {
			t.Fatal(err)
		}
		rest := out.Bytes()
		for _, s := range v.PlainSegments {
			crc24, crc32 := unhex(t, s.CRC24), unhex(t, s.CRC32)
			slices.Reverse(crc24)
			slices.Reverse(crc32)
			if want := append(unhex(t, s.Header), crc24...); !bytes.HasPrefix(rest, want) {
				t.Errorf("header %x, want %x", rest[:6], want)
			}
			rest = rest[6+s.Payload:]
			if !bytes.HasPrefix(rest, crc32) {
				t.Errorf("CRC %x, want %x", rest[:4], crc32)
			}
			rest = rest[4:]
		}
		if len(rest) > 0 {
			t.Errorf("%d bytes more", len(rest))
		}
	}
	if !found {
		t.Error("no vector has large segments")
	}
}

// normal returns v as JSON decodes it.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// meaning describes a frame as the vectors do.
func meaning(f *Frame) map[string]any {
	m := map[string]any{}
	if f.Flags&FlagTracing != 0 && f.Message.Opcode().Response() {
		m["tracing_id"] = hex.EncodeToString(f.TraceID[:])
	}
	if f.Warnings != nil {
		m["warnings"] = f.Warnings
	}
	if f.Payload != nil {
		payload := map[string]string{}
		for _, p := range f.Payload {
			payload[p.Name] = hex.EncodeToString(p.Value)
		}
		m["custom_payload"] = payload
	}
	switch b := f.Message.(type) {
	case Supported:
		options := map[string][]string{}
		for _, p := range b.Options {
			options[p.Name] = p.Value
		}
		m["options"] = options
	case Startup:
		options := map[string]string{}
		for _, p := range b.Options {
			options[p.Name] = p.Value
		}
		m["options"] = options
	case Authenticate:
		m["class"] = b.Class
	case AuthResponse:
		m["token"] = hexOrNull(b.Token)
	case AuthChallenge:
		m["token"] = hexOrNull(b.Token)
	case AuthSuccess:
		m["token"] = hexOrNull(b.Token)
	case Register:
		m["events"] = b.Events
	case *Query:
		m["query"] = b.Text
		meaningOfParameters(m, &b.Parameters)
	case *Prepare:
		m["query"] = b.Text
		if f.Version >= V5 {
			m["flags"] = fmt.Sprintf("0x%02x", b.Flags)
		}
		if b.Keyspace != "" {
			m["keyspace"] = b.Keyspace
		}
	case *Execute:
		m["id"] = hex.EncodeToString(b.ID)
		if f.Version >= V5 {
			m["result_metadata_id"] = hex.EncodeToString(b.MetadataID)
		}
		meaningOfParameters(m, &b.Parameters)
	case *Batch:
		m["type"] = []string{"LOGGED", "UNLOGGED", "COUNTER"}[b.Type]
		var statements []any
		for _, s := range b.Statements {
			one := map[string]any{"values": meaningOfValues(s.Values)}
			if s.ID != nil {
				one["id"] = hex.EncodeToString(s.ID)
			} else {
				one["query"] = s.Text
			}
			statements = append(statements, one)
		}
		m["statements"] = statements
		meaningOfParameters(m, &b.Parameters)
	case *Error:
		meaningOfError(m, b, f.Version)
	case *Event:
		if b.Schema != nil {
			m["event"] = SchemaChanges
			meaningOfChange(m, b.Schema)
			break
		}
		m["event"], m["change"], m["port"] = b.Kind, b.Change, b.Address.Port()
		var parts []string
		for _, n := range b.Address.Addr().AsSlice() {
			parts = append(parts, fmt.Sprint(n))
		}
		m["address"] = strings.Join(parts, ".")
	default:
		meaningOfResult(m, f)
	}
	return m
}

func meaningOfResult(m map[string]any, f *Frame) {
	switch b := f.Message.(type) {
	case Void:
		m["kind"] = "void"
	case SetKeyspace:
		m["kind"], m["keyspace"] = "set_keyspace", b.Keyspace
	case *SchemaChange:
		m["kind"] = "schema_change"
		meaningOfChange(m, b)
	case *Prepared:
		m["kind"], m["id"] = "prepared", hex.EncodeToString(b.ID)
		if f.Version >= V5 {
			m["result_metadata_id"] = hex.EncodeToString(b.MetadataID)
		}
		m["bind"], m["bind_table"], m["bind_flags"] = meaningOfColumns(b.Markers)
		if f.Version >= V4 {
			m["pk_indexes"] = b.Keys
		}
		columns, table, flags := meaningOfColumns(b.Result)
		m["result_flags"], m["result_column_count"] = flags, b.Result.Len()
		if b.Result.Len() > 0 {
			m["result"], m["result_table"] = columns, table
		} else {
			m["result_flags"] = "0x04"
		}
	case *Rows:
		m["kind"] = "rows"
		columns, table, _ := meaningOfColumns(b.Metadata.Columns)
		flags := 0
		if b.Metadata.Columns.global {
			flags |= metadataGlobal
		}
		if b.Metadata.PagingState != nil {
			flags |= metadataMore
			m["paging_state"] = hex.EncodeToString(b.Metadata.PagingState)
		}
		if b.Metadata.Skip {
			flags |= metadataSkip
		} else {
			m["columns"], m["table"] = columns, table
		}
		if b.Metadata.NewID != nil {
			flags |= metadataChanged
			m["new_metadata_id"] = hex.EncodeToString(b.Metadata.NewID)
		}
		m["metadata_flags"] = fmt.Sprintf("0x%02x", flags)
		m["column_count"], m["row_count"] = b.Metadata.Columns.Len(), b.Count
		rows := []any{}
		for row := range b.All() {
			cells := []any{}
			for _, cell := range row {
				cells = append(cells, hexOrNull(cell))
			}
			rows = append(rows, cells)
		}
		m["rows"] = rows
	}
}

func meaningOfColumns(c Columns) (columns []string, table, flags string) {
	columns, flags = []string{}, "0x00"
	for _, column := range c.All() {
		columns = append(columns, column.Name+" "+column.Type.String())
		table = column.Keyspace + "." + column.Table
	}
	if c.global {
		flags = "0x01"
	}
	return columns, table, flags
}

func meaningOfChange(m map[string]any, c *SchemaChange) {
	m["change"], m["target"], m["keyspace"] = c.Change, c.Target, c.Keyspace
	if c.Target != TargetKeyspace {
		m["name"] = c.Name
	}
	if c.Arguments != nil {
		m["arg_types"] = c.Arguments
	}
}

func hexOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return hex.EncodeToString(b)
}

func meaningOfValues(values []Value) []any {
	out := []any{}
	for _, v := range values {
		switch {
		case v.Unset:
			out = append(out, "unset")
		case len(v.Bytes) == 200000:
			out = append(out, map[string]any{"repeat": fmt.Sprintf("%x", v.Bytes[0]), "times": bytes.Count(v.Bytes, v.Bytes[:1])})
		default:
			out = append(out, hexOrNull(v.Bytes))
		}
	}
	return out
}

func meaningOfParameters(m map[string]any, p *Parameters) {
	m["consistency"], m["flags"] = p.Consistency.String(), fmt.Sprintf("0x%02x", uint32(p.Flags))
	if p.Has(QueryValues) {
		values := meaningOfValues(p.Values)
		for i := range p.Names {
			values[i] = []any{p.Names[i], values[i]}
		}
		m["values"] = values
	}
	if p.Has(QuerySkipMetadata) {
		m["skip_metadata"] = true
	}
	if p.Has(QueryPageSize) {
		m["page_size"] = p.PageSize
	}
	if p.Has(QueryPagingState) {
		m["paging_state"] = hexOrNull(p.PagingState)
	}
	if p.Has(QuerySerial) {
		m["serial_consistency"] = p.Serial.String()
	}
	if p.Has(QueryTimestamp) {
		m["timestamp"] = p.Timestamp
	}
	if p.Has(QueryKeyspace) {
		m["keyspace"] = p.Keyspace
	}
	if p.Has(QueryNow) {
		m["now_in_seconds"] = p.NowInSeconds
	}
}

func meaningOfError(m map[string]any, e *Error, version Version) {
	m["code"], m["error"], m["message"] = fmt.Sprintf("0x%04x", uint32(e.Code)), e.Code.String(), e.Message
	counts := func(c Consistency, received, blockFor int32) {
		m["consistency"], m["received"], m["blockfor"] = c.String(), received, blockFor
	}
	failures := func(failures []Failure) {
		if version < V5 {
			m["failures"] = len(failures)
			return
		}
		reasons := map[string]any{}
		for _, f := range failures {
			reasons[f.Replica.String()] = f.Reason
		}
		m["reasons"] = reasons
	}
	present := func(b bool) {
		m["data_present"] = 0
		if b {
			m["data_present"] = 1
		}
	}
	switch x := e.Details.(type) {
	case Unavailable:
		m["consistency"], m["required"], m["alive"] = x.Consistency.String(), x.Required, x.Alive
	case WriteTimeout:
		counts(x.Consistency, x.Received, x.BlockFor)
		m["write_type"] = x.Type
		if version >= V5 && x.Type == WriteCAS {
			m["contentions"] = x.Contentions
		}
	case ReadTimeout:
		counts(x.Consistency, x.Received, x.BlockFor)
		present(x.DataPresent)
	case ReadFailure:
		counts(x.Consistency, x.Received, x.BlockFor)
		failures(x.Failures)
		present(x.DataPresent)
	case WriteFailure:
		counts(x.Consistency, x.Received, x.BlockFor)
		failures(x.Failures)
		m["write_type"] = x.Type
	case CASWriteUnknown:
		counts(x.Consistency, x.Received, x.BlockFor)
	case FunctionFailure:
		m["keyspace"], m["function"], m["arg_types"] = x.Keyspace, x.Function, x.Arguments
	case AlreadyExists:
		m["keyspace"], m["table"] = x.Keyspace, x.Table
	case Unprepared:
		m["id"] = hex.EncodeToString(x.ID)
	}
}
