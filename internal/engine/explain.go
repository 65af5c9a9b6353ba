package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// explain replaces the rows of a page by one row that describes how the page
// was made.
func (q *queryPage) explain(ctx context.Context, c *catalog.Container, plan *query.Plan, s scope) error {
	estimated, progress, err := q.estimate(ctx, c, plan, s)
	if err != nil {
		return err
	}
	stats, steps, probes := &q.out.Stats, plan.Explain(), probesMax
	if err := q.probe(ctx, c, steps, s, &probes); err != nil {
		return err
	}
	plan.Measure(steps, stats, estimated)
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
		{Name: "plan", Value: stepValue(steps)},
		{Name: "text", Value: value.String(steps.String())},
		{Name: "partitions", Value: value.Object([]value.Member{
			{Name: "total", Value: value.Int(int64(c.Ranges.Len()))},
			{Name: "visited", Value: value.Array(visited)},
			{Name: "ranges", Value: value.Array(ranges)},
		})},
		{Name: "indexes", Value: plan.Indexes().Value()},
		{Name: "estimatedDocuments", Value: known(estimated)},
		{Name: "retrievedDocuments", Value: value.Int(stats.Retrieved)},
		{Name: "indexHits", Value: value.Int(stats.IndexHits)},
		{Name: "matchedDocuments", Value: value.Int(stats.Matched)},
		{Name: "returnedRows", Value: value.Int(stats.Output)},
		{Name: "requestCharge", Value: value.Number(throughput.AtLevel(q.meter.Charge(), q.how.level))},
		{Name: "milliseconds", Value: value.Number(took)},
		{Name: "complete", Value: value.Bool(q.out.Continuation == "")},
	}
	if progress < 100 {
		// Partitions read documents until their index is what the policy says.
		members = append(members, value.Member{Name: "indexProgress", Value: value.Int(int64(progress))})
	}
	q.out.Rows = [][]byte{value.Object(members).Append(nil)}
	q.out.Continuation = ""
	return nil
}

// estimate returns how many documents the partitions of a scope expect to read
// for a plan, -1 if one of them cannot tell, and the index progress of the
// slowest, in percent.
func (q *queryPage) estimate(ctx context.Context, c *catalog.Container, plan *query.Plan, s scope) (total int64, progress int, err error) {
	progress = 100
	for _, t := range tasks(c, s.ranges) {
		replica, release, err := q.engine.node.Replica(ctx, c, t.partition.ID)
		if err != nil {
			return -1, 0, err
		}
		progress = min(progress, replica.Stats().IndexProgress)
		n, ok, err := replica.Estimate(ctx, partition.Query{Plan: plan, Generation: t.partition.Generation, Range: t.asked})
		release()
		if err != nil {
			return -1, 0, err
		}
		if total += n; !ok {
			total = math.MinInt64 / 2 // stays below zero
		}
	}
	return max(total, -1), progress, nil
}

// probesMax is how many steps of a plan are estimated at most: each estimate asks
// every partition.
const probesMax = 32

// probe estimates the steps of a plan that read terms of an index, from the top,
// at most left of them.
func (q *queryPage) probe(ctx context.Context, c *catalog.Container, step *query.Step, s scope, left *int) error {
	if plan := step.Probe(); plan != nil && *left > 0 {
		*left--
		var err error
		if step.Expected, _, err = q.estimate(ctx, c, plan, s); err != nil {
			return err
		}
	}
	for _, below := range step.Steps {
		if err := q.probe(ctx, c, below, s, left); err != nil {
			return err
		}
	}
	return nil
}

// known returns a figure, or null if it is unknown.
func known(n int64) value.Value {
	if n < 0 {
		return value.Null()
	}
	return value.Int(n)
}

func stepValue(s *query.Step) value.Value {
	members := []value.Member{{Name: "step", Value: value.String(s.Name)}}
	if s.Detail != "" {
		members = append(members, value.Member{Name: "detail", Value: value.String(s.Detail)})
	}
	for _, figure := range []struct {
		name string
		n    int64
	}{{"rows", s.Rows}, {"expected", s.Expected}, {"taken", s.Times}} {
		if figure.n >= 0 {
			members = append(members, value.Member{Name: figure.name, Value: value.Int(figure.n)})
		}
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
