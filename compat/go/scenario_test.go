// Package compat does the work of a first user with the Go SDK against a server
// that ../run.sh started, over http and over https.
package compat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

type session struct {
	ID        string `json:"id"`
	TenantID  string `json:"TenantId"`
	UserID    string `json:"UserId"`
	SessionID string `json:"SessionId"`
	N         int    `json:"n"`
}

func (s session) key() azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(s.TenantID).AppendString(s.UserID).AppendString(s.SessionID)
}

func (s session) body() []byte {
	body, _ := json.Marshal(s)
	return body
}

func TestScenario(t *testing.T) {
	overBoth(t, scenario)
}

func scenario(t *testing.T, endpoint string) {
	ctx := t.Context()
	seen := &visits{ids: map[string]bool{}}
	client := connect(t, endpoint, wellKnownKey, seen)
	const partitions = 8
	database := newDatabase(t, client)
	container := newContainer(t, database, "sessions", partitions, "/TenantId", "/UserId", "/SessionId")

	var sessions []session
	for _, tenant := range []string{"Microsoft", "Contoso", "Fabrikam"} {
		for user := range 4 {
			for s := range 2 {
				sessions = append(sessions, session{fmt.Sprintf("id-%d", len(sessions)), tenant, fmt.Sprintf("u%d", user), fmt.Sprintf("s%d", s), len(sessions)})
			}
		}
	}
	for _, s := range sessions {
		if _, err := container.CreateItem(ctx, s.key(), s.body(), nil); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("S1 ranges tile the key space", func(t *testing.T) {
		ranges, err := container.ReadFeedRanges(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(ranges) != partitions {
			t.Fatalf("got %d ranges, want %d", len(ranges), partitions)
		}
	})

	t.Run("S2 S3 four levels are refused", func(t *testing.T) {
		_, err := database.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "four", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Paths: []string{"/a", "/b", "/c", "/d"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2,
		}}, nil)
		if status(err) != http.StatusBadRequest {
			t.Errorf("got %v, want 400", err)
		}
	})

	t.Run("S88 S90 point reads need the whole key", func(t *testing.T) {
		want := sessions[5]
		got, err := container.ReadItem(ctx, want.key(), want.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		var item session
		if err := json.Unmarshal(got.Value, &item); err != nil || item != want {
			t.Errorf("got %+v (%v), want %+v", item, err, want)
		}
		if got.RequestCharge != 1 {
			t.Errorf("a point read of a small item cost %v RU, want 1", got.RequestCharge)
		}
		_, err = container.ReadItem(ctx, azcosmos.NewPartitionKeyString(want.TenantID).AppendString(want.UserID), want.ID, nil)
		if status(err) != http.StatusBadRequest {
			t.Errorf("a prefix: got %v, want 400", err)
		}
		_, err = container.ReadItem(ctx, azcosmos.NewPartitionKeyString(want.TenantID).AppendString(want.UserID).AppendString("elsewhere"), want.ID, nil)
		if status(err) != http.StatusNotFound {
			t.Errorf("another key: got %v, want 404", err)
		}
	})

	// query returns the numbers in the rows and how many partitions were
	// visited.
	query := func(t *testing.T, text string, key azcosmos.PartitionKey, pageSize int32, parameters ...azcosmos.QueryParameter) ([]int, int) {
		t.Helper()
		seen.reset()
		found := []int{}
		pager := container.NewQueryItemsPager(text, key, &azcosmos.QueryOptions{QueryParameters: parameters, PageSizeHint: pageSize})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for _, row := range page.Items {
				var s session
				if err := json.Unmarshal(row, &s); err != nil {
					t.Fatal(err)
				}
				found = append(found, s.N)
			}
		}
		return found, seen.count()
	}
	everywhere := azcosmos.NewPartitionKey()

	t.Run("S47 to S58 routing", func(t *testing.T) {
		for _, c := range []struct {
			text       string
			parameters []azcosmos.QueryParameter
			rows       int
			visited    int
		}{
			{
				"SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id",
				[]azcosmos.QueryParameter{{Name: "@tenant-id", Value: "Contoso"}, {Name: "@user-id", Value: "u1"}, {Name: "@session-id", Value: "s1"}},
				1, 1,
			},
			{"SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'", nil, 2, 1},
			{"SELECT * FROM c WHERE 'Contoso' = c.TenantId", nil, 8, 1},
			{"SELECT * FROM c WHERE c.UserId = 'u1'", nil, 6, partitions},
			{"SELECT * FROM c WHERE c.SessionId = 's1'", nil, 12, partitions},
			{"SELECT * FROM c WHERE c.UserId = 'u1' AND c.SessionId = 's1'", nil, 3, partitions},
			{"SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.SessionId = 's1'", nil, 4, 1},
		} {
			found, visited := query(t, c.text, everywhere, 0, c.parameters...)
			if len(found) != c.rows || visited != c.visited {
				t.Errorf("%s: %d rows from %d partitions, want %d from %d", c.text, len(found), visited, c.rows, c.visited)
			}
		}
	})

	t.Run("a prefix as a request option is enforced", func(t *testing.T) {
		for want, key := range map[int]azcosmos.PartitionKey{
			8: azcosmos.NewPartitionKeyString("Contoso"),
			2: azcosmos.NewPartitionKeyString("Contoso").AppendString("u1"),
			1: azcosmos.NewPartitionKeyString("Contoso").AppendString("u1").AppendString("s0"),
		} {
			found, visited := query(t, "SELECT * FROM c", key, 0)
			if len(found) != want || visited != 1 {
				t.Errorf("got %d rows from %d partitions, want %d from 1", len(found), visited, want)
			}
		}
	})

	t.Run("pages of every size give the same rows", func(t *testing.T) {
		for _, size := range []int32{1, 7, 1000} {
			found, _ := query(t, "SELECT * FROM c WHERE c.n >= 0", everywhere, size)
			slices.Sort(found)
			if len(found) != len(sessions) || found[0] != 0 || found[len(found)-1] != len(sessions)-1 {
				t.Errorf("pages of %d: got %v", size, found)
			}
			ordered, _ := query(t, "SELECT * FROM c ORDER BY c.n DESC", azcosmos.NewPartitionKeyString("Contoso"), size)
			if len(ordered) != 8 || !slices.IsSortedFunc(ordered, func(a, b int) int { return b - a }) {
				t.Errorf("pages of %d: ordered %v", size, ordered)
			}
		}
	})

	t.Run("what the gateway cannot merge is refused", func(t *testing.T) {
		pager := container.NewQueryItemsPager("SELECT * FROM c ORDER BY c.n", everywhere, nil)
		if _, err := pager.NextPage(ctx); status(err) != http.StatusBadRequest {
			t.Errorf("got %v, want 400", err)
		}
	})

	t.Run("etags guard writes", func(t *testing.T) {
		s := sessions[0]
		got, err := container.ReadItem(ctx, s.key(), s.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := container.ReplaceItem(ctx, s.key(), s.ID, s.body(), &azcosmos.ItemOptions{IfMatchEtag: &got.ETag}); err != nil {
			t.Fatal(err)
		}
		_, err = container.ReplaceItem(ctx, s.key(), s.ID, s.body(), &azcosmos.ItemOptions{IfMatchEtag: &got.ETag})
		if status(err) != http.StatusPreconditionFailed {
			t.Errorf("a late writer: got %v, want 412", err)
		}
		if _, err := container.CreateItem(ctx, s.key(), s.body(), nil); status(err) != http.StatusConflict {
			t.Errorf("a second create: got %v, want 409", err)
		}
	})

	t.Run("S85 a key that is not the item's is refused", func(t *testing.T) {
		_, err := container.UpsertItem(ctx, sessions[1].key(), sessions[2].body(), nil)
		if status(err) != http.StatusBadRequest {
			t.Errorf("got %v, want 400", err)
		}
	})

	t.Run("keys that Go quotes in its own way arrive", func(t *testing.T) {
		s := session{ID: "odd", TenantID: "\U0001f600\a", UserID: "å\x01", SessionID: `"\`}
		if _, err := container.CreateItem(ctx, s.key(), s.body(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := container.ReadItem(ctx, s.key(), s.ID, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := container.DeleteItem(ctx, s.key(), s.ID, nil); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("read many", func(t *testing.T) {
		var want []azcosmos.ItemIdentity
		for _, s := range sessions[:6] {
			want = append(want, azcosmos.ItemIdentity{ID: s.ID, PartitionKey: s.key()})
		}
		got, err := container.ReadManyItems(ctx, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Items) != len(want) {
			t.Errorf("got %d items, want %d", len(got.Items), len(want))
		}
	})

	t.Run("throughput", func(t *testing.T) {
		got, err := container.ReadThroughput(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if figure, _ := got.ThroughputProperties.ManualThroughput(); figure != 48_000 {
			t.Errorf("got %d RU/s, want 48000", figure)
		}
	})

	t.Run("a wrong key is refused", func(t *testing.T) {
		stranger := connect(t, endpoint, "d3Jvbmc=", &visits{ids: map[string]bool{}})
		pager := stranger.NewQueryDatabasesPager("SELECT * FROM c", nil)
		if _, err := pager.NextPage(ctx); status(err) != http.StatusUnauthorized {
			t.Errorf("got %v, want 401", err)
		}
	})
}

// TestReadme runs the program in the README, which uses the default port.
func TestReadme(t *testing.T) {
	if !strings.Contains(os.Getenv("DECAN_ENDPOINTS"), ":8081") {
		t.Skip("the program of the README speaks to port 8081, which this run does not use")
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", "./readme").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"read for 1 RU:", `tenant Contoso: {"UserId":"Alice","minutes":12}`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got %s, want it to hold %s", out, want)
		}
	}
}
