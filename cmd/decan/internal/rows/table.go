package rows

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
	"golang.org/x/text/width"
)

const (
	tableRows = 1000 // rows that a table collects before it writes them
	gap       = "  " // between columns
	narrowest = 6    // columns of the window that a column of the table keeps when it is cut
	cutMark   = "…"
)

// valueColumn is the name of the column of rows that are not objects.
const valueColumn = "value"

// tableWriter writes rows as a table. It writes a block with a header for each
// tableRows rows, so that a result of any length needs little memory.
type tableWriter struct {
	out     *bufio.Writer
	o       Options
	rows    []value.Value
	written int
}

func newTableWriter(out io.Writer, o Options) *tableWriter {
	if o.Rows <= 0 {
		o.Rows = tableRows
	}
	return &tableWriter{out: bufio.NewWriter(out), o: o}
}

func (w *tableWriter) Write(row value.Value) error {
	w.rows = append(w.rows, row)
	if len(w.rows) < w.o.Rows {
		return nil
	}
	return w.block()
}

func (w *tableWriter) Close() error {
	if len(w.rows) == 0 {
		return nil
	}
	return w.block()
}

func (*tableWriter) Discard() {}

// column is a column of a block.
type column struct {
	name    string
	width   int  // in cells of the terminal
	numbers bool // all its values are numbers, so it is aligned to the right
	some    bool // a row has a value
}

// block writes the collected rows.
func (w *tableWriter) block() error {
	columns, cells := w.layout()
	if w.written > 0 {
		fmt.Fprintln(w.out)
	}
	if !fit(columns, w.o.Width) {
		w.records(columns, cells)
	} else {
		w.grid(columns, cells)
	}
	w.written += len(w.rows)
	w.rows = w.rows[:0]
	return w.out.Flush()
}

// layout returns the columns of the collected rows, and their cells.
func (w *tableWriter) layout() ([]column, [][]string) {
	var names Columns
	for _, name := range w.o.Columns {
		names.Add(name)
	}
	if len(w.o.Columns) == 0 {
		for _, row := range w.rows {
			if row.Kind() != value.KindObject {
				names.Add(valueColumn)
				continue
			}
			for _, m := range row.Members() {
				names.Add(m.Name)
			}
		}
	}
	columns := make([]column, len(names.Names))
	for i, name := range names.Names {
		columns[i] = column{name: Shown(name), numbers: true}
		columns[i].width = Wide(columns[i].name)
	}
	cells := make([][]string, len(w.rows))
	for r, row := range w.rows {
		cells[r] = make([]string, len(columns))
		put := func(name string, v value.Value) {
			i, found := names.place[name]
			if !found {
				return
			}
			columns[i].numbers = columns[i].numbers && v.Kind() == value.KindNumber
			columns[i].some = true
			cells[r][i] = cellText(v)
			columns[i].width = max(columns[i].width, Wide(cells[r][i]))
		}
		switch {
		case row.Kind() != value.KindObject:
			put(valueColumn, row)
		case len(w.o.Columns) == 0:
			for _, m := range row.Members() {
				put(m.Name, m.Value)
			}
		default:
			for _, name := range w.o.Columns {
				path, _ := ParseColumn(name) // NewWriter has read it.
				v := row
				for _, step := range path {
					v = v.Get(step)
				}
				if v.IsDefined() {
					put(name, v)
				}
			}
		}
	}
	return columns, cells
}

// cellText returns a value as people read it: a string without quotes.
func cellText(v value.Value) string {
	if v.Kind() == value.KindString {
		return Shown(v.Text())
	}
	return Shown(v.JSON())
}

// Shown returns a text in one line, without characters that control a terminal.
func Shown(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Wide returns how many cells of a terminal a text has.
func Wide(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit narrows the widest columns until the table is as wide as the window. It returns
// false if that is not possible.
func fit(columns []column, window int) bool {
	if window <= 0 || len(columns) == 0 {
		return true
	}
	total := len(gap) * (len(columns) - 1)
	for _, c := range columns {
		total += c.width
	}
	for total > window {
		widest := 0
		for i, c := range columns {
			if c.width > columns[widest].width {
				widest = i
			}
		}
		if columns[widest].width <= narrowest {
			return false
		}
		columns[widest].width--
		total--
	}
	return true
}

// grid writes a row on each line.
func (w *tableWriter) grid(columns []column, cells [][]string) {
	line := func(text func(i int) string) {
		var b strings.Builder
		for i, c := range columns {
			if i > 0 {
				b.WriteString(gap)
			}
			t := Cut(text(i), c.width)
			pad := strings.Repeat(" ", c.width-Wide(t))
			if c.numbers && c.some {
				b.WriteString(pad + t)
			} else {
				b.WriteString(t + pad)
			}
		}
		fmt.Fprintln(w.out, strings.TrimRight(b.String(), " "))
	}
	line(func(i int) string { return columns[i].name })
	line(func(i int) string { return strings.Repeat("-", columns[i].width) })
	for _, row := range cells {
		line(func(i int) string { return row[i] })
	}
}

// records writes a property on each line, for rows that are wider than the window.
func (w *tableWriter) records(columns []column, cells [][]string) {
	names := 0
	for _, c := range columns {
		names = max(names, Wide(c.name))
	}
	names = min(names, max(w.o.Width/3, narrowest))
	for r, row := range cells {
		fmt.Fprintf(w.out, "-- row %d\n", w.written+r+1)
		for i, c := range columns {
			if row[i] == "" {
				continue
			}
			name := Cut(c.name, names)
			fmt.Fprintf(w.out, "%s%s%s%s\n", name, strings.Repeat(" ", names-Wide(name)), gap, Cut(row[i], max(w.o.Width-names-len(gap), narrowest)))
		}
	}
}

// Cut returns the beginning of a text that has at most that many cells of a terminal.
func Cut(text string, cells int) string {
	if Wide(text) <= cells {
		return text
	}
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > cells-1 {
			return text[:i] + cutMark
		}
	}
	return text
}
