package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestText runs the stories in testdata. A story has one store; its commands are the
// cases of textStory.run.
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d stories, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := s.run(t, d)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				if out == "" {
					return "ok\n"
				}
				return strings.TrimSuffix(out, "\n") + "\n"
			})
		})
	}
}

type textStory struct {
	pool      *Pool
	store     *Store
	snapshots map[string]*Snapshot
}

func newStory(t *testing.T) *textStory {
	s := &textStory{pool: newPool(t, Options{}), snapshots: map[string]*Snapshot{}}
	var err error
	s.store, err = s.pool.Create("store")
	must(t, err)
	t.Cleanup(func() {
		for _, snapshot := range s.snapshots {
			must(t, snapshot.Close())
		}
		must(t, s.store.Close())
	})
	return s
}

func (s *textStory) run(t *testing.T, d *datadriven.TestData) (string, error) {
	switch d.Cmd {
	case "apply": // a batch: set key value, delete key, add list numbers, remove list numbers
		return "", s.apply(d.Input)
	case "flush":
		return "", s.store.Flush()
	case "compact":
		return "", errors.Join(s.store.Flush(), s.store.db.Compact(t.Context(), []byte("a"), []byte("z"), false))
	case "reopen":
		if err := s.store.Close(); err != nil {
			return "", err
		}
		var err error
		s.store, err = s.pool.Open("store")
		return "", err
	case "snapshot": // saves a snapshot under a name
		s.snapshots[d.CmdArgs[0].Key] = s.store.Snapshot()
		return "", nil
	}
	snapshot := s.snapshots[argument(d, "at")]
	if snapshot == nil {
		snapshot = s.store.Snapshot()
		defer snapshot.Close()
	}
	switch d.Cmd {
	case "numbers": // the numbers of a set, from one on
		return s.numbers(t, snapshot, d)
	case "lists": // the lists of a range with their sizes
		return lists(snapshot, argument(d, "from"), argument(d, "to"), argument(d, "backward") != "")
	case "rows": // all rows, as bytes
		return rows(snapshot)
	}
	return "", fmt.Errorf("unknown command %s", d.Cmd)
}

func argument(d *datadriven.TestData, name string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == name {
			if len(arg.Vals) == 0 {
				return name
			}
			return arg.Vals[0]
		}
	}
	return ""
}

func (s *textStory) apply(input string) error {
	b := s.store.NewBatch()
	defer b.Close()
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		var err error
		switch words[0] {
		case "set":
			err = b.Set([]byte(words[1]), []byte(words[2]))
		case "delete":
			err = b.Delete([]byte(words[1]))
		case "add", "remove":
			for _, word := range words[2:] {
				err = errors.Join(err, each(word, func(number uint64) error {
					if words[0] == "add" {
						return b.AddPosting([]byte(words[1]), number)
					}
					return b.RemovePosting([]byte(words[1]), number)
				}))
			}
		default:
			err = fmt.Errorf("unknown row %s", words[0])
		}
		if err != nil {
			return err
		}
	}
	return s.store.Apply(b)
}

// each calls do with the numbers of a word such as 7, 0x10000 or 5..9.
func each(word string, do func(uint64) error) error {
	first, last, ranged := strings.Cut(word, "..")
	if !ranged {
		last = first
	}
	from, err := strconv.ParseUint(first, 0, 64)
	if err != nil {
		return err
	}
	to, err := strconv.ParseUint(last, 0, 64)
	for n := from; err == nil && n <= to; n++ {
		err = do(n)
	}
	return err
}

func (s *textStory) numbers(t *testing.T, snapshot *Snapshot, d *datadriven.TestData) (string, error) {
	set, rest, err := parseSet(t, snapshot, strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(d.Input)))
	if err != nil {
		return "", err
	}
	if len(rest) > 0 {
		return "", fmt.Errorf("left over: %v", rest)
	}
	if from := argument(d, "from"); from != "" {
		n, err := strconv.ParseUint(from, 0, 64)
		if err != nil {
			return "", err
		}
		set.SeekGE(n)
	}
	return show(set)
}

// parseSet parses a set: a list's key, or and, or, not and range with arguments in
// parentheses.
func parseSet(t *testing.T, snapshot *Snapshot, words []string) (*Postings, []string, error) {
	if len(words) < 2 || words[1] != "(" {
		return snapshot.Postings([]byte(words[0])), words[1:], nil
	}
	name, rest := words[0], words[2:]
	if name == "range" {
		return snapshot.PostingsRange(t.Context(), []byte(rest[0]), []byte(rest[1])), rest[3:], nil
	}
	var sets []*Postings
	for rest[0] != ")" {
		set, next, err := parseSet(t, snapshot, rest)
		if err != nil {
			return nil, nil, err
		}
		sets, rest = append(sets, set), next
	}
	switch name {
	case "and":
		return Intersect(sets...), rest[1:], nil
	case "or":
		return Union(sets...), rest[1:], nil
	case "not":
		return Difference(sets[0], sets[1]), rest[1:], nil
	}
	return nil, nil, fmt.Errorf("unknown set %s", name)
}

// show prints numbers, runs of them as first..last.
func show(set *Postings) (string, error) {
	var out []string
	n, ok := set.Next()
	for ok {
		first, last := n, n
		for n, ok = set.Next(); ok && n == last+1; n, ok = set.Next() {
			last = n
		}
		text := fmt.Sprint(first)
		if last > first {
			text = fmt.Sprintf("%d..%d", first, last)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		out = append(out, "none")
	}
	return strings.Join(out, " "), set.Close()
}

func lists(snapshot *Snapshot, from, to string, backward bool) (string, error) {
	var out strings.Builder
	l := snapshot.Lists([]byte(from), []byte(to))
	first, next := l.First, l.Next
	if backward {
		first, next = l.Last, l.Prev
	}
	for ok := first(); ok; ok = next() {
		n, err := l.Count()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "%s: %d\n", l.Key(), n)
	}
	if out.Len() == 0 {
		out.WriteString("none")
	}
	return out.String(), l.Close()
}

func rows(snapshot *Snapshot) (string, error) {
	var out strings.Builder
	it := snapshot.Iter(nil, nil)
	for ok := it.First(); ok; ok = it.Next() {
		value := fmt.Sprintf("%x", it.Value())
		if len(value) > 40 {
			value = fmt.Sprintf("%s... %d bytes", value[:20], len(it.Value()))
		}
		fmt.Fprintf(&out, "%q = %s\n", it.Key(), value)
	}
	if out.Len() == 0 {
		out.WriteString("none")
	}
	return out.String(), it.Close()
}
