package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newPool returns a pool in memory that is closed at the end of the test.
func newPool(t testing.TB, options Options) *Pool {
	t.Helper()
	if options.FS == nil {
		options.InMemory = true
	}
	p, err := NewPool(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	return p
}

// newStore returns a store in its own pool, both closed at the end of the test.
func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := newPool(t, Options{}).Create("store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// put applies one row.
func put(t testing.TB, s *Store, key, value string) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	if err := b.Set([]byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(b); err != nil {
		t.Fatal(err)
	}
}

// get returns the value of a key, or "-" if there is none.
func get(t testing.TB, s *Store, key string) string {
	t.Helper()
	snapshot := s.Snapshot()
	defer snapshot.Close()
	value, found, err := snapshot.Get(nil, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return "-"
	}
	return string(value)
}

func TestRowsSurviveReopening(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"memory": {InMemory: true}, "disk": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := "a/b/store"
			if !options.InMemory {
				dir = filepath.Join(t.TempDir(), dir)
			}
			p, err := NewPool(options)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s, err := p.Create(dir)
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, "mone", "1")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err = p.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := get(t, s, "mone"); got != "1" {
				t.Errorf("row after reopening = %q, want 1", got)
			}
			if got := get(t, s, "mtwo"); got != "-" {
				t.Errorf("row that was never written = %q", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := p.Remove(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Open(dir); !isNotExist(err) {
				t.Errorf("open after removal: %v, want that it does not exist", err)
			}
			if err := p.Remove(dir); err != nil {
				t.Errorf("second removal: %v", err)
			}
		})
	}
}

func isNotExist(err error) bool {
	return err != nil && strings.Contains(err.Error(), fs.ErrNotExist.Error())
}

func TestSnapshotDoesNotChange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	put(t, s, "mk", "old")
	snapshot := s.Snapshot()
	defer snapshot.Close()
	put(t, s, "mk", "new")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	value, found, err := snapshot.Get([]byte("is "), []byte("mk"))
	if err != nil || !found || string(value) != "is old" {
		t.Errorf("Get in the snapshot = %q, %v, %v, want %q", value, found, err, "is old")
	}
	if got := get(t, s, "mk"); got != "new" {
		t.Errorf("head = %q, want new", got)
	}
}

func TestIteratorMoves(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, k := range []string{"ma", "mb", "mc", "md"} {
		put(t, s, k, "value of "+k)
	}
	snapshot := s.Snapshot()
	defer snapshot.Close()
	it := snapshot.Iter([]byte("mb"), []byte("md"))
	defer it.Close()
	at := func(ok bool) string {
		if ok != it.Valid() {
			t.Fatalf("the move returned %v, Valid %v", ok, it.Valid())
		}
		if !ok {
			return "-"
		}
		if want := "value of " + string(it.Key()); string(it.Value()) != want {
			t.Errorf("value = %q, want %q", it.Value(), want)
		}
		return string(it.Key())
	}
	for _, c := range []struct{ move, got, want string }{
		{"First", at(it.First()), "mb"},
		{"Next", at(it.Next()), "mc"},
		{"Next", at(it.Next()), "-"},
		{"Last", at(it.Last()), "mc"},
		{"Prev", at(it.Prev()), "mb"},
		{"Prev", at(it.Prev()), "-"},
		{"SeekGE", at(it.SeekGE([]byte("mbb"))), "mc"},
		{"SeekLT", at(it.SeekLT([]byte("mc"))), "mb"},
		{"SeekGE below", at(it.SeekGE([]byte("m"))), "mb"},
		{"SeekLT above", at(it.SeekLT([]byte("z"))), "mc"},
	} {
		if c.got != c.want {
			t.Errorf("%s: is on %s, want %s", c.move, c.got, c.want)
		}
	}
	if err := it.Err(); err != nil {
		t.Error(err)
	}
}

// Create, Open and Remove refuse to damage an existing store.
func TestPoolRefuses(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{})
	s, err := p.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"create where a store is open": second(p.Create("x")),
		"open twice":                   second(p.Open("x/")),
		"remove an open store":         p.Remove("x"),
		"rename an open store":         p.Rename("x", "y"),
		"rename onto an open store":    p.Rename("y", "x"),
		"checkpoint onto itself":       s.Checkpoint("x"),
		"close the pool before stores": p.Close(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	put(t, s, "mk", "still there")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create("x"); err == nil || !strings.Contains(err.Error(), "exist") {
		t.Errorf("create over a store: %v, want that it exists", err)
	}
	must(t, p.Rename("x", "y"))
	if _, err := p.Open("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of the old name: %v, want that it does not exist", err)
	}
	s, err = p.Open("y")
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "mk"); got != "still there" {
		t.Errorf("after all refusals the row is %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestClosedPool(t *testing.T) {
	t.Parallel()
	p, err := NewPool(Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create("x"); err == nil {
		t.Error("a closed pool creates stores")
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "s")
	p, err := NewPool(Options{Release: "0.1.0\nevil"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "mk", "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, formatFile)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "decan store format 1, written by decan 0.1.0 evil\n"; string(good) != want {
		t.Errorf("format file = %q, want %q", good, want)
	}
	before := listing(t, dir)
	for text, want := range map[string]string{
		"decan store format 7, written by decan 3.2.1\n":                  "format 7, written by decan 3.2.1",
		"decan store format 4294967295, written by decan x\n":             "format 4294967295",
		"decan store format 4294967296, written by decan x\n":             "does not name a format",
		"decan store format 0, written by decan x\n":                      "does not name a format",
		"decan store format 01, written by decan x\n":                     "does not name a format",
		"decan store format -1, written by decan x\n":                     "does not name a format",
		"decan store format 1":                                            "does not name a format",
		"":                                                                "does not name a format",
		"\x00\xff":                                                        "does not name a format",
		"decan store format 1 , written by decan x":                       "does not name a format",
		strings.Repeat("decan store format 1, written by decan x\n", 100): "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := p.Open(dir)
		if want == "" {
			if err != nil {
				t.Errorf("format %.40q: %v", text, err)
			} else if err := s.Close(); err != nil {
				t.Error(err)
			}
			before = listing(t, dir)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %.60q: error %v, want %q", text, err, want)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("format %.60q: the refusal changed the files from\n%s to\n%s", text, before, after)
		}
	}
}

// listing returns the names and sizes of all files but the format file.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != formatFile {
			fmt.Fprintln(&text, e.Name(), info.Size(), info.ModTime())
		}
	}
	return text.String()
}

// A directory without a format file is not a store, regardless of its other files.
func TestOpenIncomplete(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{})
	if _, err := p.Open("nowhere"); !isNotExist(err) {
		t.Errorf("open of nothing: %v", err)
	}
	if err := p.FS().MkdirAll("half", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open("half"); !isNotExist(err) {
		t.Errorf("open of an empty directory: %v", err)
	}
	// Only the format file: creation was interrupted before Pebble began.
	if err := writeFormat(p.FS(), "half", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open("half"); err == nil || !IsCorrupt(err) {
		t.Errorf("open of a store without rows: %v, want that it is damaged", err)
	}
}

func TestLockDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "data directory " + dir + " is in use by another decan process"
	if _, err := LockDir(dir + "/"); err == nil || err.Error() != want {
		t.Errorf("second lock: %v, want %q", err, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err = LockDir(dir)
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(file); err == nil || strings.Contains(err.Error(), "in use") {
		t.Errorf("lock of a file: %v", err)
	}
}

// Two pools of one process cannot open the same store.
func TestStoreInUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "s")
	one, two := newPool(t, Options{FS: osFS}), newPool(t, Options{FS: osFS})
	s, err := one.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Open(dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("open in a second pool: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = two.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{FS: osFS})
	root := t.TempDir()
	s, err := p.Create(filepath.Join(root, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "ma", "before")
	copyDir := filepath.Join(root, "new", "copy")
	if err := s.Checkpoint(copyDir); err != nil {
		t.Fatal(err)
	}
	put(t, s, "ma", "after")
	if err := s.Checkpoint(copyDir); err == nil {
		t.Error("a checkpoint replaces another")
	}
	c, err := p.Open(copyDir)
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, c, "ma"); got != "before" {
		t.Errorf("row of the checkpoint = %q, want before", got)
	}
	put(t, c, "mb", "own")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "mb") + get(t, s, "ma"); got != "-after" {
		t.Errorf("rows of the original = %q, want -after", got)
	}
}

func TestBatchRepr(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	free := NewBatch()
	for _, err := range []error{
		free.Set([]byte("ma"), []byte("1")), free.Set([]byte("mb"), nil), free.Delete([]byte("ma")),
		free.DeleteRange([]byte("n"), []byte("o")), free.AddPosting([]byte("tx"), 1<<40|65536),
		free.RemovePosting([]byte("tx"), 7),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	repr := bytes.Clone(free.Repr())
	var rows []string
	err := ReadRows(repr, func(r Row) error {
		text := fmt.Sprintf("%d %q %q", r.Kind, r.Key, r.Value)
		if r.Kind == RowPosting {
			list, number, added, err := r.Posting()
			text = fmt.Sprintf("%s %d %v %v", list, number, added, err)
		}
		rows = append(rows, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `0 "ma" "1"|0 "mb" ""|1 "ma" ""|2 "n" "o"|tx 1099511693312 true <nil>|tx 7 false <nil>`
	if got := strings.Join(rows, "|"); got != want {
		t.Errorf("rows = %s, want %s", got, want)
	}
	b := s.NewBatch()
	defer b.Close()
	if err := b.Append(repr); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(nil); err != nil {
		t.Fatal(err)
	}
	if b.Rows() != 6 || b.Empty() {
		t.Errorf("the batch has %d rows, want 6", b.Rows())
	}
	if err := s.Apply(b); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "mb"); got != "" {
		t.Errorf("mb = %q, want the empty value", got)
	}
	if got := get(t, s, "ma"); got != "-" {
		t.Errorf("ma = %q, want none", got)
	}
}

// Rows come from logs and from the network: all damage is an error and changes nothing.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	good := NewBatch()
	if err := good.Set([]byte("mkey"), []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := good.AddPosting([]byte("tlist"), 5); err != nil {
		t.Fatal(err)
	}
	whole := good.Repr()
	into := NewBatch()
	for cut := 1; cut < len(whole); cut++ {
		if err := into.Append(whole[:cut]); !IsCorrupt(err) {
			t.Errorf("rows cut at %d of %d: %v, want that they are damaged", cut, len(whole), err)
		}
	}
	for _, tail := range [][]byte{{0}, {0xFF, 1}, {1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}, {1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, {1}, {3, 0}} {
		if err := into.Append(append(bytes.Clone(whole), tail...)); !IsCorrupt(err) {
			t.Errorf("tail %x: %v, want that it is damaged", tail, err)
		}
	}
	if !into.Empty() {
		t.Errorf("damaged rows left %d rows", into.Rows())
	}
}

func FuzzReadRows(f *testing.F) {
	b := NewBatch()
	_ = b.Set([]byte("k"), []byte("v"))
	_ = b.RemovePosting([]byte("t"), 9)
	f.Add(bytes.Clone(b.Repr()))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x01})
	f.Fuzz(func(t *testing.T, repr []byte) {
		rows := 0
		err := ReadRows(repr, func(r Row) error {
			rows++
			if r.Kind == RowPosting {
				_, _, _, _ = r.Posting()
			}
			return nil
		})
		if err != nil {
			return
		}
		into := NewBatch()
		if err := into.Append(repr); err != nil {
			t.Fatalf("rows that can be read cannot be appended: %v", err)
		}
		if into.Rows() != rows {
			t.Fatalf("%d rows were read, %d appended", rows, into.Rows())
		}
	})
}

func TestDeleteRange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, k := range []string{"ma", "mb", "mc"} {
		put(t, s, k, k)
	}
	if err := s.DeleteRange([]byte("mb"), []byte("mc")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "ma") + get(t, s, "mb") + get(t, s, "mc"); got != "ma-mc" {
		t.Errorf("rows = %s, want ma-mc", got)
	}
	if s.Size() <= 0 {
		t.Errorf("size = %d", s.Size())
	}
}

// An abandoned store writes no table but keeps its rows: it opens again until it is
// removed.
func TestAbandon(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	p := newPool(t, Options{FS: files})
	s, err := p.Create("s")
	must(t, err)
	must(t, fillRow(s, "mrow"))
	must(t, s.Abandon())
	names, err := files.List("s")
	must(t, err)
	for _, name := range names {
		if path.Ext(name) == ".sst" {
			t.Errorf("it wrote %s", name)
		}
	}
	s, err = p.Open("s")
	must(t, err)
	now := s.Snapshot()
	if _, found, err := now.Get(nil, []byte("mrow")); err != nil || !found {
		t.Errorf("the row is found: %v, %v", found, err)
	}
	must(t, now.Close())
	must(t, s.Abandon())
	must(t, p.Remove("s"))
}
