package storage

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Damage is a file of a store that is missing, or whose contents differ from Offset on
// from what was written.
type Damage struct {
	Dir, File string
	Offset    int64 // in bytes
	Missing   bool
	Reason    string // the evidence
}

// Error names the file, the place and the remedy.
func (d *Damage) Error() string {
	where := fmt.Sprintf("file %s is damaged at byte %d", d.File, d.Offset)
	if d.Missing {
		where = fmt.Sprintf("file %s is missing", d.File)
	}
	return fmt.Sprintf("%s: %s; nothing was changed: put the file back from a copy, or accept the loss of what followed with decan check --accept-loss", where, d.Reason)
}

// Is makes [IsCorrupt] return true.
func (d *Damage) Is(target error) bool { return target == errDamaged }

// examined is the result of reading the files of a closed store.
type examined struct {
	files vfs.FS
	dir   string

	manifest     string // base name
	number       uint64 // of the manifest
	reach        int64  // up to where its chunks are valid
	end          int64  // up to where its edits are whole
	edits        int    // number of whole edits
	minUnflushed uint64 // lowest number of a log that the manifest needs
	logs         []examinedLog
	damages      []*Damage
}

// examinedLog is a log that the manifest needs.
type examinedLog struct {
	base    string
	number  uint64
	end     int64 // up to where its records are whole
	reach   int64 // up to where its chunks are valid
	records int
	closed  bool
	reason  string // the evidence of damage; empty if there is none
	first   uint64 // sequence number of the first record
	next    uint64 // sequence number after the last record
	gap     bool   // records before the first one are missing
}

// position returns what the store contains.
func (e *examined) position() position {
	at := position{manifest: filePosition{e.number, e.reach}}
	for _, log := range e.logs {
		at.logs = append(at.logs, filePosition{log.number, log.reach})
	}
	return at
}

func (e *examined) damage(file string, offset int64, format string, args ...any) {
	e.damages = append(e.damages, &Damage{Dir: e.dir, File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)})
}

func (e *examined) missing(file, format string, args ...any) {
	e.damages = append(e.damages, &Damage{Dir: e.dir, File: file, Missing: true, Reason: fmt.Sprintf(format, args...)})
}

// err returns all damage as one error.
func (e *examined) err() error {
	var errs []error
	for _, d := range e.damages {
		errs = append(errs, d)
	}
	return errors.Join(errs...)
}

// examine reads the manifest and the logs of a closed store and writes nothing. The
// result lists the damage; the error is an I/O error.
func examine(files vfs.FS, dir string) (*examined, error) {
	e := &examined{files: files, dir: dir}
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	if !e.findManifest(names) {
		return e, nil
	}
	if err := e.readManifest(); err != nil {
		return nil, err
	}
	if err := e.readLogs(names); err != nil {
		return nil, err
	}
	e.judgeLogs()
	return e, nil
}

// Names of markers.
const (
	manifestMarker = "manifest"
	formatMarker   = "format-version"
)

// missingMarker returns the name of a missing marker, of which only the beginning is
// known.
func missingMarker(name string) string { return markerPrefix + name + ".*" }

// findManifest reads the markers, whose contents are their names. Of several markers,
// the one with the highest count is valid.
func (e *examined) findManifest(names []string) bool {
	values, counts := map[string]string{}, map[string]uint64{}
	for _, base := range names {
		text, isMarker := strings.CutPrefix(base, markerPrefix)
		if !isMarker {
			continue
		}
		parts := strings.SplitN(text, ".", 3)
		var count uint64
		var err error
		if len(parts) == 3 {
			count, err = strconv.ParseUint(parts[1], 10, 64)
		}
		if len(parts) != 3 || err != nil {
			e.damage(base, 0, "its name is not a valid marker name")
			continue
		}
		if _, found := values[parts[0]]; !found || count > counts[parts[0]] {
			values[parts[0]], counts[parts[0]] = parts[2], count
		}
	}
	if values[formatMarker] == "" {
		e.missing(missingMarker(formatMarker), "this marker records the format of the store")
	}
	manifest := values[manifestMarker]
	if manifest == "" {
		e.missing(missingMarker(manifestMarker), "this marker names the valid manifest")
		return false
	}
	number, ok := manifestNumber(manifest)
	if !ok {
		e.damage(fmt.Sprintf("%s%s.%06d.%s", markerPrefix, manifestMarker, counts[manifestMarker], manifest), 0, "it does not name a manifest")
		return false
	}
	e.manifest, e.number = manifest, number
	return true
}

// firstManifest is the number of the first manifest of a store.
const firstManifest = 1

// readManifest reads the manifest that the marker names.
func (e *examined) readManifest() error {
	scan := recordScan{record: e.edit}
	switch err := e.scan(&scan, e.manifest); {
	case errors.Is(err, fs.ErrNotExist):
		e.missing(e.manifest, "the store's marker names it, and it lists the files of the store")
		return nil
	case err != nil:
		return err
	}
	e.reach, e.end, e.edits = scan.reach, scan.end, scan.records
	switch {
	case e.edits < e.leastEdits():
		e.damage(e.manifest, scan.reach, "its first %d records were synced before the store's marker named it", e.leastEdits())
	case scan.damaged():
		e.damage(e.manifest, scan.reach, "a record at byte %d follows, and each is synced before the next one is written", scan.proof.first)
	}
	return nil
}

// leastEdits is the least number of records of a manifest. A marker names the manifest
// once its first records are synced: in a new store one record that lists its files,
// otherwise an edit as well.
func (e *examined) leastEdits() int {
	if e.number == firstManifest {
		return 1
	}
	return 2
}

// readOptions parses the newest options file. Pebble would not name the file in its
// error.
func (e *examined) readOptions() error {
	names, err := e.files.List(e.dir)
	if err != nil {
		return err
	}
	newest := ""
	for _, base := range names {
		// Numbers have six digits or more.
		if strings.HasPrefix(base, optionsPrefix) && cmp.Or(cmp.Compare(len(base), len(newest)), cmp.Compare(base, newest)) > 0 {
			newest = base
		}
	}
	if newest == "" {
		return nil
	}
	f, err := e.files.Open(e.files.PathJoin(e.dir, newest))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read file %s: %w", newest, err)
	}
	options := &pebble.Options{Merger: newMerger(nil, nil)}
	options.EnsureDefaults()
	if err := options.CheckCompatibility(e.dir, string(text)); err != nil {
		e.damage(newest, 0, "it does not contain the options of a store: %v", err)
	}
	return nil
}

// Tags of the numbers at the beginning of a manifest edit.
const (
	tagComparer   = 1
	tagLogNumber  = 2
	tagNextFile   = 3
	tagLastNumber = 4
	tagPrevLog    = 9
)

// edit reads the beginning of a manifest edit. The number of the lowest log that is
// needed precedes everything that is long.
func (e *examined) edit(head []byte) {
	for len(head) > 0 {
		tag, n := binary.Uvarint(head)
		if n <= 0 {
			return
		}
		head = head[n:]
		value, n := binary.Uvarint(head)
		if n <= 0 {
			return
		}
		head = head[n:]
		switch tag {
		case tagComparer:
			if value > uint64(len(head)) {
				return
			}
			head = head[value:]
		case tagLogNumber:
			e.minUnflushed = value
		case tagNextFile, tagLastNumber, tagPrevLog:
		default:
			return
		}
	}
}

// batchHead is the length of a log record's header: the sequence number of its first
// change, and the number of changes.
const batchHead = 12

// readLogs reads the logs that the manifest needs.
func (e *examined) readLogs(names []string) error {
	for _, base := range names {
		number, isLog := logNumber(base)
		if !isLog || number < e.minUnflushed {
			continue
		}
		log := examinedLog{base: base, number: number, first: math.MaxUint64}
		scan := recordScan{isLog: true, number: uint32(number), record: log.batch}
		if err := e.scan(&scan, base); err != nil {
			return err
		}
		log.end, log.reach, log.records, log.closed = scan.end, scan.reach, scan.records, scan.closed
		if scan.damaged() {
			log.reason = fmt.Sprintf("%d valid chunks follow from byte %d on, and they prove that this place was synced", scan.proof.chunks, scan.proof.first)
		}
		e.logs = append(e.logs, log)
	}
	slices.SortFunc(e.logs, func(a, b examinedLog) int { return int(min(1, max(-1, int64(a.number)-int64(b.number)))) })
	return nil
}

// batch reads the header of a record.
func (l *examinedLog) batch(head []byte) {
	if len(head) < batchHead {
		return
	}
	number, count := binary.LittleEndian.Uint64(head), uint64(binary.LittleEndian.Uint32(head[8:]))
	if count == 0 {
		return
	}
	l.first, l.next = min(l.first, number), number+count
}

// judgeLogs checks the logs together: a log is closed and synced before the next one is
// created, and sequence numbers have no gaps.
func (e *examined) judgeLogs() {
	var next uint64
	for i := range e.logs {
		log := &e.logs[i]
		if i+1 < len(e.logs) && !log.closed && log.reason == "" {
			log.reason = fmt.Sprintf("the next log, %s, was created after this one was synced to its end", e.logs[i+1].base)
		}
		if log.reason != "" {
			e.damage(log.base, log.reach, "%s", log.reason)
		}
		if log.next == 0 {
			continue
		}
		if next != 0 && log.first > next {
			log.gap = true
			e.missing(fmt.Sprintf("a log before %s", log.base), "changes %d to %d are in no log", next, log.first-1)
		}
		next = log.next
	}
}

// scan reads one file of records.
func (e *examined) scan(s *recordScan, base string) error {
	f, err := e.files.Open(e.files.PathJoin(e.dir, base), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	err = s.read(bufio.NewReaderSize(f, 4*blockBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read file %s: %w", base, err)
	}
	return nil
}

// contain adds what the store lacks of a position to the damage.
func (e *examined) contain(least position) {
	if e.manifest == "" {
		return
	}
	switch {
	case e.number < least.manifest.number:
		e.missing(fmt.Sprintf("%s%06d", manifestPrefix, least.manifest.number), "the store had this manifest, and its marker names the older %s", e.manifest)
		return
	case e.number == least.manifest.number && e.reach < least.manifest.length:
		e.damage(e.manifest, e.reach, "it was synced up to byte %d", least.manifest.length)
	}
	for _, log := range least.logs {
		if log.number < e.minUnflushed {
			continue
		}
		i := slices.IndexFunc(e.logs, func(have examinedLog) bool { return have.number == log.number })
		switch {
		case i < 0:
			e.missing(fmt.Sprintf("%06d%s", log.number, logExt), "it was synced up to byte %d, and its rows are in no table", log.length)
		case e.logs[i].reach < log.length && e.logs[i].reason == "":
			e.logs[i].reason = fmt.Sprintf("it was synced up to byte %d", log.length)
			e.damage(e.logs[i].base, e.logs[i].reach, "%s", e.logs[i].reason)
		}
	}
}
