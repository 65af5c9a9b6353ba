package cluster

import "github.com/decandb/decan/internal/storage"

// WriteMarks writes the marks that are due.
func (n *Node) WriteMarks() { n.marks.write() }

// Mark turns marks on and off, for benchmarks.
func (n *Node) Mark(on bool) { n.marks.off.Store(!on) }

// MarksIn returns how many records of the marks are damaged, and whether the file exists.
func MarksIn(files storage.Files, dir string) (damaged int, there bool, err error) {
	set, err := readMarks(files, dir)
	return set.damaged, !set.missing, err
}

// MarkBytes is the size of a record of the marks.
const MarkBytes = markBytes
