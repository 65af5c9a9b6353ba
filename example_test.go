package decan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
)

// A program starts a server in memory and uses it with the Go SDK.
func Example() {
	ctx := context.Background()
	server, err := decan.Start(ctx, decan.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	credential, err := azcosmos.NewKeyCredential(server.Key())
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		log.Fatal(err)
	}
	database, err := client.NewDatabase("shop")
	if err != nil {
		log.Fatal(err)
	}
	_, err = database.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID: "sessions",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
			Paths: []string{"/TenantId", "/UserId", "/SessionId"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2,
		},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	sessions, err := database.NewContainer("sessions")
	if err != nil {
		log.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("Contoso").AppendString("Alice").AppendString("0001")
	item := []byte(`{"id":"1","TenantId":"Contoso","UserId":"Alice","SessionId":"0001","minutes":12}`)
	if _, err := sessions.CreateItem(ctx, key, item, nil); err != nil {
		log.Fatal(err)
	}

	// A query by prefix visits the partitions that hold the prefix.
	pager := sessions.NewQueryItemsPager("SELECT c.UserId, c.minutes FROM c WHERE c.TenantId = @tenant", azcosmos.NewPartitionKey(),
		&azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@tenant", Value: "Contoso"}}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, row := range page.Items {
			fmt.Println(string(row))
		}
	}
	// Output: {"UserId":"Alice","minutes":12}
}

// A container with an exact number of physical partitions shows the cost of a
// choice of key.
func ExampleServer_CreateContainer() {
	ctx := context.Background()
	server, err := decan.Start(ctx, decan.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	definition := `{"id":"events","partitionKey":{"paths":["/TenantId"],"version":2}}`
	if err := server.CreateContainer(ctx, "telemetry", definition, 64); err != nil {
		log.Fatal(err)
	}
	credential, err := azcosmos.NewKeyCredential(server.Key())
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	events, err := client.NewContainer("telemetry", "events")
	if err != nil {
		log.Fatal(err)
	}
	ranges, err := events.ReadFeedRanges(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ranges), "partitions")
	// Output: 64 partitions
}
