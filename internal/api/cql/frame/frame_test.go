package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeBody decodes a request with the body.
func decodeBody(version Version, op Opcode, body string) (Frame, error) {
	return Decode(Header{Version: version, Response: op.Response(), Opcode: op, Length: uint32(len(body))}, []byte(body))
}

// TestMalformedBodies: a body that is not what its opcode says is a protocol error with
// the text that Cassandra has.
func TestMalformedBodies(t *testing.T) {
	const query = "\x00\x00\x00\x01q"
	for _, c := range []struct {
		name    string
		version Version
		op      Opcode
		body    string
		want    string
	}{
		{"no map", V4, OpStartup, "", "Not enough bytes to read a 2 bytes number"},
		{"short string", V4, OpStartup, "\x00\x01\x00\x05abc", "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length"},
		{"string without length", V4, OpAuthenticate, "\x00", "Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length"},
		{"many strings", V4, OpRegister, "\xff\xff\x00\x00", "Not enough bytes to read 65535 elements"},
		{"long string", V4, OpQuery, "\x00\x00\x00\x02q", "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length"},
		{"long string without length", V4, OpQuery, "\x00\x00", "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length"},
		{"negative long string", V4, OpQuery, "\xff\xff\xff\xff", "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length"},
		{"huge long string", V4, OpQuery, "\x7f\xff\xff\xffq", "Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length"},
		{"not UTF-8", V4, OpQuery, "\x00\x00\x00\x01\xff\x00\x01\x00", "Cannot decode string as UTF8: 'ff'"},
		{"consistency", V4, OpQuery, query + "\x00\x0b\x00", "Unknown code 11 for a consistency level"},
		{"value length", V4, OpQuery, query + "\x00\x01\x01\x00\x01\xff\xff\xff\xfd", "Invalid ByteBuf length -3"},
		{"value", V4, OpQuery, query + "\x00\x01\x01\x00\x01\x00\x00\x00\x04abc", "Not enough bytes to read a byte array preceded by its 4 bytes length"},
		{"values", V4, OpQuery, query + "\x00\x01\x01\xff\xff", "Not enough bytes to read 65535 elements"},
		{"timestamp", V4, OpQuery, query + "\x00\x01\x20\x80\x00\x00\x00\x00\x00\x00\x00", "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got -9223372036854775808)"},
		{"id", V4, OpExecute, "\x00\x10abc", "Not enough bytes to read a byte array preceded by its 2 bytes length"},
		{"batch type", V4, OpBatch, "\x03\x00\x00\x00\x01\x00", "Invalid BATCH message type 3"},
		{"batch kind", V4, OpBatch, "\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00", "Invalid query kind in BATCH messages. Must be 0 or 1 but got 2"},
		{"batch names", V4, OpBatch, "\x00\x00\x00\x00\x01\x40", "Named values are not supported in BATCH messages"},
		{"event", V4, OpRegister, "\x00\x01\x00\x01x", "Invalid value 'x' for Type"},
		{"opcode", V4, 0x44, "", "Unknown opcode 68"},
		{"opcode 4", V4, 0x04, "", "Unknown opcode 4"},
		{"kind of result", V4, OpResult, "\x00\x00\x00\x06", "Unknown kind of RESULT: 6"},
		{"columns", V4, OpResult, "\x00\x00\x00\x02\x00\x00\x00\x00\x7f\xff\xff\xff", "Invalid number of columns: 2147483647"},
		{"rows", V4, OpResult, "\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01\xff\xff\xff\xff", "Invalid number of rows: -1"},
		{"rows without columns", V4, OpResult, "\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00\x7f\xff\xff\xff", "Invalid number of rows: 2147483647"},
		{"missing rows", V4, OpResult, "\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x01\x7f\xff\xff\xff", "Not enough bytes to read a 4 bytes number"},
		{"type", V4, OpResult, "\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00", "Unknown type code 10"},
		{"address", V4, OpEvent, "\x00\x0dSTATUS_CHANGE\x00\x02UP\x05", "Invalid address length: 5"},
		{"port", V4, OpEvent, "\x00\x0dSTATUS_CHANGE\x00\x02UP\x04\x01\x02\x03\x04\x00\x01\x00\x00", "Invalid port: 65536"},
		{"failures", V4, OpError, "\x00\x00\x13\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff", "Invalid number of failures: 2147483647"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeBody(c.version, c.op, c.body)
			var protocol *Error
			if !errors.As(err, &protocol) || protocol.Code != CodeProtocol || protocol.Message != c.want {
				t.Errorf("got %#v, want protocol error %q", err, c.want)
			}
		})
	}
}

// TestDirection: a response sent to a server and a request sent to a client.
func TestDirection(t *testing.T) {
	_, err := Decode(Header{Version: V4, Opcode: OpResult}, nil)
	if want := "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = Decode(Header{Version: V4, Opcode: OpQuery, Response: true}, nil)
	if want := "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 7 (QUERY)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestValues: null and unset by version.
func TestValues(t *testing.T) {
	body := "\x00\x00\x00\x01q\x00\x01\x01\x00\x03\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x00"
	f, err := decodeBody(V4, OpQuery, body)
	if err != nil {
		t.Fatal(err)
	}
	want := []Value{{}, {Unset: true}, {Bytes: []byte{}}}
	if diff := cmp.Diff(want, f.Message.(*Query).Parameters.Values); diff != "" {
		t.Error(diff)
	}
	f, err = decodeBody(V3, OpQuery, body)
	if err != nil {
		t.Fatal(err)
	}
	want[1] = Value{} // Before version 4 every negative length is null.
	if diff := cmp.Diff(want, f.Message.(*Query).Parameters.Values); diff != "" {
		t.Error(diff)
	}
}

// TestTrailingBytes: bytes after a message are ignored.
func TestTrailingBytes(t *testing.T) {
	f, err := decodeBody(V4, OpAuthResponse, "\x00\x00\x00\x01xtail")
	if err != nil || string(f.Message.(AuthResponse).Token) != "x" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestErrorsByVersion: errors that a version does not have become others.
func TestErrorsByVersion(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		version Version
		err     *Error
		want    *Error
	}{
		{V3, WithDetails(ReadFailure{One, 0, 1, []Failure{{addr, 1}}, true}, "m"), WithDetails(ReadTimeout{One, 0, 1, true}, "m")},
		{V4, WithDetails(ReadFailure{One, 0, 1, []Failure{{addr, 1}}, true}, "m"), WithDetails(ReadFailure{One, 0, 1, make([]Failure, 1), true}, "m")},
		{V5, WithDetails(ReadFailure{One, 0, 1, []Failure{{addr, 1}}, true}, "m"), WithDetails(ReadFailure{One, 0, 1, []Failure{{addr, 1}}, true}, "m")},
		{V3, WithDetails(WriteFailure{One, 0, 1, []Failure{{addr, 1}}, WriteCAS}, "m"), WithDetails(WriteTimeout{One, 0, 1, WriteCAS, 0}, "m")},
		{V4, WithDetails(WriteTimeout{One, 0, 1, WriteCAS, 3}, "m"), WithDetails(WriteTimeout{One, 0, 1, WriteCAS, 0}, "m")},
		{V5, WithDetails(WriteTimeout{One, 0, 1, WriteCAS, 3}, "m"), WithDetails(WriteTimeout{One, 0, 1, WriteCAS, 3}, "m")},
		{V5, WithDetails(WriteTimeout{One, 0, 1, WriteSimple, 3}, "m"), WithDetails(WriteTimeout{One, 0, 1, WriteSimple, 0}, "m")},
		{V4, WithDetails(CASWriteUnknown{Serial, 1, 3}, "m"), WithDetails(WriteTimeout{Serial, 1, 3, WriteCAS, 0}, "m")},
		{V5, WithDetails(CASWriteUnknown{Serial, 1, 3}, "m"), WithDetails(CASWriteUnknown{Serial, 1, 3}, "m")},
		{V3, WithDetails(FunctionFailure{"k", "f", []string{"int"}}, "m"), &Error{Code: CodeInvalid, Message: "ERROR FUNCTION_FAILURE: m"}},
		{V4, WithDetails(FunctionFailure{"k", "f", []string{"int"}}, "m"), WithDetails(FunctionFailure{"k", "f", []string{"int"}}, "m")},
		{V3, &Error{Code: CodeCDCWriteFailure, Message: "m"}, &Error{Code: CodeInvalid, Message: "ERROR CDC_WRITE_FAILURE: m"}},
		{V4, &Error{Code: CodeCDCWriteFailure, Message: "m"}, &Error{Code: CodeCDCWriteFailure, Message: "m"}},
	} {
		got := roundTrip(t, &Frame{Version: c.version, Message: c.err}).Message
		if diff := cmp.Diff(Message(c.want), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s %x: %s", c.version, c.err.Code, diff)
		}
	}
}

func roundTrip(t *testing.T, f *Frame) Frame {
	t.Helper()
	b, err := f.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewReader(bytes.NewReader(b), BodyMax).Next()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTypesByVersion: types appear as custom ones in versions that have no number for
// them, inside of other types too.
func TestTypesByVersion(t *testing.T) {
	inner := TupleOf(Simple(TypeDate), ListOf(Simple(TypeDuration)), MapOf(Simple(TypeTinyint), SetOf(Simple(TypeVarchar))))
	udt := Type{ID: TypeUDT, Keyspace: "ks", Name: "u", Fields: []string{"a"}, Params: []Type{inner}}
	columns := NewColumns([]Column{{"ks", "t", "c", udt}, {"ks", "t", "v", VectorOf(Simple(TypeFloat), 3)}, {"other", "t", "v", Simple(TypeInt)}})
	const class = "custom org.apache.cassandra.db.marshal."
	for version, want := range map[Version]string{
		V3: "udt ks.u(a tuple<" + class + "SimpleDateType, list<" + class + "DurationType>, map<" + class + "ByteType, set<varchar>>>)",
		V4: "udt ks.u(a tuple<date, list<" + class + "DurationType>, map<tinyint, set<varchar>>>)",
		V5: "udt ks.u(a tuple<date, list<duration>, map<tinyint, set<varchar>>>)",
	} {
		got := roundTrip(t, &Frame{Version: version, Message: &Rows{Metadata: Metadata{Columns: columns}}}).Message.(*Rows)
		all := got.Metadata.Columns.All()
		if s := all[0].Type.String(); s != want {
			t.Errorf("%s: %s, want %s", version, s, want)
		}
		if s := all[1].Type.String(); s != class+"VectorType(org.apache.cassandra.db.marshal.FloatType , 3)" {
			t.Errorf("%s: %s", version, s)
		}
		if all[2].Keyspace != "other" {
			t.Errorf("%s: column of another keyspace is in %s", version, all[2].Keyspace)
		}
	}
	if s, want := udt.MarshalClass(), "org.apache.cassandra.db.marshal.UserType(ks,75,61:org.apache.cassandra.db.marshal.TupleType("+
		"org.apache.cassandra.db.marshal.SimpleDateType,org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.DurationType),"+
		"org.apache.cassandra.db.marshal.MapType(org.apache.cassandra.db.marshal.ByteType,org.apache.cassandra.db.marshal.SetType(org.apache.cassandra.db.marshal.UTF8Type))))"; s != want {
		t.Errorf("class %s, want %s", s, want)
	}
}

// TestTypeDepth: types nested as deep as allowed, and deeper.
func TestTypeDepth(t *testing.T) {
	nested := func(depth int) error {
		body := "\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x00\x20", depth) + "\x00\x09\x00\x00\x00\x00"
		_, err := decodeBody(V4, OpResult, body)
		return err
	}
	if err := nested(typeDepthMax); err != nil {
		t.Error(err)
	}
	if err := nested(typeDepthMax + 1); err == nil {
		t.Error("deeper types were decoded")
	}
}

// TestLengthLimits: lengths that fit into their field, and those that do not.
func TestLengthLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(n int) Message
	}{
		{"class", func(n int) Message { return Authenticate{Class: strings.Repeat("x", n)} }},
		{"id", func(n int) Message { return &Execute{ID: make([]byte, n)} }},
		{"values", func(n int) Message {
			return &Query{Parameters: Parameters{Flags: QueryValues, Values: make([]Value, n)}}
		}},
		{"statements", func(n int) Message { return &Batch{Statements: make([]BatchStatement, n)} }},
		{"options", func(n int) Message { return Startup{Options: make([]Pair[string], n)} }},
	} {
		fits := &Frame{Version: V4, Message: c.make(shortMax)}
		roundTrip(t, fits)
		before := []byte("before")
		got, err := (&Frame{Version: V4, Message: c.make(shortMax + 1)}).Append(before)
		if err == nil || string(got) != "before" {
			t.Errorf("%s: %d elements were encoded: %v", c.name, shortMax+1, err)
		}
	}
	for _, n := range []int{shortMax, shortMax + 1, shortMax + 2, shortMax + 3} {
		text := strings.Repeat("ü", n/2) + strings.Repeat("x", n%2)
		got := roundTrip(t, &Frame{Version: V4, Message: &Error{Message: text}}).Message.(*Error).Message
		if !strings.HasPrefix(text, got) || len(got) < min(n, shortMax)-4 {
			t.Errorf("a message of %d bytes has %d", n, len(got))
		}
	}
}

// TestBodyLimit: bodies as long as the limit, and longer, plain and compressed.
func TestBodyLimit(t *testing.T) {
	const limit = 1000
	query := func(n int) *Frame {
		return &Frame{Version: V4, Message: &Query{Text: strings.Repeat("q", n-4-3)}}
	}
	for _, c := range []Compression{NoCompression, LZ4, Snappy} {
		for _, n := range []int{limit, limit + 1} {
			var wire bytes.Buffer
			w := NewWriter(&wire)
			w.SetCompression(c)
			if err := w.Write(query(n)); err != nil {
				t.Fatal(err)
			}
			r := NewReader(&wire, limit)
			r.SetCompression(c)
			_, err := r.Next()
			want := ""
			if n > limit {
				want = "Request is too big: length 1001 exceeds maximum allowed length 1000."
			}
			if got := text(err); got != want {
				t.Errorf("compression %d, %d bytes: %q, want %q", c, n, got, want)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCompressedBodies: compressed bodies that are not what they say.
func TestCompressedBodies(t *testing.T) {
	for _, c := range []struct {
		name        string
		compression Compression
		body        string
		want        string
	}{
		{"none agreed", NoCompression, "x", "A body is compressed, but STARTUP named no compression"},
		{"no length", LZ4, "\x00", "Not enough bytes to read the length of a compressed body"},
		{"length beyond contents", LZ4, "\x00\x0f\xff\xff\x10x", "Invalid length of a compressed body: 1048575"},
		{"block", LZ4, "\x00\x00\x00\x10\xff\xff", "Invalid LZ4 compressed body"},
		{"shorter", LZ4, "\x00\x00\x00\x10\x10x", "Invalid LZ4 compressed body"},
		{"snappy length", Snappy, "\xff\xff\xff\xff\xff", "Invalid snappy compressed body"},
		{"snappy beyond contents", Snappy, "\xff\xff\x3f\x00x", "Invalid length of a compressed body: 1048575"},
		{"snappy block", Snappy, "\x10\xff", "Invalid snappy compressed body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := Header{Version: V4, Flags: FlagCompressed, Opcode: OpOptions, Length: uint32(len(c.body))}.Append(nil)
			wire = append(wire, c.body...)
			wire = append(wire, Header{Version: V4, Opcode: OpOptions}.Append(nil)...)
			r := NewReader(bytes.NewReader(wire), 1<<20)
			r.SetCompression(c.compression)
			_, err := r.Next()
			var protocol *Error
			if !errors.As(err, &protocol) || protocol.Message != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if f, err := r.Next(); err != nil || f.Message != (Options{}) {
				t.Errorf("next envelope: %+v, %v", f, err)
			}
		})
	}
}

// TestSegmentErrors: segments with wrong checksums, and envelopes that are cut where
// they may not be.
func TestSegmentErrors(t *testing.T) {
	options := Header{Version: V5, Opcode: OpOptions, Stream: 1}.Append(nil)
	encode := func(contained bool, payload []byte) []byte {
		b := append(make([]byte, plainHeader+checksum24), payload...)
		segment{length: len(payload), contained: contained}.put(b, NoCompression)
		crc := checksumPayload(payload)
		return append(b, byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24))
	}
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	whole := encode(true, options)
	for _, c := range []struct {
		name string
		wire []byte
		want string
	}{
		{"whole", whole, ""},
		{"empty first", append(encode(true, nil), whole...), ""},
		{"two parts", append(encode(false, options[:4]), encode(false, options[4:])...), ""},
		{"header", flip(whole, 0), "Invalid CRC of the header of a segment"},
		{"header CRC", flip(whole, 4), "Invalid CRC of the header of a segment"},
		{"payload", flip(whole, 7), "Invalid CRC of the payload of a segment"},
		{"payload CRC", flip(whole, len(whole)-1), "Invalid CRC of the payload of a segment"},
		{"cut in a contained one", append(encode(true, options[:4]), encode(true, options[4:])...), "An envelope is cut in a segment that is self-contained"},
		{"continued in a contained one", append(encode(false, options[:4]), encode(true, options[4:])...), "An envelope is cut in a segment that is self-contained"},
		{"rest of a part", encode(false, append(bytes.Clone(options), options...)), "A segment has more bytes than the end of its envelope"},
		{"end in a header", whole[:3], "unexpected EOF"},
		{"end in a payload", whole[:8], "unexpected EOF"},
		{"end in a CRC", whole[:len(whole)-1], "unexpected EOF"},
		{"end between parts", encode(false, options[:4]), "unexpected EOF"},
		{"end", nil, "EOF"},
	} {
		r := NewReader(bytes.NewReader(c.wire), BodyMax)
		r.StartSegments(NoCompression)
		if _, err := r.Next(); text(err) != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if want := "090002a4c8c1050000010500000000b5557486"; hex.EncodeToString(whole) != want {
		t.Errorf("segment %x, want %s", whole, want)
	}
}

// TestWriter writes frames of random sizes in every form, flushed at random, and reads
// them back.
func TestWriter(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 1))
	for _, form := range []struct {
		version     Version
		compression Compression
	}{{V3, Snappy}, {V4, NoCompression}, {V4, LZ4}, {V4, Snappy}, {V5, NoCompression}, {V5, LZ4}} {
		var wire counted
		w := NewWriter(&wire)
		r := NewReader(&wire, BodyMax)
		if form.version == V5 {
			w.StartSegments(form.compression)
			r.StartSegments(form.compression)
		} else {
			w.SetCompression(form.compression)
			r.SetCompression(form.compression)
		}
		for range 60 {
			var sent []*Frame
			for range 1 + draw.IntN(5) {
				f := &Frame{Version: form.version, Stream: int16(draw.Uint32()), Message: AuthSuccess{Token: randomBytes(draw)}}
				if err := w.Add(f); err != nil {
					t.Fatal(err)
				}
				sent = append(sent, f)
				// A frame that cannot be encoded leaves no trace.
				if draw.IntN(4) == 0 {
					if err := w.Add(&Frame{Version: form.version, Message: &Execute{ID: make([]byte, shortMax+1)}}); err == nil {
						t.Fatal("no error")
					}
				}
			}
			wire.writes = 0
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if wire.writes != 1 {
				t.Errorf("%d writes for one flush", wire.writes)
			}
			for _, want := range sent {
				got, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if got.Version != form.version || got.Stream != want.Stream || !bytes.Equal(got.Message.(AuthSuccess).Token, want.Message.(AuthSuccess).Token) {
					t.Fatalf("%s, compression %d: another frame on stream %d, want %d", form.version, form.compression, got.Stream, want.Stream)
				}
			}
		}
		if _, err := r.Header(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last frame: %v", err)
		}
	}
	var wire counted
	w := NewWriter(&wire)
	if err := w.Flush(); err != nil || wire.writes != 0 {
		t.Errorf("%d writes of nothing, %v", wire.writes, err)
	}
	w.StartSegments(LZ4)
	if err := w.Write(&Frame{Version: V5, Message: &Execute{ID: make([]byte, shortMax+1)}}); err == nil || wire.Len() != 0 {
		t.Errorf("%d bytes of an invalid frame, %v", wire.Len(), err)
	}
	if err := w.Flush(); err != nil || wire.writes != 0 {
		t.Errorf("%d writes after an invalid frame, %v", wire.writes, err)
	}
}

// counted counts the writes to a buffer.
type counted struct {
	bytes.Buffer
	writes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(p)
}

// randomBytes returns bytes that may be compressible, with lengths around the limits of
// segments.
func randomBytes(draw *rand.Rand) []byte {
	n := []int{0, 1, draw.IntN(100), draw.IntN(10000), SegmentMax - HeaderSize - 4 - 2 + draw.IntN(5), 2*SegmentMax + draw.IntN(40) - 20}[draw.IntN(6)]
	b := make([]byte, n)
	if draw.IntN(2) == 0 {
		for i := range b {
			b[i] = byte(draw.Uint32())
		}
	}
	return b
}

// TestSkip: a skipped body leaves the reader at the next envelope.
func TestSkip(t *testing.T) {
	for _, version := range []Version{V4, V5} {
		var wire bytes.Buffer
		w, r := NewWriter(&wire), NewReader(&wire, 10)
		if version == V5 {
			w.StartSegments(NoCompression)
			r.StartSegments(NoCompression)
		}
		for _, m := range []Message{AuthResponse{Token: make([]byte, 2*SegmentMax)}, Options{}} {
			if err := w.Write(&Frame{Version: version, Message: m}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Header(); err != nil {
			t.Fatal(err)
		}
		if err := r.Skip(); err != nil {
			t.Fatal(err)
		}
		if f, err := r.Next(); err != nil || f.Message != (Options{}) {
			t.Errorf("%s: %+v, %v", version, f, err)
		}
		if err := r.Wait(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", version, err)
		}
	}
}

// TestOldVersions: of a version below 3 only the first byte is read, since no ninth
// may follow.
func TestOldVersions(t *testing.T) {
	r := NewReader(bytes.NewReader([]byte{2}), BodyMax)
	if h, err := r.Header(); err != nil || h.Version != 2 {
		t.Errorf("%+v, %v", h, err)
	}
	r = NewReader(bytes.NewReader([]byte{66, 0}), BodyMax)
	if _, err := r.Header(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestClaimedLengths: a length alone takes little memory.
func TestClaimedLengths(t *testing.T) {
	wire := Header{Version: V4, Opcode: OpQuery, Length: BodyMax}.Append(nil)
	taken := allocated(func() {
		if _, err := NewReader(bytes.NewReader(wire), BodyMax).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	if taken > 1<<20 {
		t.Errorf("%d bytes for a length", taken)
	}
	// Counts inside counts: 60 levels of tuples that claim 65,535 types each.
	body := "\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x00\x31\xff\xff", 60) + strings.Repeat("\x00\x09", 70000)
	taken = allocated(func() {
		if _, err := decodeBody(V4, OpResult, body); err == nil {
			t.Error("no error")
		}
	})
	if taken > 64<<20 {
		t.Errorf("%d bytes for counts in a body of %d", taken, len(body))
	}
}

// allocated returns the bytes that run allocates. The tests of this package do not run in
// parallel.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestNames: names of versions, opcodes and levels, and of what there is not.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		V5.String(): "5/v5", Opcode(4).String(): "opcode(4)", OpBatch.String(): "BATCH", CodeInvalid.String(): "invalid", ErrorCode(1).String(): "error 0x0001", LocalOne.String(): "LOCAL_ONE",
		Consistency(11).String():   "consistency(11)",
		UUID{0: 1, 15: 2}.String(): "01000000-0000-0000-0000-000000000002",
		fmt.Sprint(Serial.IsSerial(), LocalSerial.IsSerial(), One.IsSerial()):                      "true true false",
		fmt.Sprint(Version(2).Supported(), V3.Supported(), V5.Supported(), Version(6).Supported()): "false true true false",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, ok := Lookup([]Pair[int]{{"a", 1}}, "b"); ok {
		t.Error("found b")
	}
	if n, ok := Lookup([]Pair[int]{{"a", 1}, {"a", 2}}, "a"); !ok || n != 1 {
		t.Errorf("a is %d, %v", n, ok)
	}
}
