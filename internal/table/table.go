// Package table is the language of the Cassandra API below its syntax: which
// keyspaces and tables there are, what a statement means for them, and how the rows
// of a result are made from stored rows.
//
// Package table/cql parses a statement, package row has types, values and rows. The
// door passes a statement with its values, and the engine the items that are stored.
// functions.go and the files whose names begin so are the functions, operations and
// casts of CQL.
//
// # Invariants
//
// The order of the checks of a statement, and the texts of their errors, are those of
// Apache Cassandra 4.1. An error of a statement is an [*Error]. Evaluation reads no
// clock: [Moment] is the time.
//
// The package does no I/O, and knows no frame of the protocol.
//
// Page: docs/cassandra.md
package table
