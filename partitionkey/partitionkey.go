// Package partitionkey says what a partition key is, what it hashes to, and
// which range of hashes serves it, exactly as the NoSQL service and its clients
// do.
//
// Everything that routes uses it: the database itself, client-side resolvers,
// the partition-key advisor, and programs that want to know where an item
// lands. A [Definition] belongs to a container and names one to three paths. A
// [Key] is the list of values found at those paths; [Parse] reads it from the
// form clients send, a [Builder] makes it by hand. [Definition.Hash] turns it
// into an [EPK], an effective partition key: a point of the key space.
// [Definition.Prefix] turns a key, or just its first levels, into a [Range] of
// points. A [RangeMap] is the whole key space cut into ranges, each with a
// value, and finds the range of a point.
//
// # Invariants
//
// The EPK of a prefix of a hierarchical key is a prefix of the EPKs of all keys
// below it, so those keys lie in one contiguous range. Every EPK of a key lies
// in [MinEPK, MaxEPK). Keys are equal exactly when their components are; 0 and
// -0 are one number. EPKs compare byte by byte, and zero bytes at the end make
// no difference. A RangeMap covers the key space once, without gap or overlap
// (I3).
//
// Deliberately absent: documents. The package knows the syntax of paths and
// leaves reading the values at them to its callers. It knows no partition, no
// node and no protocol beyond the form of a key in a header.
//
// Page: docs/architecture.md, "Floor 0: words".
package partitionkey

// The limits of a key.
const (
	// LevelsMax is how many paths a definition may have.
	LevelsMax = 3

	// ComponentBytesMax is the length of a string component in bytes of UTF-8,
	// in version 2. It applies to each component of a hierarchical key.
	// Version 1 takes any length and cuts; see [Definition.Canonical].
	ComponentBytesMax = 2048
)

// Error is a mistake in a key or a definition, with a message for the person
// who made it. [Parse], [ParseEPK], [ParsePath], [Definition.Validate],
// [Definition.Check] and [Definition.Prefix] return no other error.
type Error struct {
	Message string

	// Mismatch tells a key that does not fit the definition, having too few or
	// too many components, from one that is wrong under any definition. A
	// client that holds an outdated definition makes this mistake, so servers
	// answer it in a way that has the client read the definition again.
	Mismatch bool
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
