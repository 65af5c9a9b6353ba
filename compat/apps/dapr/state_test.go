// Package dapr runs the conformance tests of Dapr's state stores against a server: those
// that Dapr runs for the component state.azure.cosmosdb.
package dapr

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/dapr/components-contrib/state/azure/cosmosdb"
	"github.com/dapr/components-contrib/tests/conformance/state"
	"github.com/dapr/kit/logger"
)

const wellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

func TestConformance(t *testing.T) {
	endpoint := os.Getenv("DECAN_ENDPOINT")
	if endpoint == "" {
		t.Fatal("DECAN_ENDPOINT names no server")
	}
	credential, err := azcosmos.NewKeyCredential(wellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := "dapr-" + rand.Text()
	if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: name}, nil); err != nil {
		t.Fatal(err)
	}
	database, err := client.NewDatabase(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := database.Delete(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
	unlimited := int32(-1)
	container := azcosmos.ContainerProperties{
		ID: "state", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/partitionKey"}}, DefaultTimeToLive: &unlimited,
	}
	if _, err := database.CreateContainer(t.Context(), container, nil); err != nil {
		t.Fatal(err)
	}

	config, err := state.NewTestConfig("azure.cosmosdb", []string{"transaction", "etag", "first-write", "query", "ttl"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := cosmosdb.NewCosmosDBStateStore(logger.NewLogger("dapr"))
	properties := map[string]string{"url": endpoint, "masterKey": wellKnownKey, "database": name, "collection": "state"}
	state.ConformanceTests(t, properties, store, config)
}
