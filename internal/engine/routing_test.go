package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// tenants creates a container of 64 partitions with 4 tenants of 6 users of 5
// sessions each. With MultiHash, each tenant is in few of the partitions.
func tenants(t testing.TB, partitions int) (*world, engine.Link) {
	t.Helper()
	w := newWorld(t, nil)
	link := w.container(t, partitions, "/TenantId", "/UserId", "/SessionId")
	for tenant := range 4 {
		for user := range 6 {
			for session := range 5 {
				w.create(t, link, fmt.Sprintf(`{"id":"%d-%d-%d","TenantId":"t%d","UserId":"u%d","SessionId":"s%d","n":%d}`,
					tenant, user, session, tenant, user, session, tenant*100+user*10+session))
			}
		}
	}
	return w, link
}

// expected returns the partitions that overlap the range of a prefix, or all
// without components.
func (w *world) expected(t testing.TB, link engine.Link, components ...string) []resource.PartitionID {
	t.Helper()
	c, ok := w.catalog.View().Container(link.Database, link.Container)
	if !ok {
		t.Fatal("no container")
	}
	var k partitionkey.Key
	for _, text := range components {
		k = k.Append(partitionkey.String(text))
	}
	r, err := c.PartitionKey.Prefix(k)
	if err != nil {
		t.Fatal(err)
	}
	var ids []resource.PartitionID
	for _, entry := range c.Ranges.Overlapping(r) {
		ids = append(ids, entry.Value.ID)
	}
	slices.Sort(ids)
	return ids
}

// The filter determines exactly which partitions are visited. The rows are
// those of a filter over all documents.
func TestRouting(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 8, 64} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			w, link := tenants(t, partitions)
			for _, c := range []struct {
				name   string
				where  string
				params []string
				prefix []string // the partitions that this prefix overlaps; nil: all
				rows   int
			}{
				// S47: all levels: one logical and one physical partition.
				{"S47 all levels", `c.TenantId="t1" AND c.UserId="u2" AND c.SessionId="s3"`, nil, []string{"t1", "u2", "s3"}, 1},
				// S48, S54: a prefix of two levels.
				{"S48 two levels", `c.TenantId="t1" AND c.UserId="u2"`, nil, []string{"t1", "u2"}, 5},
				// S49, S39, S6: a prefix of one level.
				{"S49 one level", `c.TenantId="t1"`, nil, []string{"t1"}, 30},
				// S50, S53: the middle level alone fans out.
				{"S50 middle only", `c.UserId="u2"`, nil, nil, 20},
				// S51: the last level alone fans out.
				{"S51 last only", `c.SessionId="s3"`, nil, nil, 24},
				// S52: without the first level nothing is targeted; with a gap the prefix before it is.
				{"S52 without the first", `c.UserId="u2" AND c.SessionId="s3"`, nil, nil, 4},
				{"S52 a gap", `c.TenantId="t1" AND c.SessionId="s3"`, nil, []string{"t1"}, 6},
				// S56: equality in every form, and conditions that do not count
				// as equality.
				{"S56 reversed operands", `"t1" = c.TenantId`, nil, []string{"t1"}, 30},
				{"S56 brackets", `c["TenantId"] = "t1"`, nil, []string{"t1"}, 30},
				{"S56 further predicates", `c.TenantId = "t1" AND c.n > 120 AND STARTSWITH(c.id, "1-")`, nil, []string{"t1"}, 19},
				{"S56 IN of one", `c.TenantId IN ("t1")`, nil, []string{"t1"}, 30},
				{"S56 OR with another property", `c.TenantId = "t1" OR c.n = 0`, nil, nil, 31},
				{"S56 no equality", `c.TenantId >= "t3"`, nil, nil, 30},
				{"S56 NOT", `NOT (c.TenantId = "t1")`, nil, nil, 90},
				// S57, S58: parameters with hyphens.
				{
					"S57 parameters", `c.TenantId=@tenant-id AND c.UserId=@user-id AND c.SessionId=@session-id`,
					[]string{"@tenant-id", `"t1"`, "@user-id", `"u2"`, "@session-id", `"s3"`},
					[]string{"t1", "u2", "s3"},
					1,
				},
				{"S58 one parameter", `c.TenantId = @tenant-id`, []string{"@tenant-id", `"t1"`}, []string{"t1"}, 30},
				// A number and the string with its digits are different keys; no
				// document has the number.
				{"another type", `c.TenantId = "t1" AND c.UserId = 2`, nil, nil, 0},
			} {
				rows, visited := w.all(t, engine.QueryRequest{
					Link: link, Text: "SELECT * FROM c WHERE " + c.where, Params: params(t, c.params...), Cross: true, MaxItems: 7,
				})
				if len(rows) != c.rows {
					t.Errorf("%s: %d rows, want %d", c.name, len(rows), c.rows)
				}
				if c.name == "another type" {
					continue
				}
				if want := w.expected(t, link, c.prefix...); !slices.Equal(visited, want) {
					t.Errorf("%s: visited %v, want %v", c.name, visited, want)
				}
			}
		})
	}
}
