// Package transfercmd is decan import and decan export: documents as JSON lines, JSON
// arrays and CSV files.
//
// transfercmd.go has the formats, the columns of CSV and the retries, read.go the
// readers of files.
//
// Page: docs/copy.md
package transfercmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/value"
)

// The formats of import and export.
const (
	formatLines = "jsonl"
	formatArray = "json"
	formatCSV   = "csv"
)

// formatOf returns the requested format, or the one that the name of the file
// implies.
func formatOf(asked, name string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jsonl", ".ndjson", ".jsonlines":
		return formatLines, nil
	case ".json":
		return formatArray, nil
	case ".csv":
		return formatCSV, nil
	}
	if name == "-" {
		return formatLines, nil
	}
	return "", fmt.Errorf("%s: the name does not imply a format: give --format jsonl, json or csv", name)
}

const (
	// A request that fails with a temporary error is retried tryMax times, with
	// pauses that double from tryMin to tryLong: half a minute in total. A throttled
	// request is retried without a limit.
	tryMax  = 8
	tryMin  = 100 * time.Millisecond
	tryLong = 10 * time.Second
)

// retrying sends a request, and repeats it after temporary errors.
func retrying(ctx context.Context, send func() (remote.Answer, error)) (remote.Answer, error) {
	pause := tryMin
	for failed := 0; ; {
		a, err := send()
		wait := pause
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case remote.IsUntrusted(err):
			return a, err
		case err == nil && a.Status == http.StatusTooManyRequests:
			if millis, err := strconv.ParseFloat(a.Header.Get("x-ms-retry-after-ms"), 64); err == nil && millis >= 0 && millis < 1e6 {
				wait = time.Duration(millis * float64(time.Millisecond))
			}
		case err == nil && !passing(a.Status):
			return a, nil
		default:
			if failed++; failed > tryMax {
				return a, err
			}
			pause = min(2*pause, tryLong)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

// passing reports whether a status is temporary.
func passing(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusGone, 449, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// flatten adds the columns and cells of an object. The members of an object in it have
// dotted names. Everything else, and an empty object, is one cell.
func flatten(prefix string, object value.Value, add func(column, cell string)) {
	for _, m := range object.Members() {
		name := prefix + escapeColumn(m.Name)
		if m.Value.Kind() == value.KindObject && len(m.Value.Members()) > 0 {
			flatten(name+".", m.Value, add)
			continue
		}
		add(name, cellOf(name, m.Value))
	}
}

var columnEscapes = strings.NewReplacer(`\`, `\\`, `.`, `\.`, "\r", `\r`) // CSV readers drop \r before the end of a line

// escapeColumn returns the name of a property as part of the name of a column.
func escapeColumn(name string) string { return columnEscapes.Replace(name) }

// parseColumn reads the path of a column's property.
func parseColumn(column string) ([]string, error) {
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
	read := inferCell(column, text)
	return read.Kind() == value.KindString && read.Text() == text && !strings.ContainsRune(text, '\r')
}

// digitsExact is the number of significant digits that every double keeps.
const digitsExact = 15

// idColumn is the column of the ids of documents.
const idColumn = "id"

// inferCell returns the value of a cell that is JSON, otherwise its text. A number that
// would lose digits is text, so that long account numbers stay exact; 05 and +5 are
// text, because they are not JSON. An id is always a string.
func inferCell(column, cell string) value.Value {
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

// tree is an object that is built from cells.
type tree struct {
	leaf  value.Value // defined for a cell
	names []string    // in order of appearance
	nodes map[string]*tree
}

var errColumns = errors.New("is both a value and an object")

// put sets the value at a path.
func (t *tree) put(names []string, v value.Value) error {
	for _, name := range names {
		if t.leaf.IsDefined() {
			return errColumns
		}
		next, found := t.nodes[name]
		if !found {
			if t.nodes == nil {
				t.nodes = map[string]*tree{}
			}
			next = &tree{}
			t.nodes[name] = next
			t.names = append(t.names, name)
		}
		t = next
	}
	if t.leaf.IsDefined() || len(t.names) > 0 {
		return errColumns
	}
	t.leaf = v
	return nil
}

// value returns the object. It is as deep as the longest path.
func (t *tree) value() value.Value {
	if t.leaf.IsDefined() {
		return t.leaf
	}
	members := make([]value.Member, len(t.names))
	for i, name := range t.names {
		members[i] = value.Member{Name: name, Value: t.nodes[name].value()}
	}
	return value.Object(members)
}

// systemProperties are the properties that a server sets.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// columnSet is a set of columns in order of appearance.
type columnSet struct {
	names []string
	place map[string]int
}

func (s *columnSet) add(name string) {
	if _, found := s.place[name]; !found {
		if s.place == nil {
			s.place = map[string]int{}
		}
		s.place[name] = len(s.names)
		s.names = append(s.names, name)
	}
}

// row returns the cells of an object in the order of the columns. It omits properties
// without a column.
func (s *columnSet) row(object value.Value) []string {
	cells := make([]string, len(s.names))
	flatten("", object, func(column, cell string) {
		if i, found := s.place[column]; found {
			cells[i] = cell
		}
	})
	return cells
}
