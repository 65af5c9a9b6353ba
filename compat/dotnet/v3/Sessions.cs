using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Reads of own writes after pages of several partitions. With distributed queries the
// client ended every such query when a page had a list of session tokens. Main runs
// this theme before the others, because an environment variable of the process enables
// these queries.
static class Sessions
{
    const string Distributed = "AZURE_COSMOS_DISTRIBUTED_QUERY_GATEWAY_ENABLED";
    const int Partitions = 5;

    public static async Task Run(Tests tests)
    {
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("items", "/pk"), Partitions * PartitionRUs);
        foreach (string distributed in new[] { "False", "True" })
        {
            Environment.SetEnvironmentVariable(Distributed, distributed);
            await tests.Run($"own writes after pages of several partitions, distributed queries {distributed}", () => OwnWrites(container));
            await tests.Run($"aggregates, orders and pages over partitions, distributed queries {distributed}", () => Combined(container));
        }
        Environment.SetEnvironmentVariable(Distributed, null);
    }

    static async Task OwnWrites(Container container)
    {
        for (int round = 0; round < 3; round++)
        {
            for (int n = 0; n < 20; n++)
            {
                await container.UpsertItemAsync(Item(new { id = $"{n}", pk = $"p{n}", n, round }), new PartitionKey($"p{n}"));
                Equal(await Ask(container, $"SELECT VALUE c.round FROM c WHERE c.n = {n}"), [round]);
                Equal((int)(await container.ReadItemAsync<JObject>($"{n}", new PartitionKey($"p{n}"))).Resource["round"], round);
            }
            Equal((await Ask(container, "SELECT VALUE c.n FROM c WHERE c.n > 4")).Order(), Enumerable.Range(5, 15));
        }
    }

    // Combined asks what one partition alone cannot answer.
    static async Task Combined(Container container)
    {
        Equal(await Ask(container, "SELECT VALUE COUNT(1) FROM c WHERE c.n > 4"), [15]);
        Equal(await Ask(container, "SELECT VALUE MAX(c.n) FROM c"), [19]);
        Equal(await Ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n DESC"), Enumerable.Range(0, 20).Reverse());
        Equal(await Ask(container, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 9"), Enumerable.Range(5, 9));
        Equal((await Ask(container, "SELECT DISTINCT VALUE c.n % 3 FROM c")).Order(), [0, 1, 2]);
    }

    // Ask returns the rows of a query whose pages have one session token each.
    static async Task<List<int>> Ask(Container container, string query)
    {
        var rows = new List<int>();
        using var pages = container.GetItemQueryIterator<int>(query, requestOptions: new QueryRequestOptions { MaxItemCount = 7 });
        while (pages.HasMoreResults)
        {
            FeedResponse<int> page = await pages.ReadNextAsync();
            Check(page.Headers.Session?.Contains(',') != true, $"a page has the session tokens {page.Headers.Session}");
            rows.AddRange(page);
        }
        return rows;
    }
}
