using System.Net;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;
using static Compat.Tests;

namespace Compat;

// What an application with the older client notices of splits (S8), of connections that end, of a server that starts again, and of refused throughput.
// ../../direct.sh starts it, with a supervisor of the server at DECAN_SUPERVISOR
// (../../go/supervisor); DECAN_ROUNDS says how often each happens, DECAN_ITEMS how many
// documents are created at last.
//
// Nine kinds of operation run all the time, each in a task of its own. Splits cause no
// error at all. But of the halves of a partition that splits before a page of a query of
// several partitions, this client reads one to its end and forgets the other, in both
// modes: such a query may lack rows. Merges came after its last version: such queries fail
// over them. When connections end, the client repeats what only
// reads, and tells the application of a write whose outcome it does not know: the
// application writes again. Requests to the endpoint are not repeated: while the server is
// away they fail, and in gateway mode also when connections end. What was acknowledged is
// read afterwards.
sealed class Endure
{
    const int Keys = 12;
    static readonly string Text = new('x', 500);
    static readonly HttpClient http = new();

    readonly DocumentClient client;
    readonly string database;
    readonly Uri link;
    readonly Trouble trouble = new();
    readonly int[] versions = new int[Keys]; // by key, as acknowledged
    int created;

    Endure(DocumentClient client, string database)
    {
        this.client = client;
        this.database = database;
        link = UriFactory.CreateDocumentCollectionUri(database, "endure");
    }

    public static async Task Run(Tests tests)
    {
        DocumentClient client = tests.Client;
        Database database = await client.CreateDatabaseAsync(new Database { Id = $"endure-{Guid.NewGuid()}" });
        try
        {
            var endure = new Endure(client, database.Id);
            await Create(client, database.Id, "endure", 2 * PartitionRUs);
            await client.CreateStoredProcedureAsync(endure.link, new StoredProcedure { Id = "double", Body = "function (n) { getContext().getResponse().setBody(2 * n); }" });
            for (int key = 0; key < Keys; key++) await client.CreateDocumentAsync(endure.link, One(key, 0));
            await tests.Run("splits cause no error", () => endure.Load(Loss.None, endure.Reshape));
            await tests.Run("connections end", () => endure.Load(Direct ? Loss.Connections : Loss.Server, () => endure.trouble.Repeat(Direct ? "cut/direct" : "cut/gateway")));
            await tests.Run("the server restarts", () => endure.Load(Loss.Server, () => endure.trouble.Repeat("restart")));
            await tests.Run("the server is killed", () => endure.Load(Loss.Server, () => endure.trouble.Repeat("crash")));
            await tests.Run("more throughput than there is", endure.Storm);
            await tests.Run("many creates", () => Many(client, database.Id, Trouble.Number("DECAN_ITEMS", 5000)));
            Console.WriteLine(endure.trouble);
        }
        finally
        {
            await client.DeleteDatabaseAsync(database.SelfLink);
        }
    }

    static Task Create(DocumentClient client, string database, string id, int throughput)
    {
        var definition = new DocumentCollection { Id = id };
        definition.PartitionKey.Paths.Add("/pk");
        definition.PartitionKey.Version = PartitionKeyDefinitionVersion.V2; // Partitions.Change halves its hashes.
        return client.CreateDocumentCollectionAsync(UriFactory.CreateDatabaseUri(database), definition, new RequestOptions { OfferThroughput = throughput });
    }

    // Loss is what a test takes from its clients.
    enum Loss { None, Connections, Server }

    async Task Reshape()
    {
        for (int i = 0; i < trouble.Rounds; i++)
        {
            await trouble.Progress(1);
            await Partitions.Split(database, "endure");
        }
        await trouble.Progress(2);
    }

    // Load makes trouble while all kinds of operation run, then checks what was written.
    async Task Load(Loss loss, Func<Task> make)
    {
        await trouble.Run(Kinds(loss != Loss.None), make, e => loss == Loss.Server && e is HttpRequestException);
        for (int key = 0; key < Keys; key++) Equal((await Read(key)).n, versions[key], $"the last version of {key}");
    }

    Dictionary<string, Func<Task>> Kinds(bool outcomes)
    {
        // Of each key, one task writes: every write continues from the last version.
        async Task Next(int key, Func<int, Task> write)
        {
            int n = versions[key] + 1;
            await Write(outcomes, () => write(n));
            versions[key] = n;
            Equal((await Read(key)).n, n, "an own write");
        }
        FeedOptions Everywhere(int size = -1) => new() { EnableCrossPartitionQuery = true, MaxItemCount = size, MaxDegreeOfParallelism = -1 };
        return new()
        {
            ["create"] = async () =>
            {
                string id = $"new {Interlocked.Increment(ref created)}";
                await Write(outcomes, () => client.UpsertDocumentAsync(link, new { id, pk = id, text = Text }));
                await client.ReadDocumentAsync(Document(id), Of(id));
                await Write(outcomes, async () =>
                {
                    try
                    {
                        await client.DeleteDocumentAsync(Document(id), Of(id));
                    }
                    catch (DocumentClientException e) when (outcomes && e.StatusCode == HttpStatusCode.NotFound)
                    {
                        // An earlier try has deleted it.
                    }
                });
            },
            ["upsert"] = () => Next(0, n => client.UpsertDocumentAsync(link, One(0, n))),
            ["replace"] = () => Next(1, n => client.ReplaceDocumentAsync(Document("1"), One(1, n), Of("k1"))),
            ["procedure"] = () => Write(outcomes, async () =>
                Equal((await client.ExecuteStoredProcedureAsync<int>(UriFactory.CreateStoredProcedureUri(database, "endure", "double"), Of("k10"), 21)).Response, 42)),
            ["read"] = async () =>
            {
                for (int key = 0; key < Keys; key++) Equal((await Read(key)).id, $"{key}");
            },
            ["query of one key"] = async () => Equal(
                await Rows(client.CreateDocumentQuery<string>(link, "SELECT VALUE c.id FROM c", new FeedOptions { PartitionKey = new PartitionKey("k11") })), ["11"]),
            ["query with order"] = async () =>
            {
                var got = await Rows(client.CreateDocumentQuery<int>(link, "SELECT VALUE c.key FROM c WHERE IS_DEFINED(c.key) ORDER BY c.key", Everywhere(5)));
                if (outcomes)
                    Equal(got, Enumerable.Range(0, Keys));
                else
                    Equal(got.Order(), got.Distinct().Order()); // No row comes twice.
            },
            ["query"] = async () =>
            {
                int got = (await Rows(client.CreateDocumentQuery<int>(link, "SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.key)", Everywhere()))).Single();
                Check(got == Keys || !outcomes && got < Keys, $"{got} of {Keys} documents");
            },
            ["feed"] = async () =>
            {
                var seen = new HashSet<string>();
                string token = null;
                do
                {
                    FeedResponse<dynamic> page = await client.ReadDocumentFeedAsync(link, new FeedOptions { MaxItemCount = 5, RequestContinuation = token });
                    foreach (Document one in page)
                        if (one.GetPropertyValue<int?>("key") != null) seen.Add(one.Id);
                    token = page.ResponseContinuation;
                } while (token != null);
                Equal(seen.Count, Keys);
            },
        };
    }

    // Write writes until the outcome is known; without a reason not to know it, once.
    async Task Write(bool outcomes, Func<Task> call)
    {
        while (true)
        {
            try
            {
                await call();
                return;
            }
            catch (DocumentClientException e) when (outcomes && e.StatusCode is HttpStatusCode.RequestTimeout or HttpStatusCode.ServiceUnavailable or HttpStatusCode.Gone)
            {
                trouble.Unknown($"{(int)e.StatusCode}");
            }
            catch (HttpRequestException) when (outcomes)
            {
                trouble.Unknown("no answer of the endpoint");
            }
        }
    }

    Uri Document(string id) => UriFactory.CreateDocumentUri(database, "endure", id);

    static RequestOptions Of(string pk) => new() { PartitionKey = new PartitionKey(pk) };

    async Task<Item> Read(int key) => (await client.ReadDocumentAsync<Item>(Document($"{key}"), Of($"k{key}"))).Document;

    static Item One(int key, int n) => new() { id = $"{key}", pk = $"k{key}", key = key, n = n, text = Text };

    sealed class Item
    {
        public string id { get; set; }
        public string pk { get; set; }
        public int key { get; set; }
        public int n { get; set; }
        public string text { get; set; }
    }

    // Storm writes more than a collection has throughput for: the client waits and tries
    // again, and another collection is served.
    async Task Storm()
    {
        const int items = 240;
        await Create(client, database, "storm", 400);
        Uri storm = UriFactory.CreateDocumentCollectionUri(database, "storm");
        long refused = await Refusals();
        Task writers = Parallel.ForEachAsync(Enumerable.Range(0, items), new ParallelOptions { MaxDegreeOfParallelism = 40 }, async (i, _) =>
        {
            while (true)
            {
                try
                {
                    await client.UpsertDocumentAsync(storm, new { id = $"{i}", pk = $"p{i}", text = string.Concat(Text, Text, Text, Text) });
                    return;
                }
                catch (DocumentClientException e) when (e.StatusCode == HttpStatusCode.TooManyRequests)
                {
                    // The client has tried nine times.
                }
            }
        });
        while (!writers.IsCompleted) await Read(0);
        await writers;
        Equal(await Rows(client.CreateDocumentQuery<int>(storm, "SELECT VALUE COUNT(1) FROM c", new FeedOptions { EnableCrossPartitionQuery = true })), [items]);
        Check(await Refusals() > refused, "no request was refused");
    }

    // Refusals returns how many upserts the server has refused with 429: in gateway mode the
    // client does not tell what it repeats.
    static async Task<long> Refusals()
    {
        const string name = "decan_nosql_requests_total{operation=\"document_upsert\",status=\"429\"} ";
        string metrics = await http.GetStringAsync(Environment.GetEnvironmentVariable("DECAN_ADMIN") + "metrics");
        string line = metrics.Split('\n').FirstOrDefault(line => line.StartsWith(name));
        return line == null ? 0 : long.Parse(line[name.Length..]);
    }

    static async Task Many(DocumentClient client, string database, int items)
    {
        await Create(client, database, "many", 4 * PartitionRUs);
        Uri many = UriFactory.CreateDocumentCollectionUri(database, "many");
        int again = 0;
        await Parallel.ForEachAsync(Enumerable.Range(0, items), new ParallelOptions { MaxDegreeOfParallelism = 100 }, async (i, _) =>
        {
            // On a slow machine some time out: the application tries these again.
            for (bool unknown = false; ;)
            {
                try
                {
                    await client.CreateDocumentAsync(many, new { id = $"{i}", pk = $"k{i % 1000}", n = i });
                    return;
                }
                catch (DocumentClientException e) when (e.StatusCode == HttpStatusCode.Conflict && unknown)
                {
                    return;
                }
                catch (DocumentClientException e) when (e.StatusCode is HttpStatusCode.TooManyRequests or HttpStatusCode.RequestTimeout or HttpStatusCode.ServiceUnavailable)
                {
                    unknown |= e.StatusCode != HttpStatusCode.TooManyRequests;
                    Interlocked.Increment(ref again);
                }
            }
        });
        Console.WriteLine($"{items} creates: {again} tried again");
        Equal(await Rows(client.CreateDocumentQuery<int>(many, "SELECT VALUE COUNT(1) FROM c", new FeedOptions { EnableCrossPartitionQuery = true })), [items]);
    }
}
