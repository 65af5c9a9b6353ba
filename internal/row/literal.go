package row

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
)

// LiteralKind is the kind of a constant in CQL text. Its text is the word that
// messages about constants use.
type LiteralKind string

// The kinds of constants.
const (
	StringLiteral   LiteralKind = "STRING"
	IntegerLiteral  LiteralKind = "INTEGER"
	FloatLiteral    LiteralKind = "FLOAT"
	BooleanLiteral  LiteralKind = "BOOLEAN"
	UUIDLiteral     LiteralKind = "UUID"
	HexLiteral      LiteralKind = "HEX"
	DurationLiteral LiteralKind = "DURATION"
)

// Accepts says whether a constant of a kind may be written where a value of the
// type is expected. Of the types with parts only tuples have such texts; see [Type.ParseText].
func (t *Type) Accepts(kind LiteralKind) bool {
	if t.Kind == KindTuple {
		return true
	}
	switch kind {
	case StringLiteral:
		switch t.Kind {
		case KindASCII, KindText, KindInet, KindDate, KindTime, KindTimestamp:
			return true
		}
	case IntegerLiteral:
		switch t.Kind {
		case KindBigInt, KindCounter, KindDate, KindDecimal, KindDouble, KindDuration, KindFloat,
			KindInt, KindSmallInt, KindTime, KindTimestamp, KindTinyInt, KindVarInt:
			return true
		}
	case FloatLiteral:
		return t.Kind == KindDecimal || t.Kind == KindDouble || t.Kind == KindFloat
	case UUIDLiteral:
		return t.Kind == KindUUID || t.Kind == KindTimeUUID
	case BooleanLiteral:
		return t.Kind == KindBoolean
	case HexLiteral:
		return t.Kind == KindBlob
	case DurationLiteral:
		return t.Kind == KindDuration
	}
	return false
}

// ParseLiteral returns the value of a constant. The text is that of the string
// without quotes, or that of the constant as written. Receiver is the name of
// the column, which messages have.
func (t *Type) ParseLiteral(kind LiteralKind, text, receiver string) ([]byte, error) {
	if !t.Accepts(kind) {
		return nil, badLiteral("Invalid %s constant (%s) for \"%s\" of type %s", kind, text, receiver, t)
	}
	if kind == HexLiteral && t.Kind == KindTuple {
		v, err := hex.DecodeString(text[min(2, len(text)):])
		if err != nil || t.Validate(v) != nil {
			return nil, badLiteral("The bytes %s are no value of type %s", text, t)
		}
		return t.Normalize(v), nil
	}
	if kind == HexLiteral && t.Kind == KindBlob {
		text = text[min(2, len(text)):]
	}
	return t.ParseText(text)
}

func badLiteral(format string, args ...any) error {
	return &Error{Reason: BadLiteral, Text: fmt.Sprintf(format, args...)}
}

// ParseText returns the value that a text denotes for a native type or a tuple. For most
// types the empty text is the empty value. A blob is hexadecimal digits without
// 0x. The package has no clock: a caller that allows the text "now" for a
// timestamp replaces it. A timestamp without a zone is in UTC; zones are offsets,
// Z, UTC and GMT.
func (t *Type) ParseText(text string) ([]byte, error) {
	switch t.Kind {
	case KindText:
		return []byte(text), nil
	case KindASCII:
		for i := range len(text) {
			if text[i] >= 0x80 {
				return nil, badLiteral("Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1")
			}
		}
		return []byte(text), nil
	case KindBlob:
		v, err := hex.DecodeString(text)
		if err != nil {
			return nil, badLiteral("cannot parse '%s' as hex bytes", text)
		}
		return v, nil
	case KindBoolean:
		switch {
		case text == "" || strings.EqualFold(text, "false"):
			return []byte{0}, nil
		case strings.EqualFold(text, "true"):
			return []byte{1}, nil
		}
		return nil, badLiteral("Unable to make boolean from '%s'", text)
	case KindDate:
		return parseDate(text)
	case KindTime:
		return parseTime(text)
	case KindTuple, KindUDT:
		return t.parseParts(text)
	case KindList, KindSet, KindMap:
		v, err := hex.DecodeString(text)
		if err != nil {
			return nil, badLiteral("cannot parse '%s' as hex bytes", text)
		}
		return v, nil
	}
	if text == "" {
		return []byte{}, nil
	}
	switch t.Kind {
	case KindTinyInt:
		return parseInteger(text, 1, "byte")
	case KindSmallInt:
		return parseInteger(text, 2, "short")
	case KindInt:
		return parseInteger(text, 4, "int")
	case KindBigInt, KindCounter:
		return parseInteger(text, 8, "long")
	case KindVarInt:
		n, ok := parseBigInt(text)
		if !ok {
			return nil, badLiteral("unable to make int from '%s'", text)
		}
		return appendBigInt(nil, n), nil
	case KindDecimal:
		v, ok := parseDecimal(text)
		if !ok {
			return nil, badLiteral("unable to make BigDecimal from '%s'", text)
		}
		return v, nil
	case KindDouble:
		f, ok := parseFloat(text, 64)
		if !ok {
			return nil, badLiteral("Unable to make double from '%s'", text)
		}
		return Double(f), nil
	case KindFloat:
		f, ok := parseFloat(text, 32)
		if !ok {
			return nil, badLiteral("Unable to make float from '%s'", text)
		}
		return Float(float32(f)), nil
	case KindInet:
		return parseInet(text)
	case KindUUID:
		if v := parseUUID(text); v != nil {
			return v, nil
		}
		return nil, badLiteral("Unable to make UUID from '%s'", text)
	case KindTimeUUID:
		v := parseUUID(text)
		if v == nil {
			return nil, badLiteral("Unknown timeuuid representation: %s", text)
		}
		if v[6]>>4 != 1 {
			return nil, badLiteral("TimeUUID supports only version 1 UUIDs")
		}
		return v, nil
	case KindTimestamp:
		return parseTimestamp(text)
	case KindDuration:
		return parseDuration(text)
	}
	return nil, badLiteral("Invalid STRING constant (%s) for type %s", text, t)
}

// parseParts returns the tuple that a text denotes: the texts of its components with : between
// them, and @ for null. Both characters have a backslash before them where they are part of a
// text.
func (t *Type) parseParts(text string) ([]byte, error) {
	if text == "" {
		return []byte{}, nil
	}
	texts := splitParts(text)
	if len(texts) > len(t.Parts) {
		what := "tuple"
		if t.Kind == KindUDT {
			what = "user type"
		}
		return nil, badLiteral("Invalid %s literal: too many elements. Type %s expects %d but got %d", what, t, len(t.Parts), len(texts))
	}
	parts := make([][]byte, len(texts))
	for i, one := range texts {
		if one == "@" {
			continue
		}
		v, err := t.Parts[i].ParseText(strings.NewReplacer(`\:`, ":", `\@`, "@").Replace(one))
		if err != nil {
			return nil, err
		}
		parts[i] = v
	}
	return t.Pack(parts), nil
}

// splitParts cuts a text at each : without a backslash before it.
func splitParts(text string) (parts []string) {
	begin := 0
	for i := range len(text) {
		if text[i] == ':' && (i == 0 || text[i-1] != '\\') {
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// Int returns the value of an int.
func Int(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// BigInt returns the value of a bigint, counter, time or timestamp.
func BigInt(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Double returns the value of a double.
func Double(f float64) []byte { return BigInt(int64(math.Float64bits(f))) }

// Float returns the value of a float.
func Float(f float32) []byte { return Int(int32(math.Float32bits(f))) }

// Boolean returns the value of a boolean.
func Boolean(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

// VarInt returns the value of a varint.
func VarInt(n *big.Int) []byte { return appendBigInt(nil, n) }

// Decimal returns the value of a decimal: unscaled x 10^-scale.
func Decimal(unscaled *big.Int, scale int32) []byte { return appendBigInt(Int(scale), unscaled) }

// Integer returns the number of a tinyint, smallint, int, bigint, counter, time
// or timestamp, which have up to 8 bytes in two's complement.
func Integer(v []byte) int64 {
	n := int64(0)
	if len(v) > 0 && v[0] >= 0x80 {
		n = -1
	}
	for _, b := range v {
		n = n<<8 | int64(b)
	}
	return n
}

// BigInteger returns the number of a varint, or of any type that Integer reads.
func BigInteger(v []byte) *big.Int { return bigInt(v) }

// DecimalParts returns the unscaled number and the scale of a decimal, and 0 for
// the empty value.
func DecimalParts(v []byte) (unscaled *big.Int, scale int32) {
	if len(v) < 4 {
		return new(big.Int), 0
	}
	return bigInt(v[4:]), decimalScale(v)
}

// Floating returns the number of a float or double, and 0 for the empty value.
func Floating(v []byte) float64 {
	switch len(v) {
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(v)))
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(v))
	}
	return 0
}

func parseInteger(text string, size int, name string) ([]byte, error) {
	n, err := strconv.ParseInt(text, 10, size*8)
	if err != nil {
		return nil, badLiteral("Unable to make %s from '%s'", name, text)
	}
	return BigInt(n)[8-size:], nil
}

// digitsMax bounds the digits of varints and decimals in texts: parsing takes
// more than linear time.
const digitsMax = 100_000

// parseBigInt accepts an optional sign and digits.
func parseBigInt(text string) (*big.Int, bool) {
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 || digits == "" || len(digits) > digitsMax || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}

// parseDecimal accepts what Java's BigDecimal does.
func parseDecimal(text string) ([]byte, bool) {
	mantissa, exponent := text, int64(0)
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.ParseInt(text[at+1:], 10, 32); err != nil {
			return nil, false
		}
		mantissa = text[:at]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if strings.Trim(fraction, "0123456789") != "" {
		return nil, false
	}
	if whole == "" || whole == "+" || whole == "-" {
		if fraction == "" {
			return nil, false
		}
	}
	unscaled, ok := parseBigInt(whole + fraction)
	scale := int64(len(fraction)) - exponent
	if !ok || scale != int64(int32(scale)) {
		return nil, false
	}
	return Decimal(unscaled, int32(scale)), true
}

// parseFloat accepts what Java's Double.valueOf does: blanks around the number,
// a suffix d or f, NaN and Infinity. A number out of range is infinite.
func parseFloat(text string, bits int) (float64, bool) {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 || digits == "" {
		return 0, false
	}
	sign := 1
	if text[0] == '-' {
		sign = -1
	}
	switch digits {
	case "NaN":
		return math.Float64frombits(0x7ff8000000000000), true
	case "Infinity":
		return math.Inf(sign), true
	}
	hexadecimal := strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X")
	if !hexadecimal && digits[0] != '.' && (digits[0] < '0' || digits[0] > '9') || strings.Contains(digits, "_") {
		return 0, false
	}
	if last := digits[len(digits)-1]; strings.IndexByte("dDfF", last) >= 0 && (!hexadecimal || strings.ContainsAny(digits, "pP")) {
		text = text[:len(text)-1]
	}
	f, err := strconv.ParseFloat(text, bits)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// parseUUID returns nil if the text is not a UUID.
func parseUUID(text string) []byte {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return nil
	}
	v, err := hex.DecodeString(text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:])
	if err != nil {
		return nil
	}
	return v
}

// parseInet accepts the numeric forms that Java accepts. An IPv6 address that
// maps an IPv4 address is the latter. It resolves no names.
func parseInet(text string) ([]byte, error) {
	if v, ok := parseIPv4(text); ok {
		return v, nil
	}
	if v, ok := parseIPv6(text); ok {
		return v, nil
	}
	return nil, badLiteral("Unable to make inet address from '%s'", text)
}

// parseIPv4 accepts one to four decimal parts; the last one fills the bytes that
// remain.
func parseIPv4(text string) ([]byte, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return nil, false
	}
	n := uint64(0)
	for i, part := range parts {
		size := 8
		if i == len(parts)-1 {
			size = 8 * (5 - len(parts))
		}
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return nil, false
		}
		p, err := strconv.ParseUint(part, 10, size)
		if err != nil {
			return nil, false
		}
		n = n<<size | p
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)), true
}

// parseIPv6 accepts an address in brackets too.
func parseIPv6(text string) ([]byte, bool) {
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text = text[1 : len(text)-1]
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() {
		return nil, false
	}
	return address.Unmap().AsSlice(), true
}
