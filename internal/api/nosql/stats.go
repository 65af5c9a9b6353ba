package nosql

import (
	"strconv"
	"time"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// formatStats writes a query's statistics in the form of the query metrics
// header: name=value, joined by semicolons, times in milliseconds. Figures that
// are not measured are omitted; clients read those as 0.
//
// A step that took place has at least 0.01 ms, the least that can be written, and
// the execution as a whole more than its parts: .NET subtracts those, and its tests
// expect no 0.
func formatStats(s *query.Stats) string {
	// The share of the documents read that passed the filter.
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
	compiled, load := max(s.Compiled, statsStep), s.Load
	if s.Retrieved > 0 {
		load = max(load, statsStep)
	}
	took := max(s.Took, s.Lookup+load+statsStep)
	decimal("totalExecutionTimeInMs", millis(compiled+took))
	decimal("queryCompileTimeInMs", millis(compiled))
	decimal("indexLookupTimeInMs", millis(s.Lookup))
	decimal("documentLoadTimeInMs", millis(load))
	decimal("VMExecutionTimeInMs", millis(took))
	count("retrievedDocumentCount", s.Retrieved)
	count("retrievedDocumentSize", s.RetrievedBytes)
	count("outputDocumentCount", s.Output)
	count("outputDocumentSize", s.OutputBytes)
	decimal("indexUtilizationRatio", ratio)
	return string(out[:len(out)-1])
}

// statsStep is the least time that two decimals show.
const statsStep = 10 * time.Microsecond

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// indexUseV1 writes the indexes of a query in the first form of index metrics:
// four lists, with the impact that an index has on the charge.
func indexUseV1(u query.IndexUse) value.Value {
	impact := value.Member{Name: "IndexImpactScore", Value: value.String("High")}
	precise := value.Member{Name: "IndexPreciseSet", Value: value.Bool(true)}
	single := func(paths []string) value.Value {
		list := make([]value.Value, len(paths))
		for i, path := range paths {
			list[i] = value.Object([]value.Member{
				{Name: "FilterExpression", Value: value.String("")},
				{Name: "IndexSpec", Value: value.String(path)},
				{Name: "FilterPreciseSet", Value: value.Bool(true)},
				precise, impact,
			})
		}
		return value.Array(list)
	}
	composite := func(indexes [][]string) value.Value {
		list := make([]value.Value, len(indexes))
		for i, properties := range indexes {
			specs := make([]value.Value, len(properties))
			for j, property := range properties {
				specs[j] = value.String(property)
			}
			list[i] = value.Object([]value.Member{{Name: "IndexSpecs", Value: value.Array(specs)}, precise, impact})
		}
		return value.Array(list)
	}
	return value.Object([]value.Member{
		{Name: "UtilizedSingleIndexes", Value: single(u.Single)},
		{Name: "PotentialSingleIndexes", Value: single(u.PotentialSingle)},
		{Name: "UtilizedCompositeIndexes", Value: composite(u.Composite)},
		{Name: "PotentialCompositeIndexes", Value: composite(u.PotentialComposite)},
	})
}
