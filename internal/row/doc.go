// Package row is the data of the Cassandra API: types of CQL and their values,
// clustering keys, cells, rows and how they merge, and changes and conditions as
// data.
//
// Package table analyses statements with it, package partition stores what it
// encodes, and the door prints what it formats. Learn it in this order:
//
//   - [Type] is a type of CQL. Its values are bytes of the native protocol:
//     nil is null, a slice without bytes is the empty value. [ParseType] and
//     [Type.String] convert the text that system_schema has. [Type.Validate],
//     [Type.Normalize], [Type.Compare], [Type.ParseLiteral], [Type.Literal],
//     [Type.AppendJSON] and [Type.FromJSON] do what Cassandra 4.1 does, with its
//     texts of errors, which are [Error] values.
//   - [RoutingKey] makes the bytes from which partitionkey.Token computes the
//     token of a partition.
//   - [KeyColumn] encodes the values of clustering columns so that bytes order as
//     the rows do: [EncodeKey], [DecodeKey], and [Span] for slices.
//   - [Row] is a row of cells with timestamps, a static row, or the changes of a
//     write. [Merge] unites two, whatever their order. [Row.Append] and [DecodeRow]
//     convert it to bytes, and [Reader] reads the values of some columns from the
//     bytes.
//   - [Meta] has the deletions of a partition and of ranges of its rows;
//     [Meta.Covering] is the one that covers a row.
//   - [Mutation] is what one statement does to one row, made of the changes that
//     [SetColumn], [AddElements] and others return, and [Condition] what it asks
//     first. Both are data that cross wires; [Apply] and [Condition.Holds] do them.
//
// # Invariants
//
//   - For two values of a type, Compare equals bytes.Compare of their keys, or is
//     its opposite if the column is descending (I7). Values that compare as equal
//     have one key.
//   - The key of a column is never the beginning of another one, and a bound made
//     by [After] equals no key.
//   - Merge and [MergeMeta] are commutative, associative and idempotent, and a row
//     has nothing that its own deletions cover.
//
// The package reads no clock and does no I/O: the caller passes the time. It
// knows no schema, no statement and no partition.
//
// Page: docs/formats/rows.md.
package row
