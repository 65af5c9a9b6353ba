package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// Values of StorageOptions.Access: who may read a data directory.
const (
	accessOwner = "owner" // only its owner
	accessGroup = "group" // also its group
	accessAny   = "any"   // everyone whom the modes allow; the modes are not checked
)

// protectDataDir removes the permissions that access does not allow from a data
// directory and everything in it. It refuses a directory whose own mode cannot be
// changed, and then changes nothing in it. The caller holds its lock.
//
// The mode of the directory is changed first, because it alone denies access to others.
// A directory that already has the right mode is therefore not walked again.
func protectDataDir(dir, access string, log *slog.Logger) error {
	if access == accessAny || runtime.GOOS == "windows" || runtime.GOOS == "plan9" { // These systems have no such modes.
		return nil
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return fmt.Errorf("read the data directory: %w", err)
	}
	forbidden, needed := fs.FileMode(0o077), fs.FileMode(0)
	if access == accessGroup {
		forbidden, needed = 0o027, 0o050
	}
	wide := info.Mode().Perm()&forbidden != 0
	if !wide && info.Mode()&needed == needed {
		return nil
	}
	if err := chmodDir(root, without(info.Mode(), forbidden)|needed, forbidden); err != nil {
		return fmt.Errorf("data directory %s has mode %04o, so others can read account keys and documents, and it cannot be changed: %w; "+
			"have its owner run chmod %04o on it, give --data a directory below it, which decan makes itself, or allow it with --data-access any",
			dir, info.Mode().Perm(), err, info.Mode().Perm()&^forbidden|needed)
	}
	if !wide {
		return nil
	}
	changed, err := tighten(root, forbidden)
	log.Info("data directory closed to others", "directory", dir, "access", access, "changed", changed+1)
	return err
}

// chmodDir sets a mode, and fails if the directory has forbidden permissions
// afterwards: some file systems ignore the change and report success.
func chmodDir(dir string, mode, forbidden fs.FileMode) error {
	if err := os.Chmod(dir, mode); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&forbidden != 0 {
		err = errors.New("the file system keeps the mode")
	}
	return err
}

// tighten removes the forbidden permissions from all files and directories below
// root and returns how many had them. It ignores symbolic links and their
// targets.
func tighten(root string, forbidden fs.FileMode) (changed int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode(); (mode.IsRegular() || mode.IsDir()) && mode.Perm()&forbidden != 0 {
			changed++
			return os.Chmod(path, without(mode, forbidden))
		}
		return nil
	})
	if err != nil {
		return changed, fmt.Errorf("close the data directory to others: %w", err)
	}
	return changed, nil
}

// without returns a mode without some permissions, as [os.Chmod] takes it.
func without(mode, forbidden fs.FileMode) fs.FileMode {
	return mode & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky) &^ forbidden
}
