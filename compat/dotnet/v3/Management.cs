using System.Net;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Databases, containers, throughput, indexing policies, sessions, and the reported
// costs of requests.
static class Management
{
    public static async Task Run(Tests tests)
    {
        Database database = tests.Database;

        await tests.Run("the account", async () =>
        {
            AccountProperties account = await tests.Client.ReadAccountAsync();
            Equal(account.Consistency.DefaultConsistencyLevel, ConsistencyLevel.Session);
            Equal(account.WritableRegions.Count(), 1);
        });

        await tests.Run("direct mode, the default: each operation on an item names an address of it", async () =>
        {
            using CosmosClient direct = tests.Connect(change: options => options.ConnectionMode = ConnectionMode.Direct);
            string id = $"direct-{Guid.NewGuid()}";
            Database made = await direct.CreateDatabaseIfNotExistsAsync(id);
            Equal((await made.ReadAsync()).StatusCode, HttpStatusCode.OK);
            Container container = await made.CreateContainerIfNotExistsAsync("c", "/pk");
            var key = new PartitionKey("a");
            foreach (Func<Task<ItemResponse<JObject>>> call in new Func<Task<ItemResponse<JObject>>>[]
            {
                () => container.CreateItemAsync(Item(new { id = "1", pk = "a" })),
                () => container.ReadItemAsync<JObject>("1", key),
                () => container.UpsertItemAsync(Item(new { id = "1", pk = "a", n = 1 })),
                () => container.ReplaceItemAsync(Item(new { id = "1", pk = "a", n = 2 }), "1", key),
                () => container.PatchItemAsync<JObject>("1", key, [PatchOperation.Increment("/n", 1)]),
                () => container.DeleteItemAsync<JObject>("1", key),
            })
            {
                ItemResponse<JObject> answer = await call();
                Check($"{answer.Diagnostics}".Contains("rntbd://"), $"{answer.Diagnostics}");
                Check(answer.RequestCharge > 0 && answer.Headers.Session.Contains(":-1#"), $"{answer.RequestCharge}, {answer.Headers.Session}");
            }
            await made.DeleteAsync();
        });

        await tests.Run("databases are created once, listed and found", async () =>
        {
            Equal((await tests.Client.CreateDatabaseIfNotExistsAsync(database.Id)).StatusCode, HttpStatusCode.OK);
            await Refused(HttpStatusCode.Conflict, () => tests.Client.CreateDatabaseAsync(database.Id));
            QueryDefinition query = new QueryDefinition("SELECT VALUE d.id FROM d WHERE d.id = @id").WithParameter("@id", database.Id);
            Equal(await Rows(tests.Client.GetDatabaseQueryIterator<string>(query)), [database.Id]);
            await Refused(HttpStatusCode.NotFound, () => tests.Client.GetDatabase("none").ReadAsync());
        });

        await tests.Run("containers with every property of a definition", async () =>
        {
            Container made = await database.DefineContainer("defined", "/pk")
                .WithIndexingPolicy()
                    .WithIncludedPaths().Path("/a/*").Attach()
                    .WithExcludedPaths().Path("/*").Attach()
                    .WithCompositeIndex().Path("/a", CompositePathSortOrder.Ascending).Path("/b", CompositePathSortOrder.Descending).Attach()
                    .WithSpatialIndex().Path("/place/*", SpatialType.Point).Attach()
                .Attach()
                .WithUniqueKey().Path("/email").Attach()
                .WithDefaultTimeToLive(600)
                .WithConflictResolution().WithLastWriterWinsResolution("/_ts").Attach()
                .CreateAsync(400);
            ContainerProperties read = await made.ReadContainerAsync();
            Equal(read.DefaultTimeToLive, 600);
            Equal(read.IndexingPolicy.CompositeIndexes.Single().Select(path => path.Path), ["/a", "/b"]);
            Equal(read.IndexingPolicy.SpatialIndexes.Single().SpatialTypes.Single(), SpatialType.Point);
            read.DefaultTimeToLive = null;
            read.IndexingPolicy.IncludedPaths.Clear();
            read.IndexingPolicy.ExcludedPaths.Clear();
            read.IndexingPolicy.SpatialIndexes.Clear();
            read.IndexingPolicy.CompositeIndexes.Clear();
            read.IndexingPolicy.IndexingMode = IndexingMode.None;
            read.IndexingPolicy.Automatic = false;
            Equal((await made.ReplaceContainerAsync(read)).Resource.IndexingPolicy.IndexingMode, IndexingMode.None);
            Equal((await Rows(database.GetContainerQueryIterator<ContainerProperties>("SELECT * FROM c WHERE c.id = 'defined'"))).Single().SelfLink, read.SelfLink);
            await made.DeleteContainerAsync();
            await Refused(HttpStatusCode.NotFound, () => made.ReadContainerAsync());
        });

        await tests.Run("manual throughput and autoscale", async () =>
        {
            Container made = await database.CreateContainerAsync(new ContainerProperties("manual", "/pk"), 400);
            Equal(await made.ReadThroughputAsync(), 400);
            await made.ReplaceThroughputAsync(500);
            Equal((await made.ReadThroughputAsync(new RequestOptions())).Resource.Throughput, 500);
            await Refused(HttpStatusCode.BadRequest, () => made.ReplaceThroughputAsync(17));
            Container scaled = await database.CreateContainerAsync(new ContainerProperties("scaled", "/pk"), ThroughputProperties.CreateAutoscaleThroughput(4000));
            Equal((await scaled.ReadThroughputAsync(new RequestOptions())).Resource.AutoscaleMaxThroughput, 4000);
            await scaled.ReplaceThroughputAsync(ThroughputProperties.CreateAutoscaleThroughput(5000));
            Equal((await scaled.ReadThroughputAsync(new RequestOptions())).Resource.AutoscaleMaxThroughput, 5000);
            Database shared = await tests.Client.CreateDatabaseAsync($"{database.Id}-shared", 1000);
            Equal(await shared.ReadThroughputAsync(), 1000);
            Container inside = await shared.CreateContainerAsync(new ContainerProperties("c", "/pk"));
            Equal(await inside.ReadThroughputAsync(), null);
            await shared.DeleteAsync();
        });

        Container container = await database.CreateContainerAsync(new ContainerProperties("items", "/pk"), 2 * PartitionRUs);
        for (int i = 0; i < 50; i++) await container.CreateItemAsync(Item(new { id = $"{i}", pk = $"p{i % 5}", n = i }));

        await tests.Run("a 404 and a 409 of items", async () =>
        {
            CosmosException missing = await Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<JObject>("none", new PartitionKey("p1")), 0);
            Check(missing.RequestCharge > 0 && missing.ActivityId != null, "no charge or activity id");
            await Refused(HttpStatusCode.Conflict, () => container.CreateItemAsync(Item(new { id = "1", pk = "p1" })));
        });

        await tests.Run("charges, metrics and index metrics of a query", async () =>
        {
            var options = new QueryRequestOptions { PopulateIndexMetrics = true };
            using var feed = container.GetItemQueryIterator<JObject>("SELECT * FROM c WHERE c.n > 10", requestOptions: options);
            FeedResponse<JObject> page = await feed.ReadNextAsync();
            Check(page.RequestCharge > 0, "no charge");
            Check(page.IndexMetrics.Contains("/n/?"), page.IndexMetrics);
#if HIERARCHICAL
            ServerSideCumulativeMetrics metrics = page.Diagnostics.GetQueryMetrics();
            Check(metrics.CumulativeMetrics.OutputDocumentCount > 0 && metrics.PartitionedMetrics.Count > 0, page.Diagnostics.ToString());
#endif
        });

        await tests.Run("the error of a wrong query names the place", async () =>
        {
            CosmosException refused = await Refused(HttpStatusCode.BadRequest, () => Rows<JObject>(container, "SELECT * FROM c WHERE"));
            Check(refused.Message.Contains("Syntax error"), refused.Message);
        });

        await tests.Run("sessions: a client reads the writes of another with its token", async () =>
        {
            using CosmosClient other = tests.Connect();
            Container elsewhere = other.GetContainer(database.Id, "items");
            for (int i = 0; i < 20; i++)
            {
                ItemResponse<JObject> written = await container.UpsertItemAsync(Item(new { id = "session", pk = "p1", n = i }));
                ItemResponse<JObject> read = await elsewhere.ReadItemAsync<JObject>("session", new PartitionKey("p1"), new ItemRequestOptions { SessionToken = written.Headers.Session });
                Equal((int)read.Resource["n"], i);
            }
            // After pages of several partitions the client still reads what it wrote.
            await Rows<JObject>(container, "SELECT * FROM c ORDER BY c.n");
            await Rows<JObject>(container, "SELECT * FROM c");
            Equal((await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c")).Single(), 51);
            Equal((int)(await container.ReadItemAsync<JObject>("session", new PartitionKey("p1"))).Resource["n"], 19);
            await container.DeleteItemAsync<JObject>("session", new PartitionKey("p1"));
        });

        foreach (ConsistencyLevel level in new[] { ConsistencyLevel.Eventual, ConsistencyLevel.ConsistentPrefix })
        {
            await tests.Run($"a client of consistency {level}", async () =>
            {
                using CosmosClient weak = tests.Connect(change: options => options.ConsistencyLevel = level);
                Equal((int)(await weak.GetContainer(database.Id, "items").ReadItemAsync<JObject>("7", new PartitionKey("p2"))).Resource["n"], 7);
            });
        }

        await tests.Run("an index that is not kept answers nothing less", async () =>
        {
            var properties = new ContainerProperties("lazy", "/pk");
            properties.IndexingPolicy.Automatic = false;
            Container made = await database.CreateContainerAsync(properties);
            await made.CreateItemAsync(Item(new { id = "1", pk = "a", x = 1 }));
            await made.CreateItemAsync(Item(new { id = "2", pk = "a", x = 1 }), new PartitionKey("a"), new ItemRequestOptions { IndexingDirective = IndexingDirective.Exclude });
            await made.CreateItemAsync(Item(new { id = "3", pk = "a", x = 1 }), new PartitionKey("a"), new ItemRequestOptions { IndexingDirective = IndexingDirective.Include });
            Equal(await Rows<string>(made, "SELECT VALUE c.id FROM c WHERE c.x = 1 ORDER BY c.id"), ["1", "2", "3"]);
        });
    }
}
