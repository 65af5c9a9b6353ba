package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// Files is the file system of a pool, for packages that keep small files next to the
// stores, see [Pool.FS].
type Files = vfs.FS

// File is an open file of [Files].
type File = vfs.File

// CreateFile creates a file, or truncates an existing one.
func CreateFile(files Files, name string) (File, error) {
	return files.Create(name, vfs.WriteCategoryUnspecified)
}

// CopyFile makes a synced copy of a file. The caller syncs the directory.
func CopyFile(files Files, from, to string) error { return vfs.Copy(files, from, to) }
