package simulate

import (
	"fmt"
	"strconv"
)

// The texts of findings write figures as the commands do (package console, which is not
// below this package).

// number writes a number with separators between thousands.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(int64(n)) + " " + noun + "s"
}

func percent(f float64) string {
	if f > 0 && f < 0.01 {
		return fmt.Sprintf("%.1f %%", 100*f)
	}
	return fmt.Sprintf("%.0f %%", 100*f)
}

// size writes a number of bytes.
func size(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 || f >= 100 || f == float64(int64(f)) {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// hours writes a number of hours.
func hours(h float64) string {
	switch {
	case h < 1.0/60:
		return fmt.Sprintf("%.0f s", h*3600)
	case h < 2:
		return fmt.Sprintf("%.0f min", h*60)
	}
	return fmt.Sprintf("%.1f h", h)
}
