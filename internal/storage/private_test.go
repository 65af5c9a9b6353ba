//go:build unix

package storage

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// TestFilesBelongToTheirOwner walks a store on the real file system: only its owner,
// and with GroupRead its group, can read its files.
func TestFilesBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		group     bool
		file, dir fs.FileMode
	}{
		{"owner", false, 0o600, 0o700},
		{"group", true, 0o640, 0o750},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := filepath.Join(t.TempDir(), "data")
			lock, err := LockDir(root)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			pool, err := NewPool(Options{GroupRead: test.group})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			dir := filepath.Join(root, "p", "one")
			for range 2 { // The second round reuses a log.
				store, err := pool.Open(dir)
				if err != nil {
					if store, err = pool.Create(dir); err != nil {
						t.Fatal(err)
					}
				}
				batch := store.NewBatch()
				if err := batch.Set([]byte("k"), []byte("v")); err != nil {
					t.Fatal(err)
				}
				if err := store.Apply(batch); err != nil {
					t.Fatal(err)
				}
				if err := store.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			seen := 0
			err = filepath.WalkDir(filepath.Join(root, "p"), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				want := test.file
				if d.IsDir() {
					want = test.dir
				}
				if got := info.Mode().Perm(); got != want {
					t.Errorf("%s has mode %o, want %o", path, got, want)
				}
				seen++
				return nil
			})
			if err != nil || seen < 6 {
				t.Errorf("%d files and directories, %v", seen, err)
			}
		})
	}
}
