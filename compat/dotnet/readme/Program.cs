using Microsoft.Azure.Cosmos;

using var client = new CosmosClient("AccountEndpoint=https://localhost:8081/;DisableServerCertificateValidation=True;AccountKey=C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==");
Database database = await client.CreateDatabaseIfNotExistsAsync("shop");
Container sessions = await database.CreateContainerIfNotExistsAsync(new ContainerProperties("sessions", ["/TenantId", "/UserId", "/SessionId"]));

await sessions.UpsertItemAsync(new Session("1", "Contoso", "Alice", "0001", 12));
PartitionKey key = new PartitionKeyBuilder().Add("Contoso").Add("Alice").Add("0001").Build();
ItemResponse<Session> item = await sessions.ReadItemAsync<Session>("1", key);
Console.WriteLine($"read for {item.RequestCharge} RU: {item.Resource.minutes} minutes");

QueryDefinition query = new QueryDefinition("SELECT c.UserId, c.minutes FROM c WHERE c.TenantId = @tenant").WithParameter("@tenant", "Contoso");
using FeedIterator<Session> pages = sessions.GetItemQueryIterator<Session>(query);
while (pages.HasMoreResults)
{
    foreach (Session row in await pages.ReadNextAsync()) Console.WriteLine($"tenant Contoso: {row.UserId}, {row.minutes} minutes");
}

record Session(string id, string TenantId, string UserId, string SessionId, int minutes);
