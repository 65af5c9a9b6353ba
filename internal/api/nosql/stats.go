package nosql

import (
	"strconv"
	"time"

	"github.com/decandb/decan/internal/query"
)

// formatStats writes what a query did in the form of the query metrics header:
// name=value, joined by semicolons, times in milliseconds. Figures that are not
// measured are left out; clients read those as 0.
func formatStats(s *query.Stats) string {
	// The share of the documents read that the filter let through.
	ratio := 1.0
	if s.Retrieved > 0 {
		ratio = float64(s.Matched) / float64(s.Retrieved)
	}
	out := make([]byte, 0, 320)
	decimal := func(name string, figure float64) {
		out = append(append(out, name...), '=')
		out = append(strconv.AppendFloat(out, figure, 'f', 2, 64), ';')
	}
	count := func(name string, figure int64) {
		out = append(append(out, name...), '=')
		out = append(strconv.AppendInt(out, figure, 10), ';')
	}
	decimal("totalExecutionTimeInMs", millis(s.Compiled+s.Took))
	decimal("queryCompileTimeInMs", millis(s.Compiled))
	decimal("VMExecutionTimeInMs", millis(s.Took))
	count("retrievedDocumentCount", s.Retrieved)
	count("retrievedDocumentSize", s.RetrievedBytes)
	count("outputDocumentCount", s.Output)
	count("outputDocumentSize", s.OutputBytes)
	decimal("indexUtilizationRatio", ratio)
	return string(out[:len(out)-1])
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
