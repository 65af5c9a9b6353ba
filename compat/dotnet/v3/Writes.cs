using System.Net;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Etags, transactional batches and bulk (both send HybridRow), partial updates, unique keys
// and time to live.
static class Writes
{
    public static async Task Run(Tests tests)
    {
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("items", "/pk"), 4 * PartitionRUs);
        await Etags(tests, container);
        await Patches(tests, container);
        await Batches(tests, container);
        await Bulk(tests);
        await Streams(tests, container);
        await Containers(tests);
    }

    static async Task Etags(Tests tests, Container container)
    {
        var key = new PartitionKey("etags");
        await tests.Run("etags guard writes and reads", async () =>
        {
            ItemResponse<JObject> first = await container.CreateItemAsync(Item(new { id = "1", pk = "etags", n = 1 }), key);
            var current = new ItemRequestOptions { IfMatchEtag = first.ETag };
            ItemResponse<JObject> second = await container.ReplaceItemAsync(Item(new { id = "1", pk = "etags", n = 2 }), "1", key, current);
            Check(second.ETag != first.ETag, "the etag does not change");
            await Refused(HttpStatusCode.PreconditionFailed, () => container.ReplaceItemAsync(Item(new { id = "1", pk = "etags", n = 3 }), "1", key, current));
            await Refused(HttpStatusCode.PreconditionFailed, () => container.UpsertItemAsync(Item(new { id = "1", pk = "etags", n = 3 }), key, current));
            await Refused(HttpStatusCode.PreconditionFailed, () => container.DeleteItemAsync<JObject>("1", key, current));
            await Refused(HttpStatusCode.NotModified, () => container.ReadItemAsync<JObject>("1", key, new ItemRequestOptions { IfNoneMatchEtag = second.ETag }));
            Equal((int)(await container.ReadItemAsync<JObject>("1", key)).Resource["n"], 2);
            await container.DeleteItemAsync<JObject>("1", key, new ItemRequestOptions { IfMatchEtag = second.ETag });
            await Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<JObject>("1", key));
        });

        await tests.Run("upsert creates and replaces", async () =>
        {
            Equal((await container.UpsertItemAsync(Item(new { id = "2", pk = "etags" }))).StatusCode, HttpStatusCode.Created);
            Equal((await container.UpsertItemAsync(Item(new { id = "2", pk = "etags", n = 1 }))).StatusCode, HttpStatusCode.OK);
            await Refused(HttpStatusCode.NotFound, () => container.ReplaceItemAsync(Item(new { id = "3", pk = "etags" }), "3", key));
        });

        await tests.Run("a write without its content in the answer", async () =>
        {
            var quiet = new ItemRequestOptions { EnableContentResponseOnWrite = false };
            ItemResponse<JObject> made = await container.CreateItemAsync(Item(new { id = "4", pk = "etags" }), key, quiet);
            Check(made.Resource == null && made.ETag != null && made.RequestCharge > 0, "the answer has the item, or no etag or charge");
        });

        await tests.Run("racing writers with etags lose no increment", async () =>
        {
            await container.CreateItemAsync(Item(new { id = "race", pk = "etags", n = 0 }));
            await Task.WhenAll(Enumerable.Range(0, 8).Select(async _ =>
            {
                for (int done = 0; done < 5;)
                {
                    ItemResponse<JObject> read = await container.ReadItemAsync<JObject>("race", key);
                    read.Resource["n"] = (int)read.Resource["n"] + 1;
                    try
                    {
                        await container.ReplaceItemAsync(read.Resource, "race", key, new ItemRequestOptions { IfMatchEtag = read.ETag });
                        done++;
                    }
                    catch (CosmosException e) when (e.StatusCode == HttpStatusCode.PreconditionFailed)
                    {
                    }
                }
            }));
            Equal((int)(await container.ReadItemAsync<JObject>("race", key)).Resource["n"], 40);
        });
    }

    static async Task Patches(Tests tests, Container container)
    {
        var key = new PartitionKey("patch");
        async Task<JObject> Patch(string id, params PatchOperation[] operations) => (await container.PatchItemAsync<JObject>(id, key, operations)).Resource;

        await tests.Run("each kind of partial update", async () =>
        {
            await container.CreateItemAsync(Item(new { id = "1", pk = "patch", n = 1, s = "a", tags = new[] { "x", "y" }, inner = new { a = 1 } }));
            JObject item = await Patch("1", PatchOperation.Add("/added", new { b = true }), PatchOperation.Add("/tags/0", "first"), PatchOperation.Add("/tags/-", "last"),
                PatchOperation.Set("/s", "b"), PatchOperation.Set("/inner/c", 2), PatchOperation.Replace("/inner/a", 7),
                PatchOperation.Increment("/n", 5), PatchOperation.Increment("/n", 0.5), PatchOperation.Remove("/tags/1"));
            Equal(item["tags"].Values<string>(), ["first", "y", "last"]);
            Equal((double)item["n"], 6.5);
            Equal((string)item["s"], "b");
            Check((bool)item["added"]["b"] && (int)item["inner"]["a"] == 7 && (int)item["inner"]["c"] == 2, item.ToString());
#if HIERARCHICAL
            item = await Patch("1", PatchOperation.Move("/s", "/moved"));
            Check(item["s"] == null && (string)item["moved"] == "b", item.ToString());
#endif
        });

        await tests.Run("a partial update that is refused changes nothing", async () =>
        {
            await container.CreateItemAsync(Item(new { id = "2", pk = "patch", n = 1, s = "a" }));
            await Refused(HttpStatusCode.BadRequest, () => Patch("2", PatchOperation.Set("/n", 2), PatchOperation.Increment("/s", 1)));
            await Refused(HttpStatusCode.BadRequest, () => Patch("2", PatchOperation.Set("/pk", "other")));
            await Refused(HttpStatusCode.BadRequest, () => Patch("2", PatchOperation.Replace("/missing", 1)));
            await Refused(HttpStatusCode.BadRequest, () => Patch("2", [.. Enumerable.Range(0, 11).Select(i => PatchOperation.Set($"/p{i}", i))]));
            await Refused(HttpStatusCode.NotFound, () => Patch("none", PatchOperation.Set("/n", 2)));
            Equal((int)(await container.ReadItemAsync<JObject>("2", key)).Resource["n"], 1);
        });

        await tests.Run("a condition of a partial update", async () =>
        {
            var condition = new PatchItemRequestOptions { FilterPredicate = "FROM c WHERE c.n = 1" };
            var twice = new[] { PatchOperation.Increment("/n", 1) };
            Equal((int)(await container.PatchItemAsync<JObject>("2", key, twice, condition)).Resource["n"], 2);
            await Refused(HttpStatusCode.PreconditionFailed, () => container.PatchItemAsync<JObject>("2", key, twice, condition));
        });
    }

    static async Task Batches(Tests tests, Container container)
    {
        var key = new PartitionKey("batch");
        object Doc(string id, int n) => Item(new { id, pk = "batch", n });

        await tests.Run("a batch of every operation", async () =>
        {
            await container.CreateItemAsync(Item(new { id = "old", pk = "batch", n = 0 }));
            await container.CreateItemAsync(Item(new { id = "gone", pk = "batch", n = 0 }));
            using TransactionalBatchResponse done = await container.CreateTransactionalBatch(key)
                .CreateItem(Doc("new", 1)).UpsertItem(Doc("up", 2)).ReplaceItem("old", Doc("old", 3))
                .ReadItem("old").PatchItem("new", [PatchOperation.Increment("/n", 10)]).DeleteItem("gone").ExecuteAsync();
            Check(done.IsSuccessStatusCode && done.RequestCharge > 0, done.ErrorMessage);
            Equal(done.Select(result => (int)result.StatusCode), [201, 201, 200, 200, 200, 204]);
            Equal((int)done.GetOperationResultAtIndex<JObject>(3).Resource["n"], 3);
            Equal((int)done.GetOperationResultAtIndex<JObject>(4).Resource["n"], 11);
        });

        await tests.Run("a batch is all or nothing", async () =>
        {
            using TransactionalBatchResponse refused = await container.CreateTransactionalBatch(key)
                .CreateItem(Doc("half", 1)).CreateItem(Doc("new", 1)).CreateItem(Doc("rest", 1)).ExecuteAsync();
            Equal(refused.StatusCode, HttpStatusCode.Conflict);
            Equal(refused.Select(result => (int)result.StatusCode), [424, 409, 424]);
            await Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<JObject>("half", key));
        });

        await tests.Run("etags in a batch", async () =>
        {
            ItemResponse<JObject> read = await container.ReadItemAsync<JObject>("new", key);
            await container.UpsertItemAsync(Item(new { id = "new", pk = "batch", n = 12 }));
            using TransactionalBatchResponse refused = await container.CreateTransactionalBatch(key)
                .ReplaceItem("new", Doc("new", 13), new TransactionalBatchItemRequestOptions { IfMatchEtag = read.ETag }).DeleteItem("up").ExecuteAsync();
            Equal(refused.StatusCode, HttpStatusCode.PreconditionFailed);
            Equal((int)(await container.ReadItemAsync<JObject>("up", key)).Resource["n"], 2);
        });

        await tests.Run("100 operations, and not 101", async () =>
        {
            TransactionalBatch Batch(int count)
            {
                TransactionalBatch batch = container.CreateTransactionalBatch(key);
                for (int i = 0; i < count; i++) batch.UpsertItem(Doc($"many{i}", i));
                return batch;
            }
            using TransactionalBatchResponse hundred = await Batch(100).ExecuteAsync();
            Equal(hundred.Count(result => result.StatusCode == HttpStatusCode.Created), 100);
            using TransactionalBatchResponse more = await Batch(101).ExecuteAsync();
            Equal(more.StatusCode, HttpStatusCode.BadRequest);
        });
    }

    static async Task Bulk(Tests tests)
    {
        Container plain = await tests.Database.CreateContainerAsync(new ContainerProperties("bulk", "/pk"), 4 * PartitionRUs);
        using CosmosClient client = tests.Connect(change: options => options.AllowBulkExecution = true);
        Container container = client.GetContainer(tests.Database.Id, "bulk");

        await tests.Run("bulk creates 1,000 items over partitions", async () =>
        {
            ItemResponse<JObject>[] made = await Task.WhenAll(Enumerable.Range(0, 1000).Select(i =>
                container.CreateItemAsync(Item(new { id = $"{i}", pk = $"p{i % 100}", n = i }), new PartitionKey($"p{i % 100}"))));
            Equal(made.Count(response => response.StatusCode == HttpStatusCode.Created && response.RequestCharge > 0), 1000);
            Equal((await Rows<int>(plain, "SELECT VALUE SUM(c.n) FROM c")).Single(), 499500);
        });

        await tests.Run("bulk with every operation, each with its own result", async () =>
        {
            HttpStatusCode[] got = await Task.WhenAll(Enumerable.Range(0, 300).Select(async i =>
            {
                var key = new PartitionKey($"p{i % 100}");
                try
                {
                    return (i % 6) switch
                    {
                        0 => (await container.ReadItemAsync<JObject>($"{i}", key)).StatusCode,
                        1 => (await container.UpsertItemAsync(Item(new { id = $"{i}", pk = $"p{i % 100}", n = -1 }), key)).StatusCode,
                        2 => (await container.DeleteItemAsync<JObject>($"{i}", key)).StatusCode,
                        3 => (await container.PatchItemAsync<JObject>($"{i}", key, [PatchOperation.Set("/n", -2)])).StatusCode,
                        4 => (await container.CreateItemAsync(Item(new { id = $"{i}", pk = $"p{i % 100}" }), key)).StatusCode,
                        _ => (await container.ReadItemAsync<JObject>($"missing{i}", key)).StatusCode,
                    };
                }
                catch (CosmosException e)
                {
                    return e.StatusCode;
                }
            }));
            HttpStatusCode[] want = [HttpStatusCode.OK, HttpStatusCode.OK, HttpStatusCode.NoContent, HttpStatusCode.OK, HttpStatusCode.Conflict, HttpStatusCode.NotFound];
            Equal(got, Enumerable.Range(0, 300).Select(i => want[i % 6]));
            Equal((await Rows<int>(plain, "SELECT VALUE COUNT(1) FROM c WHERE c.n < 0")).Single(), 100);
            Equal((await Rows<int>(plain, "SELECT VALUE COUNT(1) FROM c")).Single(), 950);
        });

#if HIERARCHICAL
        await tests.Run("bulk with hierarchical keys", async () =>
        {
            await tests.Database.CreateContainerAsync(new ContainerProperties("levels", ["/a", "/b"]), 4 * PartitionRUs);
            Container levels = client.GetContainer(tests.Database.Id, "levels");
            await Task.WhenAll(Enumerable.Range(0, 200).Select(i => levels.CreateItemAsync(
                Item(new { id = $"{i}", a = $"a{i % 10}", b = $"b{i}" }), new PartitionKeyBuilder().Add($"a{i % 10}").Add($"b{i}").Build())));
            Equal((await Rows<int>(tests.Database.GetContainer("levels"), "SELECT VALUE COUNT(1) FROM c WHERE c.a = 'a3'")).Single(), 20);
        });
#endif
    }

    static async Task Streams(Tests tests, Container container)
    {
        await tests.Run("streams return the status without an exception", async () =>
        {
            var key = new PartitionKey("stream");
            var body = () => new MemoryStream("""{"id":"1","pk":"stream","n":12345678901234567}"""u8.ToArray());
            using ResponseMessage made = await container.CreateItemStreamAsync(body(), key);
            Equal(made.StatusCode, HttpStatusCode.Created);
            using ResponseMessage again = await container.CreateItemStreamAsync(body(), key);
            Equal(again.StatusCode, HttpStatusCode.Conflict);
            using ResponseMessage read = await container.ReadItemStreamAsync("1", key);
            Check((await new StreamReader(read.Content).ReadToEndAsync()).Contains("12345678901234567"), "the number is changed");
            using ResponseMessage none = await container.ReadItemStreamAsync("2", key);
            Equal(none.StatusCode, HttpStatusCode.NotFound);
        });

        await tests.Run("read many", async () =>
        {
            var ids = Enumerable.Range(0, 60).Select(i => ($"m{i}", new PartitionKey($"m{i % 7}"))).ToList();
            foreach (var (id, _) in ids) await container.CreateItemAsync(Item(new { id, pk = $"m{int.Parse(id[1..]) % 7}" }));
            FeedResponse<JObject> found = await container.ReadManyItemsAsync<JObject>([.. ids, ("missing", new PartitionKey("m1"))]);
            Equal(found.Select(item => (string)item["id"]).Order(), ids.Select(id => id.Item1).Order());
        });
    }

    static async Task Containers(Tests tests)
    {
        await tests.Run("unique keys", async () =>
        {
            var properties = new ContainerProperties("unique", "/pk");
            properties.UniqueKeyPolicy.UniqueKeys.Add(new UniqueKey { Paths = { "/email", "/n" } });
            Container unique = await tests.Database.CreateContainerAsync(properties);
            await unique.CreateItemAsync(Item(new { id = "1", pk = "a", email = "x", n = 1 }));
            await Refused(HttpStatusCode.Conflict, () => unique.CreateItemAsync(Item(new { id = "2", pk = "a", email = "x", n = 1 })));
            await unique.CreateItemAsync(Item(new { id = "2", pk = "b", email = "x", n = 1 }));
            await unique.CreateItemAsync(Item(new { id = "3", pk = "a", email = "x", n = 2 }));
        });

        await tests.Run("time to live", async () =>
        {
            Container brief = await tests.Database.CreateContainerAsync(new ContainerProperties("brief", "/pk") { DefaultTimeToLive = -1 });
            await brief.CreateItemAsync(Item(new { id = "1", pk = "a", ttl = 1 }));
            await brief.CreateItemAsync(Item(new { id = "2", pk = "a" }));
            for (int i = 0; i < 100 && (await Rows<string>(brief, "SELECT VALUE c.id FROM c")).Count > 1; i++) await Task.Delay(100);
            Equal(await Rows<string>(brief, "SELECT VALUE c.id FROM c"), ["2"]);
        });
    }
}
