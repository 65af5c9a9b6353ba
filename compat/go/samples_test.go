package compat

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestExamples makes the calls of the SDK's public examples that are neither in
// the scenario nor in the SDK's own emulator tests.
func TestExamples(t *testing.T) {
	overBoth(t, examples)
}

func examples(t *testing.T, endpoint string) {
	ctx := t.Context()
	client := connect(t, endpoint, wellKnownKey, &visits{ids: map[string]bool{}})
	database := newDatabase(t, client)
	container := newContainer(t, database, "items", 1, "/tenant", "/user")
	key := azcosmos.NewPartitionKeyString("t").AppendString("u")

	t.Run("containers are queried and their throughput replaced", func(t *testing.T) {
		options := &azcosmos.QueryContainersOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@id", Value: "items"}}}
		page, err := database.NewQueryContainersPager("SELECT * FROM c WHERE c.id = @id", options).NextPage(ctx)
		if err != nil || len(page.Containers) != 1 || page.Containers[0].ID != "items" {
			t.Fatalf("got %+v, %v", page.Containers, err)
		}
		if _, err := container.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(5_000), nil); err != nil {
			t.Fatal(err)
		}
		throughput, err := container.ReadThroughput(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if figure, _ := throughput.ThroughputProperties.ManualThroughput(); figure != 5_000 {
			t.Errorf("got %d RU/s, want 5000", figure)
		}
	})

	t.Run("a batch and a patch under a hierarchical key", func(t *testing.T) {
		batch := container.NewTransactionalBatch(key)
		batch.CreateItem([]byte(`{"id":"1","tenant":"t","user":"u","n":1}`), nil)
		batch.ReadItem("1", nil)
		answer, err := container.ExecuteTransactionalBatch(ctx, batch, nil)
		if err != nil || !answer.Success {
			t.Fatalf("got %+v, %v", answer, err)
		}
		var statuses []int32
		for _, result := range answer.OperationResults {
			statuses = append(statuses, result.StatusCode)
		}
		if !slices.Equal(statuses, []int32{http.StatusCreated, http.StatusOK}) {
			t.Errorf("got %v, want 201 and 200", statuses)
		}
		var patch azcosmos.PatchOperations
		patch.AppendIncrement("/n", 4)
		patch.AppendSet("/more", true)
		patched, err := container.PatchItem(ctx, key, "1", patch, &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
		if err != nil {
			t.Fatal(err)
		}
		var item struct {
			N    int
			More bool
		}
		if err := json.Unmarshal(patched.Value, &item); err != nil || item.N != 5 || !item.More {
			t.Errorf("got %s, %v", patched.Value, err)
		}
	})

	t.Run("a connection string opens the account", func(t *testing.T) {
		options := clientOptions(t, &visits{ids: map[string]bool{}})
		client, err := azcosmos.NewClientFromConnectionString("AccountEndpoint="+endpoint+";AccountKey="+wellKnownKey+";", options)
		if err != nil {
			t.Fatal(err)
		}
		page, err := client.NewQueryDatabasesPager("SELECT * FROM d WHERE d.id = '"+database.ID()+"'", nil).NextPage(ctx)
		if err != nil || len(page.Databases) != 1 {
			t.Errorf("got %d databases, %v", len(page.Databases), err)
		}
	})

	t.Run("a client reads what another wrote by its session token", func(t *testing.T) {
		written, err := container.UpsertItem(ctx, key, []byte(`{"id":"2","tenant":"t","user":"u"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		other := connect(t, endpoint, wellKnownKey, &visits{ids: map[string]bool{}})
		seen, err := other.NewContainer(database.ID(), "items")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := seen.ReadItem(ctx, key, "2", &azcosmos.ItemOptions{SessionToken: written.SessionToken}); err != nil {
			t.Error(err)
		}
	})

	t.Run("a client may prefer regions that the account has not", func(t *testing.T) {
		options := clientOptions(t, &visits{ids: map[string]bool{}})
		options.PreferredRegions = []string{"West US", "Central US"}
		client, err := azcosmos.NewClientFromConnectionString("AccountEndpoint="+endpoint+";AccountKey="+wellKnownKey+";", options)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := client.NewContainer(database.ID(), "items")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := container.UpsertItem(ctx, key, []byte(`{"id":"3","tenant":"t","user":"u"}`), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := seen.ReadItem(ctx, key, "3", nil); err != nil {
			t.Error(err)
		}
	})

	t.Run("a parameter is compared with a property whose name is a keyword", func(t *testing.T) {
		if _, err := container.UpsertItem(ctx, key, []byte(`{"id":"4","tenant":"t","user":"u","value":"2"}`), nil); err != nil {
			t.Fatal(err)
		}
		options := &azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@value", Value: "2"}}}
		page, err := container.NewQueryItemsPager(`select * from docs c where c["value"] = @value`, key, options).NextPage(ctx)
		if err != nil || len(page.Items) != 1 {
			t.Errorf("got %d items, %v", len(page.Items), err)
		}
		// The SDK's documentation has this query, but the service refuses it.
		_, err = container.NewQueryItemsPager("select * from docs c where c.value = @value", key, options).NextPage(ctx)
		if status(err) != http.StatusBadRequest {
			t.Errorf("c.value: got %v, want 400", err)
		}
	})
}
