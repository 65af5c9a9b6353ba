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

// missing reports whether err means that the document itself does not exist.
func missing(err error) bool {
	return status.CodeOf(err) == status.CodeNotFound && status.SubOf(err) == 0
}

// idByRID returns the id of the document whose RID the link names, for clients
// that follow _self. Names are tried first, so it is called only after a miss. The
// error is NotFound if the key has no such document. Since the look-up is a query,
// it can also fail because a partition has moved or a budget is exhausted.
//
// A page of one row after the previous document number finds the document, so
// RIDs need no index of their own.
func (e *Engine) idByRID(ctx context.Context, c *catalog.Container, key partitionkey.Key, link string, meter *throughput.Meter) (string, error) {
	rid, err := resource.ParseRID(link)
	if err != nil || !rid.IsDocument() || rid.Container() != c.RID {
		return "", status.NotFound()
	}
	plan, err := e.compile(listText, nil, nil, nil)
	if err != nil {
		return "", err
	}
	at, err := c.PartitionKey.Prefix(key)
	if err != nil {
		return "", err
	}
	p := c.Ranges.Locate(at.Min).Value
	replica, release, err := e.node.Replica(ctx, c, p.ID)
	if err != nil {
		return "", err
	}
	defer release()
	page, _, err := replica.Query(ctx, partition.Query{
		Plan:       plan,
		Generation: p.Generation,
		Range:      at,
		Budget:     query.Budget{After: query.Position{Number: rid.Number() - 1}, Started: true, MaxItems: 1},
		Meter:      meter,
	})
	if err != nil {
		return "", err
	}
	if len(page.Rows) == 0 {
		return "", status.NotFound()
	}
	doc, err := value.Parse(page.Rows[0].JSON)
	if err != nil {
		return "", err
	}
	if doc.Get("_rid").Text() != link {
		return "", status.NotFound()
	}
	return doc.Get("id").Text(), nil
}
