package bicep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Diagnostic is one reason why a file is refused, at one place.
type Diagnostic struct {
	// File is the path of the file below the folder that the caller gave.
	File string
	// Line and Column count from 1; a column is a UTF-16 unit, as the vendor's compiler counts.
	Line, Column int
	// Code is the code of the vendor's compiler (BCP057, ...) where that
	// compiler refuses too, and CodeUnsupported or CodeLimit where only this
	// reader does.
	Code string
	// Message is one or two sentences for people.
	Message string
}

// Codes of refusals that the vendor's compiler does not know.
const (
	// CodeUnsupported marks a construct of the language that this reader does not take.
	CodeUnsupported = "unsupported"
	// CodeLimit marks a file that passes a bound of this reader.
	CodeLimit = "limit"
)

// String returns the diagnostic in the form of the vendor's compiler:
// path(line,column) : Error code: message.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s(%d,%d) : Error %s: %s", d.File, d.Line, d.Column, d.Code, d.Message)
}

// Error lists all reasons why a file and what it loads are refused. The
// reasons of the file itself come first, in the order of their places.
type Error struct {
	Diagnostics []Diagnostic // never empty
}

// Error returns one line for each diagnostic.
func (e *Error) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// diagnosticsMax bounds the list that one file can collect.
const diagnosticsMax = 100

// span is a range of bytes in a source.
type span struct{ start, end int }

func (s span) at() span { return s }

// to returns the range from the start of s to the end of t.
func (s span) to(t span) span { return span{s.start, max(s.end, t.end)} }

// finding is a diagnostic that has an offset instead of a line.
type finding struct {
	offset        int
	code, message string
}

// report collects findings of one source.
type report struct {
	source   string
	path     string
	findings []finding
}

// add records a finding at s; the first of each place and code is kept.
func (r *report) add(s span, code, format string, args ...any) {
	if len(r.findings) >= diagnosticsMax {
		return
	}
	for _, f := range r.findings {
		if f.offset == s.start && f.code == code {
			return
		}
	}
	r.findings = append(r.findings, finding{s.start, code, fmt.Sprintf(format, args...)})
}

// err returns the findings in the order of their places, or nil.
func (r *report) err() error {
	if len(r.findings) == 0 {
		return nil
	}
	sorted := slices.Clone(r.findings)
	slices.SortStableFunc(sorted, func(a, b finding) int { return cmp.Compare(a.offset, b.offset) })
	e := &Error{}
	for _, f := range sorted {
		line, column := r.place(f.offset)
		e.Diagnostics = append(e.Diagnostics, Diagnostic{r.path, line, column, f.code, f.message})
	}
	return e
}

// place turns an offset into a line and a column.
func (r *report) place(offset int) (line, column int) {
	offset = min(offset, len(r.source))
	line, column = 1, 1
	for i := 0; i < offset; {
		c, size := utf8.DecodeRuneInString(r.source[i:])
		switch {
		case c == '\n' || c == '\r' && !strings.HasPrefix(r.source[i+1:], "\n"):
			line, column = line+1, 1
		case c >= 0x10000:
			column += 2
		default:
			column++
		}
		i += size
	}
	return line, column
}
