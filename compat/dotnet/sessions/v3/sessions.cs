// Reads its own writes with .NET 3.x after pages of several partitions (F2). 3.64 gets
// them in its distributed mode: a list of session tokens ended every such query with "The
// session token provided is invalid". The argument is the endpoint.
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

const string key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const int partitions = 5;
const int rusOfPartition = 6000; // the server makes a partition for as many
Environment.SetEnvironmentVariable("AZURE_COSMOS_DISTRIBUTED_QUERY_GATEWAY_ENABLED", "True");
using var client = new CosmosClient(args[0], key, new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway, LimitToEndpoint = true, ConsistencyLevel = ConsistencyLevel.Session });

int failures = 0, joined = 0;
void Check(bool holds, string what)
{
    if (holds) return;
    failures++;
    Console.Error.WriteLine("failed: " + what);
}

Database database = await client.CreateDatabaseAsync("compat-dotnet-" + Guid.NewGuid());
try
{
    Container container = await database.CreateContainerAsync(
        new ContainerProperties("c", "/pk") { PartitionKeyDefinitionVersion = PartitionKeyDefinitionVersion.V2 }, partitions * rusOfPartition);
    for (int round = 0; round < 3; round++)
    {
        for (int n = 0; n < 20; n++)
        {
            await container.UpsertItemAsync(new { id = $"{n}", pk = $"p{n}", n, round }, new PartitionKey($"p{n}"));
            Check(await Rows("SELECT VALUE c.round FROM c WHERE c.n = " + n) == $"{round}", $"query of {n} in round {round}");
            JObject read = await container.ReadItemAsync<JObject>($"{n}", new PartitionKey($"p{n}"));
            Check((int)read["round"]! == round, $"read of {n} in round {round}");
        }
        Check((await Rows("SELECT VALUE c.n FROM c WHERE c.n > 4")).Split(' ').Length == 15, "a filter over partitions");
    }
    Check(joined == 0, $"{joined} pages have a list of session tokens");
}
finally
{
    await database.DeleteAsync();
}
Console.WriteLine(failures == 0 ? ".NET reads its own writes" : $"{failures} checks failed");
return failures == 0 ? 0 : 1;

async Task<string> Rows(string text)
{
    var rows = new List<string>();
    using var pages = database.GetContainer("c").GetItemQueryIterator<JToken>(text);
    while (pages.HasMoreResults)
    {
        FeedResponse<JToken> page = await pages.ReadNextAsync();
        if (page.Headers.Session?.Contains(',') == true) joined++;
        rows.AddRange(page.Select(row => row.ToString()));
    }
    return string.Join(" ", rows);
}
