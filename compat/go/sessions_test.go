package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestSessionOfPages hands the session token of a page of several partitions (F2) to
// point reads and further pages, as programs do: this SDK keeps no tokens itself.
func TestSessionOfPages(t *testing.T) {
	overBoth(t, func(t *testing.T, endpoint string) {
		ctx := context.Background()
		container := newContainer(t, newDatabase(t, connect(t, endpoint, wellKnownKey, &visits{ids: map[string]bool{}})), "sessions", 4, "/pk")
		for round := range 3 {
			for n := range 12 {
				pk := azcosmos.NewPartitionKeyString(fmt.Sprint("p", n))
				item := fmt.Appendf(nil, `{"id":"mine","pk":"p%d","round":%d}`, n, round)
				written, err := container.UpsertItem(ctx, pk, item, nil)
				if err != nil {
					t.Fatal(err)
				}
				token := *written.SessionToken
				found := 0
				pages := container.NewQueryItemsPager(fmt.Sprint("SELECT * FROM c WHERE c.round = ", round), azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{SessionToken: &token})
				for pages.More() {
					page, err := pages.NextPage(ctx)
					if err != nil {
						t.Fatal(err)
					}
					found += len(page.Items)
					token = page.RawResponse.Header.Get("x-ms-session-token")
				}
				if found != n+1 || strings.Contains(token, ",") {
					t.Errorf("round %d: %d items after %d, and the token %q", round, found, n+1, token)
				}
				read, err := container.ReadItem(ctx, pk, "mine", &azcosmos.ItemOptions{SessionToken: &token})
				if err != nil {
					t.Fatal(err)
				}
				var got struct{ Round int }
				if err := json.Unmarshal(read.Value, &got); err != nil || got.Round != round {
					t.Errorf("%d: read round %d, want %d (%v)", n, got.Round, round, err)
				}
			}
		}
	})
}
