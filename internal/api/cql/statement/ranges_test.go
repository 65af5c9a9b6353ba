package statement

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
)

// TestManyRangeDeletions fills the deletions of a partition key up to the size of a row: the
// last that fits is made, one more is refused and changes nothing, and a larger one, or that
// of the partition, makes room.
func TestManyRangeDeletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))")
	const fits = 83_885 // of 25 bytes, in 2 MB
	at := func(c int) []byte { return binary.BigEndian.AppendUint32([]byte{8}, uint32(c)^1<<31) }
	var meta row.Meta
	for n := range fits - 1 {
		meta.Ranges = append(meta.Ranges, row.RangeDeletion{Start: at(4 * n), End: at(4*n + 2), Timestamp: int64(1e15 + n), Local: w.now.Unix()})
	}
	w.put(t, "t", stored{"\x00\x00\x00\x01", table.MetaItem, string(meta.Append(nil))})
	remove := func(n int) error {
		w.must(t, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (1, %d, 1)", 4*n))
		_, _, err := w.execute("ks", fmt.Sprintf("DELETE FROM t WHERE k = 1 AND c >= %d AND c < %d", 4*n, 4*n+2), 0)
		return err
	}
	if err := remove(fits); err != nil {
		t.Errorf("the last range: %v", err)
	}
	err := remove(fits + 1)
	if e := (*table.Error)(nil); !errors.As(err, &e) || !strings.HasPrefix(e.Text, "The deletions of ranges of one partition key need 20971") {
		t.Errorf("one range more: %v", err)
	}
	if rows := w.must(t, "SELECT c FROM t WHERE k = 1"); rows != fmt.Sprintf("%d\n", 4*(fits+1)) {
		t.Errorf("rows %s", rows)
	}
	w.must(t, "DELETE FROM t WHERE k = 1 AND c >= 0 AND c < 200000")
	if err := remove(fits + 1); err != nil {
		t.Errorf("after a larger range: %v", err)
	}
	w.must(t, "DELETE FROM t WHERE k = 1")
	if err := remove(fits + 2); err != nil {
		t.Errorf("after the partition: %v", err)
	}
}
