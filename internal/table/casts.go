package table

import (
	"math"
	"math/big"
	"sync"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// casts returns the functions of CAST by the kind of their result.
var casts = sync.OnceValue(func() map[row.Kind][]*function {
	all := map[row.Kind][]*function{}
	add := func(from, to row.Kind, eval func(v []byte) ([]byte, bool)) {
		f := &function{name: castName(to), args: []*row.Type{native(from)}, result: native(to)}
		f.eval = func(_ *Moment, args [][]byte) ([]byte, error) {
			if len(args[0]) == 0 && from != row.KindASCII && from != row.KindText {
				return nil, nil
			}
			v, ok := eval(args[0])
			if !ok { // an internal error of Apache Cassandra
				return nil, failed(f.name, typeNames(f.args), "execution of 'system.%s[%s]' failed: the number has no value of type %s", f.name, f.args[0], f.result)
			}
			return v, nil
		}
		all[to] = append(all[to], f)
	}
	texts := func(from row.Kind) {
		t := native(from)
		for _, to := range []row.Kind{row.KindASCII, row.KindText} {
			add(from, to, func(v []byte) ([]byte, bool) { return []byte(t.Format(v)), true })
		}
	}
	for _, from := range numericKinds {
		for _, to := range numericKinds {
			if from != to && to != row.KindCounter {
				add(from, to, func(v []byte) ([]byte, bool) { return castNumber(numberOf(from, v), to) })
			}
		}
		texts(from)
	}
	add(row.KindASCII, row.KindText, func(v []byte) ([]byte, bool) { return v, true })
	texts(row.KindBoolean)
	add(row.KindTimeUUID, row.KindDate, func(v []byte) ([]byte, bool) { return row.Date(days(unixMilli(v))), true })
	add(row.KindTimeUUID, row.KindTimestamp, func(v []byte) ([]byte, bool) { return row.BigInt(unixMilli(v)), true })
	texts(row.KindTimeUUID)
	add(row.KindTimestamp, row.KindDate, func(v []byte) ([]byte, bool) { return row.Date(days(row.Integer(v))), true })
	texts(row.KindTimestamp)
	add(row.KindDate, row.KindTimestamp, func(v []byte) ([]byte, bool) { return row.BigInt(row.DateDays(v) * milliPerDay), true })
	texts(row.KindDate)
	texts(row.KindTime)
	texts(row.KindUUID)
	texts(row.KindInet)
	return all
})

// castNumber casts a number as Apache Cassandra does: a varint has at most the 64 bits of
// Java's longValue, and a decimal has the digits that Java prints of a float or double.
func castNumber(n number, to row.Kind) ([]byte, bool) {
	switch {
	case to == row.KindVarInt:
		return row.VarInt(big.NewInt(n.int64())), true
	case to == row.KindDecimal && n.kind == row.KindFloat && !math.IsNaN(n.f) && !math.IsInf(n.f, 0):
		f := row.Float(n.float32())
		v, err := native(row.KindDecimal).ParseLiteral(row.FloatLiteral, native(row.KindFloat).Format(f), "")
		return v, err == nil
	}
	return n.encode(to)
}

// castName returns the name of the functions that cast to a kind.
func castName(k row.Kind) string {
	return "castAs" + capital(native(k).String())
}

// resolveCast finds the function that casts a value to a type, nil if the value has
// that type.
func resolveCast(value argument, to *row.Type) (*function, error) {
	if t := value.exactType(); t != nil && t.Equal(to) {
		return nil, nil
	}
	if len(casts()[to.Kind]) == 0 {
		return nil, invalid("%s cannot be cast to %s", value, to)
	}
	return chooseCast(value, to, nil)
}

// castFunction finds the function of a CAST outside of a selected expression, where also a
// value that has the type needs one.
func castFunction(value argument, to *cql.Type, receiver *row.Type) (*function, error) {
	t, err := row.ParseType(to.String(), nil)
	if err != nil {
		return nil, invalid("%s", err.Error())
	}
	return chooseCast(value, t, receiver)
}

func chooseCast(value argument, to, receiver *row.Type) (*function, error) {
	candidates := casts()[to.Kind]
	if len(candidates) == 0 {
		return nil, invalid("Unknown function system.%s called", castName(to.Kind))
	}
	return choose(candidates, []argument{value}, receiver, func(all []*function) error {
		return invalid("Ambiguous call to function system.%s (can be matched by following signatures: %s): use type casts to disambiguate", castName(to.Kind), signatures(all))
	}, func() error {
		return invalid("Invalid call to function system.%s, none of its type signatures match (known type signatures: %s)", castName(to.Kind), signatures(candidates))
	})
}
