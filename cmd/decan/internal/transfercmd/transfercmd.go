// Package transfercmd is decan import and decan export: documents as JSON lines, JSON
// arrays and CSV files.
//
// transfercmd.go has the formats and the objects of cells, read.go the readers of files.
// Package rows has the columns of CSV.
//
// Page: docs/copy.md
package transfercmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/value"
)

// The formats of import and export.
const (
	formatLines = rows.Lines
	formatArray = rows.JSON
	formatCSV   = rows.CSV
)

// formatOf returns the requested format, or the one that the name of the file
// implies.
func formatOf(asked, name string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jsonl", ".ndjson", ".jsonlines":
		return formatLines, nil
	case ".json":
		return formatArray, nil
	case ".csv":
		return formatCSV, nil
	}
	if name == "-" {
		return formatLines, nil
	}
	return "", fmt.Errorf("%s: the name does not imply a format: give --format jsonl, json or csv", name)
}

// tree is an object that is built from cells.
type tree struct {
	leaf  value.Value // defined for a cell
	names []string    // in order of appearance
	nodes map[string]*tree
}

var errColumns = errors.New("is both a value and an object")

// put sets the value at a path.
func (t *tree) put(names []string, v value.Value) error {
	for _, name := range names {
		if t.leaf.IsDefined() {
			return errColumns
		}
		next, found := t.nodes[name]
		if !found {
			if t.nodes == nil {
				t.nodes = map[string]*tree{}
			}
			next = &tree{}
			t.nodes[name] = next
			t.names = append(t.names, name)
		}
		t = next
	}
	if t.leaf.IsDefined() || len(t.names) > 0 {
		return errColumns
	}
	t.leaf = v
	return nil
}

// value returns the object. It is as deep as the longest path.
func (t *tree) value() value.Value {
	if t.leaf.IsDefined() {
		return t.leaf
	}
	members := make([]value.Member, len(t.names))
	for i, name := range t.names {
		members[i] = value.Member{Name: name, Value: t.nodes[name].value()}
	}
	return value.Object(members)
}
