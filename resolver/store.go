package resolver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Store keeps small JSON documents under names, with compare-and-swap. A state is
// one of them, the progress of a move another.
type Store interface {
	// Load returns a document and its version, or ErrNotFound.
	Load(ctx context.Context, name string) (document []byte, version string, err error)

	// Save replaces the document if it still has the version, or makes it if version
	// is "" and there is none, and returns the new version. Otherwise it changes
	// nothing and returns ErrChanged.
	Save(ctx context.Context, name string, document []byte, version string) (newVersion string, err error)
}

// LoadState loads and checks the state of a name.
func LoadState(ctx context.Context, store Store, name string) (State, string, error) {
	document, version, err := store.Load(ctx, name)
	if err != nil {
		return State{}, "", fmt.Errorf("load the state %s: %w", name, err)
	}
	state, err := ParseState(document)
	if err != nil {
		return State{}, "", fmt.Errorf("load the state %s: %w", name, err)
	}
	return state, version, nil
}

// SaveState saves a state in its canonical form. version is that of the state it
// replaces, "" for the first one. Of two clients that replace the same state, one
// gets ErrChanged.
func SaveState(ctx context.Context, store Store, name string, state State, version string) (string, error) {
	document, err := state.Append(nil)
	if err == nil {
		version, err = store.Save(ctx, name, document, version)
	}
	if err != nil {
		return "", fmt.Errorf("save the state %s: %w", name, err)
	}
	return version, nil
}

// FileStore is a Store in a directory. Any number of processes may use it, and one
// that dies at any point leaves either the old document or the new one.
//
// Each save makes a new file NAME.NUMBER.json, whose number is one higher; the file
// with the highest number is the document. Files are written whole under another name
// and then linked, and of two links of one name only one succeeds. The last few are
// kept. People may edit the newest file.
type FileStore struct{ Dir string }

// filesKept is how many old files of a document stay, to look at.
const filesKept = 8

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// Load returns the newest file. The version is its number and the hash of its bytes.
func (f FileStore) Load(ctx context.Context, name string) ([]byte, string, error) {
	if !fileName.MatchString(name) {
		return nil, "", fmt.Errorf("%w: the name %q, want letters, digits, - and _", ErrConfig, name)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		numbers, err := f.numbers(name)
		if err != nil {
			return nil, "", err
		}
		if len(numbers) == 0 {
			return nil, "", fmt.Errorf("%w: %s", ErrNotFound, name)
		}
		newest := numbers[len(numbers)-1]
		document, err := os.ReadFile(f.path(name, newest))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it got old and was deleted in between
		}
		return document, version(newest, document), err
	}
}

func version(number uint64, document []byte) string {
	sum := sha256.Sum256(document)
	return strconv.FormatUint(number, 10) + "-" + hex.EncodeToString(sum[:8])
}

func (f FileStore) path(name string, number uint64) string {
	return filepath.Join(f.Dir, fmt.Sprintf("%s.%d.json", name, number))
}

// numbers returns the numbers of a document's files, rising.
func (f FileStore) numbers(name string) ([]uint64, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		middle, isOurs := strings.CutPrefix(e.Name(), name+".")
		digits, isJSON := strings.CutSuffix(middle, ".json")
		if n, err := strconv.ParseUint(digits, 10, 63); err == nil && isOurs && isJSON {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Save makes the next file. The document is on disk when it returns.
func (f FileStore) Save(ctx context.Context, name string, document []byte, old string) (string, error) {
	_, present, err := f.Load(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	if present != old {
		return "", ErrChanged
	}
	digits, _, _ := strings.Cut(present, "-")
	number, _ := strconv.ParseUint(digits, 10, 63) // "" is 0
	number++
	if err := f.publish(name, number, document); err != nil {
		return "", err
	}
	numbers, err := f.numbers(name)
	if err != nil {
		return "", err
	}
	if newest := numbers[len(numbers)-1]; newest != number {
		// The name was free only because its file was old and deleted.
		return "", errors.Join(ErrChanged, os.Remove(f.path(name, number)))
	}
	for _, n := range numbers[:max(0, len(numbers)-filesKept)] {
		// Somebody else may be faster; a file that stays does no harm.
		_ = os.Remove(f.path(name, n))
	}
	return version(number, document), nil
}

// publish writes the document and gives it the name, or returns ErrChanged when the
// name is taken.
func (f FileStore) publish(name string, number uint64, document []byte) (err error) {
	if err := os.MkdirAll(f.Dir, 0o750); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(f.Dir, "."+name+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temporary.Name())) }()
	_, err = temporary.Write(document)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	if err = os.Link(temporary.Name(), f.path(name, number)); errors.Is(err, fs.ErrExist) {
		return ErrChanged
	}
	return errors.Join(err, syncDirectory(f.Dir))
}

// syncDirectory makes names durable where the system can. Windows cannot open a
// directory for it, and needs no such call.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
