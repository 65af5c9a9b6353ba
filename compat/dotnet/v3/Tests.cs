using System.Net;
using System.Runtime.CompilerServices;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;

namespace Compat;

// Tests runs the tests of one theme, reports each one that fails, and counts them.
sealed class Tests(string name, string endpoint)
{
    public const string Key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
    public const int PartitionRUs = 6000; // the server makes a physical partition for as many

    public static readonly string SDK = typeof(CosmosClient).Assembly.GetName().Version!.ToString(3);

    public readonly string Name = name, Endpoint = endpoint;
    public readonly Requests Requests = new() { InnerHandler = new HttpClientHandler() }; // those of Client
    public CosmosClient Client;
    public Database Database;
    public int Passed, Failed;

    // Theme runs the tests of a theme in a new database.
    public async Task Theme(Func<Tests, Task> body)
    {
        Client = Connect();
        try
        {
            Database = await Client.CreateDatabaseAsync($"dotnet-{Name}-{Guid.NewGuid()}");
            try
            {
                await body(this);
            }
            finally
            {
                await Database.DeleteAsync();
            }
        }
        catch (Exception e)
        {
            Failed++;
            Console.WriteLine($"FAILED {SDK} {Name}: {Brief(e)}");
        }
    }

    // Direct is whether clients use their default, direct mode, instead of gateway mode.
    public static readonly bool Direct = Environment.GetEnvironmentVariable("DECAN_DIRECT") == "1";

    // Connect returns a client whose requests over HTTP this theme counts.
    public CosmosClient Connect(string key = Key, Action<CosmosClientOptions> change = null)
    {
        CosmosClientOptions options = Options();
        change?.Invoke(options);
        return new CosmosClient(Endpoint, key, options);
    }

    // ConnectAs returns one that has no key.
    public CosmosClient ConnectAs(Azure.Core.TokenCredential credential) => new(Endpoint, credential, Options());

    CosmosClientOptions Options()
    {
        var options = new CosmosClientOptions
        {
            HttpClientFactory = () => new HttpClient(Requests, disposeHandler: false),
        };
        if (!Direct) options.ConnectionMode = ConnectionMode.Gateway;
        return options;
    }

    // Run runs one test. A test that throws fails.
    public async Task Run(string test, Func<Task> body)
    {
        try
        {
            await body();
            Passed++;
        }
        catch (Exception e)
        {
            Failed++;
            Console.WriteLine($"FAILED {SDK} {Name}: {test}: {Brief(e)}");
        }
    }

    // Brief returns the error and its place in this folder.
    static string Brief(Exception e) => string.Join("\n  ",
        e.ToString().Split('\n').Where((line, i) => i == 0 || !line.StartsWith("---") && (!line.StartsWith("   at ") || line.Contains(".cs:line"))).Take(12));

    public static void Check(bool holds, string what)
    {
        if (!holds) throw new Exception(what);
    }

    public static void Equal<T>(T got, T want, [CallerArgumentExpression(nameof(got))] string what = "")
    {
        string left = JsonConvert.SerializeObject(got), right = JsonConvert.SerializeObject(want);
        Check(left == right, $"{what} is {left}, want {right}");
    }

    public static void Equal<T>(IEnumerable<T> got, IEnumerable<T> want, [CallerArgumentExpression(nameof(got))] string what = "") =>
        Equal<List<T>>([.. got], [.. want], what);

    // Refused runs a call that has to fail with a status and, unless negative, a sub-status.
    public static async Task<CosmosException> Refused(HttpStatusCode status, Func<Task> call, int substatus = -1)
    {
        try
        {
            await call();
        }
        catch (CosmosException e)
        {
            Check(e.StatusCode == status && (substatus < 0 || e.SubStatusCode == substatus),
                $"refused with {(int)e.StatusCode}/{e.SubStatusCode}, want {(int)status}/{substatus}: {e.Message}");
            return e;
        }
        throw new Exception($"not refused, want {(int)status}");
    }

    // Rows returns all rows of a query, page by page.
    public static async Task<List<T>> Rows<T>(Container container, QueryDefinition query, QueryRequestOptions options = null)
    {
        using FeedIterator<T> pages = container.GetItemQueryIterator<T>(query, requestOptions: options);
        return await Rows(pages);
    }

    public static Task<List<T>> Rows<T>(Container container, string query, QueryRequestOptions options = null) =>
        Rows<T>(container, new QueryDefinition(query), options);

    public static async Task<List<T>> Rows<T>(FeedIterator<T> pages)
    {
        var rows = new List<T>();
        while (pages.HasMoreResults) rows.AddRange(await pages.ReadNextAsync());
        return rows;
    }

    public static JObject Item(object of) => JObject.FromObject(of);
}

// Requests counts what a client sends, and notes the partitions that answers come from.
sealed class Requests : DelegatingHandler
{
    readonly object mutex = new();
    readonly SortedSet<string> partitions = [];
    int queries, plans;

    public (int Queries, int Plans, int Partitions) Seen
    {
        get { lock (mutex) return (queries, plans, partitions.Count); }
    }

    public void Reset()
    {
        lock (mutex)
        {
            queries = plans = 0;
            partitions.Clear();
        }
    }

    protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancellation)
    {
        HttpResponseMessage response = await base.SendAsync(request, cancellation);
        lock (mutex)
        {
            if (request.Headers.Contains("x-ms-cosmos-is-query-plan-request")) plans++;
            else if (request.Content?.Headers.ContentType?.MediaType == "application/query+json") queries++;
            if (response.Headers.TryGetValues("x-decan-partitions", out var ids))
                partitions.UnionWith(ids.SelectMany(list => list.Split(',', StringSplitOptions.RemoveEmptyEntries)));
        }
        return response;
    }
}
