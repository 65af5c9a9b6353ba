package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sync"
)

// SegmentMax is the maximum length of the payload of a segment, before compression.
const SegmentMax = 1<<17 - 1

// Of the header of a segment.
const (
	lengthBits    = 17
	plainHeader   = 3 // bytes of a header before its checksum
	lz4Header     = 5
	checksum24    = 3
	checksum32    = 4
	segmentHeader = lz4Header + checksum24
)

// headerBytes returns the length of a header before its checksum.
func headerBytes(c Compression) int {
	if c == LZ4 {
		return lz4Header
	}
	return plainHeader
}

// checksumHeader returns the CRC24 of a header.
func checksumHeader(b []byte) uint32 {
	const initial, polynomial, top = 0x875060, 0x1974F0B, 1 << 24
	crc := uint32(initial)
	for _, c := range b {
		crc ^= uint32(c) << 16
		for range 8 {
			crc <<= 1
			if crc&top != 0 {
				crc ^= polynomial
			}
		}
	}
	return crc
}

// payloadSeed is the CRC32 of the bytes that come before each payload in its checksum.
var payloadSeed = crc32.ChecksumIEEE([]byte{0xfa, 0x2d, 0x55, 0xca})

func checksumPayload(b []byte) uint32 { return crc32.Update(payloadSeed, crc32.IEEETable, b) }

// segment is the header of a segment.
type segment struct {
	length    int  // of the payload as sent
	plain     int  // of the payload before compression; 0 for one that is not compressed
	contained bool // the payload has whole envelopes
}

// put writes the header with its checksum into b.
func (s segment) put(b []byte, c Compression) {
	bits := uint64(s.length)
	at := lengthBits
	if c == LZ4 {
		bits |= uint64(s.plain) << at
		at += lengthBits
	}
	if s.contained {
		bits |= 1 << at
	}
	n := headerBytes(c)
	for i := range n {
		b[i] = byte(bits >> (8 * i))
	}
	crc := checksumHeader(b[:n])
	b[n], b[n+1], b[n+2] = byte(crc), byte(crc>>8), byte(crc>>16)
}

// parseSegment reads a header with its checksum.
func parseSegment(b []byte, c Compression) (segment, error) {
	n := headerBytes(c)
	crc := uint32(b[n]) | uint32(b[n+1])<<8 | uint32(b[n+2])<<16
	if crc != checksumHeader(b[:n]) {
		return segment{}, protocolError("Invalid CRC of the header of a segment")
	}
	var bits uint64
	for i := range n {
		bits |= uint64(b[i]) << (8 * i)
	}
	s := segment{length: int(bits & SegmentMax)}
	bits >>= lengthBits
	if c == LZ4 {
		s.plain = int(bits & SegmentMax)
		bits >>= lengthBits
	}
	s.contained = bits&1 == 1
	return s, nil
}

// payloads has buffers for payloads, so that a connection that waits has none.
var payloads = sync.Pool{New: func() any { return new(make([]byte, 0, payloadSize)) }}

const (
	payloadSize = 4 << 10
)

// segments reads the payloads of segments as one stream. It checks that envelopes
// begin and end where segments may have them.
type segments struct {
	from        *bufio.Reader
	compression Compression
	inside      bool // an envelope has been begun and not finished

	contained bool
	rest      []byte  // of the payload
	buffer    *[]byte // what rest is in; nil for none
}

// Read returns bytes of one segment.
func (s *segments) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	if len(s.rest) == 0 {
		s.release()
	}
	return n, nil
}

func (s *segments) release() {
	if s.buffer != nil {
		payloads.Put(s.buffer)
		s.buffer, s.rest = nil, nil
	}
}

// finished is called after each envelope.
func (s *segments) finished() error {
	s.inside = false
	if !s.contained && len(s.rest) > 0 {
		return protocolError("A segment has more bytes than the end of its envelope")
	}
	return nil
}

// next reads segments up to one with a payload.
func (s *segments) next() error {
	for {
		var raw [segmentHeader]byte
		n := headerBytes(s.compression) + checksum24
		if _, err := io.ReadFull(s.from, raw[:n]); err != nil {
			if s.inside {
				err = unexpected(err)
			}
			return err
		}
		header, err := parseSegment(raw[:n], s.compression)
		if err != nil {
			return err
		}
		if s.inside && (s.contained || header.contained) {
			return protocolError("An envelope is cut in a segment that is self-contained")
		}
		s.contained = header.contained
		if err := s.payload(header); err != nil {
			return err
		}
		if len(s.rest) > 0 {
			return nil
		}
		s.release()
	}
}

// payload reads the payload of a header, and decompresses it.
func (s *segments) payload(header segment) error {
	s.buffer = payloads.Get().(*[]byte)
	raw, err := readInto(s.from, (*s.buffer)[:0], header.length)
	*s.buffer = raw
	if err != nil {
		s.release()
		return err
	}
	var crc [checksum32]byte
	if _, err := io.ReadFull(s.from, crc[:]); err != nil {
		s.release()
		return unexpected(err)
	}
	if binary.LittleEndian.Uint32(crc[:]) != checksumPayload(raw) {
		s.release()
		return protocolError("Invalid CRC of the payload of a segment")
	}
	s.rest = raw
	if header.plain == 0 {
		return nil
	}
	plain := payloads.Get().(*[]byte)
	if cap(*plain) < header.plain {
		*plain = make([]byte, header.plain)
	}
	*plain = (*plain)[:header.plain]
	valid := uncompressBlock(raw, *plain)
	s.release()
	s.buffer, s.rest = plain, *plain
	if !valid {
		s.release()
		return protocolError("Invalid LZ4 compressed segment")
	}
	return nil
}

// readChunk is how much memory a read takes before bytes have arrived.
const readChunk = 64 << 10

// readInto reads n bytes and appends them to b. Its memory grows with the bytes that
// arrive.
func readInto(r io.Reader, b []byte, n int) ([]byte, error) {
	for n > 0 {
		size := min(n, max(readChunk, len(b)))
		b = grow(b, size)
		got, err := io.ReadFull(r, b[len(b):len(b)+size])
		b, n = b[:len(b)+got], n-got
		if err != nil {
			return b, unexpected(err)
		}
	}
	return b, nil
}

// grow returns b with room for n more bytes, and not much more than that.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(make([]byte, 0, len(b)+n), b...)
}

// unexpected returns the error of a read inside of something.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
