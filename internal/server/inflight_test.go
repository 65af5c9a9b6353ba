package server

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/cluster"
)

// inflightNames returns the files in the directory for incomplete work.
func inflightNames(t *testing.T, data string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(data, cluster.InflightDir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestInflightIsEmptied puts into inflight/ the remains of a crash and files that are
// not the program's own. The next start removes only the former, a refused start
// removes neither, and creating containers leaves no files.
func TestInflightIsEmptied(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, err := Start(context.Background(), Config{Data: data, Ports: PortOptions{Data: "127.0.0.1:0", Admin: noListener}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 2); err != nil {
		t.Fatal(err)
	}
	if left := inflightNames(t, data); len(left) > 0 {
		t.Errorf("a created container leaves %q", left)
	}
	// A container that cannot be created leaves nothing either.
	if err := s.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, 2); err == nil {
		t.Error("a second container of one name was created")
	}
	if left := inflightNames(t, data); len(left) > 0 {
		t.Errorf("a refused container leaves %q", left)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	inflight := filepath.Join(data, cluster.InflightDir)
	own := []string{newCatalogName, cluster.ProbePrefix + "0000000180000001", cluster.ProbePrefix}
	foreign := []string{"catalog2", "copy.tar", "partition"}
	for _, name := range []string{own[0], foreign[2]} {
		if err := os.MkdirAll(filepath.Join(inflight, name, "deeper"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inflight, name, "deeper", "file"), []byte("something"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Concat(own[1:], foreign[:2]) {
		if err := os.WriteFile(filepath.Join(inflight, name), []byte("something"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// Without its partitions the start is refused, and nothing is removed.
	kept := filepath.Join(t.TempDir(), "p")
	if err := os.Rename(filepath.Join(data, "p"), kept); err != nil {
		t.Fatal(err)
	}
	before := listing(t, data)
	if again, err := Start(context.Background(), Config{Data: data, Ports: PortOptions{Data: "127.0.0.1:0", Admin: noListener}}); err == nil {
		again.Close()
		t.Fatal("started without its partitions")
	}
	if after := listing(t, data); after != before {
		t.Errorf("the refused start changed the files to\n%s\nfrom\n%s", after, before)
	}
	if err := os.Rename(kept, filepath.Join(data, "p")); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	s, err = Start(context.Background(), Config{Data: data, Ports: PortOptions{Data: "127.0.0.1:0", Admin: noListener}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateContainer(t.Context(), "d", `{"id":"e","partitionKey":{"paths":["/pk"]}}`, 2); err != nil {
		t.Error(err)
	}
	if left := inflightNames(t, data); !slices.Equal(left, foreign) {
		t.Errorf("after the start there are %q, want %q", left, foreign)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(inflight, "partition", "deeper", "file")); err != nil {
		t.Error(err)
	}
	for _, name := range foreign {
		if !strings.Contains(log.String(), filepath.Join(inflight, name)) {
			t.Errorf("the log does not name %s:\n%s", name, log.String())
		}
	}
}
