// Package partitionkey defines partition keys, their hashes, and the ranges of
// hashes that partitions serve, exactly as the NoSQL service and its clients do.
//
// Everything that routes uses it: the database itself, client-side resolvers,
// the partition-key advisor, and programs that need to know where an item is
// stored. A [Definition] belongs to a container and names one to three paths, or the columns of the key of a table. A
// [Key] is the list of values at those paths; [Parse] reads it from the form
// that clients send, and a [Builder] builds it level by level. [Definition.Hash]
// turns it into an [EPK], an effective partition key: a point in the key space.
// [Definition.Prefix] turns a key, or its first levels, into a [Range] of
// points. A [RangeMap] divides the whole key space into ranges, each with a
// value, and finds the range of a point.
//
// # Invariants
//
// The EPK of a prefix of a hierarchical key is a prefix of the EPKs of all keys
// that begin with it, so those keys lie in one contiguous range. Every EPK of a
// key lies in [MinEPK, MaxEPK). Keys are equal if and only if their components
// are; 0 and -0 are the same number. EPKs compare byte by byte, and trailing
// zero bytes do not matter. A RangeMap covers the key space once, without gap or
// overlap (I3).
//
// The package knows no documents, only the syntax of paths; callers read the
// values. It knows no partition, no node and no protocol beyond the form of a
// key in a header.
//
// Page: docs/architecture.md, "Floor 0: words".
package partitionkey

// The limits of a key.
const (
	// LevelsMax is the maximum number of paths of a definition.
	LevelsMax = 3

	// ComponentBytesMax is the maximum length of a string component in version
	// 2, in bytes of UTF-8. It applies to each component of a hierarchical key.
	// Version 1 accepts any length and cuts; see [Key.Canonical].
	ComponentBytesMax = 2048

	// RoutingKeyBytesMax is the maximum length of the routing key of a table, in
	// bytes, as in Apache Cassandra.
	RoutingKeyBytesMax = 1<<16 - 1
)

// Error is a mistake in a key or a definition, with a message for the person who
// made it. [Parse], [ParseEPK], [ParsePath], [Definition.Validate],
// [Definition.Check] and [Definition.Prefix] return no other error.
type Error struct {
	Message string

	// Mismatch is true if the key has too few or too many components for the
	// definition, and false if it is wrong under any definition. A client with
	// an outdated definition makes this mistake, so servers answer with a status
	// that makes the client read the definition again.
	Mismatch bool

	// Given is how many components the key has, and Levels how many the definition
	// asks for, if [Definition.Check] found that they differ. Otherwise both are 0.
	Given, Levels int
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
