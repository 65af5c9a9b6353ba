package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// gathered returns the metrics with the given names, by name and the value of their label.
func gathered(t *testing.T, registry *prometheus.Registry, prefix string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// rewrite replaces a file.
func rewrite(t *testing.T, files storage.Files, name, content string) {
	t.Helper()
	f, err := storage.CreateFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(content))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// settled returns the tables of a store when no compaction replaces them any longer. The
// opening of a store may start one.
func settled(t *testing.T, pool *storage.Pool, dir string) (tables []string) {
	t.Helper()
	for same := 0; same < 20; time.Sleep(5 * time.Millisecond) {
		now, err := pool.Tables(dir)
		if err != nil || len(now) == 0 {
			t.Fatalf("tables %q, %v", now, err)
		}
		if same++; !slices.Equal(now, tables) {
			tables, same = now, 0
		}
	}
	return tables
}

// TestScrub flips a bit in a table of one partition, which is open or closed. The scrub
// finds it and reports it in the log, the metrics and Unwell; all partitions continue to
// serve. When the file is restored, the next scrub clears the report.
func TestScrub(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	manyPartitions(t, disk)
	var text bytes.Buffer
	registry := prometheus.NewRegistry()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.restart(t, func(config *cluster.Config) {
		config.Logger, config.Registerer = slog.New(slog.NewTextHandler(&text, nil)), registry
	})
	scrub := func() {
		t.Helper()
		if err := w.node.Scrub(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	scrub()
	if unwell := w.node.Unwell(); len(unwell) > 0 || strings.Contains(text.String(), "level=ERROR") {
		t.Fatalf("before the damage, unwell is %v\n%s", unwell, &text)
	}
	before := gathered(t, registry, "decan_scrub")
	if before["decan_scrub_bytes_total"] < 6*1000 || before["decan_scrub_last_pass_timestamp_seconds"] == 0 || before["decan_scrub_damaged_files"] != 0 {
		t.Errorf("metrics %v", before)
	}
	c, _ := w.catalog.View().Container("d", "b")
	for _, isOpen := range []bool{false, true} {
		if isOpen {
			if err := w.read(c, 1, "1"); err != nil {
				t.Fatal(err)
			}
		}
		dir := fmt.Sprintf("data/p/%x/1", []byte(c.RID))
		tables := settled(t, w.pool, dir)
		table := path.Join(dir, tables[0])
		whole := filesBelow(t, disk.FS(), dir)[table]
		at := len(whole) / 3
		rewrite(t, disk.FS(), table, whole[:at]+string([]byte{whole[at] ^ 1})+whole[at+1:])
		text.Reset()
		scrub()
		scrub()
		unwell := w.node.Unwell()
		if len(unwell) != 1 || unwell[0].Ailment != cluster.AilmentDamaged || unwell[0].Container != "b" || unwell[0].Partition != 1 || !strings.Contains(unwell[0].Reason, path.Base(table)) {
			t.Errorf("open %v: unwell is %+v", isOpen, unwell)
		}
		if n := strings.Count(text.String(), "level=ERROR"); n != 1 || !strings.Contains(text.String(), path.Base(table)) {
			t.Errorf("open %v: %d errors in the log:\n%s", isOpen, n, &text)
		}
		now := gathered(t, registry, "decan_")
		if now["decan_scrub_damaged_files"] != 1 || now["decan_partitions_unwell damaged"] != 1 {
			t.Errorf("open %v: metrics %v", isOpen, now)
		}
		for id := range resource.PartitionID(3) {
			if id != 1 {
				if err := w.read(c, id, "1"); err != nil {
					t.Errorf("partition %d: %v", id, err)
				}
			}
		}
		rewrite(t, disk.FS(), table, whole)
		scrub()
		if unwell := w.node.Unwell(); len(unwell) > 0 {
			t.Errorf("open %v, mended: unwell is %+v", isOpen, unwell)
		}
	}
	if err := w.write(c, 1, "more"); err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if report := check(t, disk); !report.Clean() {
		t.Errorf("%+v", report)
	}
}

// TestScrubUnderLoad finds nothing in partitions that are written to, closed to make room
// and opened again, while containers are created and dropped.
func TestScrubUnderLoad(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 4)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var scrubs sync.WaitGroup
	passes := 0
	scrubs.Go(func() {
		for ctx.Err() == nil {
			if err := w.node.Scrub(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("scrub: %v", err)
			}
			passes++
		}
	})
	for i := range 200 {
		if err := w.write(c, resource.PartitionID(i%4), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if unwell := w.node.Unwell(); len(unwell) > 0 {
		t.Errorf("unwell is %+v", unwell)
	}
	cancel()
	scrubs.Wait()
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if passes == 0 {
		t.Error("no pass")
	}
}
