package cql

import (
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// typeIDs has the numbers of types that have no parts. It never changes.
var typeIDs = map[row.Kind]frame.TypeID{
	row.KindASCII: frame.TypeASCII, row.KindBigInt: frame.TypeBigint, row.KindBlob: frame.TypeBlob,
	row.KindBoolean: frame.TypeBoolean, row.KindCounter: frame.TypeCounter, row.KindDate: frame.TypeDate,
	row.KindDecimal: frame.TypeDecimal, row.KindDouble: frame.TypeDouble, row.KindDuration: frame.TypeDuration,
	row.KindFloat: frame.TypeFloat, row.KindInet: frame.TypeInet, row.KindInt: frame.TypeInt,
	row.KindSmallInt: frame.TypeSmallint, row.KindText: frame.TypeVarchar, row.KindTime: frame.TypeTime,
	row.KindTimestamp: frame.TypeTimestamp, row.KindTimeUUID: frame.TypeTimeUUID, row.KindTinyInt: frame.TypeTinyint,
	row.KindUUID: frame.TypeUUID, row.KindVarInt: frame.TypeVarint,
	row.KindList: frame.TypeList, row.KindSet: frame.TypeSet, row.KindMap: frame.TypeMap,
	row.KindTuple: frame.TypeTuple, row.KindUDT: frame.TypeUDT,
}

// TypeOf returns the type as results describe it. Whether a type is frozen does not
// appear there.
func TypeOf(t *row.Type) frame.Type {
	parts := make([]frame.Type, len(t.Parts))
	for i, part := range t.Parts {
		parts[i] = TypeOf(part)
	}
	if t.Kind == row.KindVector {
		return frame.VectorOf(parts[0], t.Dimension)
	}
	out := frame.Type{ID: typeIDs[t.Kind], Keyspace: t.Keyspace, Name: t.Name, Fields: t.Fields}
	if len(parts) > 0 {
		out.Params = parts
	}
	return out
}
