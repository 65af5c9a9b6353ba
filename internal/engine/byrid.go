package engine

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// missing reports whether err says that the document itself is not there.
func missing(err error) bool {
	return status.CodeOf(err) == status.CodeNotFound && status.SubOf(err) == 0
}

// idByRID returns the id of the document whose RID the link names, for clients
// that follow _self. Names come first, so it is asked only after a miss.
//
// A page of one row behind the number before it finds the document, so no index
// of RIDs is needed beside the one that queries use.
func (e *Engine) idByRID(ctx context.Context, c *catalog.Container, key partitionkey.Key, link string, meter *throughput.Meter) (string, bool) {
	rid, err := resource.ParseRID(link)
	if err != nil || !rid.IsDocument() || rid.Container() != c.RID {
		return "", false
	}
	plan, err := e.compile(listText, nil, nil, nil)
	if err != nil {
		return "", false
	}
	at, err := c.PartitionKey.Prefix(key)
	if err != nil {
		return "", false
	}
	p := c.Ranges.Locate(at.Min).Value
	replica, release, err := e.node.Replica(ctx, c, p.ID)
	if err != nil {
		return "", false
	}
	defer release()
	page, _, err := replica.Query(ctx, partition.Query{
		Plan:       plan,
		Generation: p.Generation,
		Range:      at,
		Budget:     query.Budget{After: query.Position{Number: rid.Number() - 1}, Started: true, MaxItems: 1},
		Meter:      meter,
	})
	if err != nil || len(page.Rows) == 0 {
		return "", false
	}
	doc, err := value.Parse(page.Rows[0].JSON)
	if err != nil || doc.Get("_rid").Text() != link {
		return "", false
	}
	return doc.Get("id").Text(), true
}
