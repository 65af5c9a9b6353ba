package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// The quarantine is a directory in the data directory. Each entry is a directory with
// what was moved there and a note about it:
//
//	quarantine/<time>-<container>-<id>/note.json
//	quarantine/<time>-<container>-<id>/content   a directory or a file
const (
	quarantineDir  = "quarantine"
	noteFile       = "note.json"
	contentName    = "content"
	quarantineTime = "20060102T150405Z"
)

// Note describes an entry of the quarantine.
type Note struct {
	From    string    `json:"from"` // the original path in the data directory
	When    time.Time `json:"when"`
	Why     string    `json:"why"`
	Catalog uint64    `json:"catalogVersion"`         // the version at that time
	Marked  uint64    `json:"acknowledged,omitempty"` // the LSN of the partition's mark

	// Partition is the descriptor of a partition. Unreadable says why it cannot be read. Both
	// are empty for an entry that is not a partition.
	Partition  *PartitionNote `json:"says,omitempty"`
	Unreadable string         `json:"unreadable,omitempty"`
}

// PartitionNote is the descriptor of a partition in a note.
type PartitionNote struct {
	Container resource.RID           `json:"container"`
	Partition resource.PartitionID   `json:"partition"`
	Range     string                 `json:"range"`
	Parents   []resource.PartitionID `json:"parents,omitempty"`
	Documents int64                  `json:"documents"`
	Bytes     int64                  `json:"bytes"`
	LSN       resource.LSN           `json:"lsn"`
	Catalog   uint64                 `json:"catalogVersion,omitempty"`
}

func partitionNote(s partition.Summary) *PartitionNote {
	return &PartitionNote{
		Container: s.Container, Partition: s.ID, Range: s.Range.String(), Parents: s.Parents,
		Documents: s.Documents, Bytes: s.Bytes, LSN: s.LSN, Catalog: s.Catalog,
	}
}

// Quarantined is one entry of the quarantine.
type Quarantined struct {
	Name string
	Note
	Empty bool // it has no content, because a crash interrupted the move
}

// quarantine durably moves a directory that the catalog does not name to the quarantine,
// and returns the name of the entry.
func (n *Node) quarantine(d unnamed, why string) (name string, err error) {
	note := Note{Why: why, Catalog: n.cfg.Catalog.View().Version()}
	if known, found := n.marks.of(d.ref); found {
		note.Marked = known.value
	}
	switch summary, err := n.readSummary(d); {
	case err == nil:
		note.Partition = partitionNote(summary)
	case errors.Is(err, fs.ErrNotExist):
		note.Unreadable = "it is not a store"
	default:
		note.Unreadable = err.Error()
	}
	base := path.Base(d.dir)
	if d.ref.Container != "" {
		base = fmt.Sprintf("%x-%s", string(d.ref.Container), d.ref.Partition)
	}
	if name, err = n.isolate(d.dir, base, note); err != nil {
		return "", fmt.Errorf("move %s to the quarantine: %w", d.dir, err)
	}
	n.cfg.Logger.Warn("directory that the catalog does not name moved to the quarantine", "dir", d.dir, "quarantine", name)
	if d.ref.Container != "" {
		return name, n.removeEmptyDir(n.containerDir(d.ref.Container))
	}
	return name, nil
}

// isolate moves a directory or file of the data directory into a new entry of the
// quarantine and returns the entry's name, which contains base.
func (n *Node) isolate(from, base string, note Note) (name string, err error) {
	files := n.cfg.Pool.FS()
	note.When = n.now()
	note.From = relative(files, n.cfg.Dir, from)
	if name, err = n.newEntry(base, note); err != nil {
		return "", err
	}
	entry := files.PathJoin(n.cfg.Dir, quarantineDir, name)
	return name, moveDurably(files, from, files.PathJoin(entry, contentName))
}

// newEntry creates an entry of the quarantine that has only a note.
func (n *Node) newEntry(base string, note Note) (name string, err error) {
	files := n.cfg.Pool.FS()
	root := files.PathJoin(n.cfg.Dir, quarantineDir)
	name = note.When.Format(quarantineTime) + "-" + base
	for i := 2; ; i++ {
		if _, err := files.Stat(files.PathJoin(root, name)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s-%s-%d", note.When.Format(quarantineTime), base, i)
	}
	entry := files.PathJoin(root, name)
	if err := files.MkdirAll(entry, 0o700); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return "", err
	}
	if err := writeFile(files, files.PathJoin(entry, noteFile), append(text, '\n')); err != nil {
		return "", err
	}
	return name, errors.Join(syncDir(files, entry), syncDir(files, root), syncDir(files, files.PathDir(root)))
}

// writeFile creates a file and syncs it. The caller syncs the directory.
func writeFile(files storage.Files, name string, content []byte) error {
	f, err := storage.CreateFile(files, name)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// moveDurably renames a file or directory and syncs the directories of both names.
func moveDurably(files storage.Files, from, to string) error {
	if err := files.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(syncDir(files, files.PathDir(to)), syncDir(files, files.PathDir(from)))
}

// relative returns the path of name relative to dir, with slashes.
func relative(files storage.Files, dir, name string) string {
	var parts []string
	for name = files.PathJoin(name); name != files.PathJoin(dir); {
		parts = append(parts, files.PathBase(name))
		parent := files.PathDir(name)
		if parent == name || parent == "." {
			break
		}
		name = parent
	}
	slices.Reverse(parts)
	return path.Join(parts...)
}

// keepMarks copies a damaged file of marks to the quarantine. The file itself remains
// until it is replaced.
func (n *Node) keepMarks() error {
	files := n.cfg.Pool.FS()
	name, err := n.newEntry(marksFile, Note{
		From: marksFile,
		When: n.now(),
		Why:  "some of its records cannot be read; the others are in the new file", Catalog: n.cfg.Catalog.View().Version(),
	})
	if err == nil {
		entry := files.PathJoin(n.cfg.Dir, quarantineDir, name)
		err = errors.Join(storage.CopyFile(files, files.PathJoin(n.cfg.Dir, marksFile), files.PathJoin(entry, contentName)), syncDir(files, entry))
	}
	if err != nil {
		return fmt.Errorf("copy the damaged marks to the quarantine: %w", err)
	}
	return nil
}

// ListQuarantine returns the entries of the quarantine of a data directory, oldest
// first.
func ListQuarantine(files storage.Files, dir string) ([]Quarantined, error) {
	root := files.PathJoin(dir, quarantineDir)
	names, err := files.List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the quarantine: %w", err)
	}
	slices.Sort(names)
	all := make([]Quarantined, 0, len(names))
	for _, name := range names {
		q := Quarantined{Name: name}
		entry := files.PathJoin(root, name)
		if q.Note, err = readNote(files, files.PathJoin(entry, noteFile)); err != nil {
			q.Unreadable = fmt.Sprintf("its note cannot be read: %v", err)
		}
		if _, err := files.Stat(files.PathJoin(entry, contentName)); err != nil {
			q.Empty = errors.Is(err, fs.ErrNotExist)
		}
		all = append(all, q)
	}
	return all, nil
}

// noteBytesMax bounds how much of a note is read.
const noteBytesMax = 64 << 10

func readNote(files storage.Files, name string) (note Note, err error) {
	f, err := files.Open(name)
	if err != nil {
		return note, err
	}
	text, err := io.ReadAll(io.LimitReader(f, noteBytesMax))
	if err := errors.Join(err, f.Close()); err != nil {
		return note, err
	}
	return note, json.Unmarshal(text, &note)
}

// summaryOfQuarantined reads the descriptor of a partition in the quarantine.
func summaryOfQuarantined(pool *storage.Pool, dir, name string) (summary partition.Summary, err error) {
	content := pool.FS().PathJoin(dir, quarantineDir, name, contentName)
	err = inspect(pool, content, storage.Opening{}, func(snapshot *storage.Snapshot) (err error) {
		summary, err = partition.ReadSummary(snapshot)
		return err
	})
	return summary, err
}

// String describes an entry in one line.
func (q Quarantined) String() string {
	what := fmt.Sprintf("%s: %s, since %s: %s", q.Name, q.From, q.When.Format(time.RFC3339), q.Why)
	switch {
	case q.Empty:
		return what + "; nothing was moved"
	case q.Partition != nil:
		return fmt.Sprintf("%s; partition %s of container %s, range %s, %s, %s, LSN %d", what, q.Partition.Partition, q.Partition.Container, q.Partition.Range, counted(q.Partition.Documents, "document"), counted(q.Partition.Bytes, "byte"), q.Partition.LSN)
	case q.Unreadable != "":
		return what + "; " + q.Unreadable
	}
	return what
}
