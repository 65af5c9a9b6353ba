package rows

import (
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// Flatten adds the columns and cells of an object. The members of an object in it have
// dotted names. Everything else, and an empty object, is one cell.
func Flatten(prefix string, object value.Value, add func(column, cell string)) {
	for _, m := range object.Members() {
		name := prefix + EscapeColumn(m.Name)
		if m.Value.Kind() == value.KindObject && len(m.Value.Members()) > 0 {
			Flatten(name+".", m.Value, add)
			continue
		}
		add(name, cellOf(name, m.Value))
	}
}

var columnEscapes = strings.NewReplacer(`\`, `\\`, `.`, `\.`, "\r", `\r`) // CSV readers drop \r before the end of a line

// EscapeColumn returns the name of a property as part of the name of a column.
func EscapeColumn(name string) string { return columnEscapes.Replace(name) }

// ParseColumn reads the path of a column's property.
func ParseColumn(column string) ([]string, error) {
	var names []string
	var name strings.Builder
	for i := 0; i < len(column); i++ {
		switch c := column[i]; c {
		case '.':
			names = append(names, name.String())
			name.Reset()
		case '\\':
			if i++; i == len(column) || !strings.ContainsRune(`.\r`, rune(column[i])) {
				return nil, fmt.Errorf(`column %q: a backslash must precede a dot, a backslash or r`, column)
			}
			if column[i] == 'r' {
				name.WriteByte('\r')
			} else {
				name.WriteByte(column[i])
			}
		default:
			name.WriteByte(c)
		}
	}
	names = append(names, name.String())
	if len(names) > value.DepthMax {
		return nil, fmt.Errorf("column %.40q: it has %d levels, and at most %d are allowed", column, len(names), value.DepthMax)
	}
	return names, nil
}

// cellOf returns a value as a cell: a string unchanged if it is read back as the same
// string, otherwise JSON.
func cellOf(column string, v value.Value) string {
	if v.Kind() == value.KindString {
		if text := v.Text(); text != "" && plain(column, text) {
			return text
		}
	}
	return v.JSON()
}

// plain reports whether a string needs no JSON quotes in a cell.
func plain(column, text string) bool {
	read := InferCell(column, text)
	return read.Kind() == value.KindString && read.Text() == text && !strings.ContainsRune(text, '\r')
}

// digitsExact is the number of significant digits that every double keeps.
const digitsExact = 15

// idColumn is the column of the ids of documents.
const idColumn = "id"

// InferCell returns the value of a cell that is JSON, otherwise its text. A number that
// would lose digits is text, so that long account numbers stay exact; 05 and +5 are
// text, because they are not JSON. An id is always a string.
func InferCell(column, cell string) value.Value {
	v, err := value.ParseString(cell)
	if err != nil || strings.TrimSpace(cell) != cell {
		return value.String(cell)
	}
	if column == idColumn && v.Kind() != value.KindString {
		return value.String(cell)
	}
	if v.Kind() == value.KindNumber && v.JSON() != cell && significant(cell) > digitsExact {
		return value.String(cell)
	}
	return v
}

// significant returns the number of significant digits of a JSON number.
func significant(number string) int {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	return len(strings.TrimRight(digits, "0"))
}

// SystemProperties are the properties that a server sets.
var SystemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// Columns is a set of columns in order of appearance. The zero value is empty.
type Columns struct {
	Names []string
	place map[string]int
}

// Add adds a column, if it is not there.
func (s *Columns) Add(name string) {
	if _, found := s.place[name]; !found {
		if s.place == nil {
			s.place = map[string]int{}
		}
		s.place[name] = len(s.Names)
		s.Names = append(s.Names, name)
	}
}

// Row returns the cells of an object in the order of the columns. It omits properties
// without a column.
func (s *Columns) Row(object value.Value) []string {
	cells := make([]string, len(s.Names))
	Flatten("", object, func(column, cell string) {
		if i, found := s.place[column]; found {
			cells[i] = cell
		}
	})
	return cells
}
