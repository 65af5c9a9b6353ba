package table

import (
	"context"
	"testing"

	"github.com/decandb/decan/internal/table/cql"
)

// TestViewBuilds reads the tables about the building of views, of 4.1 and of 3.11.
func TestViewBuilds(t *testing.T) {
	t.Parallel()
	last := int64(-5)
	builds := func() []ViewBuild {
		return []ViewBuild{{Keyspace: "ks", View: "begun"}, {Keyspace: "ks", View: "built", Done: true, Rows: 7}, {Keyspace: "ks", View: "half", Rows: 3, Last: &last}}
	}
	for _, test := range []struct{ release, text, want string }{
		{"4.1.10", "SELECT view_name, start_token, end_token, keys_built, last_token FROM system.view_builds_in_progress", "'begun' | '-9223372036854775808' | '9223372036854775807' | 0 | null\n'half' | '-9223372036854775808' | '9223372036854775807' | 3 | '-5'\n"},
		{"4.1.10", "SELECT * FROM system.views_builds_in_progress", "error: table views_builds_in_progress does not exist"},
		{"4.1.10", "SELECT * FROM system.built_views", "'ks' | 'built' | true\n"},
		{"3.11.19", "SELECT * FROM system.views_builds_in_progress", "'ks' | 'begun' | null | null\n'ks' | 'half' | 0 | '-5'\n"},
		{"3.11.19", "SELECT * FROM system.view_builds_in_progress", "error: table view_builds_in_progress does not exist"},
		{"3.11.19", "SELECT * FROM system.built_views", "'ks' | 'built' | true\n"},
		{"3.11.19", "SELECT view_name, status FROM system_distributed.view_build_status", "'half' | 'STARTED'\n'built' | 'SUCCESS'\n'begun' | 'STARTED'\n"},
	} {
		y := NewSystem(&Schema{}, Node{Release: test.release})
		parsed, err := cql.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := y.Prepare(parsed, "")
		if err != nil {
			if got := "error: " + err.Error(); got != test.want {
				t.Errorf("%s: %s: %s", test.release, test.text, got)
			}
			continue
		}
		page, err := p.Select(context.Background(), y.RowsWith(p.Tables[0], builds), Values{}, &Moment{}, &PageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := printRows(p.Columns(), &page); got != test.want {
			t.Errorf("%s: %s:\n%s", test.release, test.text, got)
		}
	}
}
