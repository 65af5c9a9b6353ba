package query

import (
	"hash/fnv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// otherFunctions are functions of whole documents and of any value.
func otherFunctions() []function {
	return []function{
		{name: "DOCUMENTID", min: 1, max: 1, run: documentID},
		{name: "HASH", min: 1, max: 3, run: hash},
	}
}

// documentID returns the number of a document, which is the second half of its resource
// ID. In the sample of the documentation it is 13, the number at the end of _rid.
func documentID(_ *env, args []value.Value) value.Value {
	rid, err := resource.ParseRID(args[0].Get("_rid").Text())
	if err != nil || !rid.IsDocument() {
		return value.Undefined()
	}
	return value.Int(int64(rid.Number()))
}

// hashBits is the size of the result of HASH: every client represents integers of that
// many bits exactly.
const hashBits = 53

// hash maps equal values to equal numbers from 0 to 2^53-1, or below a modulus, and
// undefined to 0. The service does not publish its function, whose results are integers
// of 64 bits with a sign, so the numbers are Decan's: FNV-1a of the value's key. They never
// change.
func hash(e *env, args []value.Value) value.Value {
	switch {
	case !args[0].IsDefined() && len(args) < 3:
		return value.Int(0)
	case !e.fitsValue(args[0]):
		return value.Undefined()
	}
	e.scratch = value.AppendKey(e.scratch[:0], args[0])
	if len(args) == 3 {
		if _, ok := args[2].Integer(); !ok {
			return value.Undefined()
		}
		e.scratch = value.AppendKey(e.scratch, args[2]) // the seed
	}
	h := fnv.New64a()
	h.Write(e.scratch)
	sum := int64(h.Sum64() >> (64 - hashBits))
	if len(args) > 1 {
		mod, ok := args[1].Integer()
		if !ok || mod == 0 {
			return value.Undefined()
		}
		sum %= mod
	}
	return value.Int(sum)
}
