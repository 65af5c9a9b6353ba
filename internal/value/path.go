package value

import (
	"fmt"
	"strconv"
	"strings"
)

// Path leads from a value to a value inside it.
type Path []Step

// Step selects the property Name, or the element Index if IsIndex is set.
type Step struct {
	Name    string
	Index   int
	IsIndex bool
}

// At returns the value at the end of the path, or undefined if a step finds
// nothing. A name selects only from an object and an index only from an array.
// The empty path selects v.
func (v Value) At(p Path) Value {
	for i := range p {
		if p[i].IsIndex {
			v = v.Index(p[i].Index)
		} else {
			v = v.Get(p[i].Name)
		}
	}
	return v
}

// ParsePath parses the path of a partition key such as /a/"b c"/d. Each segment
// follows a slash and is a property name. A bare segment ends at the next slash,
// and white space around it is removed. A segment in quotes (" or ') is taken
// literally, including backslashes, and ends at the next such quote that is not
// preceded by a backslash. A trailing slash is ignored.
//
// The empty path, empty bare segments, and the segments of indexing paths that
// are not names (*, ?, [] and [n]) are errors. In quotes they are names.
func ParsePath(text string) (Path, error) {
	if text == "" {
		return nil, fmt.Errorf("path is empty")
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("path %q does not begin with a slash", text)
	}
	var path Path
	for rest := text; rest != "" && rest != "/"; {
		name, after, err := cutSegment(rest[1:])
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", text, err)
		}
		path = append(path, Step{Name: name})
		rest = after
	}
	if path == nil {
		return nil, fmt.Errorf("path %q has no segment", text)
	}
	return path, nil
}

// cutSegment returns the name at the beginning of text and the rest, which is
// empty or begins with a slash.
func cutSegment(text string) (name, rest string, err error) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		return cutQuoted(text)
	}
	end := strings.IndexByte(text, '/')
	if end < 0 {
		end = len(text)
	}
	name = strings.TrimSpace(text[:end])
	switch {
	case name == "":
		return "", "", fmt.Errorf("empty segment")
	case isPattern(name):
		return "", "", fmt.Errorf("segment %q names no property", name)
	}
	return name, text[end:], nil
}

func cutQuoted(text string) (name, rest string, err error) {
	quote := text[0]
	end := closingQuote(text[1:], quote)
	if end < 0 {
		return "", "", fmt.Errorf("segment %s has no closing quote", text)
	}
	name, rest = text[1:1+end], text[end+2:]
	if rest != "" && rest[0] != '/' {
		return "", "", fmt.Errorf("%q follows the closing quote of a segment", rest)
	}
	return name, rest, nil
}

// closingQuote returns the index of the first quote without a backslash before
// it, or -1.
func closingQuote(text string, quote byte) int {
	for i := range len(text) {
		if text[i] == quote && (i == 0 || text[i-1] != '\\') {
			return i
		}
	}
	return -1
}

// isPattern reports whether a bare segment has a special meaning in an indexing
// path.
func isPattern(name string) bool {
	if name == "*" || name == "?" {
		return true
	}
	inner, opens := strings.CutPrefix(name, "[")
	inner, closes := strings.CutSuffix(inner, "]")
	return opens && closes && strings.Trim(inner, "0123456789") == ""
}

// String returns the path in the syntax of [ParsePath]: every path that
// ParsePath returned is parsed to an equal path. An element is written [n],
// which ParsePath rejects.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		switch {
		case s.IsIndex:
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		case isBare(s.Name):
			b.WriteString(s.Name)
		case isQuotable(s.Name, '"'):
			b.WriteString(`"` + s.Name + `"`)
		case isQuotable(s.Name, '\''):
			b.WriteString(`'` + s.Name + `'`)
		default:
			// A name that begins with a quote and cannot be quoted, which is
			// bare after a space, or a name that the syntax cannot express.
			b.WriteString(" " + s.Name)
		}
	}
	return b.String()
}

// isBare reports whether the name can be written without quotes.
func isBare(name string) bool {
	return name != "" && name == strings.TrimSpace(name) &&
		name[0] != '"' && name[0] != '\'' &&
		!strings.Contains(name, "/") && !isPattern(name)
}

// isQuotable reports whether the name can be written in such quotes.
func isQuotable(name string, quote byte) bool {
	return closingQuote(name+string(quote), quote) == len(name)
}
