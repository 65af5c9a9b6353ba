package main

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func main() {
	ctx := context.Background()
	client := must(azcosmos.NewClientFromConnectionString("AccountEndpoint=http://127.0.0.1:8081/;AccountKey=C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==;", nil))
	client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil) // 409 when it exists
	database := must(client.NewDatabase("shop"))
	levels := azcosmos.PartitionKeyDefinition{Paths: []string{"/TenantId", "/UserId", "/SessionId"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2}
	database.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "sessions", PartitionKeyDefinition: levels}, nil)
	sessions := must(database.NewContainer("sessions"))

	key := azcosmos.NewPartitionKeyString("Contoso").AppendString("Alice").AppendString("0001")
	must(sessions.UpsertItem(ctx, key, []byte(`{"id":"1","TenantId":"Contoso","UserId":"Alice","SessionId":"0001","minutes":12}`), nil))
	item := must(sessions.ReadItem(ctx, key, "1", nil))
	fmt.Println("read for", item.RequestCharge, "RU:", string(item.Value))

	pager := sessions.NewQueryItemsPager("SELECT c.UserId, c.minutes FROM c WHERE c.TenantId = 'Contoso'", azcosmos.NewPartitionKey(), nil)
	for pager.More() {
		for _, row := range must(pager.NextPage(ctx)).Items {
			fmt.Println("tenant Contoso:", string(row))
		}
	}
}

func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}
