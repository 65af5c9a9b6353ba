#if HIERARCHICAL
using System.Net;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// The work of the documentation's pages on hierarchical partition keys, with the .NET SDK:
// a container with three levels, items, point reads and the routing of queries (S77: with
// no cloud; S91, S95: every operation and query).
static class Hierarchy
{
    const int Partitions = 8;
    static readonly string[] levels = ["/TenantId", "/UserId", "/SessionId"];

    // UserSession is the item of the documentation.
    sealed class UserSession
    {
        public string id { get; set; }
        public string TenantId { get; set; }
        public string UserId { get; set; }
        public string SessionId { get; set; }
        public int n { get; set; }
    }

    static PartitionKey KeyOf(UserSession item) =>
        new PartitionKeyBuilder().Add(item.TenantId).Add(item.UserId).Add(item.SessionId).Build();

    static PartitionKey KeyOf(params string[] values)
    {
        var builder = new PartitionKeyBuilder();
        foreach (string value in values) builder.Add(value);
        return builder.Build();
    }

    public static async Task Run(Tests tests)
    {
        Database database = tests.Database;
        Container container = await database.CreateContainerIfNotExistsAsync(
            new ContainerProperties(id: "sessions", partitionKeyPaths: levels), throughput: Partitions * PartitionRUs);
        var sessions = new List<UserSession>();
        foreach (string tenant in new[] { "Microsoft", "Contoso", "Fabrikam" })
            foreach (string user in new[] { "u0", "u1", "u2", "u3" })
                foreach (string session in new[] { "s0", "s1" })
                    sessions.Add(new() { id = Guid.NewGuid().ToString(), TenantId = tenant, UserId = user, SessionId = session, n = sessions.Count });
        foreach (UserSession item in sessions) await container.CreateItemAsync(item); // S81: the SDK takes the key from the item

        await tests.Run("S1 the ranges tile the key space", async () =>
            Equal((await container.GetFeedRangesAsync()).Count, Partitions));

        await tests.Run("S69 S70 S71 the definition is kept, and the second create finds it", async () =>
        {
            ContainerResponse again = await database.CreateContainerIfNotExistsAsync(new ContainerProperties("sessions", levels), throughput: 400);
            Equal(again.StatusCode, HttpStatusCode.OK);
            Equal(again.Resource.PartitionKeyPaths, levels);
            Equal(again.Resource.PartitionKeyDefinitionVersion, PartitionKeyDefinitionVersion.V2);
            Equal(await container.ReadThroughputAsync(), Partitions * PartitionRUs);
        });

        await tests.Run("S2 S3 S64 up to three levels", async () =>
        {
            string[] paths = ["/a", "/b", "/c", "/d"];
            await Refused(HttpStatusCode.BadRequest, () => database.CreateContainerAsync(new ContainerProperties("four", paths)));
            for (int count = 2; count <= 3; count++)
            {
                ContainerResponse made = await database.CreateContainerAsync(new ContainerProperties($"levels{count}", paths[..count]));
                Equal(made.Resource.PartitionKeyPaths, paths[..count]);
            }
        });

        // S192: two versions of the documentation have two user ids in their sample item.
        foreach (string user in new[] { "8411f20f-be3e-416a-a3e7-dcd5a3c1f28b", "00aa00aa-bb11-cc22-dd33-44ee44ee44ee" })
        {
            await tests.Run($"S80 S82 S83 S191 the samples with user {user}, with the key taken from the item and given by hand", async () =>
            {
                var item = new UserSession { id = "f7da01b0-090b-41d2-8416-dacae09fbb4a", TenantId = "Adventure", UserId = user, SessionId = "0000-11-0000-1111" };
                ItemResponse<UserSession> created = await container.CreateItemAsync(item);
                Equal(created.StatusCode, HttpStatusCode.Created);
                await Refused(HttpStatusCode.Conflict, () => container.CreateItemAsync(item, KeyOf(item)));
                Equal((await container.ReadItemAsync<UserSession>(item.id, KeyOf(item))).Resource, item);
                await container.DeleteItemAsync<UserSession>(item.id, KeyOf(item));
                Equal((await container.CreateItemAsync(item, KeyOf(item))).Resource, item);

                QueryDefinition query = new QueryDefinition("SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id")
                    .WithParameter("@tenant-id", "Adventure").WithParameter("@user-id", user).WithParameter("@session-id", "0000-11-0000-1111");
                var found = new List<UserSession>();
                using FeedIterator<UserSession> results = container.GetItemQueryIterator<UserSession>(query);
                while (results.HasMoreResults)
                {
                    FeedResponse<UserSession> page = await results.ReadNextAsync();
                    foreach (UserSession result in page) found.Add(result);
                }
                Equal(found, [item]);
                await container.DeleteItemAsync<UserSession>(item.id, KeyOf(item));
            });
        }

        await tests.Run("S85 a key by hand has to be the item's", async () =>
        {
            await Refused(HttpStatusCode.BadRequest, () => container.CreateItemAsync(
                new UserSession { id = "x", TenantId = "a", UserId = "b", SessionId = "c" }, KeyOf("a", "b", "d")), 1001);
        });

        await tests.Run("S88 S89 S90 point reads need the whole key", async () =>
        {
            UserSession want = sessions[5];
            ItemResponse<UserSession> read = await container.ReadItemAsync<UserSession>(want.id, KeyOf(want));
            Equal(read.Resource, want);
            Equal(read.RequestCharge, 1.0);
            await Refused(HttpStatusCode.NotFound, () => container.ReadItemAsync<UserSession>(want.id, KeyOf(want.TenantId, want.UserId, "elsewhere")));
            await Refused(HttpStatusCode.BadRequest, () => container.ReadItemAsync<UserSession>(want.id, KeyOf(want.TenantId, want.UserId)));
            var other = new UserSession { id = want.id, TenantId = want.TenantId, UserId = want.UserId, SessionId = "another", n = 99 };
            await container.CreateItemAsync(other, KeyOf(other)); // the same id under another key
            Equal((await container.ReadItemAsync<UserSession>(want.id, KeyOf(want))).Resource.n, 5);
            await container.DeleteItemAsync<UserSession>(other.id, KeyOf(other));
        });

        await tests.Run("S87 a level that the item does not have is undefined, and null is another value", async () =>
        {
            PartitionKey none = new PartitionKeyBuilder().Add("Gap").AddNoneType().Add("s").Build();
            PartitionKey empty = new PartitionKeyBuilder().Add("Gap").AddNullValue().Add("s").Build();
            await container.CreateItemAsync(Item(new { id = "gap", TenantId = "Gap", SessionId = "s", n = 1 }), none);
            await container.CreateItemAsync(Item(new { id = "gap", TenantId = "Gap", UserId = (string)null, SessionId = "s", n = 2 }), empty);
            Equal((int)(await container.ReadItemAsync<JObject>("gap", none)).Resource["n"], 1);
            Equal((int)(await container.ReadItemAsync<JObject>("gap", empty)).Resource["n"], 2);
            await container.DeleteItemAsync<JObject>("gap", none);
            await container.DeleteItemAsync<JObject>("gap", empty);
        });

        // S56: the components in the filter decide which partitions a query visits.
        foreach (var (what, filter, partitions) in new[]
        {
            ("S47", "c.TenantId = 'Contoso' AND c.UserId = 'u1' AND c.SessionId = 's0'", 1),
            ("S48", "c.TenantId = 'Contoso' AND c.UserId = 'u1'", 1),
            ("S49", "c.TenantId = 'Contoso'", 1),
            ("S50", "c.UserId = 'u1'", Partitions),
            ("S51", "c.SessionId = 's0'", Partitions),
            ("S52", "c.UserId = 'u1' AND c.SessionId = 's0'", Partitions),
        })
        {
            await tests.Run($"{what} {filter} visits {partitions}", async () =>
            {
                tests.Requests.Reset();
                var rows = await Rows<UserSession>(container, $"SELECT * FROM c WHERE {filter}");
                if (!Tests.Direct) Equal(tests.Requests.Seen.Partitions, partitions); // Only HTTP requests are counted.
                var want = sessions.Where(s => (!filter.Contains("TenantId") || s.TenantId == "Contoso")
                    && (!filter.Contains("UserId") || s.UserId == "u1") && (!filter.Contains("SessionId") || s.SessionId == "s0"));
                Equal(rows.Select(row => row.n).Order(), want.Select(s => s.n).Order());
            });
        }

        await tests.Run("S57 S58 names of parameters with hyphens, and rows in pages", async () =>
        {
            QueryDefinition whole = new QueryDefinition("SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id")
                .WithParameter("@tenant-id", "Microsoft").WithParameter("@user-id", "u2").WithParameter("@session-id", "s1");
            Equal((await Rows<UserSession>(container, whole)).Select(row => row.n), [5]);
            QueryDefinition tenant = new QueryDefinition("SELECT * FROM c WHERE c.TenantId = @tenant-id").WithParameter("@tenant-id", "Microsoft");
            var rows = await Rows<UserSession>(container, tenant, new QueryRequestOptions { MaxItemCount = 3 });
            Equal(rows.Select(row => row.n).Order(), Enumerable.Range(0, 8));
        });

        await tests.Run("a key and a prefix as request options", async () =>
        {
            var whole = new QueryRequestOptions { PartitionKey = KeyOf("Contoso", "u1", "s1") };
            Equal((await Rows<UserSession>(container, "SELECT * FROM c", whole)).Select(row => row.n), [11]);
            foreach (var (values, count) in new[] { (new[] { "Contoso" }, 8), (new[] { "Contoso", "u1" }, 2) })
            {
                var prefix = new QueryRequestOptions { PartitionKey = KeyOf(values), MaxItemCount = 3 };
                Equal((await Rows<UserSession>(container, "SELECT * FROM c ORDER BY c.n", prefix)).Count, count);
                Equal((await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c", prefix)).Single(), count);
            }
        });

        await tests.Run("S99 the paths of a container cannot change", async () =>
        {
            ContainerProperties properties = await container.ReadContainerAsync();
            properties.PartitionKeyPaths = ["/UserId", "/TenantId", "/SessionId"];
            await Refused(HttpStatusCode.BadRequest, () => container.ReplaceContainerAsync(properties));
        });

        await tests.Run("S60 the item id as the last level", async () =>
        {
            Container byId = await database.CreateContainerAsync(new ContainerProperties("byid", ["/TenantId", "/id"]));
            for (int i = 0; i < 5; i++) await byId.CreateItemAsync(Item(new { id = $"i{i}", TenantId = "t", n = i }));
            Equal((int)(await byId.ReadItemAsync<JObject>("i3", KeyOf("t", "i3"))).Resource["n"], 3);
            Equal((await Rows<int>(byId, "SELECT VALUE COUNT(1) FROM c WHERE c.TenantId = 't'")).Single(), 5);
        });

        await tests.Run("S55 the same query on a container with one level", async () =>
        {
            Container flat = await database.CreateContainerAsync(new ContainerProperties("flat", "/TenantId"));
            foreach (UserSession item in sessions) await flat.CreateItemAsync(item);
            const string query = "SELECT VALUE c.n FROM c WHERE c.TenantId = 'Fabrikam' AND c.UserId = 'u3' ORDER BY c.n";
            Equal(await Rows<int>(flat, query), await Rows<int>(container, query));
        });

        await tests.Run("many items at once, in batches and reads of many", async () =>
        {
            UserSession[] some = [.. sessions.Take(9)];
            FeedResponse<UserSession> read = await container.ReadManyItemsAsync<UserSession>([.. some.Select(s => (s.id, KeyOf(s)))]);
            Equal(read.Select(row => row.n).Order(), Enumerable.Range(0, 9));
            TransactionalBatchResponse batch = await container.CreateTransactionalBatch(KeyOf("Batch", "u", "s"))
                .CreateItem(new UserSession { id = "1", TenantId = "Batch", UserId = "u", SessionId = "s", n = 1 })
                .PatchItem("1", [PatchOperation.Increment("/n", 4)])
                .ReadItem("1").ExecuteAsync();
            Check(batch.IsSuccessStatusCode, batch.ErrorMessage);
            Equal(batch.GetOperationResultAtIndex<UserSession>(2).Resource.n, 5);
            await container.DeleteItemAsync<UserSession>("1", KeyOf("Batch", "u", "s"));
        });

        await tests.Run("keys of every type are told apart", async () =>
        {
            Container types = await database.CreateContainerAsync(new ContainerProperties("types", ["/a", "/b"]), Partitions * PartitionRUs);
            object[] values = ["1", 1, true, false, null, "", "\U0001F600 å", 1.5, -1, 1e300];
            foreach (object a in values) await types.CreateItemAsync(Item(new { id = "x", a, b = "k", mark = $"{a}{a?.GetType()}" }));
            foreach (object a in values)
            {
                var key = new PartitionKeyBuilder();
                _ = a switch { string s => key.Add(s), bool b => key.Add(b), null => key.AddNullValue(), _ => key.Add(Convert.ToDouble(a)) };
                var read = await types.ReadItemAsync<JObject>("x", key.Add("k").Build());
                Equal((string)read.Resource["mark"], $"{a}{a?.GetType()}");
            }
        });

        await tests.Run("the change feed of a key", async () =>
        {
            using var feed = container.GetChangeFeedIterator<UserSession>(
                ChangeFeedStartFrom.Beginning(FeedRange.FromPartitionKey(KeyOf("Contoso", "u1", "s1"))), ChangeFeedMode.Incremental);
            Equal((await feed.ReadNextAsync()).Select(row => row.n), [11]);
        });

        await tests.Run("a wrong key is refused", async () =>
        {
            using CosmosClient stranger = tests.Connect(Convert.ToBase64String(Enumerable.Repeat((byte)7, 64).ToArray()));
            await Refused(HttpStatusCode.Unauthorized, () => stranger.ReadAccountAsync());
        });
    }
}
#endif
