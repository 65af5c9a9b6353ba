package main

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func main() {
	ctx := context.Background()
	client, err := azcosmos.NewClientFromConnectionString("AccountEndpoint=http://127.0.0.1:8081/;AccountKey=C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==;", nil)
	check(err)
	client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil) // 409 when it exists
	database, _ := client.NewDatabase("shop")
	database.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "sessions", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{
		Paths: []string{"/TenantId", "/UserId", "/SessionId"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2,
	}}, nil)
	sessions, _ := database.NewContainer("sessions")

	key := azcosmos.NewPartitionKeyString("Contoso").AppendString("Alice").AppendString("0001")
	_, err = sessions.UpsertItem(ctx, key, []byte(`{"id":"1","TenantId":"Contoso","UserId":"Alice","SessionId":"0001","minutes":12}`), nil)
	check(err)
	item, err := sessions.ReadItem(ctx, key, "1", nil)
	check(err)
	fmt.Println("read for", item.RequestCharge, "RU:", string(item.Value))

	pager := sessions.NewQueryItemsPager("SELECT c.UserId, c.minutes FROM c WHERE c.TenantId = 'Contoso'", azcosmos.NewPartitionKey(), nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		check(err)
		for _, row := range page.Items {
			fmt.Println("tenant Contoso:", string(row))
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
