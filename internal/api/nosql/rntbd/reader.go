package rntbd

import (
	"errors"
	"io"
)

const (
	// bufferBytes is the size of the buffer of a connection: several usual requests.
	bufferBytes = 8 << 10

	// payloadFirst is how much of a payload gets memory before it has arrived.
	payloadFirst = 4 << 10
)

// reader reads frames. It is owned by the reading goroutine of its connection.
type reader struct {
	wire       *wire
	buf        []byte
	begin, end int // of the bytes that were read and not used yet

	inside bool // a frame has begun
}

// need returns when n bytes are in the buffer, which grows as they arrive.
func (r *reader) need(n int) error {
	for r.end-r.begin < n {
		if r.end == len(r.buf) {
			r.makeRoom()
		}
		if (r.inside || r.end > r.begin) && !r.wire.Expecting() {
			if err := r.wire.Expect(); err != nil {
				return err
			}
		}
		got, err := r.wire.Read(r.buf[r.end:])
		r.end += got
		if err != nil && r.end-r.begin < n {
			if errors.Is(err, io.EOF) && (r.inside || r.end > r.begin) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// makeRoom makes room after the bytes in the buffer, which is full to its end.
func (r *reader) makeRoom() {
	held := r.buf[r.begin:r.end]
	switch {
	case len(held) == 0 && len(r.buf) == bufferBytes:
	case len(held) <= bufferBytes/2 && len(r.buf) <= bufferBytes:
		if r.buf == nil {
			r.buf = make([]byte, bufferBytes)
		}
	case len(held) <= bufferBytes/2:
		r.buf = make([]byte, bufferBytes) // It was grown for a long frame.
	default:
		r.buf = make([]byte, 2*len(held))
	}
	r.end = copy(r.buf, held)
	r.begin = 0
}

// take returns the next n bytes, which need has brought into the buffer. They are valid
// until the next call of need.
func (r *reader) take(n int) []byte {
	taken := r.buf[r.begin : r.begin+n]
	r.begin += n
	return taken
}

// length returns the length of the head of the next frame, which is not taken. It waits
// for a frame without a deadline.
func (r *reader) length(limit int) (int, error) {
	if err := r.need(4); err != nil {
		return 0, err
	}
	n := integer(string(r.buf[r.begin:r.begin+4]), false)
	if n < headMin || n > uint64(limit) {
		return 0, violation("a frame has %d bytes, and between %d and %d are allowed", n, headMin, limit)
	}
	r.inside = true
	return int(n), nil
}

// head returns the head of a frame whose length is known.
func (r *reader) head(n int) (string, error) {
	if err := r.need(n); err != nil {
		return "", err
	}
	return string(r.take(n)), nil
}

// dropHead reads the head of a frame and keeps what an answer to it needs.
func (r *reader) dropHead(n int) (string, error) {
	if err := r.need(headMin); err != nil {
		return "", err
	}
	kept := append([]byte{}, r.take(headMin)...)
	for left, count := n-headMin, 0; left > 0; count++ {
		if count == tokensMax || left < tokenMin {
			return "", violation("the tokens of a frame cannot be read")
		}
		if err := r.need(tokenMin - 1); err != nil {
			return "", err
		}
		t := Token{ID: uint16(r.buf[r.begin]) | uint16(r.buf[r.begin+1])<<8, Type: Type(r.buf[r.begin+2])}
		if int(t.Type) >= len(types) {
			return "", violation("token 0x%04X has the unknown %s", t.ID, t.Type)
		}
		form := types[t.Type]
		begin, size := tokenMin-1+int(form.prefix), uint64(form.fixed)
		if begin <= left {
			if err := r.need(begin); err != nil {
				return "", err
			}
			if form.prefix > 0 {
				size = integer(string(r.buf[r.begin+tokenMin-1:r.begin+begin]), false)
			}
		}
		if begin > left || size > uint64(left-begin) {
			return "", violation("token 0x%04X of type %s is longer than its frame", t.ID, t.Type)
		}
		r.begin += begin
		left -= begin + int(size)
		if id := RequestID(t.ID); form.kind != kindInteger || id != RequestTransportRequestID && id != RequestPayloadPresent {
			if err := r.drop(int64(size)); err != nil {
				return "", err
			}
			continue
		}
		if err := r.need(int(size)); err != nil {
			return "", err
		}
		t.Value = string(r.take(int(size)))
		kept, _ = t.Append(kept) // An integer always can be encoded.
	}
	return string(kept), nil
}

// payloadLength reads the length of a payload.
func (r *reader) payloadLength() (int64, error) {
	if err := r.need(4); err != nil {
		return 0, err
	}
	return int64(integer(string(r.take(4)), false)), nil
}

// payload reads n bytes into the memory of into, and into more as they arrive. Before
// it uses memory it asks whether the size is allowed; if not, it returns false after it
// has dropped the rest.
func (r *reader) payload(into []byte, n int, allowed func(size int) bool) ([]byte, bool, error) {
	into = into[:0]
	for size := 0; len(into) < n; {
		if len(into) == size {
			size = min(n, max(payloadFirst, 2*size))
			if !allowed(size) {
				return into, false, r.drop(int64(n - len(into)))
			}
			if size > cap(into) {
				into = append(make([]byte, 0, size), into...)
			}
		}
		if held := r.end - r.begin; held > 0 {
			into = append(into, r.take(min(held, size-len(into)))...)
			continue
		}
		if !r.wire.Expecting() {
			if err := r.wire.Expect(); err != nil {
				return into, true, err
			}
		}
		got, err := r.wire.Read(into[len(into):size])
		into = into[:len(into)+got]
		if err != nil && len(into) < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return into, true, err
		}
	}
	return into, true, nil
}

// drop reads n bytes and forgets them.
func (r *reader) drop(n int64) error {
	for n > 0 {
		held := min(int64(r.end-r.begin), n)
		r.begin += int(held)
		if n -= held; n > 0 {
			if err := r.need(1); err != nil {
				return err
			}
		}
	}
	return nil
}

// done ends a frame.
func (r *reader) done() error {
	r.inside = false
	if r.wire.Expecting() {
		return r.wire.Await(-1)
	}
	return nil
}
