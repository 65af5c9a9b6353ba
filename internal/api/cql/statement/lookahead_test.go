package statement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestLookupsOfManyPartitions reads through an index of a table of 17 partitions, which are
// read ahead: the rows are those of a scan in its order, in pages of any size, with more
// rows of a partition than are kept in memory, and a reader of one row asks few partitions.
func TestLookupsOfManyPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v int, s int static, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 100000",
		"CREATE INDEX ON t (v)", "CREATE INDEX ON t (s)")
	for k := range 60 {
		text := "BEGIN UNLOGGED BATCH "
		rows := 3
		if k < 8 {
			rows = 150 // more than a partition keeps
		}
		for c := range rows {
			text += fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (%d, %d, %d); ", k, c, c%2)
		}
		w.must(t, text+"APPLY BATCH", fmt.Sprintf("UPDATE t SET s = %d WHERE k = %d", k%3, k))
	}
	w.built(t)
	if n := len(w.config.Engine.TableRanges(w.current.Load().byTable[[2]string{"ks", "t"}].RID)); n != 17 {
		t.Fatalf("%d partitions", n)
	}
	all := strings.Split(strings.TrimSpace(w.must(t, "SELECT k, c, v, s FROM t")), "\n")
	for index, ends := range map[string]string{"v = 1": " | 1 | ", "s = 2": " | 2"} {
		want := slices.DeleteFunc(slices.Clone(all), func(line string) bool {
			if index == "s = 2" {
				return !strings.HasSuffix(line, ends)
			}
			return !strings.Contains(line, ends) || strings.Split(line, " | ")[2] != "1"
		})
		for _, size := range []int{0, 1, 7, 101, 5000} {
			r, _, err := w.execute("ks", "SELECT k, c, v, s FROM t WHERE "+index, size)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSpace(literals(r.Rows)), "\n"); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d: %d rows, want %d, or another order", index, size, len(got), len(want))
			}
		}
	}
	for text, most := range map[string]int{"SELECT k FROM t WHERE v = 1 LIMIT 1": 1, "SELECT k FROM t WHERE v = 9": 17} {
		r, _, err := w.execute("ks", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		visited := strings.Split(string(r.Payload[0].Value), ",")
		if len(visited) != most {
			t.Errorf("%s asks the partitions %s", text, visited)
		}
	}
}
