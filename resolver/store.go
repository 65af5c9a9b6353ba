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

// Store keeps small JSON documents by name, with compare-and-swap. A state is
// one such document; the progress of a move is another.
type Store interface {
	// Load returns a document and its version, or ErrNotFound.
	Load(ctx context.Context, name string) (document []byte, version string, err error)

	// Save replaces the document if it still has the given version, or creates
	// it if version is "" and the document does not exist, and returns the new
	// version. Otherwise it changes nothing and returns ErrChanged.
	Save(ctx context.Context, name string, document []byte, version string) (newVersion string, err error)
}

// LoadState loads and checks the state of a name. It also returns its version.
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

// SaveState saves a state in its canonical form and returns the new version.
// version is that of the state it replaces, "" for the first one. If two clients
// replace the same version, one of them gets ErrChanged.
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

// FileStore is a Store in a directory. Any number of processes may use it. A
// process that dies at any point leaves either the old document or the new one.
//
// Each save creates a file NAME.NUMBER.json with the next number; the file with
// the highest number is the current document. A file is written completely under
// a temporary name and then linked; of two links to one name only one succeeds.
// The last few files are kept. People may edit the newest file.
type FileStore struct{ Dir string }

// filesKept is how many files of a document are kept for inspection.
const filesKept = 8

var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// Load returns the newest file. The version is its number and a hash of its
// bytes.
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
			continue // a newer file exists and this one was deleted
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

// numbers returns the numbers of a document's files, ascending.
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

// Save creates the next file. The document is durable when it returns.
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
		// The name was free only because its old file had been deleted.
		return "", errors.Join(ErrChanged, os.Remove(f.path(name, number)))
	}
	for _, n := range numbers[:max(0, len(numbers)-filesKept)] {
		// Another process may have deleted it already; a file that remains does
		// no harm.
		_ = os.Remove(f.path(name, n))
	}
	return version(number, document), nil
}

// publish writes the document under the name. It returns ErrChanged if the name
// is taken.
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

// syncDirectory makes new names durable. Windows cannot open a directory for
// that and does not need it.
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
