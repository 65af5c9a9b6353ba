package engine

import (
	"context"
	"fmt"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// explain puts one row in place of a page's rows: how it was made.
func (q *pageOf) explain(ctx context.Context, c *catalog.Container, plan *query.Plan, s scope) error {
	estimated, progress, err := q.estimate(ctx, c, plan, s)
	if err != nil {
		return err
	}
	stats := &q.out.Stats
	took := float64((stats.Compiled + stats.Took).Microseconds()) / 1000
	visited := make([]value.Value, len(q.out.Partitions))
	for i, id := range q.out.Partitions {
		visited[i] = value.Int(int64(id))
	}
	ranges := make([]value.Value, len(s.ranges))
	for i, r := range s.ranges {
		ranges[i] = value.String(fmt.Sprint(r))
	}
	members := []value.Member{
		{Name: "query", Value: value.String(plan.Text())},
		{Name: "plan", Value: stepValue(plan.Explain())},
		{Name: "text", Value: value.String(plan.Explain().String())},
		{Name: "partitions", Value: value.Object([]value.Member{
			{Name: "total", Value: value.Int(int64(c.Ranges.Len()))},
			{Name: "visited", Value: value.Array(visited)},
			{Name: "ranges", Value: value.Array(ranges)},
		})},
		{Name: "indexes", Value: plan.Indexes().Value()},
		{Name: "estimatedDocuments", Value: estimated},
		{Name: "retrievedDocuments", Value: value.Int(stats.Retrieved)},
		{Name: "indexHits", Value: value.Int(stats.IndexHits)},
		{Name: "matchedDocuments", Value: value.Int(stats.Matched)},
		{Name: "returnedRows", Value: value.Int(stats.Output)},
		{Name: "requestCharge", Value: value.Number(throughput.AtLevel(q.meter.Charge(), q.how.level))},
		{Name: "milliseconds", Value: value.Number(took)},
		{Name: "complete", Value: value.Bool(q.out.Continuation == "")},
	}
	if progress < 100 {
		// Partitions read documents while their index is not what the policy says.
		members = append(members, value.Member{Name: "indexProgress", Value: value.Int(int64(progress))})
	}
	q.out.Rows = [][]byte{value.Object(members).Append(nil)}
	q.out.Continuation = ""
	return nil
}

// estimate returns how many documents all partitions of a scope expect to read,
// null when one of them cannot tell, and how far the slowest has come with its
// index, in percent.
func (q *pageOf) estimate(ctx context.Context, c *catalog.Container, plan *query.Plan, s scope) (estimated value.Value, progress int, err error) {
	total, known := int64(0), true
	progress = 100
	for _, t := range tasks(c, s.ranges) {
		replica, release, err := q.engine.node.Replica(ctx, c, t.partition.ID)
		if err != nil {
			return value.Null(), 0, err
		}
		progress = min(progress, replica.Stats().IndexProgress)
		n, ok, err := replica.Estimate(ctx, partition.Query{Plan: plan, Generation: t.partition.Generation, Range: t.asked})
		release()
		if err != nil {
			return value.Null(), 0, err
		}
		total += n
		known = known && ok
	}
	if !known {
		return value.Null(), progress, nil
	}
	return value.Int(total), progress, nil
}

func stepValue(s *query.Step) value.Value {
	members := []value.Member{{Name: "step", Value: value.String(s.Name)}}
	if s.Detail != "" {
		members = append(members, value.Member{Name: "detail", Value: value.String(s.Detail)})
	}
	if s.Count > 0 {
		members = append(members, value.Member{Name: "count", Value: value.Int(int64(s.Count))})
	}
	if len(s.Spans) > 0 {
		spans := make([]value.Value, len(s.Spans))
		for i, text := range s.Spans {
			spans[i] = value.String(text)
		}
		members = append(members, value.Member{Name: "spans", Value: value.Array(spans)})
	}
	if len(s.Steps) > 0 {
		below := make([]value.Value, len(s.Steps))
		for i, step := range s.Steps {
			below[i] = stepValue(step)
		}
		members = append(members, value.Member{Name: "of", Value: value.Array(below)})
	}
	return value.Object(members)
}
