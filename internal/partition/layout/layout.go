// Package layout is the format of the rows of a partition store: how each kind of row
// is encoded, and which rows a document needs. The writer (package partition), the
// reader (partition/scan) and the judge (partition/check) share it and nothing else.
//
// Learn [Document] with [DecodeDocument], [State] and [Indexing] first. A [Getter] is
// all that the functions which read rows need.
//
// Bytes: the formats are versioned, and a change of one of them is a change of the
// format on disk. An error that wraps [ErrDocument] or [ErrMeta] says that a row cannot
// be read.
//
// Absent: the package writes no rows, and decides nothing about requests. The keys of
// rows are those of package storage.
//
// Page: docs/formats/partition-store.md
package layout
