// Pages through ORDER BY with continuation tokens that are given to a new client after
// every page, over 1 and 8 partitions and values of all types, and counts the requests
// of a query of one partition. The argument is the endpoint. run.sh runs it.
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

const string key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const int rusOfPartition = 6000; // the server makes a partition for as many
string endpoint = args[0];
Environment.SetEnvironmentVariable("AZURE_COSMOS_OPTIMISTIC_DIRECT_EXECUTION_ENABLED", "True"); // off by default in 3.64
var counter = new Counter { InnerHandler = new HttpClientHandler() };

CosmosClient Connect() => new(endpoint, key, new CosmosClientOptions
{
    ConnectionMode = ConnectionMode.Gateway,
    LimitToEndpoint = true,
    HttpClientFactory = () => new HttpClient(counter, disposeHandler: false),
});

// The values to order by, as JSON; null stands for a missing property.
string?[] values =
[
    null, "null", "true", "false", "0", "1", "-1", "2.5", "1e300", "-1e300", "9007199254740993", "9007199254740992",
    "\"\"", "\"a\"", "\"B\"", "\"é\"", "\"\\uE000\"", "\"😀\"", "\"\\uFFFF\"", "\"a😀\"", "\"a\\uFFFF\"",
    "[]", "[1]", "[1,2]", "[[null]]", "[{\"a\":1}]", "{}", "{\"a\":1}", "{\"b\":[true]}", "{\"a\":{\"b\":\"x\"}}",
];

int failures = 0;
void Check(bool holds, string what)
{
    if (holds) return;
    failures++;
    Console.Error.WriteLine("failed: " + what);
}

using var client = Connect();
Database database = await client.CreateDatabaseAsync("compat-dotnet-" + Guid.NewGuid());
try
{
    foreach (int partitions in new[] { 1, 8 })
    {
        Container container = await Fill(partitions);
        foreach (string query in new[]
        {
            "SELECT c.id, c.k FROM c ORDER BY c.k",
            "SELECT c.id, c.k FROM c ORDER BY c.k DESC",
            "SELECT c.id, c.k FROM c WHERE c.pass ORDER BY c.k",
            "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
            "SELECT c.id, c.k, c.m FROM c ORDER BY c.k, c.m DESC",
            "SELECT c.id, c.k, c.m FROM c ORDER BY c.k DESC, c.m",
        })
        {
            await Page(container, partitions, query);
        }
        // Over several partitions this client returns a row of JOIN again and again: it
        // counts the rows of the last document to leave out in the last page alone.
        if (partitions == 1) await Page(container, partitions, "SELECT c.id, c.k, t FROM c JOIN t IN c.tags ORDER BY c.k");
        await CountRequests(container, partitions);
    }
}
finally
{
    await database.DeleteAsync();
}
Console.WriteLine(failures == 0 ? "paging: every row once and in order" : $"paging: {failures} failures");
return failures == 0 ? 0 : 1;

async Task<Container> Fill(int partitions)
{
    var properties = new ContainerProperties($"c{partitions}", "/pk");
    properties.IndexingPolicy.CompositeIndexes.Add(
    [
        new() { Path = "/k", Order = CompositePathSortOrder.Ascending },
        new() { Path = "/m", Order = CompositePathSortOrder.Descending },
    ]);
    Container container = await database.CreateContainerAsync(properties, partitions * rusOfPartition);
    for (int i = 0; i < 3 * values.Length; i++)
    {
        var item = new StringBuilder($"{{\"id\":\"{i}\",\"pk\":\"p{i % 37}\",\"m\":{i % 4},\"pass\":{(i % 5 > 0 ? "true" : "false")},\"tags\":[\"x\",\"y\"]");
        if (values[i % values.Length] is string k) item.Append($",\"k\":{k}");
        item.Append('}');
        using var response = await container.CreateItemStreamAsync(new MemoryStream(Encoding.UTF8.GetBytes(item.ToString())), new PartitionKey($"p{i % 37}"));
        response.EnsureSuccessStatusCode();
    }
    return container;
}

// Page reads a query with a new client for every page and compares it with the same
// query read by one client in one page.
async Task Page(Container container, int partitions, string query)
{
    var whole = new List<JToken>();
    using (var all = container.GetItemQueryIterator<JToken>(query, requestOptions: new QueryRequestOptions { MaxItemCount = -1 }))
    {
        while (all.HasMoreResults) whole.AddRange(await all.ReadNextAsync());
    }
    var paged = new List<JToken>();
    string? token = null;
    int pages = 0;
    do
    {
        using var fresh = Connect();
        using var feed = fresh.GetContainer(database.Id, container.Id)
            .GetItemQueryIterator<JToken>(query, token, new QueryRequestOptions { MaxItemCount = 7 });
        FeedResponse<JToken> page = await feed.ReadNextAsync();
        paged.AddRange(page);
        token = page.ContinuationToken;
    } while (token != null && ++pages < 1000);

    string about = $"{query} over {partitions} partitions";
    string[] Rows(List<JToken> rows) => [.. rows.Select(row => row.ToString(Newtonsoft.Json.Formatting.None))];
    string[] got = Rows(paged), want = Rows(whole);
    Check(want.Length >= values.Length - 4, $"{about}: {want.Length} rows in one page");
    Check(got.Order().SequenceEqual(want.Order()), $"{about}: {got.Length} rows in {pages} pages, not the {want.Length} of one page; lost {string.Join(" ", want.Except(got))}");
    bool descending = query.Contains("c.k DESC");
    for (int i = 1; i < paged.Count; i++)
    {
        int order = Compare(Sorted(paged[i - 1]), Sorted(paged[i]));
        Check((descending ? -order : order) <= 0, $"{about}: {got[i - 1]} before {got[i]}");
    }
}

// Sorted returns the value that a row is ordered by.
JToken? Sorted(JToken row) => row is JObject item && item.ContainsKey("id") ? item["k"] : row;

// Compare orders values as far as the client's hashes do not matter.
int Compare(JToken? a, JToken? b)
{
    int rank = Rank(a).CompareTo(Rank(b));
    if (rank != 0) return rank;
    return Rank(a) switch
    {
        4 => a!.Type == JTokenType.Integer && b!.Type == JTokenType.Integer ? ((long)a!).CompareTo((long)b!) : ((double)a!).CompareTo((double)b!),
        5 => string.CompareOrdinal((string)a!, (string)b!),
        _ => 0,
    };
}

int Rank(JToken? value) => value?.Type switch
{
    null => 0,
    JTokenType.Null => 1,
    JTokenType.Boolean => (bool)value! ? 3 : 2,
    JTokenType.Integer or JTokenType.Float => 4,
    JTokenType.Array => 6,
    JTokenType.Object => 7,
    _ => 5,
};

// CountRequests asks one logical partition: one request, and no plan (optimistic direct
// execution). Each further page is one request.
async Task CountRequests(Container container, int partitions)
{
    var one = new QueryRequestOptions { PartitionKey = new PartitionKey("p1"), MaxItemCount = 100 };
    foreach (var (query, requests, size) in new[]
    {
        ("SELECT * FROM c", 1, 100),
        ("SELECT * FROM c WHERE c.m >= 0 ORDER BY c.k", 1, 100),
        ("SELECT * FROM c ORDER BY c.k", 3, 1),
    })
    {
        one.MaxItemCount = size;
        counter.Reset();
        int rows = 0;
        using var feed = container.GetItemQueryIterator<JToken>(query, requestOptions: one);
        for (int page = 0; feed.HasMoreResults && page < 3; page++) rows += (await feed.ReadNextAsync()).Count;
        Check(rows > 0, $"{query} in one partition: no rows");
        Check(counter.Plans == 0 && counter.Queries == requests,
            $"{query} in one of {partitions} partitions, pages of {size}: {counter.Queries} requests and {counter.Plans} plans, not {requests} and none");
    }
}

// Counter counts the requests for queries, and those for their plans.
sealed class Counter : DelegatingHandler
{
    public int Queries, Plans;

    public void Reset() => Queries = Plans = 0;

    protected override Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellation)
    {
        if (request.Headers.Contains("x-ms-cosmos-is-query-plan-request")) Interlocked.Increment(ref Plans);
        else if (request.Content?.Headers.ContentType?.MediaType == "application/query+json") Interlocked.Increment(ref Queries);
        return base.SendAsync(request, cancellation);
    }
}
