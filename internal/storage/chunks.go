package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Pebble's logs and manifests are files of records. A file consists of blocks of 32 KB.
// A record is one or more chunks, and no chunk crosses the end of a block. A chunk
// begins with a checksum (4 bytes) of everything from its type on, the length of its
// payload (2 bytes) and its type (1 byte). In a log the number of the log follows (4
// bytes), and in the current format the number of bytes of the file that were synced
// when the chunk was made (8 bytes).
//
// The layout is public: package record of github.com/cockroachdb/pebble. This package
// reads it because Pebble's reader often treats damage as a torn tail; docs/storage.md
// has the reasons.
const (
	blockBytes = 32 << 10

	plainHeader    = 7  // of a chunk in a manifest
	numberedHeader = 11 // with the number of the log
	offsetHeader   = 19 // and with the synced offset
)

// chunkForm is the layout of a chunk's header.
type chunkForm uint8

const (
	formPlain    chunkForm = iota // types 1 to 4
	formNumbered                  // types 5 to 8
	formOffset                    // types 9 to 12
)

// chunkTypes is the number of types of each form: a whole record, and its first, a
// middle and its last part.
const (
	chunkTypes  = 4
	partWhole   = 0
	partFirst   = 1
	partLast    = 3
	trailerType = 5 // a closed log ends with a header that has the next log's number
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum returns the checksum of a chunk's bytes from its type on.
func chunkSum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// chunk is one chunk of a block. payload shares the block's bytes.
type chunk struct {
	form    chunkForm
	part    uint8
	synced  uint64 // synced bytes of the file; 0 unless form is formOffset
	size    int    // including the header
	payload []byte
}

// begins reports whether a record begins with the chunk.
func (c chunk) begins() bool { return c.part == partWhole || c.part == partFirst }

// ends reports whether a record ends with the chunk.
func (c chunk) ends() bool { return c.part == partWhole || c.part == partLast }

// readChunk reads the chunk at the beginning of data, the rest of a block. It returns
// false if there is no valid one. In a log the chunk's number must match; manifests
// have none.
func readChunk(data []byte, isLog bool, number uint32) (chunk, bool) {
	if len(data) < plainHeader {
		return chunk{}, false
	}
	kind := data[6]
	if kind == 0 || kind > 3*chunkTypes {
		return chunk{}, false
	}
	c := chunk{form: chunkForm((kind - 1) / chunkTypes), part: (kind - 1) % chunkTypes}
	header := plainHeader
	switch {
	case isLog == (c.form == formPlain):
		return chunk{}, false
	case c.form == formNumbered:
		header = numberedHeader
	case c.form == formOffset:
		header = offsetHeader
	}
	c.size = header + int(binary.LittleEndian.Uint16(data[4:]))
	if c.size > len(data) {
		return chunk{}, false
	}
	if isLog && binary.LittleEndian.Uint32(data[7:]) != number {
		return chunk{}, false
	}
	if chunkSum(data[6:c.size]) != binary.LittleEndian.Uint32(data) {
		return chunk{}, false
	}
	if c.form == formOffset {
		c.synced = binary.LittleEndian.Uint64(data[11:])
	}
	c.payload = data[header:c.size]
	return c, true
}

// isTrailer reports whether data begins with the trailer of the log with this number.
func isTrailer(data []byte, number uint32) bool {
	return len(data) >= numberedHeader && allZero(data[:6]) && data[6] == trailerType &&
		binary.LittleEndian.Uint32(data[7:]) == number+1
}

func allZero(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }

// recordScan reads a file of records. It finds how far the file is valid, and collects
// proof in later bytes that the first invalid place was once valid.
type recordScan struct {
	isLog  bool
	number uint32 // of the log, its lower 32 bits

	// record is called with up to the first recordHead bytes of each valid record.
	record func(head []byte)

	end     int64 // end of the last whole, valid record
	reach   int64 // end of the last valid chunk and of the zeros that fill its block
	records int
	closed  bool // the log has its trailer before reach
	broken  bool // the bytes after reach are not a valid end
	proof   proof

	inside bool // a record has begun and not ended
	head   []byte
}

// recordHead is how many bytes of a record are passed on: enough for the header of a
// batch, and for the numbers at the beginning of a manifest edit.
const recordHead = 64

// proof collects evidence about an invalid place from the valid chunks after it.
type proof struct {
	chunks  int    // valid ones
	begin   int    // chunks that begin a record
	highest uint64 // highest synced offset
	offsets int    // number of different synced offsets
	last    uint64 // latest synced offset
	first   int64  // offset of the first valid chunk
}

// read reads the file to its end. Its error is an I/O error.
func (s *recordScan) read(r io.Reader) error {
	block := make([]byte, blockBytes)
	for at := int64(0); ; at += blockBytes {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			s.block(block[:n], at)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if s.inside {
				s.broken = true
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// block reads the next block, which is at this offset of the file.
func (s *recordScan) block(block []byte, at int64) {
	pos := 0
	for !s.broken && !s.closed {
		rest := block[pos:]
		if len(rest) < plainHeader || len(rest) < s.headerMax() && allZero(rest) {
			// The end of a block without space for another chunk, or of the file.
			if len(block) == blockBytes {
				s.chain(at + blockBytes)
			} else if len(rest) > 0 {
				s.broken = true
			}
			return
		}
		if s.isLog && !s.inside && isTrailer(rest, s.number) {
			s.chain(at + int64(pos+numberedHeader))
			s.closed = true
			return
		}
		c, ok := readChunk(rest, s.isLog, s.number)
		if !ok || c.begins() == s.inside {
			s.broken = true
			break
		}
		pos += c.size
		s.take(c, at+int64(pos))
	}
	if s.broken {
		s.search(block, pos, at)
	}
}

// headerMax is how much space a block needs for another chunk of the current format.
func (s *recordScan) headerMax() int {
	if s.isLog {
		return offsetHeader
	}
	return plainHeader
}

// chain records that chunks are valid up to an offset.
func (s *recordScan) chain(to int64) {
	s.reach = to
	if !s.inside {
		s.end = to
	}
}

// take records a valid chunk that ends at an offset.
func (s *recordScan) take(c chunk, end int64) {
	if c.begins() {
		s.head = s.head[:0]
	}
	s.head = append(s.head, c.payload[:min(len(c.payload), recordHead-len(s.head))]...)
	s.inside = !c.ends()
	s.chain(end)
	if c.ends() {
		s.records++
		if s.record != nil {
			s.record(s.head)
		}
	}
}

// search looks for valid chunks in a block after the invalid place. Where one chunk
// does not follow another, it tries every offset.
func (s *recordScan) search(block []byte, pos int, at int64) {
	for pos+plainHeader <= len(block) {
		c, ok := readChunk(block[pos:], s.isLog, s.number)
		if !ok {
			next := s.candidate(block, pos+1)
			if next < 0 {
				return
			}
			pos = next
			continue
		}
		s.proof.add(c, at+int64(pos))
		pos += c.size
	}
}

// candidate returns the next offset from pos on at which a chunk may begin, or -1.
func (s *recordScan) candidate(block []byte, pos int) int {
	if !s.isLog {
		for ; pos+plainHeader <= len(block); pos++ {
			if kind := block[pos+6]; kind >= 1 && kind <= chunkTypes {
				return pos
			}
		}
		return -1
	}
	if pos+plainHeader > len(block) {
		return -1
	}
	number := binary.LittleEndian.AppendUint32(nil, s.number)
	i := bytes.Index(block[pos+plainHeader:], number)
	if i < 0 {
		return -1
	}
	return pos + i
}

// add records a valid chunk at an offset.
func (p *proof) add(c chunk, at int64) {
	if c.form == formOffset && c.synced > uint64(at) {
		return // No log was synced further than it was written.
	}
	if p.chunks == 0 {
		p.first = at
	}
	p.chunks++
	if c.begins() {
		p.begin++
	}
	if c.form != formOffset {
		return
	}
	if p.offsets == 0 || c.synced > p.last {
		p.offsets++
		p.last = c.synced
	}
	p.highest = max(p.highest, c.synced)
}

// syncsProve is how many different synced offsets after a place prove that the place
// was synced. Pebble's synced offset rises when a sync has ended. The chunk with the
// first offset was written after the place. The next sync to end may have begun before
// that. The one after it began later, so it covered the place, and it has ended once a
// chunk has the third offset.
const syncsProve = 3

// damaged reports whether the place at reach is known to have been synced.
func (s *recordScan) damaged() bool {
	if !s.broken {
		return false
	}
	if !s.isLog {
		// Each manifest edit is synced before the next one is written.
		return s.proof.begin > 0
	}
	return s.proof.highest > uint64(s.reach) || s.proof.offsets >= syncsProve
}
