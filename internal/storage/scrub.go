package storage

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	sstblock "github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrScrubLater means that a store is being opened, closed, created or removed, or that
// no descriptor is free to read it.
var ErrScrubLater = errors.New("the store cannot be scrubbed now")

// Tables returns the sorted names of the tables of the store in dir: for an open store
// those in use, for a closed one those in its directory, and none if there is no
// directory.
func (p *Pool) Tables(dir string) ([]string, error) {
	dir = p.clean(dir)
	p.mu.Lock()
	s, claimed := p.open[dir]
	p.mu.Unlock()
	switch {
	case claimed && s == nil:
		return nil, ErrScrubLater
	case claimed:
		return s.tableNames()
	}
	names, err := p.options.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	tables := slices.DeleteFunc(names, func(name string) bool { return path.Ext(name) != tableExt })
	slices.Sort(tables)
	return tables, nil
}

// tableNames returns the tables that the store uses, and ErrScrubLater if the store has
// failed: its newest tables are in memory.
func (s *Store) tableNames() ([]string, error) {
	s.listing.Lock()
	defer s.listing.Unlock()
	if s.ended || s.guard.err() != nil {
		return nil, ErrScrubLater
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, level := range levels {
		for i := range level {
			file := level[i].FileNum.String()
			if level[i].Virtual {
				file = level[i].BackingSSTNum.String()
			}
			names = append(names, file+tableExt)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil // Virtual tables share a file.
}

// Scrub reads a table of the store in dir, which [Pool.Tables] has named, and verifies
// the checksum of each of its blocks. It bypasses the block cache and the store's
// readers, so damage that it finds affects only its result.
//
// Before each read Scrub calls spend with the number of bytes; an error of spend ends
// it and is returned. Damage is reported only if a second read finds it as well and the
// store still uses the table.
func (p *Pool) Scrub(dir, table string, spend func(bytes int) error) (*Damage, error) {
	dir = p.clean(dir)
	damage, err := p.scrub(dir, table, spend)
	if damage == nil {
		return nil, err
	}
	used, err := p.Tables(dir)
	if err != nil || !slices.Contains(used, table) {
		return nil, err
	}
	return p.scrub(dir, table, spend)
}

// scrub reads a table that is in use once.
func (p *Pool) scrub(dir, table string, spend func(bytes int) error) (*Damage, error) {
	name := p.options.FS.PathJoin(dir, table)
	f, err := p.options.FS.Open(name, vfs.SequentialReadsOption)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Damage{Dir: dir, File: table, Missing: true, Reason: "the store's manifest names it"}, nil
	case isExhausted(err):
		return nil, ErrScrubLater
	case err != nil:
		return &Damage{Dir: dir, File: table, Reason: err.Error()}, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &scrubbed{file: f, size: info.Size(), spend: spend, pacer: pacer{clock: p.options.clock}}
	r.handle = objstorage.MakeNoopReadHandle(r)
	err = errors.Join(r.compare(), f.Close())
	switch {
	case r.stopped != nil:
		return nil, r.stopped
	case pebble.IsCorruptionError(err):
		return &Damage{Dir: dir, File: table, Offset: r.at, Reason: "the block at this offset does not match its checksum"}, nil
	case err != nil:
		return &Damage{Dir: dir, File: table, Offset: r.at, Reason: err.Error()}, nil
	}
	return nil, nil
}

// scrubbed is a table that is being scrubbed. It implements [objstorage.Readable].
type scrubbed struct {
	file    vfs.File
	size    int64
	spend   func(bytes int) error
	stopped error // of spend
	at      int64 // offset of the last read
	handle  objstorage.NoopReadHandle
	pacer   pacer
}

// compare reads all blocks in file order and verifies their checksums.
func (s *scrubbed) compare() error {
	reader, err := sstable.NewReader(context.Background(), s, sstable.ReaderOptions{
		Merger:  newMerger(nil, nil),
		Filters: map[string]pebble.FilterPolicy{tableFilter.Name(): tableFilter},
	})
	if err != nil {
		return err
	}
	// The reader is not closed: Close would close s, which scrub closes, and the reader
	// holds nothing else.
	layout, err := reader.Layout()
	if err != nil {
		return err
	}
	handles := []sstblock.Handle{layout.TopIndex, layout.RangeDel, layout.RangeKey, layout.ValueIndex, layout.Properties, layout.MetaIndex, layout.BlobReferenceIndex}
	for _, h := range layout.Data {
		handles = append(handles, h.Handle)
	}
	for _, h := range layout.Filter {
		handles = append(handles, h.Handle)
	}
	handles = append(append(handles, layout.Index...), layout.ValueBlock...)
	slices.SortFunc(handles, func(a, b sstblock.Handle) int { return int(min(1, max(-1, int64(a.Offset)-int64(b.Offset)))) })
	var buffer []byte
	for _, h := range handles {
		if h.Length == 0 {
			continue // The table has no such block.
		}
		buffer = slices.Grow(buffer[:0], int(h.Length)+sstblock.TrailerLen)[:h.Length+sstblock.TrailerLen]
		if err := s.ReadAt(context.Background(), buffer, int64(h.Offset)); err != nil {
			return err
		}
		if err := sstblock.ValidateChecksum(sstblock.ChecksumTypeCRC32c, buffer, h); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt reads a block once spend allows it.
func (s *scrubbed) ReadAt(_ context.Context, p []byte, offset int64) error {
	if s.stopped == nil {
		s.stopped = s.spend(len(p))
	}
	if s.stopped != nil {
		return s.stopped
	}
	s.pacer.yield()
	s.at = offset
	_, err := s.file.ReadAt(p, offset)
	return err
}

// Close does nothing: scrub closes the file.
func (s *scrubbed) Close() error { return nil }

// Size returns the size of the file in bytes.
func (s *scrubbed) Size() int64 { return s.size }

// NewReadHandle returns a handle that does not read ahead.
func (s *scrubbed) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle { return &s.handle }
