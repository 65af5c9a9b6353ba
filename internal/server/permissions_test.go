//go:build unix

package server

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modesBelow returns the permissions of everything in a directory, by path.
func modesBelow(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink == 0 {
			modes[path] = info.Mode().Perm()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes
}

// fill starts a server on a directory, writes to it and closes it.
func fill(t *testing.T, config Config) (log string) {
	t.Helper()
	var out bytes.Buffer
	config.Ports.Data, config.Ports.Admin = "127.0.0.1:0", "none"
	config.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s, err := Start(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateContainer(t.Context(), "d", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, 2); err != nil && !strings.Contains(err.Error(), "exists") {
		t.Fatal(err)
	}
	if r := call(t, s, "POST", "dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`, "x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-is-upsert", "true"); r.Status >= 300 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestDataBelongsToItsOwner walks a new data directory: others can read nothing
// in it, including keys of the catalog and of the certificate.
func TestDataBelongsToItsOwner(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		access    string
		file, dir fs.FileMode
	}{{"", 0o600, 0o700}, {"group", 0o640, 0o750}} {
		data := filepath.Join(t.TempDir(), "data")
		fill(t, Config{Data: data, Storage: StorageOptions{Access: test.access}})
		modes := modesBelow(t, data)
		if len(modes) < 20 {
			t.Errorf("only %d files and directories", len(modes))
		}
		for path, mode := range modes {
			info, _ := os.Stat(path)
			want := test.file
			if info.IsDir() {
				want = test.dir
			}
			if strings.Contains(path, "/tls") || strings.HasSuffix(path, "node.json") || strings.HasSuffix(path, "LOCK") {
				continue // the owner's in either case
			}
			if mode != want {
				t.Errorf("access %q: %s has mode %o, want %o", test.access, path, mode, want)
			}
		}
		for _, name := range []string{"node.json", "LOCK", "tls/ca.pem", "tls/ca-key.pem", "tls/server-key.pem"} {
			if mode, found := modes[filepath.Join(data, name)]; !found || mode&0o077 != 0 {
				t.Errorf("access %q: %s has mode %o (found: %v)", test.access, name, mode, found)
			}
		}
	}
}

// TestWideDirectoryIsTightened starts a server on a directory that an older
// release, or a copy, left open to others.
func TestWideDirectoryIsTightened(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	fill(t, Config{Data: data})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(outside, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	for path := range modesBelow(t, data) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if log := fill(t, Config{Data: data}); strings.Count(log, "data directory closed to others") != 1 {
		t.Errorf("want one line in the log, got:\n%s", log)
	}
	for path, mode := range modesBelow(t, data) {
		if mode&0o077 != 0 {
			t.Errorf("%s has mode %o", path, mode)
		}
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the target of a link was changed: %v %v", info.Mode(), err)
	}
	if log := fill(t, Config{Data: data}); strings.Contains(log, "closed to others") {
		t.Errorf("a closed directory is closed again:\n%s", log)
	}

	// With DataAccess the operator may share a directory.
	if err := os.Chmod(data, 0o777); err != nil {
		t.Fatal(err)
	}
	fill(t, Config{Data: data, Storage: StorageOptions{Access: "any"}})
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("got mode %v (%v), want it unchanged", info.Mode(), err)
	}
	fill(t, Config{Data: data, Storage: StorageOptions{Access: "group"}})
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("got mode %v (%v), want 0750", info.Mode(), err)
	}
}
