package frame

import (
	"encoding/binary"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/pierrec/lz4/v4"
)

// Compression is an algorithm of a connection.
type Compression byte

// The algorithms. Version 5 has no Snappy.
const (
	NoCompression Compression = iota
	LZ4
	Snappy
)

// CompressionNames are the names of the algorithms for SUPPORTED.
func CompressionNames() []string { return []string{"snappy", "lz4"} }

// ParseCompression returns the algorithm that STARTUP names, in any case.
func ParseCompression(name string) (Compression, bool) {
	switch strings.ToLower(name) {
	case "lz4":
		return LZ4, true
	case "snappy":
		return Snappy, true
	}
	return NoCompression, false
}

const (
	// lz4Ratio is the maximum of plain bytes that LZ4 makes of one: each byte of a
	// length of a copy stands for 255.
	lz4Ratio = 255

	// snappyRatio is the same of Snappy, whose copies have up to 64 bytes in two or
	// three.
	snappyRatio = 32

	// compressMin is the length below which nothing is compressed.
	compressMin = 32

	lz4Prefix = 4 // the plain length before an LZ4 block in versions 3 and 4
)

// plainSize returns the length of a body after decompression, as the body has it. It
// is an error if it exceeds limit or what so few bytes can contain.
func plainSize(c Compression, body []byte, limit int) (int, error) {
	var size uint64
	var ratio int
	switch c {
	case LZ4:
		if len(body) < lz4Prefix {
			return 0, protocolError("Not enough bytes to read the length of a compressed body")
		}
		size, ratio = uint64(binary.BigEndian.Uint32(body)), lz4Ratio
	case Snappy:
		n, err := snappy.DecodedLen(body)
		if err != nil {
			return 0, protocolError("Invalid snappy compressed body")
		}
		size, ratio = uint64(n), snappyRatio
	default:
		return 0, protocolError("A body is compressed, but STARTUP named no compression")
	}
	if size > uint64(limit) {
		return 0, tooBig(size, limit)
	}
	if size > uint64(len(body))*uint64(ratio) {
		return 0, protocolError("Invalid length of a compressed body: %d", size)
	}
	return int(size), nil
}

// decompress returns the body of size bytes.
func decompress(c Compression, body []byte, size int) ([]byte, error) {
	plain := make([]byte, size)
	if c == Snappy {
		plain, err := snappy.Decode(plain, body)
		if err != nil || len(plain) != size {
			return nil, protocolError("Invalid snappy compressed body")
		}
		return plain, nil
	}
	if size == 0 {
		return plain, nil
	}
	if !uncompressBlock(body[lz4Prefix:], plain) {
		return nil, protocolError("Invalid LZ4 compressed body")
	}
	return plain, nil
}

// uncompressBlock fills plain from a block, and reports whether the block is valid and
// as long.
func uncompressBlock(block, plain []byte) bool {
	n, err := lz4.UncompressBlock(block, plain)
	return err == nil && n == len(plain)
}

// appendCompressed appends the compressed plain to b, if that is shorter.
func appendCompressed(c Compression, b, plain []byte, prefixed bool) ([]byte, bool) {
	if len(plain) < compressMin {
		return b, false
	}
	start := len(b)
	if c == Snappy {
		b = append(b, make([]byte, snappy.MaxEncodedLen(len(plain)))...)
		encoded := snappy.Encode(b[start:], plain)
		return b[:start+len(encoded)], len(encoded) < len(plain)
	}
	if prefixed {
		b = binary.BigEndian.AppendUint32(b, uint32(len(plain)))
	}
	body := len(b)
	b = append(b, make([]byte, lz4.CompressBlockBound(len(plain)))...)
	n, err := lz4.CompressBlock(plain, b[body:], nil)
	if err != nil || n == 0 {
		return b[:start], false
	}
	return b[:body+n], body-start+n < len(plain)
}
