package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// dateTimeFormat writes a time by a text of specifiers. The service's
// documentation shows samples and no list. The samples are .NET's custom formats,
// of which these are supported, all in English and in UTC:
//
//	y yy yyyy       year; for one or two letters, within the century
//	M MM MMM MMMM   month: number, two digits, short name, name
//	d dd ddd dddd   day of the month, two digits, short name of the weekday, name
//	H HH h hh       hour of 24, hour of 12
//	m mm s ss       minute, second
//	f... F...       one to seven digits of the fraction; F omits trailing zeros
//	t tt            A or P, AM or PM
//	z zz zzz K      the offset: +0, +00, +00:00, Z
//	\x 'text'       copied
//
// All other characters are copied. A longer fraction, an unclosed quote and a
// backslash at the end make the result undefined.
func dateTimeFormat(e *env, args []value.Value) value.Value {
	t, ok := parseDateTime(args[0])
	if !ok || args[1].Kind() != value.KindString {
		return value.Undefined()
	}
	var b strings.Builder
	for rest := args[1].Text(); rest != ""; {
		size, ok := formatNext(&b, rest, t)
		if !ok || !e.fits(b.Len()) {
			return value.Undefined()
		}
		rest = rest[size:]
	}
	return value.String(b.String())
}

// formatNext writes the text for the first specifier of a format, and returns the
// length of that specifier.
func formatNext(b *strings.Builder, format string, t time.Time) (size int, ok bool) {
	switch c := format[0]; c {
	case '\\':
		_, width := utf8.DecodeRuneInString(format[1:])
		b.WriteString(format[1 : 1+width])
		return 1 + width, width > 0
	case '\'', '"':
		end := strings.IndexByte(format[1:], c)
		if end < 0 {
			return 0, false
		}
		b.WriteString(format[1 : 1+end])
		return end + 2, true
	case 'f', 'F', 'y', 'M', 'd', 'H', 'h', 'm', 's', 't', 'z', 'K':
		n := 1
		for n < len(format) && format[n] == c && c != 'K' {
			n++
		}
		return n, formatPart(b, c, n, t)
	}
	_, width := utf8.DecodeRuneInString(format)
	b.WriteString(format[:width])
	return width, true
}

// fractionDigits is the number of digits in the fraction of a tick.
const fractionDigits = 7

// formatPart writes the text for n letters c.
func formatPart(b *strings.Builder, c byte, n int, t time.Time) bool {
	switch c {
	case 'y':
		year := t.Year()
		if n <= 2 {
			year %= 100
		}
		padded(b, year, n)
	case 'M':
		named(b, int(t.Month()), n, t.Month().String())
	case 'd':
		if n > 2 {
			named(b, 0, n, t.Weekday().String())
			break
		}
		padded(b, t.Day(), n)
	case 'H':
		padded(b, t.Hour(), min(n, 2))
	case 'h':
		padded(b, (t.Hour()+11)%12+1, min(n, 2))
	case 'm':
		padded(b, t.Minute(), min(n, 2))
	case 's':
		padded(b, t.Second(), min(n, 2))
	case 't':
		b.WriteString(t.Format("PM")[:min(n, 2)])
	case 'z':
		b.WriteString([...]string{"+0", "+00", "+00:00"}[min(n, 3)-1])
	case 'K':
		b.WriteString("Z")
	default:
		if n > fractionDigits {
			return false
		}
		fraction := fmt.Sprintf("%09d", t.Nanosecond())[:n]
		if c == 'F' {
			fraction = strings.TrimRight(fraction, "0")
		}
		b.WriteString(fraction)
	}
	return true
}

// padded writes n with leading zeros up to a width.
func padded(b *strings.Builder, n, width int) {
	digits := strconv.Itoa(n)
	b.WriteString(strings.Repeat("0", max(0, width-len(digits))))
	b.WriteString(digits)
}

// named writes a number for one or two letters, the short name for three, and the
// full name for more.
func named(b *strings.Builder, n, letters int, name string) {
	switch {
	case letters <= 2:
		padded(b, n, letters)
	case letters == 3:
		b.WriteString(name[:3])
	default:
		b.WriteString(name)
	}
}
