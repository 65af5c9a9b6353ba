package statement

import (
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/table"
)

// checkRead refuses a consistency level that a read cannot have, as Apache Cassandra does.
// The parameters may be nil.
func checkRead(p *frame.Parameters) error {
	if p != nil && p.Consistency == frame.Any {
		return &table.Error{Text: "ANY ConsistencyLevel is only supported for writes"}
	}
	return nil
}

// checkWrite refuses a consistency level that changes cannot have. batch says that they are
// those of a batch, whose level Apache Cassandra looks at only if it has conditions.
func checkWrite(p *frame.Parameters, changes []*table.KeyChange, batch bool) error {
	if p == nil || len(changes) == 0 {
		return nil
	}
	serial := p.Consistency == frame.Serial || p.Consistency == frame.LocalSerial
	counter := changes[0].Table.Counter()
	switch {
	case changes[0].Conditional():
		if p.Has(frame.QuerySerial) && p.Serial != frame.Serial && p.Serial != frame.LocalSerial {
			return &table.Error{Text: "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL"}
		}
		if serial {
			return &table.Error{Text: p.Consistency.String() + ` is not supported as conditional update commit consistency. Use ANY if you mean "make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads"`}
		}
	case batch:
	case counter && p.Consistency == frame.Any:
		return &table.Error{Text: "Consistency level ANY is not yet supported for counter table " + changes[0].Table.Name}
	case counter && serial:
		return &table.Error{Text: "Counter operations are inherently non-serializable"}
	case serial:
		return &table.Error{Text: "You must use conditional updates for serializable writes"}
	}
	return nil
}
