package storage

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Position is up to which byte each log and the manifest of a store were synced at a
// moment, with the numbers of these files. It is a short text. The empty position
// requires nothing.
//
// A store that contains a position has everything that was acknowledged before
// [Store.Position] returned it; [Pool.OpenVerified] checks that.
type Position string

// filePosition is the position in one file.
type filePosition struct {
	number uint64
	length int64
}

// position is a parsed Position.
type position struct {
	manifest filePosition
	logs     []filePosition // sorted by number
}

// String returns the text of a position: "manifest 12:4096 log 15:81920".
func (p position) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "manifest %d:%d", p.manifest.number, p.manifest.length)
	for _, log := range p.logs {
		fmt.Fprintf(&text, " log %d:%d", log.number, log.length)
	}
	return text.String()
}

// parse parses a position.
func (p Position) parse() (position, error) {
	var parsed position
	words := strings.Fields(string(p))
	if len(words)%2 != 0 {
		return position{}, fmt.Errorf("position %q has an odd number of words", p)
	}
	for i := 0; i < len(words); i += 2 {
		number, length, found := strings.Cut(words[i+1], ":")
		n, err := strconv.ParseUint(number, 10, 64)
		size, sizeErr := strconv.ParseInt(length, 10, 64)
		if !found || err != nil || sizeErr != nil || size < 0 {
			return position{}, fmt.Errorf("position %q does not name a number and a length: %q", p, words[i+1])
		}
		switch {
		case words[i] == "manifest" && i == 0:
			parsed.manifest = filePosition{n, size}
		case words[i] == "log" && i > 0:
			parsed.logs = append(parsed.logs, filePosition{n, size})
		default:
			return position{}, fmt.Errorf("position %q has the unknown part %q", p, words[i])
		}
	}
	return parsed, nil
}

// extents tracks how much of a store's logs and manifest is synced.
type extents struct {
	mu sync.Mutex

	logs     map[uint64]*extent // existing logs, by number
	manifest *extent            // the one that the synced marker names
	begun    *extent            // a new manifest that no marker names yet
	marked   *extent            // a manifest whose marker is not synced yet
}

// extent counts how many bytes of a file were written and synced. One goroutine writes
// and syncs a file. A nil extent belongs to a file that is not tracked.
type extent struct {
	number      uint64
	atSync, all atomic.Int64
}

func (e *extent) wrote(n int) {
	if e != nil {
		e.all.Add(int64(n))
	}
}

func (e *extent) end() int64 {
	if e == nil {
		return 0
	}
	return e.all.Load()
}

func (e *extent) synced(end int64) {
	if e != nil {
		e.atSync.Store(end)
	}
}

// begin tracks a new file, if it is a log or a manifest.
func (x *extents) begin(base string) *extent {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.logs == nil {
		x.logs = map[uint64]*extent{}
	}
	if number, ok := logNumber(base); ok {
		x.logs[number] = &extent{number: number}
		return x.logs[number]
	}
	if number, ok := manifestNumber(base); ok {
		x.begun = &extent{number: number}
		return x.begun
	}
	// Pebble creates the marker once the manifest is synced.
	if strings.HasPrefix(base, manifestMarkerPrefix) {
		x.marked, x.begun = x.begun, nil
	}
	return nil
}

// found tracks the files of an existing store, all of which are synced.
func (x *extents) found(at position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := func(p filePosition) *extent {
		e := &extent{number: p.number}
		e.wrote(int(p.length))
		e.synced(p.length)
		return e
	}
	x.manifest, x.logs = known(at.manifest), map[uint64]*extent{}
	for _, log := range at.logs {
		x.logs[log.number] = known(log)
	}
}

// drop forgets a removed file.
func (x *extents) drop(base string) {
	if number, ok := logNumber(base); ok {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.logs, number)
	}
}

// unnamed returns the manifest whose marker becomes durable with the next sync of the
// directory, nil for none.
func (x *extents) unnamed() *extent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.marked
}

// named records a sync of the directory. marked is what unnamed returned before it.
func (x *extents) named(marked *extent) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if marked != nil && x.marked == marked {
		x.manifest, x.marked = marked, nil
	}
}

// allSynced records that every file and the directory were synced.
func (x *extents) allSynced() {
	x.named(x.unnamed())
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, log := range x.logs {
		log.synced(log.end())
	}
	if x.manifest != nil {
		x.manifest.synced(x.manifest.end())
	}
}

// position returns what is synced. It reads the logs before the manifest, because a log
// is removed after the manifest records that it is not needed.
func (x *extents) position() position {
	x.mu.Lock()
	defer x.mu.Unlock()
	var at position
	for _, number := range slices.Sorted(maps.Keys(x.logs)) {
		// A log without a batch may be removed at any time.
		if length := x.logs[number].atSync.Load(); length > emptyLogMax {
			at.logs = append(at.logs, filePosition{number, length})
		}
	}
	if x.manifest != nil {
		at.manifest = filePosition{x.manifest.number, x.manifest.atSync.Load()}
	}
	return at
}

// manifestMarkerPrefix begins the names of markers that name a manifest.
const manifestMarkerPrefix = markerPrefix + "manifest."

// logNumber returns the number of a log, and false if base is not the name of a log.
func logNumber(base string) (uint64, bool) {
	if path.Ext(base) != logExt {
		return 0, false
	}
	number, err := strconv.ParseUint(strings.TrimSuffix(base, logExt), 10, 64)
	return number, err == nil
}

// manifestNumber returns the number of a manifest, and false if base is not the name of
// a manifest.
func manifestNumber(base string) (uint64, bool) {
	text, found := strings.CutPrefix(base, manifestPrefix)
	number, err := strconv.ParseUint(text, 10, 64)
	return number, found && err == nil
}

// Position returns what the store has synced so far, which includes everything that
// Apply has acknowledged. It takes about a microsecond.
func (s *Store) Position() Position {
	return Position(s.guard.extents.position().String())
}
