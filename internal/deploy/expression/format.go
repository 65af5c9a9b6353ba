package expression

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// format is .NET's composite format, with the invariant culture.
func format(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	out, reason := composeFormat(text, c.args[1:])
	if reason == tooLarge {
		return nil, c.fits(1, math.MaxInt)
	}
	if reason != "" {
		return nil, errorf("Unable to evaluate language function 'format': the format is invalid: '%s'. Please see https://aka.ms/arm-function-format for usage details.", reason)
	}
	return out, nil
}

// Reasons for which .NET refuses a format.
const (
	tooLarge      = "too large"
	badIndex      = "Index (zero based) must be greater than or equal to zero and less than the size of the argument list."
	badSpecifier  = "Format specifier was invalid."
	badFormatText = "Input string was not in a correct format. Failure to parse near offset %d. %s"
)

// precisionMax is the largest precision and width of an item: .NET takes a million.
const precisionMax = 999_999

// composeFormat fills in the items {index,width:format} of a text.
func composeFormat(text string, args []any) (out, reason string) {
	var b strings.Builder
	fail := func(at int, why string) (string, string) {
		return "", fmt.Sprintf(badFormatText, utf16Len(text[:min(at, len(text))]), why)
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			i++
			continue
		}
		if i+1 < len(text) && text[i+1] == c {
			b.WriteByte(c)
			i += 2
			continue
		}
		if c == '}' {
			return fail(i+1, "Unexpected closing brace without a corresponding opening brace.")
		}
		i++
		if i >= len(text) {
			return fail(i, "Format item ends prematurely.")
		}
		start := i
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i == start || i-start > 7 {
			return fail(i, "Expected an ASCII digit.")
		}
		index, _ := strconv.Atoi(text[start:i])
		skip := func() {
			for i < len(text) && text[i] == ' ' {
				i++
			}
		}
		skip()
		width := 0
		if i < len(text) && text[i] == ',' {
			i++
			skip()
			start = i
			for i < len(text) && (isDigit(text[i]) || i == start && text[i] == '-') {
				i++
			}
			n, err := strconv.Atoi(text[start:i])
			if err != nil || n > precisionMax || n < -precisionMax {
				return fail(i, "Expected an ASCII digit.")
			}
			width = n
			skip()
		}
		spec := ""
		if i < len(text) && text[i] == ':' {
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return fail(len(text), "Format item ends prematurely.")
			}
			spec = text[i+1 : i+end]
			i += end
		}
		if i >= len(text) {
			return fail(i, "Format item ends prematurely.")
		}
		if text[i] != '}' {
			return fail(i+1, "Format item ends prematurely.")
		}
		i++
		if index >= len(args) {
			return "", badIndex
		}
		item, reason := formatItem(args[index], spec)
		if reason != "" {
			return "", reason
		}
		pad := strings.Repeat(" ", max(max(width, -width)-utf16Len(item), 0))
		if width > 0 {
			item = pad + item
		} else {
			item += pad
		}
		b.WriteString(item)
		if b.Len() > WeightMax*8 {
			return "", tooLarge
		}
	}
	return b.String(), ""
}

// formatItem returns one value. Only numbers have formats.
func formatItem(v any, spec string) (text, reason string) {
	switch v := v.(type) {
	case int64:
		return formatNumber(v, float64(v), true, spec)
	case float64:
		return formatNumber(0, v, false, spec)
	case *jsonc.Array, *jsonc.Object:
		return strings.ReplaceAll(jsonc.Text(v), `"`, `'`), ""
	}
	return plainText(v), ""
}

// formatNumber applies a numeric format: a standard one, of a letter and a precision, or
// a custom one.
func formatNumber(n int64, f float64, whole bool, spec string) (text, reason string) {
	if spec == "" {
		spec = "G"
	}
	if !whole && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return jsonc.FormatFloat(f), ""
	}
	letter := spec[0]
	precision := -1
	if letter|0x20 < 'a' || letter|0x20 > 'z' {
		return customNumber(n, f, whole, spec)
	}
	if len(spec) > 1 {
		p, err := strconv.ParseUint(spec[1:], 10, 32)
		if err != nil {
			return customNumber(n, f, whole, spec)
		}
		if p > precisionMax {
			return "", badSpecifier
		}
		precision = int(p)
	}
	exact := func(places int) string {
		if whole {
			return new(big.Rat).SetInt64(n).FloatString(places)
		}
		return fixed(f, places)
	}
	orElse := func(standard int) int {
		if precision < 0 {
			return standard
		}
		return precision
	}
	switch letter {
	case 'D', 'd', 'X', 'x', 'B', 'b':
		if !whole {
			return "", badSpecifier
		}
		return integerFormat(n, letter, precision), ""
	case 'N', 'n':
		return group(exact(orElse(2))), ""
	case 'F', 'f':
		return exact(orElse(2)), ""
	case 'C', 'c':
		amount := group(exact(orElse(2)))
		if rest, negative := strings.CutPrefix(amount, "-"); negative {
			return "(¤" + rest + ")", ""
		}
		return "¤" + amount, ""
	case 'P', 'p':
		if whole {
			return group(new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(n), big.NewInt(100)), big.NewInt(1)).FloatString(orElse(2))) + " %", ""
		}
		return group(fixed(f*100, orElse(2))) + " %", ""
	case 'E', 'e':
		return exponent(strconv.FormatFloat(f, letter, orElse(6), 64), 3), ""
	case 'R', 'r':
		if whole {
			return strconv.FormatInt(n, 10), ""
		}
		return jsonc.FormatFloat(f), ""
	case 'G', 'g':
		return general(n, f, whole, letter, precision), ""
	}
	return "", badSpecifier
}

// fixed rounds half to even digits of the exact binary value, as .NET does since 3.0.
func fixed(f float64, places int) string { return strconv.FormatFloat(f, 'f', places, 64) }

func general(n int64, f float64, whole bool, letter byte, precision int) string {
	if whole {
		text := strconv.FormatInt(n, 10)
		if precision <= 0 || len(strings.TrimPrefix(text, "-")) <= precision {
			return text
		}
		f = float64(n)
	} else if precision <= 0 {
		return jsonc.FormatFloat(f)
	}
	mantissa, power, _ := strings.Cut(strconv.FormatFloat(f, 'e', min(precision, 40)-1, 64), "e")
	if e, _ := strconv.Atoi(power); e > -5 && e < precision {
		text := strconv.FormatFloat(f, 'f', max(precision-1-e, 0), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return exponent(mantissa+string(letter-('g'-'e'))+power, 2)
}

// exponent gives the exponent at least that many digits.
func exponent(text string, digits int) string {
	at := strings.LastIndexAny(text, "eE")
	power := strings.TrimLeft(text[at+2:], "0")
	return text[:at+2] + strings.Repeat("0", max(digits-len(power), 0)) + power
}

func integerFormat(n int64, letter byte, precision int) string {
	var text string
	sign := ""
	switch letter {
	case 'D', 'd':
		text = new(big.Int).Abs(big.NewInt(n)).String()
		if n < 0 {
			sign = "-"
		}
	case 'x':
		text = strconv.FormatUint(uint64(n), 16)
	case 'X':
		text = strings.ToUpper(strconv.FormatUint(uint64(n), 16))
	default:
		text = strconv.FormatUint(uint64(n), 2)
	}
	return sign + strings.Repeat("0", max(precision-len(text), 0)) + text
}

// group puts commas between groups of three digits.
func group(text string) string {
	text, negative := strings.CutPrefix(text, "-")
	whole, fraction, hasFraction := strings.Cut(text, ".")
	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(whole[i])
	}
	if hasFraction {
		b.WriteByte('.')
		b.WriteString(fraction)
	}
	return b.String()
}

// customNumber applies a custom format, such as #,##0.00: digits 0 and #, a point,
// groups and scale by commas, %, literals in quotes or after a backslash, and sections
// for positive, negative and zero.
func customNumber(n int64, f float64, whole bool, spec string) (text, reason string) {
	value := new(big.Rat)
	if whole {
		value.SetInt64(n)
	} else {
		value.SetFloat64(f)
	}
	sections := sectionsOf(spec)
	section, negative := sections[0], value.Sign() < 0
	switch {
	case value.Sign() == 0 && len(sections) > 2:
		section = sections[2]
	case negative && len(sections) > 1 && sections[1] != "":
		section, negative = sections[1], false
	}
	value.Abs(value)
	p := scanPicture(section)
	for range p.percents {
		value.Mul(value, big.NewRat(100, 1))
	}
	for range min(p.scale, 100) {
		value.Quo(value, big.NewRat(1000, 1))
	}
	digits := value.FloatString(p.places)
	if strings.Trim(digits, "0.") == "" {
		negative = false
	}
	return p.render(digits, negative), ""
}

func sectionsOf(spec string) []string {
	var out []string
	var quote byte
	begin := 0
	for i := 0; i < len(spec); i++ {
		switch c := spec[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\\':
			i++
		case c == '\'' || c == '"':
			quote = c
		case c == ';':
			out = append(out, spec[begin:i])
			begin = i + 1
		}
	}
	return append(out, spec[begin:])
}

// picture is a custom format: literals, and places for digits as the bytes 0 and #.
type picture struct {
	parts     []part
	before    int // Digit places before the point.
	least     int // How many of them are written in any case.
	places    int // Digit places after the point.
	required  int // How many of them are written in any case.
	grouped   bool
	scale     int // How often to divide by 1,000.
	percents  int
	pointSeen bool
}

type part struct {
	literal string
	digit   bool
	point   bool
}

func scanPicture(section string) picture {
	var p picture
	commas := 0
	for i := 0; i < len(section); i++ {
		switch c := section[i]; c {
		case '0', '#':
			p.parts = append(p.parts, part{digit: true})
			if p.pointSeen {
				p.places++
				if c == '0' {
					p.required = p.places
				}
				continue
			}
			if commas > 0 {
				p.grouped = true
				commas = 0
			}
			p.before++
			if c == '0' || p.least > 0 {
				p.least++
			}
		case '.':
			if !p.pointSeen {
				p.pointSeen = true
				p.parts = append(p.parts, part{point: true})
			}
		case ',':
			if !p.pointSeen && p.before > 0 {
				commas++
			}
		case '%':
			p.percents++
			p.parts = append(p.parts, part{literal: "%"})
		case '\\':
			if i++; i < len(section) {
				p.parts = append(p.parts, part{literal: section[i : i+1]})
			}
		case '\'', '"':
			end := strings.IndexByte(section[i+1:], c)
			if end < 0 {
				end = len(section) - i - 1
			}
			p.parts = append(p.parts, part{literal: section[i+1 : i+1+end]})
			i += end + 1
		default:
			p.parts = append(p.parts, part{literal: section[i : i+1]})
		}
	}
	p.scale = commas
	return p
}

// render puts digits into the picture.
func (p picture) render(digits string, negative bool) string {
	whole, fraction, _ := strings.Cut(digits, ".")
	whole = strings.TrimLeft(whole, "0")
	for len(fraction) > p.required && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1]
	}
	whole = strings.Repeat("0", max(p.least-len(whole), 0)) + whole
	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	at, below := 0, 0
	writeDigit := func(i int) {
		b.WriteByte(whole[i])
		if left := len(whole) - i - 1; p.grouped && left > 0 && left%3 == 0 {
			b.WriteByte(',')
		}
	}
	seenPoint := false
	place := 0
	for _, part := range p.parts {
		switch {
		case part.point:
			seenPoint = true
			if fraction != "" {
				b.WriteByte('.')
			}
		case part.digit && !seenPoint:
			place++
			until := len(whole) - (p.before - place)
			for ; at < until; at++ { // The first place takes all digits that have none.
				writeDigit(at)
			}
		case part.digit:
			if below < len(fraction) {
				b.WriteByte(fraction[below])
				below++
			}
		default:
			b.WriteString(part.literal)
		}
	}
	return b.String()
}
