package resolver

import (
	"cmp"
	"crypto/md5" // #nosec G501 -- the legacy .NET ring is built on it; nothing here is a secret
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
)

// Digest is a point on a hash ring: a 128-bit number. Hashes with fewer bits
// leave Low zero.
type Digest struct{ High, Low uint64 }

func (d Digest) compare(o Digest) int {
	if c := cmp.Compare(d.High, o.High); c != 0 {
		return c
	}
	return cmp.Compare(d.Low, o.Low)
}

// Hash maps a text to a digest. Sum must depend only on the text, must not
// change between processes or releases, and should not allocate. The seeds and
// chains that legacy rings need are built in.
type Hash interface {
	// Name identifies the hash in a state. It must differ from the names of the
	// built-in hashes.
	Name() string

	Sum(text string) Digest
}

// The built-in hashes.
var (
	// XXHash64 is the default: 64-bit xxHash with seed 0.
	XXHash64 Hash = xxHash64{}

	// Murmur3 is 32-bit MurmurHash3 with seed 0, the hash of the legacy Node,
	// Java and Python SDKs.
	Murmur3 Hash = murmur3x32{}

	// MD5 is the hash of the legacy .NET SDK. Its 16 bytes are read as one
	// big-endian number.
	MD5 Hash = md5Hash{}
)

// builtInHash returns the built-in hash with the name, or nil if there is none.
func builtInHash(name string) Hash {
	switch name {
	case XXHash64.Name():
		return XXHash64
	case Murmur3.Name():
		return Murmur3
	case MD5.Name():
		return MD5
	}
	return nil
}

type xxHash64 struct{}

func (xxHash64) Name() string           { return "xxhash64" }
func (xxHash64) Sum(text string) Digest { return Digest{High: xxSum(text)} }

const (
	xxPrime1 = 0x9E3779B185EBCA87
	xxPrime2 = 0xC2B2AE3D27D4EB4F
	xxPrime3 = 0x165667B19E3779F9
	xxPrime4 = 0x85EBCA77C2B2AE63
	xxPrime5 = 0x27D4EB2F165667C5
)

// xxSum returns the xxHash64 of a text with seed 0.
func xxSum(s string) uint64 {
	size := uint64(len(s))
	sum := uint64(xxPrime5)
	if len(s) >= 32 {
		sum, s = xxStripes(s)
	}
	sum += size
	for ; len(s) >= 8; s = s[8:] {
		sum = bits.RotateLeft64(sum^xxRound(0, word64(s)), 27)*xxPrime1 + xxPrime4
	}
	if len(s) >= 4 {
		sum = bits.RotateLeft64(sum^uint64(word32(s))*xxPrime1, 23)*xxPrime2 + xxPrime3
		s = s[4:]
	}
	for i := range len(s) {
		sum = bits.RotateLeft64(sum^uint64(s[i])*xxPrime5, 11) * xxPrime1
	}
	sum = (sum ^ sum>>33) * xxPrime2
	sum = (sum ^ sum>>29) * xxPrime3
	return sum ^ sum>>32
}

// xxStripes hashes all whole 32-byte blocks and returns the rest of the text.
func xxStripes(s string) (sum uint64, rest string) {
	prime := uint64(xxPrime1) // a variable, because constant arithmetic may not wrap
	a, b, c, d := prime+xxPrime2, uint64(xxPrime2), uint64(0), -prime
	for ; len(s) >= 32; s = s[32:] {
		a = xxRound(a, word64(s))
		b = xxRound(b, word64(s[8:]))
		c = xxRound(c, word64(s[16:]))
		d = xxRound(d, word64(s[24:]))
	}
	sum = bits.RotateLeft64(a, 1) + bits.RotateLeft64(b, 7) + bits.RotateLeft64(c, 12) + bits.RotateLeft64(d, 18)
	for _, lane := range [4]uint64{a, b, c, d} {
		sum = (sum^xxRound(0, lane))*xxPrime1 + xxPrime4
	}
	return sum, s
}

func xxRound(lane, word uint64) uint64 {
	return bits.RotateLeft64(lane+word*xxPrime2, 31) * xxPrime1
}

func word64(s string) uint64 {
	_ = s[7]
	return uint64(word32(s)) | uint64(word32(s[4:]))<<32
}

func word32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

type murmur3x32 struct{}

func (murmur3x32) Name() string           { return "murmur3-32" }
func (murmur3x32) Sum(text string) Digest { return Digest{High: uint64(murmurSum(text, 0))} }

// murmurSum returns the 32-bit MurmurHash3 of a text.
func murmurSum(s string, seed uint32) uint32 {
	sum, size := seed, uint32(len(s)) // #nosec G115 -- the hash takes the length modulo 2^32
	for ; len(s) >= 4; s = s[4:] {
		sum = bits.RotateLeft32(sum^murmurBlock(word32(s)), 13)*5 + 0xE6546B64
	}
	if len(s) > 0 {
		var tail uint32
		for i := range len(s) {
			tail |= uint32(s[i]) << (8 * i)
		}
		sum ^= murmurBlock(tail)
	}
	sum ^= size
	sum = (sum ^ sum>>16) * 0x85EBCA6B
	sum = (sum ^ sum>>13) * 0xC2B2AE35
	return sum ^ sum>>16
}

func murmurBlock(block uint32) uint32 {
	return bits.RotateLeft32(block*0xCC9E2D51, 15) * 0x1B873593
}

type md5Hash struct{}

func (md5Hash) Name() string { return "md5" }

func (md5Hash) Sum(text string) Digest {
	// A buffer on the stack avoids an allocation for keys of usual length.
	var buffer [128]byte
	if len(text) > len(buffer) {
		return md5Digest([]byte(text))
	}
	return md5Digest(buffer[:copy(buffer[:], text)])
}

func md5Digest(data []byte) Digest {
	sum := md5.Sum(data) // #nosec G401 -- see the import
	return Digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])}
}

// frameworkHash64 returns what string.GetHashCode returned in a 64-bit process
// of the .NET Framework: two sums over alternate UTF-16 code units, up to the
// first NUL.
func frameworkHash64(text string) int32 {
	even, odd := int32(5381), int32(5381)
	for i, unit := range utf16.Encode([]rune(text)) {
		if unit == 0 {
			break
		}
		if i%2 == 0 {
			even = even*33 ^ int32(unit)
		} else {
			odd = odd*33 ^ int32(unit)
		}
	}
	return even + odd*1566083941
}

// frameworkHash32 is the same for a 32-bit process: two sums over alternate
// pairs of code units. The last pair of a text of odd length is padded with
// zero.
func frameworkHash32(text string) int32 {
	sums := [2]int32{5381<<16 + 5381, 5381<<16 + 5381}
	units := utf16.Encode([]rune(text))
	if len(units)%2 == 1 {
		units = append(units, 0)
	}
	for i := 0; i < len(units); i += 2 {
		pair := int32(uint32(units[i]) | uint32(units[i+1])<<16) // #nosec G115 -- only the bits matter
		sum := &sums[i/2%2]
		*sum = *sum*33 + *sum>>27 ^ pair
	}
	return sums[0] + sums[1]*1566083941
}

// mix combines two hashes into one in which every bit depends on all bits of
// both.
func mix(a, b uint64) uint64 {
	x := a ^ bits.RotateLeft64(b, 32)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
