package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Examine looks for damage in the manifest and the logs of the closed store in dir, as
// [Pool.OpenVerified] does, and changes nothing. least is the minimum that the store
// must contain; the empty position requires nothing. The error is an I/O error.
func (p *Pool) Examine(dir string, least Position) ([]*Damage, error) {
	dir = p.clean(dir)
	if err := p.claim(dir); err != nil {
		return nil, fmt.Errorf("examine store %s: %w", dir, err)
	}
	defer p.release(dir)
	found, err := p.examine(dir, least)
	if err != nil {
		return nil, fmt.Errorf("examine store %s: %w", dir, err)
	}
	return found.damages, nil
}

func (p *Pool) examine(dir string, least Position) (*examined, error) {
	if err := checkFormat(p.options.FS, dir); err != nil {
		return nil, err
	}
	at, err := least.parse()
	if err != nil {
		return nil, err
	}
	found, err := examine(p.options.FS, dir)
	if err == nil {
		found.contain(at)
		err = found.readOptions()
	}
	return found, err
}

// AcceptLoss repairs the closed, damaged store in dir so that it opens with everything
// that was applied before the damage and nothing that was applied after it. keep, which
// must not exist, gets a copy of every file of the store as it is now. The result
// describes what was removed; it is empty if nothing was damaged, and then nothing was
// changed. If the store cannot be opened without what it has lost, such as its
// manifest, AcceptLoss changes nothing and returns an error.
//
// Earlier positions of the store are not valid afterwards.
func (p *Pool) AcceptLoss(dir, keep string, least Position) (cut []string, err error) {
	dir, keep = p.clean(dir), p.clean(keep)
	if err := p.claim(dir); err != nil {
		return nil, fmt.Errorf("accept loss of store %s: %w", dir, err)
	}
	defer p.release(dir)
	found, err := p.examine(dir, least)
	if err == nil && len(found.damages) > 0 {
		cut, err = p.cut(found, keep)
	}
	if err != nil {
		return nil, fmt.Errorf("accept loss of store %s: %w", dir, err)
	}
	return cut, nil
}

// cut removes what is damaged and what was written after it. Once a marker is restored,
// further damage may become visible.
func (p *Pool) cut(e *examined, keep string) ([]string, error) {
	plan, err := e.plan()
	if err != nil {
		return nil, err
	}
	if err := p.keepAll(e.dir, keep); err != nil {
		return nil, fmt.Errorf("keep the files in %s: %w", keep, err)
	}
	var says []string
	for len(plan) > 0 {
		for _, step := range plan {
			if err := step.do(); err != nil {
				return nil, fmt.Errorf("%s: %w", step.says, err)
			}
			says = append(says, step.says)
		}
		if err := syncDir(e.files, e.dir); err != nil {
			return nil, err
		}
		if e, err = examine(e.files, e.dir); err != nil {
			return nil, err
		}
		if plan, err = e.plan(); err != nil {
			return nil, err
		}
	}
	if len(says) == 0 {
		says = []string{"nothing was removed: the missing rows are newer than everything in the store"}
	}
	return says, nil
}

// keepAll links or copies every file of a store to another directory and syncs it.
func (p *Pool) keepAll(dir, keep string) error {
	files := p.options.FS
	if _, err := files.Stat(keep); err == nil {
		return fs.ErrExist
	}
	if err := p.dirs.make(keep); err != nil {
		return err
	}
	names, err := files.List(dir)
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := vfs.LinkOrCopy(files, files.PathJoin(dir, base), files.PathJoin(keep, base)); err != nil {
			return err
		}
	}
	return syncDir(files, keep)
}

// cutStep is one change to a damaged store.
type cutStep struct {
	says string
	do   func() error
}

// plan returns the steps that repair the store, none if it opens as it is.
func (e *examined) plan() ([]cutStep, error) {
	var plan []cutStep
	cutManifest := false
	for _, d := range e.damages {
		switch {
		case strings.HasPrefix(d.File, optionsPrefix):
			plan = append(plan, e.remove(d.File, "remove "+d.File+", which the store does not need"))
		case strings.HasPrefix(d.File, markerPrefix):
			step, err := e.putMarker(d)
			if err != nil {
				return nil, err
			}
			return []cutStep{step}, nil
		case strings.HasPrefix(d.File, manifestPrefix) && d.File != e.manifest:
			return nil, fmt.Errorf("%w; the older manifest may name files that no longer exist, so the store cannot be repaired", d)
		case d.File == e.manifest && e.edits < e.leastEdits():
			return nil, fmt.Errorf("%w; a store without its manifest cannot be repaired", d)
		case d.File == e.manifest:
			cutManifest = true
		}
	}
	from := e.cutLogsFrom(cutManifest)
	for _, log := range slices.Backward(e.logs) {
		switch {
		case log.number == from && log.reason != "":
			plan = append(plan, e.shorten(log.base, log.end))
		case log.number >= from:
			plan = append(plan, e.remove(log.base, fmt.Sprintf("remove log %s with %d records, which are newer than what is lost", log.base, log.records)))
		}
	}
	if cutManifest {
		plan = append(plan, e.shorten(e.manifest, e.end))
	}
	return plan, nil
}

// cutLogsFrom returns the number of the first log that is lost in part, and the
// greatest number if there is none.
func (e *examined) cutLogsFrom(cutManifest bool) uint64 {
	from := uint64(math.MaxUint64)
	for i, log := range e.logs {
		// An older manifest needs exactly the log that it names; otherwise there is a
		// gap before the next one.
		if log.reason != "" || log.gap || cutManifest && i == 0 && log.number != e.minUnflushed {
			from = min(from, log.number)
		}
	}
	for _, d := range e.damages {
		if number, isLog := logNumber(d.File); isLog && d.Missing {
			from = min(from, number)
		}
	}
	return from
}

// putMarker returns the step that restores a missing marker.
func (e *examined) putMarker(d *Damage) (cutStep, error) {
	value := fmt.Sprintf("%03d", uint64(formatMajor))
	name := formatMarker
	if d.File == missingMarker(manifestMarker) {
		name = manifestMarker
		names, err := e.files.List(e.dir)
		if err != nil {
			return cutStep{}, err
		}
		names = slices.DeleteFunc(names, func(base string) bool {
			_, ok := manifestNumber(base)
			return !ok
		})
		if len(names) != 1 {
			return cutStep{}, fmt.Errorf("%w; there are %d manifests, %q, and nothing shows which one is valid", d, len(names), names)
		}
		value = names[0]
	} else if !d.Missing {
		return cutStep{}, fmt.Errorf("%w; remove or rename it", d)
	}
	base := fmt.Sprintf("%s%s.%06d.%s", markerPrefix, name, 1, value)
	return cutStep{"restore the marker " + base, func() error {
		f, err := e.files.Create(e.files.PathJoin(e.dir, base), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}}, nil
}

// remove returns the step that removes a file.
func (e *examined) remove(base, says string) cutStep {
	return cutStep{says, func() error { return e.files.Remove(e.files.PathJoin(e.dir, base)) }}
}

// shorten returns the step that truncates a file.
func (e *examined) shorten(base string, end int64) cutStep {
	return cutStep{fmt.Sprintf("truncate file %s to %d bytes", base, end), func() error {
		name := e.files.PathJoin(e.dir, base)
		return copyPart(e.files, name, name+temporaryExt, end)
	}}
}

// copyPart replaces a file by its first bytes.
func copyPart(files vfs.FS, name, temporary string, length int64) error {
	from, err := files.Open(name)
	if err != nil {
		return err
	}
	to, err := files.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	_, err = io.CopyN(to, from, length)
	if err := errors.Join(err, to.Sync(), to.Close(), from.Close()); err != nil {
		return errors.Join(err, files.Remove(temporary))
	}
	return files.Rename(temporary, name)
}
