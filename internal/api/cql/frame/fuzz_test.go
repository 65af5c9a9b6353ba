package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode: no body panics, every error is a protocol error, and a frame that was
// decoded is the same after it was encoded and decoded again.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		if v.Segments == nil && v.Compression == "" {
			wire := unhex(f, v.Hex)
			f.Add(wire[0], wire[1], wire[4], wire[HeaderSize:])
		}
		if v.PlainBody != "" {
			wire := unhex(f, v.Hex)
			f.Add(wire[0], wire[1], wire[4], unhex(f, v.PlainBody))
		}
		if v.Envelope != "" {
			envelope := unhex(f, v.Envelope)
			f.Add(envelope[0], envelope[1], envelope[4], envelope[HeaderSize:])
		}
	}
	f.Fuzz(func(t *testing.T, version, flags, op byte, body []byte) {
		h := Header{Version: Version(version &^ directionBit), Response: version&directionBit != 0, Flags: Flags(flags), Opcode: Opcode(op)}
		first, err := Decode(h, body)
		if err != nil {
			var protocol *Error
			if !errors.As(err, &protocol) || protocol.Code != CodeProtocol {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if !h.Version.Supported() {
			return
		}
		wire, err := first.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := NewReader(bytes.NewReader(wire), BodyMax).Next()
		if err != nil {
			t.Fatalf("%v after %x", err, wire)
		}
		again, err := second.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wire, again) {
			t.Errorf("%x, then %x", wire, again)
		}
		if diff := cmp.Diff(normal(t, meaning(&first)), normal(t, meaning(&second))); diff != "" && !downgraded(first) {
			t.Error(diff)
		}
	})
}

// downgraded reports whether a frame has parts that its version does not, which are
// left out when it is encoded.
func downgraded(f Frame) bool {
	e, ok := f.Message.(*Error)
	return ok && e.as(f.Version) != e || f.Version < V4 && f.Warnings != nil || len(f.Warnings) == 0 && f.Warnings != nil
}

// FuzzReader: no stream of bytes panics or is read without end, in each form of the
// protocol.
func FuzzReader(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Hex), byte(2*len(v.Compression)+len(v.Segments)))
	}
	f.Fuzz(func(t *testing.T, wire []byte, form byte) {
		const limit = 1 << 20
		r := NewReader(bytes.NewReader(wire), limit)
		c := Compression(form % 3)
		if form&8 != 0 && c != Snappy {
			r.StartSegments(c)
		} else {
			r.SetCompression(c)
		}
		for {
			if err := r.Wait(); err != nil {
				return
			}
			h, err := r.Header()
			if err != nil || h.Version < V3 {
				return
			}
			body, err := r.Body()
			var protocol *Error
			switch {
			case err == nil && len(body) > limit:
				t.Fatalf("a body of %d bytes", len(body))
			case err == nil:
				_, _ = Decode(h, body) // FuzzDecode checks the result.
			case errors.Is(err, io.ErrUnexpectedEOF):
				return
			case !errors.As(err, &protocol):
				t.Fatalf("%T: %v", err, err)
			case h.Flags&FlagCompressed == 0:
				return
			}
			if len(body) == 0 && err != nil && h.Length > limit {
				return
			}
		}
	})
}

// FuzzSegments: what is written in segments is read again.
func FuzzSegments(f *testing.F) {
	f.Add([]byte("abc"), 3, 100, false)
	f.Add([]byte("abc"), 1, 200000, true)
	f.Add(bytes.Repeat([]byte("abcd"), 50000), 2, 1, true)
	f.Fuzz(func(t *testing.T, token []byte, n, repeat int, compressed bool) {
		if n < 0 || n > 5 || repeat < 0 || repeat*len(token) > 1<<20 {
			return
		}
		token = bytes.Repeat(token, repeat)
		c := NoCompression
		if compressed {
			c = LZ4
		}
		var wire bytes.Buffer
		w, r := NewWriter(&wire), NewReader(&wire, BodyMax)
		w.StartSegments(c)
		r.StartSegments(c)
		for i := range n {
			if err := w.Add(&Frame{Version: V5, Stream: int16(i), Message: AuthResponse{Token: token}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			got, err := r.Next()
			if err != nil || got.Stream != int16(i) || !bytes.Equal(got.Message.(AuthResponse).Token, token) {
				t.Fatalf("frame %d: %+v, %v", i, got.Stream, err)
			}
		}
		if err := r.Wait(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	})
}
