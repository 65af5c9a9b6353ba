package resource

import (
	"fmt"

	"github.com/decandb/decan/internal/value"
)

// ETag returns the version of the partition's bounds.
func (p Partition) ETag() ETag {
	return ETag(fmt.Sprintf(`"%08x-0000-0700-0000-%012x"`, uint32(p.ID), uint64(p.Generation)))
}

// Value returns the partition in the form that clients read, without the two
// members that [Partition.Describe] adds.
func (p Partition) Value(container RID) value.Value {
	return value.Object(p.members(container))
}

// Describe returns the complete form that clients read. share is the fraction of
// the container's throughput that the partition has, lsn its last LSN.
func (p Partition) Describe(container RID, share float64, lsn LSN) value.Value {
	return value.Object(append(p.members(container),
		value.Member{Name: "throughputFraction", Value: value.Number(share)},
		value.Member{Name: "_lsn", Value: value.Int(int64(lsn))},
		value.Member{Name: "lsn", Value: value.Int(int64(lsn))}, // what the Go client decodes
	))
}

func (p Partition) members(container RID) []value.Member {
	rid := PartitionRID(container, p.ID)
	parents := make([]value.Value, len(p.Parents))
	for i, id := range p.Parents {
		parents[i] = value.String(id.String())
	}
	return []value.Member{
		{Name: "_rid", Value: value.String(rid.String())},
		{Name: "id", Value: value.String(p.ID.String())},
		{Name: "_etag", Value: value.String(string(p.ETag()))},
		{Name: "minInclusive", Value: value.String(p.Range.Min.String())},
		{Name: "maxExclusive", Value: value.String(p.Range.Max.String())},
		{Name: "ridPrefix", Value: value.Int(int64(p.Ordinal))},
		{Name: "_self", Value: value.String(rid.self())},
		{Name: "status", Value: value.String("online")},
		{Name: "parents", Value: value.Array(parents)},
		{Name: "ownedArchivalPKRangeIds", Value: value.Array(nil)},
		{Name: "_ts", Value: value.Int(int64(p.CreatedAt))},
	}
}
