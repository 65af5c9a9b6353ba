package table

import (
	"sync"

	"github.com/decandb/decan/internal/row"
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
			if !ok {
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
				add(from, to, func(v []byte) ([]byte, bool) { return numberOf(from, v).encode(to) })
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

// castName returns the name of the functions that cast to a kind.
func castName(k row.Kind) string {
	name := native(k).String()
	return "castAs" + string(name[0]-'a'+'A') + name[1:]
}

// resolveCast finds the function that casts a value to a type, nil if the value has
// that type.
func resolveCast(value argument, to *row.Type) (*function, error) {
	if t := value.exactType(); t != nil && t.Equal(to) {
		return nil, nil
	}
	candidates := casts()[to.Kind]
	if len(candidates) == 0 {
		return nil, invalid("%s cannot be cast to %s", value, to)
	}
	return choose(candidates, []argument{value}, nil, func(all []*function) error {
		return invalid("Ambiguous call to function system.%s (can be matched by following signatures: %s): use type casts to disambiguate", castName(to.Kind), signatures(all))
	}, func() error {
		return invalid("Invalid call to function system.%s, none of its type signatures match (known type signatures: %s)", castName(to.Kind), signatures(candidates))
	})
}
