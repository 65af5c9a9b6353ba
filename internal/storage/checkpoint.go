package storage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint creates a store in dir, which must not exist, with everything applied so
// far. It links files instead of copying them where it can. The store and its parents
// are synced when Checkpoint returns. After an error dir is removed as far as possible.
func (s *Store) Checkpoint(dir string) error {
	return s.checkpointTo(dir, pebble.WithFlushedWAL())
}

// CheckpointWithout is [Store.Checkpoint] without the rows with low <= key < high. It
// leaves out files that contain only such rows, so they take no space twice. Rows of
// the range in other files may remain in any state: the caller must delete the range in
// the new store before reading it.
func (s *Store) CheckpointWithout(dir string, low, high []byte) error {
	last := families[len(families)-1]
	_, end := last.Bounds()
	return s.checkpointTo(dir, pebble.WithFlushedWAL(), pebble.WithRestrictToSpans([]pebble.CheckpointSpan{
		{Start: []byte{0}, End: low},
		{Start: high, End: end},
	}))
}

// FreeBytes returns how many bytes are free on the disk of the store, and false if the
// file system does not report it.
func (s *Store) FreeBytes() (free uint64, known bool) {
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

// checkpointDescriptors is how many files a checkpoint has open at the same time: those
// of a flush, and one that is copied.
const checkpointDescriptors = 4

func (s *Store) checkpoint(dir string, options []pebble.CheckpointOption) error {
	// The flush below could use the reserve, but a checkpoint can be retried.
	if err := s.pool.CanOpen(checkpointDescriptors); err != nil {
		return err
	}
	if err := errors.Join(s.Flush(), s.ensureManifest()); err != nil {
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
		// The format file is written last: without it the directory is not a store.
		err = errors.Join(writeFormat(files, dir, s.pool.options.Release), syncDir(files, dir), syncDir(files, files.PathDir(dir)), s.guard.err())
	}
	if err != nil {
		if removeErr := files.RemoveAll(dir); removeErr != nil {
			s.pool.options.Logger.Debug("checkpoint remains not removed", "dir", dir, "err", removeErr)
		}
	}
	return err
}

// link calls Pebble's Checkpoint. If Pebble cannot sync the new directory it panics
// with the error, without holding a lock.
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
