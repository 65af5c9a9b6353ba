// Package console is what all commands of decan share on the side of the user:
// their streams, how they write numbers, sizes and JSON, and how they show
// progress.
//
// Commands write each number of things with [Counted] or [Grouped], each size with
// [Size], request units with [Units] and durations with [Took], so that all tables
// use one format.
//
// Page: docs/operating.md
package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Streams are what a command reads and writes; tests pass their own.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Interruptible returns a context that ends at the first SIGINT or SIGTERM. stop
// releases the signals: the next one ends the process.
func Interruptible() (ctx context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// IsInput reports whether in is a terminal.
func IsInput(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Window returns the width and height of the terminal that out is; 0 if it is none.
func Window(out io.Writer) (width, height int) {
	file, ok := out.(*os.File)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// Fit cuts a line that is drawn again and again to the width of the terminal that out is:
// of one that wraps, the first row would stay. If out is none, the line stays as it is.
func Fit(out io.Writer, line string) string {
	width, _ := Window(out)
	if runes := []rune(line); width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return line
}

// Exit is an error with an exit status of its own. Without it a failed command ends
// with 1.
type Exit struct {
	Code int
	Err  error
}

// Error returns the text of the error.
func (e Exit) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e Exit) Unwrap() error { return e.Err }

// PrintJSON writes a value as indented JSON.
func PrintJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Counted writes a number of things: "1 document", "1,234 documents".
func Counted[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Grouped writes a number with a comma between thousands.
func Grouped[N int | int64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Units writes request units with two decimals: "1,234.50 RU".
func Units(charge float64) string {
	hundredths := int64(charge*100 + 0.5)
	return fmt.Sprintf("%s.%02d RU", Grouped(hundredths/100), hundredths%100)
}

// Took writes a duration: in milliseconds below a second, otherwise in seconds,
// minutes and hours.
func Took(d time.Duration) string {
	switch {
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case d < time.Minute-50*time.Millisecond: // it would be written as 60.0 s
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// Size writes a number of bytes with a unit, in powers of 1,024.
func Size(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	n, unit := float64(bytes), 0
	for n >= 1000 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 || n >= 100 || n == float64(int64(n)) {
		return fmt.Sprintf("%.0f %s", n, units[unit])
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// Gauge draws percent as ten cells and its number, 17 columns wide.
func Gauge(percent float64) string {
	const cells = 10
	eighths := int(min(max(percent, 0), 100)/100*cells*8 + 0.5)
	full, part := eighths/8, eighths%8
	drawn := strings.Repeat("█", full)
	if part > 0 {
		drawn += string(rune('█' + 8 - part))
		full++
	}
	return fmt.Sprintf("%s%s %4.0f %%", drawn, strings.Repeat("·", cells-full), percent)
}

// barCells is the length of a bar.
const barCells = 30

// Bar draws a part, from 0 to 1, as a bar in brackets.
func Bar(part float64) string {
	filled := int(part * barCells)
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", barCells-filled) + "]"
}

// Meter shows the progress of something: on a terminal as a bar that is redrawn,
// elsewhere as a line for each tenth, or not at all if it is a hint.
type Meter struct {
	Terminal bool

	hint bool

	out    io.Writer
	tenths int  // shown so far, counted from one
	open   bool // the line of the bar has no end yet
}

// NewMeter returns a meter that writes to out.
func NewMeter(out io.Writer) *Meter { return &Meter{out: out, Terminal: IsTerminal(out)} }

// NewHint returns a meter for progress that was not asked for: it shows nothing if
// out is not a terminal.
func NewHint(out io.Writer) *Meter {
	m := NewMeter(out)
	m.hint = true
	return m
}

// MeterEvery is the time between two drawings of a bar.
const MeterEvery = 100 * time.Millisecond

// Show shows which part is done, from 0 to 1; a negative part is unknown.
func (m *Meter) Show(part float64, text string) {
	part = min(part, 1)
	if m.hint && !m.Terminal {
		return
	}
	switch tenths := 1 + int(part*10); {
	case m.Terminal && part >= 0:
		fmt.Fprint(m.out, "\r\x1b[K", Fit(m.out, Gauge(100*part)+"  "+text))
		m.open = true
	case m.Terminal:
		fmt.Fprint(m.out, "\r\x1b[K", Fit(m.out, text))
		m.open = true
	case part >= 0 && tenths > m.tenths:
		m.tenths = tenths
		fmt.Fprintf(m.out, "%3.0f %%  %s\n", 100*part, text)
	}
}

// End ends the line of the bar.
func (m *Meter) End() {
	if m.open {
		fmt.Fprintln(m.out)
		m.open = false
	}
}
