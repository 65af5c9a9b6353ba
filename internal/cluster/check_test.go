package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// manyPartitions fills a disk with containers that have several partitions and a few
// hundred documents, and returns the number of partitions.
func manyPartitions(t *testing.T, disk *storagetest.Disk) (partitions int) {
	t.Helper()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	const each = 3
	for _, name := range []string{"a", "b"} {
		c, err := w.create(name, each)
		if err != nil {
			t.Fatal(err)
		}
		for p := range resource.PartitionID(each) {
			partitions++
			for i := range 100 {
				if err := w.write(c, p, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return partitions
}

// filesBelow returns the contents of all files below a directory.
func filesBelow(t *testing.T, files storage.Files, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := files.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := files.PathJoin(dir, name)
		info, err := files.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			for below, content := range filesBelow(t, files, path) {
				all[below] = content
			}
			continue
		}
		f, err := files.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		all[path] = string(content)
	}
	return all
}

// TestCheckInParallel shows that the result of a check does not depend on how many
// partitions it verifies at the same time, and that its progress never decreases.
func TestCheckInParallel(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	partitions := manyPartitions(t, disk)
	var first cluster.Report
	for _, parallel := range []int{1, 4} {
		pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
		if err != nil {
			t.Fatal(err)
		}
		var last cluster.CheckProgress
		report, err := cluster.Check(context.Background(), "data", cluster.CheckOptions{Pool: pool, Parallel: parallel, Progress: func(p cluster.CheckProgress) {
			if p.Part < last.Part || p.Documents < last.Documents || p.Partitions < last.Partitions || p.Total != partitions {
				t.Errorf("progress went from %+[2]v back to %+[1]v", p, last)
			}
			last = p
		}})
		if err := errors.Join(err, pool.Close()); err != nil {
			t.Fatal(err)
		}
		if !report.Clean() || report.Interrupted || len(report.Partitions) != partitions || len(report.Unchecked) > 0 {
			t.Errorf("%d at a time: %+v", parallel, report)
		}
		if last.Partitions != partitions || last.Documents != int64(100*partitions) || last.Part < 0.999 {
			t.Errorf("%d at a time: at the end %+v", parallel, last)
		}
		if parallel == 1 {
			first = report
		} else if !reflect.DeepEqual(report, first) {
			t.Errorf("%d at a time:\n%+v\nwant\n%+v", parallel, report, first)
		}
	}
}

// TestCheckInterrupted shows that an interrupted check names each partition that it has
// not verified, reports no problem, and changes nothing on the disk.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	partitions := manyPartitions(t, disk)
	for _, parallel := range []int{1, 2} {
		for _, when := range []float64{0, 0.1, 0.5, 0.9} {
			files := disk.FS()
			before := filesBelow(t, files, "data")
			pool, err := storage.NewPool(storage.Options{FS: files})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			report, err := cluster.Check(ctx, "data", cluster.CheckOptions{Pool: pool, Parallel: parallel, Progress: func(p cluster.CheckProgress) {
				if p.Part >= when {
					cancel()
				}
			}})
			cancel()
			if err := errors.Join(err, pool.Close()); err != nil {
				t.Fatal(err)
			}
			if !report.Clean() || !report.Interrupted {
				t.Errorf("interrupted at %v: %+v", when, report)
			}
			seen := map[string]bool{}
			for _, p := range report.Partitions {
				seen[fmt.Sprint(p.Container, p.Partition)] = true
			}
			for _, p := range report.Unchecked {
				seen[fmt.Sprint(p.Container, p.Partition)] = true
			}
			if n := len(report.Partitions) + len(report.Unchecked); n != partitions || len(seen) != n || len(report.Unchecked) == 0 {
				t.Errorf("interrupted at %v: %d checked, %d not, of %d", when, len(report.Partitions), len(report.Unchecked), partitions)
			}
			if after := filesBelow(t, files, "data"); !reflect.DeepEqual(before, after) {
				t.Errorf("interrupted at %v: the files have changed", when)
			}
		}
	}
	if report := check(t, disk); !report.Clean() || len(report.Partitions) != partitions {
		t.Errorf("afterwards: %+v", report)
	}
}
