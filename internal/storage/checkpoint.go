package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint makes dir, which must not exist, a store with everything applied
// so far, as fast as files can be linked. It is synced, with its parents, when
// Checkpoint returns; after an error dir is garbage, removed as far as possible.
func (s *Store) Checkpoint(dir string) error {
	return s.checkpointTo(dir, pebble.WithFlushedWAL())
}

// CheckpointWithout is [Store.Checkpoint] for a store that is not to have the
// rows with low <= key < high. Files that hold nothing else are left out, so
// that their room is not taken twice; what remains of those rows in other files
// may be in any state. The caller removes the range from the new store before
// reading it.
func (s *Store) CheckpointWithout(dir string, low, high []byte) error {
	last := families[len(families)-1]
	_, end := last.Bounds()
	return s.checkpointTo(dir, pebble.WithFlushedWAL(), pebble.WithRestrictToSpans([]pebble.CheckpointSpan{
		{Start: []byte{0}, End: low},
		{Start: high, End: end},
	}))
}

// Room returns how many bytes the disk of the store has free, and false when the
// file system does not say.
func (s *Store) Room() (free uint64, known bool) {
	usage, err := s.pool.options.FS.GetDiskUsage(s.dir)
	return usage.AvailBytes, err == nil
}

func (s *Store) checkpointTo(dir string, options ...pebble.CheckpointOption) error {
	dir = s.pool.clean(dir)
	if err := s.pool.claim(dir); err != nil {
		return fmt.Errorf("checkpoint store %s to %s: %w", s.dir, dir, err)
	}
	defer s.pool.release(dir)
	if err := s.checkpoint(dir, options); err != nil {
		return fmt.Errorf("checkpoint store %s to %s: %w", s.dir, dir, err)
	}
	return nil
}

// checkpointDescriptors is how many files a checkpoint has open at once: those of a
// flush, and one that is copied.
const checkpointDescriptors = 4

func (s *Store) checkpoint(dir string, options []pebble.CheckpointOption) error {
	// The flush could do without, but it need not be now.
	if err := s.pool.CanOpen(checkpointDescriptors); err != nil {
		return err
	}
	if err := errors.Join(s.Flush(), s.list()); err != nil {
		return err
	}
	files := s.pool.options.FS
	if err := s.pool.dirs.make(files.PathDir(dir)); err != nil {
		return err
	}
	if _, err := files.Stat(dir); err == nil {
		return fs.ErrExist
	}
	err := s.link(dir, options)
	if err == nil {
		// The format file comes last: without it the directory is no store.
		err = errors.Join(writeFormat(files, dir, s.pool.options.Release), syncDir(files, dir), syncDir(files, files.PathDir(dir)), s.guard.err())
	}
	if err != nil {
		if removeErr := files.RemoveAll(dir); removeErr != nil {
			s.pool.options.Logger.Debug("checkpoint remains not removed", "dir", dir, "err", removeErr)
		}
	}
	return err
}

// link has Pebble make its checkpoint. When it cannot sync the new directory it
// panics with the error, holding no lock.
func (s *Store) link(dir string, options []pebble.CheckpointOption) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			err = r
		default:
			panic(r)
		}
	}()
	return explain(s.db.Checkpoint(dir, options...))
}
