// Package scan reads the documents of one partition: it is the source of its queries
// and of its change feed.
//
// Learn [Reader], which has what all reads of a partition share, [Snapshot], which is
// what one read sees, and [Source], the [query.Source] of one page. A source passes the
// rows of a key range, or looks documents up by the numbers in lists of the index; a
// model of costs chooses. It also counts, walks the terms of the index, and searches
// vectors.
//
// # Invariants
//
//   - Rows, their order and the charge do not depend on the way of reading.
//   - A source shows exactly one snapshot. What a reader learns from sources and
//     effects (rosters, locations) is a hint, or belongs to one LSN.
//   - Hidden documents, which have expired or were purged, are in no result.
//
// Absent: the package writes nothing, and knows neither sessions nor generations, which
// package partition checks.
//
// Page: docs/partition.md
package scan
