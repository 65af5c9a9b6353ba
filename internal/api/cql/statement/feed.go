package statement

import (
	"context"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// Changes implements table.Feed. A table without throughput left has an empty page, as the
// service has it.
func (s *items) Changes(ctx context.Context, ask table.FeedAsk) (table.FeedChanges, error) {
	req := engine.ItemFeedRequest{
		Table: s.table, Key: ask.Key, Range: ask.Range, After: resource.ETag(ask.After), Since: ask.Since,
		MaxItems: ask.MaxItems, Others: ask.Others, Level: s.level,
	}
	if ask.After == "" && ask.Now {
		req.After = partition.AnyETag
	}
	page, err := s.engine.ItemFeed(ctx, s.caller, req)
	s.spent.Add(page.ItemsResult)
	s.read(ctx, "the change feed", len(page.Items), page.ItemsResult, err)
	if err != nil {
		if status.CodeOf(err) == status.CodeBadRequest && ask.After != "" {
			err = &table.Error{Class: table.Protocol, Text: "Invalid value for the paging state"}
		}
		return table.FeedChanges{}, err
	}
	changes := table.FeedChanges{Position: string(page.Position), Items: make([]table.FeedItem, len(page.Items))}
	for i, one := range page.Items {
		changes.Items[i] = table.FeedItem{Key: one.Key, Item: one.Item, Body: one.Body, Others: one.Others}
	}
	return changes, nil
}
