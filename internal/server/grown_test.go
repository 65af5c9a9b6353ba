package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestGrownAtStart starts a server on a copy of a directory that was not closed,
// in which a partition is above its limit. The start opens that partition to
// verify it, before the balancer exists, and the partition is still split.
func TestGrownAtStart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, Config{Data: data})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 400)
	text := strings.Repeat("x", 1000)
	for i := range 64 {
		key := fmt.Sprint("k", i)
		body := fmt.Sprintf(`{"id":"1","pk":%q,"text":%q}`, key, text)
		if _, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(key), []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(again, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(again, 0o700); err != nil {
		t.Fatal(err)
	}
	c.server = start(t, Config{Data: again, Partitions: PartitionOptions{PhysicalMax: 32 << 10}})
	waitFor(t, "a split", func() bool { return c.partitions(t) > 1 })
}
