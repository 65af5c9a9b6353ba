package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/value"
)

// meter shows how far something is: as a bar that is redrawn on a terminal, and
// as a line for each tenth elsewhere.
type meter struct {
	out      io.Writer
	terminal bool

	tenths int  // shown so far, counted from one
	open   bool // the bar's line has no end yet
}

// show draws which part is done, from 0 to 1; a negative one is not known.
func (m *meter) show(part float64, text string) {
	part = min(part, 1)
	switch tenths := 1 + int(part*10); {
	case m.terminal && part >= 0:
		fmt.Fprintf(m.out, "\r\x1b[K%s  %s", gauge(100*part), text)
		m.open = true
	case m.terminal:
		fmt.Fprintf(m.out, "\r\x1b[K%s", text)
		m.open = true
	case part >= 0 && tenths > m.tenths:
		m.tenths = tenths
		fmt.Fprintf(m.out, "%3.0f %%  %s\n", 100*part, text)
	}
}

// end leaves the bar's line.
func (m *meter) end() {
	if m.open {
		fmt.Fprintln(m.out)
		m.open = false
	}
}

// meterEvery is the time between two drawings of a bar.
const meterEvery = 100 * time.Millisecond

// The formats of import and export.
const (
	formatLines = "jsonl"
	formatArray = "json"
	formatCSV   = "csv"
)

// formatOf returns the format that was asked for, or what the name of a file says.
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
	return "", fmt.Errorf("%s: the name does not tell the format: give --format jsonl, json or csv", name)
}

// dataServer is where the commands that read and write documents ask.
type dataServer struct {
	Endpoint string `name:"endpoint" default:"http://127.0.0.1:8081" env:"-" placeholder:"URL" help:"The server (${default})."`
	Key      string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY" placeholder:"KEY" help:"The account key, in base64 (the well-known one)."`

	trustFlags
}

const (
	// tryMax is how often a request is tried again that failed for a reason which
	// may pass, with pauses that double from tryMin to tryLong: half a minute.
	// One that is told to come back later comes back as often as it takes.
	tryMax  = 8
	tryMin  = 100 * time.Millisecond
	tryLong = 10 * time.Second
)

// patiently sends a request until it is answered for good.
func patiently(ctx context.Context, send func() (answer, error)) (answer, error) {
	pause := tryMin
	for failed := 0; ; {
		a, err := send()
		wait := pause
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case isUntrusted(err):
			return a, err
		case err == nil && a.status == http.StatusTooManyRequests:
			if millis, err := strconv.ParseFloat(a.header.Get("x-ms-retry-after-ms"), 64); err == nil && millis >= 0 && millis < 1e6 {
				wait = time.Duration(millis * float64(time.Millisecond))
			}
		case err == nil && !passing(a.status):
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

// passing reports whether a status may be another one a little later.
func passing(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusGone, 449, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// flatten appends the columns and cells of an object: those of objects in it have
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

var columnEscapes = strings.NewReplacer(`\`, `\\`, `.`, `\.`, "\r", `\r`) // CSV keeps no \r before a line's end

// escapeColumn is a property's name inside of a column's.
func escapeColumn(name string) string { return columnEscapes.Replace(name) }

// parseColumn reads the names that lead to a column's property.
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
				return nil, fmt.Errorf(`the column %q has a backslash that stands before no dot, backslash or r`, column)
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
		return nil, fmt.Errorf("the column %.40q is nested %d deep, and at most %d are allowed", column, len(names), value.DepthMax)
	}
	return names, nil
}

// cellOf is a value as a cell: a string as it is, where that is read as the same
// string again, and JSON else.
func cellOf(column string, v value.Value) string {
	if v.Kind() == value.KindString {
		if text := v.Text(); text != "" && plain(column, text) {
			return text
		}
	}
	return v.JSON()
}

// plain reports whether a string stands in a cell without quotes of JSON.
func plain(column, text string) bool {
	read := inferCell(column, text)
	return read.Kind() == value.KindString && read.Text() == text && !strings.ContainsRune(text, '\r')
}

// digitsExact is how many significant digits every double keeps.
const digitsExact = 15

// idColumn is the column of the ids of documents.
const idColumn = "id"

// inferCell is the value of a cell that is JSON, and otherwise its text. A number
// that would lose digits is text as well, so that a long number of an account
// stays what it is; so are 05 and +5, which JSON does not know. An id is always
// a string.
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

// significant is how many digits of a JSON number count.
func significant(number string) int {
	mantissa, _, _ := strings.Cut(strings.ToLower(number), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	return len(strings.TrimRight(digits, "0"))
}

// tree is an object that is made of cells.
type tree struct {
	leaf  value.Value // defined for a cell
	names []string    // in the order in which they came
	nodes map[string]*tree
}

var errColumns = errors.New("is given as a value and as an object")

// put sets the value at the end of names.
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

// value returns the object. It is as deep as the longest list of names.
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

// systemProperties are those that a server sets.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// columnSet is a set of columns in the order in which they came.
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

// row returns the cells of an object in the order of the columns. Properties that
// have none are left out.
func (s *columnSet) row(object value.Value) []string {
	cells := make([]string, len(s.names))
	flatten("", object, func(column, cell string) {
		if i, found := s.place[column]; found {
			cells[i] = cell
		}
	})
	return cells
}

// documentPath is the path of a container's documents.
func documentPath(database, container string) []string {
	return slices.Clone([]string{"dbs", database, "colls", container, "docs"})
}
