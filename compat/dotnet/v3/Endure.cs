using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Scripts;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// What an application with default options notices of splits and merges (S8, S91, S95, S111), of connections
// that end, of a server that starts again, and of refused throughput. ../../direct.sh
// starts it, with a supervisor of the server at DECAN_SUPERVISOR (../../go/supervisor);
// DECAN_ROUNDS says how often each happens, DECAN_ITEMS how many items a bulk has.
//
// Thirteen kinds of operation run all the time, each in a task of its own. Splits and
// merges cause no error at all. When a connection or the server ends, the SDK repeats what
// only reads, and tells the application of a write whose outcome it does not know (408 or
// 503): the application writes again. What was acknowledged is read afterwards.
sealed class Endure
{
    const int Keys = 12;
    static readonly string Text = new('x', 500);

    readonly Tests tests;
    readonly Container container;
    readonly Container bulk;
    readonly Trouble trouble = new();
    readonly int[] versions = new int[Keys]; // by key, as acknowledged
    int created;

    Endure(Tests tests, Container container, Container bulk)
    {
        this.tests = tests;
        this.container = container;
        this.bulk = bulk;
    }

    public static async Task Run(Tests tests)
    {
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("endure", "/pk"), 2 * PartitionRUs);
        await container.Scripts.CreateStoredProcedureAsync(new StoredProcedureProperties("double", "function (n) { getContext().getResponse().setBody(2 * n); }"));
        for (int key = 0; key < Keys; key++) await container.CreateItemAsync(One(key, 0));
        using CosmosClient client = tests.Connect(change: options => options.AllowBulkExecution = true);
        var endure = new Endure(tests, container, client.GetContainer(tests.Database.Id, "endure"));
        await tests.Run("splits and merges cause no error", () => endure.Load(false, endure.Reshape));
        await tests.Run("connections end", () => endure.Load(true, () => endure.trouble.Repeat(Direct ? "cut/direct" : "cut/gateway")));
        await tests.Run("the server restarts", () => endure.Load(true, () => endure.trouble.Repeat("restart")));
        await tests.Run("the server is killed", () => endure.Load(true, () => endure.trouble.Repeat("crash")));
        await tests.Run("more throughput than there is", endure.Storm);
        await tests.Run("a bulk of many items", () => Many(tests, client, Trouble.Number("DECAN_ITEMS", 5000)));
        Console.WriteLine(endure.trouble);
    }

    async Task Reshape()
    {
        for (int i = 0; i < trouble.Rounds; i++)
        {
            await trouble.Progress(1);
            await Partitions.Change(tests.Database.Id, "endure", 2);
            await trouble.Progress(1);
            await Partitions.Change(tests.Database.Id, "endure", 2);
        }
        await trouble.Progress(2);
    }

    // Load makes trouble while all kinds of operation run, then checks what was written.
    async Task Load(bool outcomes, Func<Task> make)
    {
        await trouble.Run(Kinds(outcomes), make);
        for (int key = 0; key < Keys; key++) Equal((int)(await Read(key))["n"], versions[key], $"the last version of {key}");
    }

    Dictionary<string, Func<Task>> Kinds(bool outcomes)
    {
        // Of each key, one task writes: every write continues from the last version.
        async Task Next(int key, Func<int, Task> write)
        {
            int n = versions[key] + 1;
            await Write(outcomes, () => write(n));
            versions[key] = n;
            Equal((int)(await Read(key))["n"], n, "an own write");
        }
        return new()
        {
            ["create"] = async () =>
            {
                string id = $"new {Interlocked.Increment(ref created)}";
                await Write(outcomes, () => container.UpsertItemAsync(Item(new { id, pk = id, text = Text })));
                await container.ReadItemAsync<JObject>(id, new PartitionKey(id));
                await Write(outcomes, async () =>
                {
                    try
                    {
                        await container.DeleteItemAsync<JObject>(id, new PartitionKey(id));
                    }
                    catch (CosmosException e) when (outcomes && e.StatusCode == HttpStatusCode.NotFound)
                    {
                        // An earlier try has deleted it.
                    }
                });
            },
            ["upsert"] = () => Next(0, n => container.UpsertItemAsync(One(0, n))),
            ["replace"] = () => Next(1, n => container.ReplaceItemAsync(One(1, n), "1", new PartitionKey("k1"))),
            ["patch"] = () => Next(2, n => container.PatchItemAsync<JObject>("2", new PartitionKey("k2"), [PatchOperation.Set("/n", n)])),
            ["batch"] = () => Next(3, async n =>
            {
                using TransactionalBatchResponse answer = await container.CreateTransactionalBatch(new PartitionKey("k3")).UpsertItem(One(3, n)).ReadItem("3").ExecuteAsync();
                if (!answer.IsSuccessStatusCode) throw new CosmosException(answer.ErrorMessage, answer.StatusCode, 0, answer.ActivityId, 0);
            }),
            ["bulk"] = () => Next(4, async n =>
            {
                await Task.WhenAll(Enumerable.Range(4, 6).Select(key => bulk.UpsertItemAsync(One(key, n), new PartitionKey($"k{key}"))));
                for (int key = 5; key < 10; key++) versions[key] = n;
            }),
            ["procedure"] = () => Write(outcomes, async () => Equal((int)await container.Scripts.ExecuteStoredProcedureAsync<int>("double", new PartitionKey("k10"), [21]), 42)),
            ["read"] = async () =>
            {
                for (int key = 0; key < Keys; key++) Equal((string)(await Read(key))["id"], $"{key}");
            },
            ["query of one key"] = async () => Equal(await Rows<string>(container, "SELECT VALUE c.id FROM c", new QueryRequestOptions { PartitionKey = new PartitionKey("k11") }), ["11"]),
            ["query with order"] = async () => Equal(
                await Rows<int>(container, "SELECT VALUE c.key FROM c WHERE IS_DEFINED(c.key) ORDER BY c.key", new QueryRequestOptions { MaxItemCount = 5 }), Enumerable.Range(0, Keys)),
            ["query"] = async () => Equal(await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.key)"), [Keys]),
            ["read many"] = async () => Equal(
                (await container.ReadManyItemsAsync<JObject>([.. Enumerable.Range(0, Keys).Select(key => ($"{key}", new PartitionKey($"k{key}")))])).Count, Keys),
            ["change feed"] = async () =>
            {
                var seen = new HashSet<string>();
                using var pages = container.GetChangeFeedIterator<JObject>(ChangeFeedStartFrom.Beginning(), ChangeFeedMode.Incremental);
                while (pages.HasMoreResults)
                {
                    FeedResponse<JObject> page = await pages.ReadNextAsync();
                    if (page.StatusCode == HttpStatusCode.NotModified) break;
                    seen.UnionWith(page.Where(change => change["key"] != null).Select(change => (string)change["id"]));
                    if (seen.Count == Keys) break; // The others write all the time: the feed may have no end.
                }
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
            catch (CosmosException e) when (outcomes && e.StatusCode is HttpStatusCode.RequestTimeout or HttpStatusCode.ServiceUnavailable)
            {
                trouble.Unknown($"{(int)e.StatusCode}/{e.SubStatusCode}");
            }
            catch (HttpRequestException) when (outcomes && !Direct) // of a procedure in gateway mode
            {
                trouble.Unknown("no answer of the endpoint");
            }
        }
    }

    async Task<JObject> Read(int key) => (await container.ReadItemAsync<JObject>($"{key}", new PartitionKey($"k{key}"))).Resource;

    static JObject One(int key, int n) => Item(new { id = $"{key}", pk = $"k{key}", key, n, text = Text });

    // Storm writes more than a container has throughput for: the SDK waits and tries again,
    // and another container is served.
    async Task Storm()
    {
        const int items = 240;
        Container storm = await tests.Database.CreateContainerAsync(new ContainerProperties("storm", "/pk"), 400);
        int throttled = 0;
        Task writers = Parallel.ForEachAsync(Enumerable.Range(0, items), new ParallelOptions { MaxDegreeOfParallelism = 40 }, async (i, _) =>
        {
            while (true)
            {
                try
                {
                    var made = await storm.UpsertItemAsync(Item(new { id = $"{i}", pk = $"p{i}", text = string.Concat(Text, Text, Text, Text) }));
                    if (made.Diagnostics.ToString().Contains("429")) Interlocked.Increment(ref throttled);
                    return;
                }
                catch (CosmosException e) when (e.StatusCode == HttpStatusCode.TooManyRequests) // after nine tries
                {
                    Interlocked.Increment(ref throttled);
                }
            }
        });
        while (!writers.IsCompleted) await Read(0);
        await writers;
        Equal(await Rows<int>(storm, "SELECT VALUE COUNT(1) FROM c"), [items]);
        Check(throttled > 0, "no request was refused");
    }

    static async Task Many(Tests tests, CosmosClient client, int items)
    {
        int again = 0;
        await tests.Database.CreateContainerAsync(new ContainerProperties("bulk", "/pk"), 4 * PartitionRUs);
        Container many = client.GetContainer(tests.Database.Id, "bulk");
        for (int from = 0; from < items; from += 5000)
        {
            await Task.WhenAll(Enumerable.Range(from, Math.Min(5000, items - from)).Select(async i =>
            {
                // On a slow machine some time out: the application tries these again.
                for (bool unknown = false; ;)
                {
                    try
                    {
                        await many.CreateItemAsync(Item(new { id = $"{i}", pk = $"k{i % 1000}", n = i }), new PartitionKey($"k{i % 1000}"));
                        return;
                    }
                    catch (CosmosException e) when (e.StatusCode == HttpStatusCode.Conflict && unknown)
                    {
                        return;
                    }
                    catch (CosmosException e) when (e.StatusCode is HttpStatusCode.TooManyRequests or HttpStatusCode.RequestTimeout or HttpStatusCode.ServiceUnavailable)
                    {
                        unknown |= e.StatusCode != HttpStatusCode.TooManyRequests;
                        Interlocked.Increment(ref again);
                    }
                }
            }));
        }
        Equal(await Rows<int>(many, "SELECT VALUE COUNT(1) FROM c"), [items]);
        Console.WriteLine($"a bulk of {items}: {again} operations tried again");
    }
}
