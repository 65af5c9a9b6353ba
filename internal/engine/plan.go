package engine

import (
	"sync"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// indexes caches the compiled indexing policies of containers that are queried.
type indexes struct {
	mu sync.Mutex

	byRID map[resource.RID]compiledIndex
}

type compiledIndex struct {
	etag resource.ETag // of the container with that policy
	*index.Index
}

// indexesMax bounds the cache. A full cache is emptied.
const indexesMax = 4096

// indexOf returns the compiled indexing policy of a container.
func (e *Engine) indexOf(c *catalog.Container) (*index.Index, error) {
	e.indexes.mu.Lock()
	defer e.indexes.mu.Unlock()
	if found, ok := e.indexes.byRID[c.RID]; ok && found.etag == c.ETag {
		return found.Index, nil
	}
	ix, err := index.Compile(c.Indexing)
	if err != nil {
		return nil, err
	}
	if len(e.indexes.byRID) >= indexesMax {
		clear(e.indexes.byRID)
	}
	e.indexes.byRID[c.RID] = compiledIndex{etag: c.ETag, Index: ix}
	return ix, nil
}

// narrowed returns a plan description whose ranges are replaced by the range of
// the key given with the request. A whole key is a point, whatever the filter
// is.
func narrowed(plan value.Value, base partitionkey.Range, d partitionkey.Definition) value.Value {
	if base == partitionkey.Full() {
		return plan
	}
	rangeOf := func(r partitionkey.Range) value.Value {
		point := isPoint(d, r)
		if point {
			r.Max = r.Min
		}
		return value.Object([]value.Member{
			{Name: "min", Value: value.String(r.Min.String())},
			{Name: "max", Value: value.String(r.Max.String())},
			{Name: "isMinInclusive", Value: value.Bool(true)},
			{Name: "isMaxInclusive", Value: value.Bool(point)},
		})
	}
	members := make([]value.Member, 0, len(plan.Members()))
	for _, m := range plan.Members() {
		if m.Name == "queryRanges" {
			m.Value = value.Array([]value.Value{rangeOf(base)})
		}
		members = append(members, m)
	}
	return value.Object(members)
}
