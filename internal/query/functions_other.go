package query

import (
	"hash/fnv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// otherFunctions are about documents as a whole and about any value.
func otherFunctions() []function {
	return []function{
		{name: "DOCUMENTID", min: 1, max: 1, run: documentID},
		{name: "HASH", min: 1, max: 2, run: hash},
	}
}

// documentID is the number of a document, which the second half of its resource
// id holds; see the documentation's sample, whose _rid ends in the number 13.
func documentID(_ *env, args []value.Value) value.Value {
	rid, err := resource.ParseRID(args[0].Get("_rid").Text())
	if err != nil || !rid.IsDocument() {
		return value.Undefined()
	}
	return value.Int(int64(rid.Number()))
}

// hashBits is the width of what HASH returns: every client has integers of that
// many bits exactly.
const hashBits = 53

// hash maps equal values to equal numbers from 0 to 2^53-1, or below a modulus.
// The service has the function and does not publish it, so the numbers are ours:
// FNV-1a of the value's key. They never change.
func hash(e *env, args []value.Value) value.Value {
	if !args[0].IsDefined() || !e.fitsValue(args[0]) {
		return value.Undefined()
	}
	e.scratch = value.AppendKey(e.scratch[:0], args[0])
	h := fnv.New64a()
	h.Write(e.scratch)
	sum := int64(h.Sum64() >> (64 - hashBits))
	if len(args) == 2 {
		mod, ok := whole(args[1])
		if !ok || mod < 1 {
			return value.Undefined()
		}
		sum %= mod
	}
	return value.Int(sum)
}
