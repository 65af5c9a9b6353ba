package nosql

import (
	"testing"
	"time"

	"github.com/decandb/decan/internal/query"
)

// TestFormatStats shows the times of query metrics: what took place is not 0, and the
// whole is more than its parts (F20: .NET subtracts the parts).
func TestFormatStats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stats query.Stats
		want  string
	}{
		"cached plan and documents": {
			query.Stats{Retrieved: 2, RetrievedBytes: 300, Matched: 1, Output: 1, OutputBytes: 100, Took: time.Microsecond},
			"totalExecutionTimeInMs=0.03;queryCompileTimeInMs=0.01;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.01;VMExecutionTimeInMs=0.02;" +
				"retrievedDocumentCount=2;retrievedDocumentSize=300;outputDocumentCount=1;outputDocumentSize=100;indexUtilizationRatio=0.50",
		},
		"nothing read": {
			query.Stats{},
			"totalExecutionTimeInMs=0.02;queryCompileTimeInMs=0.01;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.00;VMExecutionTimeInMs=0.01;" +
				"retrievedDocumentCount=0;retrievedDocumentSize=0;outputDocumentCount=0;outputDocumentSize=0;indexUtilizationRatio=1.00",
		},
		"measured": {
			query.Stats{
				Retrieved: 8, RetrievedBytes: 900, Output: 2, OutputBytes: 20, Matched: 2, Compiled: time.Millisecond, Took: 1500 * time.Microsecond,
				Lookup: 250 * time.Microsecond, Load: 500 * time.Microsecond,
			},
			"totalExecutionTimeInMs=2.50;queryCompileTimeInMs=1.00;indexLookupTimeInMs=0.25;documentLoadTimeInMs=0.50;VMExecutionTimeInMs=1.50;" +
				"retrievedDocumentCount=8;retrievedDocumentSize=900;outputDocumentCount=2;outputDocumentSize=20;indexUtilizationRatio=0.25",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := formatStats(&c.stats); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
