package table

import (
	"encoding/hex"
	"strings"

	"github.com/decandb/decan/internal/row"
)

// className returns the name of a type's class in Apache Cassandra, which a few of its
// messages have.
func className(t *row.Type) string {
	const classes = "org.apache.cassandra.db.marshal."
	parts := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = className(p)
	}
	name := ""
	switch t.Kind {
	case row.KindList, row.KindSet, row.KindMap:
		name = classes + map[row.Kind]string{row.KindList: "ListType", row.KindSet: "SetType", row.KindMap: "MapType"}[t.Kind] + "(" + strings.Join(parts, ",") + ")"
	case row.KindTuple:
		return classes + "TupleType(" + strings.Join(parts, ",") + ")"
	case row.KindUDT:
		all := []string{t.Keyspace, hex.EncodeToString([]byte(t.Name))}
		for i, p := range parts {
			all = append(all, hex.EncodeToString([]byte(t.Fields[i]))+":"+p)
		}
		name = classes + "UserType(" + strings.Join(all, ",") + ")"
	default:
		return classes + nativeClasses[t.Kind]
	}
	if t.Frozen {
		return classes + "FrozenType(" + name + ")"
	}
	return name
}

var nativeClasses = map[row.Kind]string{
	row.KindASCII: "AsciiType", row.KindBigInt: "LongType", row.KindBlob: "BytesType", row.KindBoolean: "BooleanType", row.KindCounter: "CounterColumnType",
	row.KindDate: "SimpleDateType", row.KindDecimal: "DecimalType", row.KindDouble: "DoubleType", row.KindDuration: "DurationType", row.KindFloat: "FloatType",
	row.KindInet: "InetAddressType", row.KindInt: "Int32Type", row.KindSmallInt: "ShortType", row.KindText: "UTF8Type", row.KindTime: "TimeType",
	row.KindTimestamp: "TimestampType", row.KindTimeUUID: "TimeUUIDType", row.KindTinyInt: "ByteType", row.KindUUID: "UUIDType", row.KindVarInt: "IntegerType",
}
