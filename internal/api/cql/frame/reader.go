package frame

import (
	"bufio"
	"io"
)

// Reader reads envelopes from a connection. For each it is called in this order:
// Wait, Header, and Body or Skip. It is not safe for concurrent use.
type Reader struct {
	buffered    *bufio.Reader
	segments    *segments // nil before StartSegments
	compression Compression
	limit       int
	header      Header
	raw         [HeaderSize]byte // of header
}

// readBuffer is the size of the buffer that each connection has permanently.
const readBuffer = 4 << 10

// NewReader returns a reader of a connection, for bodies of limit bytes before and
// after decompression.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{buffered: bufio.NewReaderSize(r, readBuffer), limit: limit}
}

// SetLimit changes the maximum length of a body.
func (r *Reader) SetLimit(limit int) { r.limit = limit }

// SetCompression sets the algorithm for bodies with [FlagCompressed].
func (r *Reader) SetCompression(c Compression) { r.compression = c }

// StartSegments reads segments from now on, as version 5 has them after STARTUP.
func (r *Reader) StartSegments(c Compression) {
	r.segments = &segments{from: r.buffered, compression: c}
}

// Ready reports whether bytes of the next envelope have been read already, so that
// Wait does not wait.
func (r *Reader) Ready() bool {
	return r.segments != nil && len(r.segments.rest) > 0 || r.buffered.Buffered() > 0
}

// Wait returns when the first byte of the next envelope or segment has arrived. The
// error is io.EOF if the connection has ended.
func (r *Reader) Wait() error {
	if r.segments != nil && len(r.segments.rest) > 0 {
		return nil
	}
	_, err := r.buffered.Peek(1)
	return err
}

// Whole reports whether all of the next envelope has arrived, so that reading it waits for
// nothing. It may be false of a whole envelope in several segments.
func (r *Reader) Whole() bool {
	arrived, _ := r.buffered.Peek(r.buffered.Buffered())
	switch {
	case r.segments == nil:
		return wholeEnvelope(arrived)
	case len(r.segments.rest) > 0:
		return wholeEnvelope(r.segments.rest)
	}
	head := headerBytes(r.segments.compression) + checksum24
	if len(arrived) < head {
		return false
	}
	s, err := parseSegment(arrived, r.segments.compression)
	return err == nil && s.contained && len(arrived) >= head+s.length+checksum32
}

func wholeEnvelope(b []byte) bool {
	return len(b) >= HeaderSize && uint64(len(b)-HeaderSize) >= uint64(ParseHeader((*[HeaderSize]byte)(b)).Length)
}

// source returns where the bytes of envelopes come from.
func (r *Reader) source() io.Reader {
	if r.segments != nil {
		return r.segments
	}
	return r.buffered
}

// Header reads the header of the next envelope. It checks nothing in it. Of a version
// below 3, whose headers are shorter, only the version is read.
func (r *Reader) Header() (Header, error) {
	raw := &r.raw
	source := r.source()
	if _, err := io.ReadFull(source, raw[:1]); err != nil {
		return Header{}, err
	}
	r.header = ParseHeader(raw)
	if r.header.Version < V3 {
		return r.header, nil
	}
	if r.segments != nil {
		r.segments.inside = true
	}
	if _, err := io.ReadFull(source, raw[1:]); err != nil {
		return Header{}, unexpected(err)
	}
	r.header = ParseHeader(raw)
	return r.header, nil
}

func tooBig[N uint32 | uint64](size N, limit int) error {
	return protocolError("Request is too big: length %d exceeds maximum allowed length %d.", size, limit)
}

// Body reads the body of the envelope whose header was read, and decompresses it. The
// caller owns it. After an [*Error] for a body that cannot be decompressed the reader
// is at the next envelope. After other errors the connection cannot be used.
func (r *Reader) Body() ([]byte, error) {
	if uint64(r.header.Length) > uint64(r.limit) {
		return nil, tooBig(r.header.Length, r.limit)
	}
	length := int(r.header.Length)
	body, err := readInto(r.source(), nil, length)
	if err != nil {
		return nil, err
	}
	if err := r.finished(); err != nil {
		return nil, err
	}
	// Version 5 compresses segments and ignores the flag.
	if r.header.Flags&FlagCompressed == 0 || r.segments != nil || length == 0 {
		return body, nil
	}
	size, err := plainSize(r.compression, body, r.limit)
	if err != nil {
		return nil, err
	}
	return decompress(r.compression, body, size)
}

// Skip reads the body and drops it, whatever its length.
func (r *Reader) Skip() error {
	if _, err := io.CopyN(io.Discard, r.source(), int64(r.header.Length)); err != nil {
		return unexpected(err)
	}
	return r.finished()
}

func (r *Reader) finished() error {
	if r.segments != nil {
		return r.segments.finished()
	}
	return nil
}

// Next reads and decodes the next envelope, for clients and tests.
func (r *Reader) Next() (Frame, error) {
	h, err := r.Header()
	if err != nil {
		return Frame{}, err
	}
	body, err := r.Body()
	if err != nil {
		return Frame{}, err
	}
	return Decode(h, body)
}
