package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Logs and manifests of Pebble are files of records. A file is cut into blocks of
// 32 KB; a record is one chunk or more, and no chunk crosses the end of a block.
// Each chunk begins with a checksum of four bytes over what follows the length, the
// length of its payload in two bytes, and its type in one. In a log the number of
// the log follows in four bytes, and in today's format how many bytes of the file
// were certainly synced when the chunk was made, in eight.
//
// The layout is public: github.com/cockroachdb/pebble, package record. It is read
// here because Pebble's reader tells damage from a torn tail too seldom; the page has
// the reasons.
const (
	blockBytes = 32 << 10

	plainHeader    = 7  // of a chunk of a manifest
	numberedHeader = 11 // with the number of the log
	offsetHeader   = 19 // with the synced offset too
)

// chunkForm is how a chunk's header is laid out.
type chunkForm uint8

const (
	formPlain    chunkForm = iota // types 1 to 4
	formNumbered                  // types 5 to 8
	formOffset                    // types 9 to 12
)

// chunkTypes is how many types each form has: a whole record, and the first, a
// middle and the last part of one.
const (
	chunkTypes  = 4
	partWhole   = 0
	partFirst   = 1
	partLast    = 3
	trailerType = 5 // a log that was closed ends with a header of the next log's number
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum is the checksum of a chunk's bytes from its type on.
func chunkSum(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// chunk is one chunk of a block. Payload is a part of the block.
type chunk struct {
	form    chunkForm
	part    uint8
	synced  uint64 // how many bytes of the file were synced; 0 unless form is formOffset
	size    int    // with the header
	payload []byte
}

// begins reports whether a record begins with the chunk.
func (c chunk) begins() bool { return c.part == partWhole || c.part == partFirst }

// ends reports whether a record ends with the chunk.
func (c chunk) ends() bool { return c.part == partWhole || c.part == partLast }

// readChunk reads the chunk at the beginning of data, which is the rest of a block.
// It returns false if there is no valid one. Of a log the number must be right, of a
// manifest there is none.
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

// isTrailer reports whether data begins with the end of the log of a number.
func isTrailer(data []byte, number uint32) bool {
	return len(data) >= numberedHeader && allZero(data[:6]) && data[6] == trailerType &&
		binary.LittleEndian.Uint32(data[7:]) == number+1
}

func allZero(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }

// recordScan reads a file of records: what is valid from the beginning, and, behind
// the first place that is not, what proves that the place was once valid.
type recordScan struct {
	isLog  bool
	number uint32 // of the log, its lower half

	// record is called with up to the first recordHead bytes of each valid record.
	record func(head []byte)

	end     int64 // up to where records are whole and valid
	reach   int64 // up to where chunks are valid, and the zeros that fill a block
	records int
	closed  bool // the log has its trailer before reach
	broken  bool // there is something else than an end at reach
	proof   proof

	inside bool // a record has begun and not ended
	head   []byte
}

// recordHead is how much of a record is shown, in bytes: the header of a batch, and
// the numbers at the beginning of an edit of a manifest.
const recordHead = 64

// proof is what the valid chunks behind a broken place say about it.
type proof struct {
	chunks  int    // valid ones
	begin   int    // those that begin a record
	highest uint64 // the highest synced offset
	offsets int    // how many different synced offsets there are
	last    uint64 // the one seen last
	first   int64  // where the first valid chunk is
}

// read reads the file to its end. Its error is one of reading.
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

// block takes the next block, which is at an offset of the file.
func (s *recordScan) block(block []byte, at int64) {
	pos := 0
	for !s.broken && !s.closed {
		rest := block[pos:]
		if len(rest) < plainHeader || len(rest) < s.headerMax() && allZero(rest) {
			// The end of a block that has no room for another chunk, or of the file.
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

// headerMax is how much room a block must have left for a chunk of today's format.
func (s *recordScan) headerMax() int {
	if s.isLog {
		return offsetHeader
	}
	return plainHeader
}

// chain takes note that chunks are valid up to an offset.
func (s *recordScan) chain(to int64) {
	s.reach = to
	if !s.inside {
		s.end = to
	}
}

// take takes a valid chunk that ends at an offset.
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

// search looks for valid chunks in a block behind the broken place. Chunks follow
// each other; where that ends, every other place is tried.
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

// candidate returns the next place from pos on at which a chunk may begin, negative
// for none.
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

// add takes a valid chunk at an offset.
func (p *proof) add(c chunk, at int64) {
	if c.form == formOffset && c.synced > uint64(at) {
		return // No log says that of itself.
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

// syncsProve is how many different synced offsets behind a place prove that it was
// synced. Pebble's synced offset rises when a sync has ended. A chunk that follows
// the place has the first of them, so the place was written by then; the next sync to
// end may have begun before, but the one after it began later and has covered the
// place, and it has ended when a chunk has the third.
const syncsProve = 3

// damaged reports whether the place at reach was synced, and why that is certain.
func (s *recordScan) damaged() bool {
	if !s.broken {
		return false
	}
	if !s.isLog {
		// Each edit of a manifest is synced before the next is written.
		return s.proof.begin > 0
	}
	return s.proof.highest > uint64(s.reach) || s.proof.offsets >= syncsProve
}
