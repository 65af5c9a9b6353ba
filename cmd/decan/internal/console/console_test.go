package console

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// TestMeter: the meter shows each tenth once if the output is not a terminal.
func TestMeter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := NewMeter(&out)
	for i := range 101 {
		m.Show(float64(i)/100, "x")
	}
	m.Show(-1, "unknown")
	m.End()
	if n := strings.Count(out.String(), "\n"); n != 11 || !strings.HasPrefix(out.String(), "  0 %  x\n 10 %") || strings.Contains(out.String(), "unknown") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	out.Reset()
	m = NewMeter(&out)
	m.Terminal = true
	m.Show(0.5, "half")
	m.Show(-1, "unknown")
	m.End()
	if got := out.String(); !strings.Contains(got, "█████·····   50 %  half") || !strings.HasSuffix(got, "\x1b[Kunknown\n") {
		t.Errorf("on a terminal %q", got)
	}
	out.Reset()
	m = NewHint(&out)
	m.Show(0.5, "half")
	m.End()
	if out.Len() > 0 {
		t.Errorf("a hint in a pipe: %q", out.String())
	}
	if IsTerminal(io.Discard) {
		t.Error("a writer that is no file counts as a terminal")
	}
}

// TestNumbers shows how numbers, request units, durations, sizes and gauges are written.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{Counted(0, "document"), "0 documents"},
		{Counted(1, "document"), "1 document"},
		{Counted(1234, "document"), "1,234 documents"},
		{Grouped(-1234567), "-1,234,567"},
		{Grouped(-123), "-123"},
		{Units(0), "0.00 RU"},
		{Units(7.125), "7.13 RU"},
		{Units(1234.5), "1,234.50 RU"},
		{Took(13 * time.Millisecond), "13 ms"},
		{Took(1260 * time.Millisecond), "1.3 s"},
		{Took(59980 * time.Millisecond), "1m0s"},
		{Took(2*time.Hour + 5*time.Second), "2h0m5s"},
		{Size(0), "0 B"},
		{Size(999), "999 B"},
		{Size(1000), "1.0 KB"},
		{Size(1536), "1.5 KB"},
		{Size(4 << 20), "4 MB"},
		{Size(3 << 60), "3145728 TB"},
		{Gauge(0), "··········    0 %"},
		{Gauge(250), "██████████  250 %"},
		{Bar(0.5), "[" + strings.Repeat("#", 15) + strings.Repeat("-", 15) + "]"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
