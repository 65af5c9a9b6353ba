package sql

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Diagnostic is one error in the text of a query.
type Diagnostic struct {
	At      Span
	Code    string // such as SC2001
	Message string
}

// Diagnosticf returns a Diagnostic with a formatted message.
func Diagnosticf(at Span, code, format string, args ...any) Diagnostic {
	return Diagnostic{At: at, Code: code, Message: fmt.Sprintf(format, args...)}
}

// nearMax is the maximum number of code points of the text that an error quotes.
const nearMax = 127

// syntaxError returns the error of a token that must not follow those before it.
func syntaxError(text string, t Token) Diagnostic {
	near := text[t.At.Start:t.At.End]
	if utf8.RuneCountInString(near) > nearMax {
		near = string([]rune(near)[:nearMax])
	}
	switch t.Kind {
	case TokenEnd:
		return Diagnosticf(t.At, "SC1002", "Syntax error, unexpected end-of-file.")
	case TokenInvalid:
		return Diagnosticf(t.At, "SC1010", "Syntax error, invalid token '%s'.", near)
	case TokenBadNumber:
		return Diagnosticf(t.At, "SC1011", "Syntax error, invalid numeric value token '%s'.", near)
	case TokenBadString:
		return Diagnosticf(t.At, "SC1012", "Syntax error, invalid string literal token '%s'.", near)
	}
	return Diagnosticf(t.At, "SC1001", "Syntax error, incorrect syntax near '%s'.", near)
}

// NewError returns a BadRequest for the errors in a query. It has the form of the
// service, because clients look for the codes in it.
func NewError(text string, diagnostics ...Diagnostic) error {
	b := []byte(`{"errors":[`)
	for i, f := range diagnostics {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"severity":"Error","location":{"start":`...)
		b = strconv.AppendInt(b, int64(points(text, f.At.Start)), 10)
		b = append(b, `,"end":`...)
		b = strconv.AppendInt(b, int64(points(text, f.At.End)), 10)
		b = append(b, `},"code":`...)
		b = value.AppendQuoted(b, f.Code)
		b = append(b, `,"message":`...)
		b = value.AppendQuoted(b, f.Message)
		b = append(b, '}')
	}
	return status.BadRequest("%s", append(b, "]}"...))
}

// points converts a byte offset to code points, in which the service counts.
func points(text string, offset int) int {
	return utf8.RuneCountInString(text[:min(offset, len(text))])
}
