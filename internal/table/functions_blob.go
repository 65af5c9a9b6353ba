package table

import (
	"encoding/hex"
	"errors"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/partitionkey"
)

// blobKinds are the kinds of types that have functions from and to blobs, with the name
// that the functions have for them.
var blobKinds = []struct {
	name string
	kind row.Kind
}{
	{"ascii", row.KindASCII},
	{"bigint", row.KindBigInt},
	{"boolean", row.KindBoolean},
	{"counter", row.KindCounter},
	{"date", row.KindDate},
	{"decimal", row.KindDecimal},
	{"double", row.KindDouble},
	{"duration", row.KindDuration},
	{"float", row.KindFloat},
	{"inet", row.KindInet},
	{"int", row.KindInt},
	{"smallint", row.KindSmallInt},
	{"text", row.KindText},
	{"varchar", row.KindText},
	{"time", row.KindTime},
	{"timestamp", row.KindTimestamp},
	{"timeuuid", row.KindTimeUUID},
	{"tinyint", row.KindTinyInt},
	{"uuid", row.KindUUID},
	{"varint", row.KindVarInt},
}

// blobFunctions returns the functions between native types and blobs.
func blobFunctions() (all []*function) {
	for _, k := range blobKinds {
		t := native(k.kind)
		from := &function{name: "blobas" + k.name, args: []*row.Type{native(row.KindBlob)}, result: t}
		from.eval = func(_ *Moment, args [][]byte) ([]byte, error) {
			if t.Validate(args[0]) != nil {
				return nil, invalid("In call to function system.%s, value 0x%s is not a valid binary representation for type %s", from.name, hex.EncodeToString(args[0]), t)
			}
			return args[0], nil
		}
		all = append(all, from, &function{
			name: k.name + "asblob", args: []*row.Type{t}, result: native(row.KindBlob),
			eval: func(_ *Moment, args [][]byte) ([]byte, error) { return args[0], nil },
		})
	}
	return all
}

// tokenFunction returns token() for a table.
func tokenFunction(partitionKey []*row.Type) *function {
	return &function{name: "token", args: partitionKey, result: native(row.KindBigInt), eval: func(_ *Moment, args [][]byte) ([]byte, error) {
		key, err := row.RoutingKey(args...)
		if err != nil {
			return nil, invalid("%s", err.Error())
		}
		return row.BigInt(partitionkey.Token(key)), nil
	}}
}

// toJSONFunction returns toJson() for its argument.
func toJSONFunction(args []argument) (*function, error) {
	if len(args) != 1 {
		return nil, invalid("toJson() only accepts one argument")
	}
	t := args[0].exactType()
	if t == nil {
		return nil, invalid("toJson() is only valid in SELECT statements")
	}
	return &function{name: "tojson", args: []*row.Type{t}, result: native(row.KindText), nulls: true, eval: func(_ *Moment, args [][]byte) ([]byte, error) {
		return t.AppendJSON([]byte{}, args[0]), nil
	}}, nil
}

// fromJSONFunction returns fromJson() for the type of what it is assigned to.
func fromJSONFunction(args []argument, receiver *row.Type) (*function, error) {
	if receiver == nil {
		return nil, invalid("fromJson() cannot be used in the selection clause of a SELECT statement")
	}
	text := native(row.KindText)
	f := &function{name: "fromjson", args: []*row.Type{text}, result: receiver}
	f.eval = func(_ *Moment, args [][]byte) ([]byte, error) {
		j, err := row.ParseJSON(string(args[0]))
		if err != nil {
			return nil, failed("fromjson", []string{"text"}, "execution of 'system.fromjson[text]' failed: Could not decode JSON string '%s': %s", args[0], err)
		}
		v, err := receiver.FromJSON(j)
		if ofDuration(err) {
			return nil, invalid("%s", err.Error())
		}
		if err != nil {
			return nil, failed("fromjson", []string{"text"}, "execution of 'system.fromjson[text]' failed: %s", err)
		}
		return v, nil
	}
	return f, f.check(args)
}

// ofDuration says whether an error is that of the text of a duration.
func ofDuration(err error) bool {
	e, ok := errors.AsType[*row.Error](err)
	return ok && e.Reason == row.BadDuration
}
