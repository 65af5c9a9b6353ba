package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// dateTimeFormat writes a time in UTC according to a format. These are the specifiers
// of the service:
//
//	y yy yyyy       year; for less than four letters, within the century
//	M MM d dd       month, day of the month
//	H HH h hh       hour of 24, hour of 12
//	m mm s ss       minute, second
//	f... F...       one to seven digits of the fraction; F gives nothing for zeros
//	tt              AM or PM
//	\x              copied
//
// A longer specifier acts like the longest one of its letter. A single letter writes a
// number without leading zeros. All other characters are copied. An empty format and a
// backslash at the end make the result undefined.
func dateTimeFormat(e *env, args []value.Value) value.Value {
	t, ok := parseDateTime(args[0])
	if !ok || args[1].Kind() != value.KindString || args[1].Len() == 0 {
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
	c := format[0]
	switch c {
	case '\\':
		_, width := utf8.DecodeRuneInString(format[1:])
		b.WriteString(format[1 : 1+width])
		return 1 + width, width > 0
	case 'f', 'F', 'y', 'M', 'd', 'H', 'h', 'm', 's', 't':
		n := 1
		for n < len(format) && format[n] == c {
			n++
		}
		if c != 't' || n > 1 {
			formatPart(b, c, n, t)
			return n, true
		}
	}
	_, width := utf8.DecodeRuneInString(format)
	b.WriteString(format[:width])
	return width, true
}

// fractionDigits is the number of digits in the fraction of a tick.
const fractionDigits = 7

// formatPart writes the text for n letters c.
func formatPart(b *strings.Builder, c byte, n int, t time.Time) {
	switch c {
	case 'y':
		if n < 4 {
			padded(b, t.Year()%100, min(n, 2))
			return
		}
		padded(b, t.Year(), 4)
	case 'M':
		padded(b, int(t.Month()), min(n, 2))
	case 'd':
		padded(b, t.Day(), min(n, 2))
	case 'H':
		padded(b, t.Hour(), min(n, 2))
	case 'h':
		padded(b, (t.Hour()+11)%12+1, min(n, 2))
	case 'm':
		padded(b, t.Minute(), min(n, 2))
	case 's':
		padded(b, t.Second(), min(n, 2))
	case 't':
		b.WriteString(t.Format("PM"))
	default:
		digits := fmt.Sprintf("%09d", t.Nanosecond())[:min(n, fractionDigits)]
		if c == 'f' || strings.Trim(digits, "0") != "" {
			b.WriteString(digits)
		}
	}
}

// padded writes n with leading zeros up to a width.
func padded(b *strings.Builder, n, width int) {
	digits := strconv.Itoa(n)
	b.WriteString(strings.Repeat("0", max(0, width-len(digits))))
	b.WriteString(digits)
}
