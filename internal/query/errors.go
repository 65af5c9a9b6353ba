package query

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// fault is one error in the text of a query, as clients know it.
type fault struct {
	at      Span
	code    string // such as SC2001
	message string
}

func faultf(at Span, code, format string, args ...any) fault {
	return fault{at: at, code: code, message: fmt.Sprintf(format, args...)}
}

// nearMax bounds how much of the text an error repeats.
const nearMax = 64

func syntaxError(text string, at Span) fault {
	near := text[at.Start:at.End]
	if len(near) > nearMax {
		near = near[:nearMax]
		for !utf8.ValidString(near) {
			near = near[:len(near)-1]
		}
	}
	return faultf(at, "SC1001", "Syntax error, incorrect syntax near '%s'.", near)
}

// languageErrors makes the BadRequest of errors in a query: the form is that of
// the service, and clients look for the codes in it.
func languageErrors(text string, faults ...fault) error {
	b := []byte(`{"errors":[`)
	for i, f := range faults {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"severity":"Error","location":{"start":`...)
		b = strconv.AppendInt(b, int64(units(text, f.at.Start)), 10)
		b = append(b, `,"end":`...)
		b = strconv.AppendInt(b, int64(units(text, f.at.End)), 10)
		b = append(b, `},"code":`...)
		b = value.AppendQuoted(b, f.code)
		b = append(b, `,"message":`...)
		b = value.AppendQuoted(b, f.message)
		b = append(b, '}')
	}
	return status.BadRequest("%s", append(b, "]}"...))
}

// units turns a byte offset into one in UTF-16 code units, which is how the
// clients that show the place count characters.
func units(text string, offset int) int {
	n := 0
	for _, r := range text[:min(offset, len(text))] {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// numberedError is the form of errors that have a number and no place.
func numberedError(code int, message string) error {
	return status.BadRequest(`{"errors":[{"severity":"Error","code":%d,"message":%s}]}`, code, value.AppendQuoted(nil, message))
}

// planError is the form of errors that planning finds: sentences alone.
func planError(message string) error {
	return status.BadRequest(`{"Errors":[%s]}`, value.AppendQuoted(nil, message))
}
