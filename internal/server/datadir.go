package server

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/storage"
)

// formatVersion is the version of the data directory's layout. A directory of a
// newer version is refused and not changed.
const formatVersion = 1

// nodeFile is the content of node.json: the node of this directory, and the
// release that created it.
type nodeFile struct {
	Node    string `json:"node"`    // 16 random bytes as hex, fixed when the directory is made
	Format  int    `json:"format"`  // formatVersion of the writer
	Release string `json:"release"` // the release that made the directory
}

// openDataDir creates the data directory, or checks that this release can read
// it, locks it for this process, and removes the permissions that access does not
// allow. It never changes a directory that it refuses, and changes nothing before
// it holds the lock.
func openDataDir(dir, access, release string, log *slog.Logger) (io.Closer, error) {
	if _, err := checkDataDir(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data: create the data directory: %w", err)
	}
	lock, err := storage.LockDir(dir)
	if err != nil {
		return nil, err
	}
	// Another process may have created the layout before this one held the lock.
	laidOut, err := checkDataDir(dir)
	if err == nil {
		err = protectDataDir(dir, access, log)
	}
	if err == nil && !laidOut {
		err = initDataDir(dir, release)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// checkDataDir reports whether the directory has a layout, and refuses one that
// this release cannot read. It changes nothing.
func checkDataDir(dir string) (laidOut bool, err error) {
	content, err := os.ReadFile(filepath.Join(dir, "node.json"))
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{"catalog", "p"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return false, fmt.Errorf("data directory %s has no node.json but holds %s: it is damaged or not a data directory; nothing was changed", dir, name)
			}
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the data directory: %w", err)
	}
	var node nodeFile
	if err := json.Unmarshal(content, &node); err != nil || node.Node == "" || node.Format < 1 {
		return false, fmt.Errorf("data directory %s: node.json cannot be read; restore it from a backup, or point --data at another directory", dir)
	}
	if node.Format > formatVersion {
		return false, fmt.Errorf("data directory %s has format %d, made by decan %s; this release reads formats up to %d: use that release or a later one",
			dir, node.Format, node.Release, formatVersion)
	}
	return true, checkCatalogDir(dir)
}

// checkCatalogDir refuses a directory with partitions but without the catalog that
// names them: with a new catalog each of them would be garbage. A directory without
// both is the result of an interrupted first start.
func checkCatalogDir(dir string) error {
	_, err := os.Stat(filepath.Join(dir, "catalog"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partitions, err := os.ReadDir(filepath.Join(dir, "p"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the data directory: %w", err)
	}
	if len(partitions) > 0 {
		return fmt.Errorf("data directory %s has no catalog but holds partitions of %d containers: restore the catalog from a backup; nothing was changed", dir, len(partitions))
	}
	return nil
}

func initDataDir(dir, release string) error {
	var id [16]byte
	rand.Read(id[:]) // never fails
	content, err := json.Marshal(nodeFile{Node: hex.EncodeToString(id[:]), Format: formatVersion, Release: release})
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(dir, "node.json"), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("--data: create the data directory: %w", err)
	}
	return nil
}

// newCatalogName is the name of the store of a new catalog until it is complete.
const newCatalogName = "catalog"

// emptyInflight removes the remains of an ended process: an incomplete catalog,
// and probes for free space. It keeps all other files.
func emptyInflight(dir string, log *slog.Logger) error {
	inflight := filepath.Join(dir, cluster.InflightDir)
	entries, err := os.ReadDir(inflight)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("empty the data directory's inflight folder: %w", err)
	}
	for _, e := range entries {
		name := filepath.Join(inflight, e.Name())
		if e.Name() != newCatalogName && !strings.HasPrefix(e.Name(), cluster.ProbePrefix) {
			log.Warn("unknown file in the data directory not removed", "file", name)
			continue
		}
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("empty the data directory's inflight folder: %w", err)
		}
	}
	return nil
}
