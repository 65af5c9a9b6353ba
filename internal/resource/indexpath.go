package resource

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
)

// ArrayElement is the name in an [IndexPath] for every element of an array.
const ArrayElement = "[]"

// IndexPath is a path of an indexing policy.
type IndexPath struct {
	// Names lead from the top of a document to the indexed place; [ArrayElement]
	// means every element of an array.
	Names []string

	// Subtree is true for a path that ends in /*, which includes the place and
	// everything below it, and false for /?, which includes only the place.
	Subtree bool

	// Tuple has the properties below Names that are indexed together, in order:
	// name and address/city for /people/[]/{name, address/city}/?. It is nil for
	// a path without braces.
	Tuple [][]string
}

// ParseIndexPath parses a path of the included or excluded paths or of the
// spatial indexes. Each segment follows a slash and is a name, quoted unless it
// consists of letters, digits and underscores, or [] for the elements of an
// array. The path ends in /* or /?. In quotes a backslash escapes the next
// character. A tuple is in braces after the only [] of its path and before the
// /?, and names no property twice. Errors are status 400 and name the position.
func ParseIndexPath(path string) (IndexPath, error) {
	if !utf8.ValidString(path) {
		return IndexPath{}, status.BadRequest("The indexing path %q is not valid UTF-8.", clip(path))
	}
	var p IndexPath
	at := 0
	for at < len(path) && path[at] == '/' {
		at++
		rest := path[at:]
		switch {
		case rest == "*" && p.Tuple == nil:
			p.Subtree = true
			return p, nil
		case rest == "?" && p.Names != nil:
			return p, nil
		case p.Tuple != nil:
			return IndexPath{}, malformedPath(path, at)
		case strings.HasPrefix(rest, "{"):
			tuple, size, err := p.tuple(path, at)
			if err != nil {
				return IndexPath{}, err
			}
			p.Tuple = tuple
			at += size
			continue
		}
		name, size := indexingName(rest)
		if size == 0 {
			return IndexPath{}, malformedPath(path, at)
		}
		p.Names = append(p.Names, name)
		at += size
	}
	return IndexPath{}, malformedPath(path, at)
}

// parsePolicyPath is [ParseIndexPath] for a new policy: it rejects paths that
// are deeper than documents can be. Stored policies may still have them.
func parsePolicyPath(path string) (IndexPath, error) {
	p, err := ParseIndexPath(path)
	if err != nil {
		return p, err
	}
	depth := 0
	for _, member := range p.Tuple {
		depth = max(depth, len(member))
	}
	if len(p.Names)+depth > pathNamesMax {
		return IndexPath{}, status.BadRequest("The indexing path '%s' has more than %d names. No document is nested that deep.", clip(path), pathNamesMax)
	}
	return p, nil
}

// place returns the normalized form of the path. It is equal for two paths with
// the same meaning.
func (p IndexPath) place() string {
	key := slices.Clone(p.Names)
	for _, member := range p.Tuple {
		key = append(append(key, "\xfe"), member...) // no name contains that byte
	}
	if p.Subtree {
		return samePlace(append(key, "*"))
	}
	return samePlace(append(key, "?"))
}

// tuple parses the braces at path[at:], and returns their length in bytes.
func (p IndexPath) tuple(path string, at int) (members [][]string, size int, err error) {
	wildcards := 0
	for _, name := range p.Names {
		if name == ArrayElement {
			wildcards++
		}
	}
	if wildcards != 1 || p.Names[len(p.Names)-1] != ArrayElement {
		return nil, 0, status.BadRequest("The tuple path '%s' is not valid: it needs exactly one [], directly before the braces.", clip(path))
	}
	text := path[at:]
	size = 1
	seen := map[string]bool{}
	for {
		size += blanks(text[size:])
		member, used := tupleMember(text[size:])
		size += used
		size += blanks(text[size:])
		if len(member) == 0 || size == len(text) || text[size] != ',' && text[size] != '}' {
			return nil, 0, malformedPath(path, at+size)
		}
		if !once(seen, member) {
			return nil, 0, status.BadRequest("The tuple path '%s' has a property twice.", clip(path))
		}
		members = append(members, member)
		size++
		if text[size-1] == '}' {
			break
		}
	}
	if len(members) > CompositePropertiesMax {
		return nil, 0, status.BadRequest("The tuple path '%s' has %d properties. At most %d are allowed.", clip(path), len(members), CompositePropertiesMax)
	}
	return members, size, nil
}

// tupleMember parses names with slashes between them. It returns no names at an
// error or a wildcard, and the number of bytes it has read.
func tupleMember(text string) (names []string, size int) {
	for {
		name, used := indexingName(text[size:])
		if used == 0 || name == ArrayElement {
			return nil, size
		}
		names = append(names, name)
		size += used
		if size == len(text) || text[size] != '/' {
			return names, size
		}
		size++
	}
}

func blanks(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }

// ParsePropertyPath parses a path without an ending, as used by composite,
// vector and full-text indexes, their policies and unique keys: /a/"b-c"/[]. ok
// is false for anything else, including the empty path and a path with more
// names than documents are deep.
func ParsePropertyPath(path string) (names []string, ok bool) {
	if !utf8.ValidString(path) {
		return nil, false
	}
	for at := 0; at < len(path); {
		if path[at] != '/' {
			return nil, false
		}
		name, size := indexingName(path[at+1:])
		if size == 0 || len(names) == pathNamesMax {
			return nil, false
		}
		names = append(names, name)
		at += 1 + size
	}
	return names, names != nil
}

// throughArray reports whether a path goes through the elements of an array.
func throughArray(names []string) bool {
	for _, name := range names {
		if name == ArrayElement {
			return true
		}
	}
	return false
}

// samePlace returns a text that is equal for two paths to the same place.
func samePlace(names []string) string { return strings.Join(names, "\xff") }

// once records a place and reports whether it is new.
func once(seen map[string]bool, names []string) bool {
	place := samePlace(names)
	if seen[place] {
		return false
	}
	seen[place] = true
	return true
}

func malformedPath(path string, at int) error {
	return status.BadRequest("The indexing path '%s' could not be accepted, failed near position '%d'. Please ensure that the path is a valid path: it starts with '/', ends in '/?' or '/*', and has quotes around names of other than letters, digits and underscores.", clip(path), at)
}

// indexingName parses one segment and returns its length in bytes, 0 if there is
// none.
func indexingName(text string) (name string, size int) {
	if strings.HasPrefix(text, ArrayElement) {
		return ArrayElement, len(ArrayElement)
	}
	if !strings.HasPrefix(text, `"`) {
		for _, r := range text {
			if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				break
			}
			size += utf8.RuneLen(r)
		}
		return text[:size], size
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), i + 1
		case '\\':
			if i++; i == len(text) {
				return "", 0
			}
		}
		b.WriteByte(text[i])
	}
	return "", 0
}
