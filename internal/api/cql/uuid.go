package cql

import (
	"crypto/rand"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/table"
)

// newTimeUUID returns a new UUID of version 1, as those of traces are.
func newTimeUUID() frame.UUID {
	var rest [8]byte
	_, _ = rand.Read(rest[:])     // It never fails.
	rest[0] = rest[0]&0x3f | 0x80 // the variant of RFC 9562
	return table.TimeUUID(table.TimeUUIDTicks(time.Now()), rest)
}
