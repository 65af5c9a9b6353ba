package table

import (
	"encoding/binary"
	"time"

	"github.com/decandb/decan/internal/row"
)

// timeFunctions returns the functions of times and uuids.
func timeFunctions() []*function {
	constant := func(name string, k row.Kind, value func(m *Moment) []byte) *function {
		return &function{name: name, result: native(k), eval: func(m *Moment, _ [][]byte) ([]byte, error) { return value(m), nil }}
	}
	of := func(name string, arg, result row.Kind, eval func(v []byte) []byte) *function {
		return &function{name: name, args: []*row.Type{native(arg)}, result: native(result), eval: func(_ *Moment, args [][]byte) ([]byte, error) {
			if len(args[0]) == 0 {
				return nil, nil
			}
			return eval(args[0]), nil
		}}
	}
	timeUUID := func(m *Moment) []byte { u := m.TimeUUID(); return u[:] }
	milli := func(v []byte) int64 { return unixMilli(v) }
	return []*function{
		constant("now", row.KindTimeUUID, timeUUID),
		constant("currenttimeuuid", row.KindTimeUUID, timeUUID),
		constant("currenttimestamp", row.KindTimestamp, func(m *Moment) []byte { return row.BigInt(m.Now.UnixMilli()) }),
		constant("currentdate", row.KindDate, func(m *Moment) []byte { return row.Date(days(m.Now.UnixMilli())) }),
		constant("currenttime", row.KindTime, func(m *Moment) []byte {
			return row.BigInt(m.Now.Sub(m.Now.UTC().Truncate(24 * time.Hour)).Nanoseconds())
		}),
		constant("uuid", row.KindUUID, func(m *Moment) []byte { u := m.UUID(); return u[:] }),
		of("mintimeuuid", row.KindTimestamp, row.KindTimeUUID, func(v []byte) []byte { return boundUUID(row.Integer(v), 0, 0x80) }),
		of("maxtimeuuid", row.KindTimestamp, row.KindTimeUUID, func(v []byte) []byte { return boundUUID(row.Integer(v), ticksPerMilli-1, 0x7F) }),
		of("dateof", row.KindTimeUUID, row.KindTimestamp, func(v []byte) []byte { return row.BigInt(milli(v)) }),
		of("unixtimestampof", row.KindTimeUUID, row.KindBigInt, func(v []byte) []byte { return row.BigInt(milli(v)) }),
		of("todate", row.KindTimeUUID, row.KindDate, func(v []byte) []byte { return row.Date(days(milli(v))) }),
		of("todate", row.KindTimestamp, row.KindDate, func(v []byte) []byte { return row.Date(days(row.Integer(v))) }),
		of("totimestamp", row.KindTimeUUID, row.KindTimestamp, func(v []byte) []byte { return row.BigInt(milli(v)) }),
		of("totimestamp", row.KindDate, row.KindTimestamp, func(v []byte) []byte { return row.BigInt(row.DateDays(v) * milliPerDay) }),
		of("tounixtimestamp", row.KindTimeUUID, row.KindBigInt, func(v []byte) []byte { return row.BigInt(milli(v)) }),
		of("tounixtimestamp", row.KindTimestamp, row.KindBigInt, func(v []byte) []byte { return row.BigInt(row.Integer(v)) }),
		of("tounixtimestamp", row.KindDate, row.KindBigInt, func(v []byte) []byte { return row.BigInt(row.DateDays(v) * milliPerDay) }),
	}
}

const (
	milliPerDay   = 24 * 60 * 60 * 1000
	ticksPerMilli = 10_000 // of 100 nanoseconds

	// gregorian is the time of 1970-01-01 in a timeuuid: ticks since 1582-10-15.
	gregorian = 0x01B21DD213814000
)

// days returns the days from 1970-01-01 to a time in milliseconds. As in Cassandra, a time
// before 1970 that is not midnight counts as the next day.
func days(milli int64) int64 { return milli / milliPerDay }

// unixMilli returns the time of a timeuuid in milliseconds since 1970.
func unixMilli(uuid []byte) int64 {
	low := uint64(binary.BigEndian.Uint32(uuid))
	mid := uint64(binary.BigEndian.Uint16(uuid[4:]))
	high := uint64(binary.BigEndian.Uint16(uuid[6:])) & 0x0FFF
	return int64(high<<48|mid<<32|low-gregorian) / ticksPerMilli
}

// boundUUID returns a timeuuid at a time, whose other bytes are all node.
func boundUUID(milli int64, ticks int64, node byte) []byte {
	t := uint64(milli*ticksPerMilli+ticks) + gregorian
	uuid := TimeUUID(t, [8]byte{node, node, node, node, node, node, node, node})
	return uuid[:]
}

// TimeUUID returns the timeuuid of a time, in units of 100 nanoseconds since
// 1582-10-15, and of the clock sequence and node in the last eight bytes.
func TimeUUID(ticks uint64, rest [8]byte) (uuid [16]byte) {
	binary.BigEndian.PutUint32(uuid[:], uint32(ticks))
	binary.BigEndian.PutUint16(uuid[4:], uint16(ticks>>32))
	binary.BigEndian.PutUint16(uuid[6:], uint16(ticks>>48)&0x0FFF|0x1000)
	copy(uuid[8:], rest[:])
	return uuid
}

// TimeUUIDTicks returns a time in the units of [TimeUUID].
func TimeUUIDTicks(t time.Time) uint64 { return uint64(t.UnixNano()/100) + gregorian }
