using System.Net;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Documents, queries over partitions with their pages, the change feed, scripts, offers and
// resource tokens.
static class Documents
{
    const int Partitions = 4;

    sealed class Item
    {
        public string id { get; set; }
        public string pk { get; set; }
        public int n { get; set; }
        public string s { get; set; }
        public string[] tags { get; set; }
    }

    public static async Task Run(Tests tests)
    {
        DocumentClient client = tests.Client;
        Database database = await client.CreateDatabaseAsync(new Database { Id = $"documents-{Guid.NewGuid()}" });
        try
        {
            var definition = new DocumentCollection { Id = "items" };
            definition.PartitionKey.Paths.Add("/pk");
            await client.CreateDocumentCollectionIfNotExistsAsync(database.AltLink, definition, new RequestOptions { OfferThroughput = Partitions * PartitionRUs });
            Uri link = UriFactory.CreateDocumentCollectionUri(database.Id, "items");
            for (int i = 0; i < 100; i++)
                await client.CreateDocumentAsync(link, new Item { id = $"{i}", pk = $"p{i % 10}", n = i, s = $"s{i % 7}", tags = ["a", $"t{i % 3}"] });
            await Single(tests, link, database.Id);
            await OwnWrites(tests, link, database.Id);
            await Queries(tests, link);
            await Changes(tests, link);
            await Scripts(tests, link, database.Id);
            await Access(tests, database);
            await Throughput(tests, database.Id);
        }
        finally
        {
            await client.DeleteDatabaseAsync(database.SelfLink);
        }
    }

    static RequestOptions Of(string pk) => new() { PartitionKey = new PartitionKey(pk) };

    static async Task Single(Tests tests, Uri link, string database)
    {
        DocumentClient client = tests.Client;
        Uri Document(string id) => UriFactory.CreateDocumentUri(database, "items", id);

        await tests.Run("documents are created, read, replaced, upserted and deleted", async () =>
        {
            ResourceResponse<Document> made = await client.CreateDocumentAsync(link, new Item { id = "new", pk = "x", n = 1 });
            Check(made.StatusCode == HttpStatusCode.Created && made.RequestCharge > 0, $"{made.StatusCode} for {made.RequestCharge} RU");
            await Refused(HttpStatusCode.Conflict, () => client.CreateDocumentAsync(link, new Item { id = "new", pk = "x" }));
            Equal((await client.ReadDocumentAsync<Item>(Document("new"), Of("x"))).Document.n, 1);
            var guarded = Of("x");
            guarded.AccessCondition = new AccessCondition { Type = AccessConditionType.IfMatch, Condition = made.Resource.ETag };
            await client.ReplaceDocumentAsync(Document("new"), new Item { id = "new", pk = "x", n = 2 }, guarded);
            await Refused(HttpStatusCode.PreconditionFailed, () => client.ReplaceDocumentAsync(Document("new"), new Item { id = "new", pk = "x", n = 3 }, guarded));
            await client.UpsertDocumentAsync(link, new Item { id = "new", pk = "x", n = 4 });
            Equal((await client.ReadDocumentAsync<Item>(Document("new"), Of("x"))).Document.n, 4);
            await client.DeleteDocumentAsync(Document("new"), Of("x"));
            await Refused(HttpStatusCode.NotFound, () => client.ReadDocumentAsync<Item>(Document("new"), Of("x")));
        });

        await tests.Run("the list of all documents, in pages", async () =>
        {
            var ids = new List<string>();
            string token = null;
            do
            {
                FeedResponse<dynamic> page = await client.ReadDocumentFeedAsync(link, new FeedOptions { MaxItemCount = 17, RequestContinuation = token });
                ids.AddRange(page.Select(item => (string)item.id));
                token = page.ResponseContinuation;
            } while (token != null);
            Equal(ids.Order(), Enumerable.Range(0, 100).Select(i => $"{i}").Order());
        });
    }

    static async Task OwnWrites(Tests tests, Uri link, string database)
    {
        DocumentClient client = tests.Client;
        IQueryable<int> Ask(string query) => client.CreateDocumentQuery<int>(link, query, new FeedOptions { EnableCrossPartitionQuery = true, MaxDegreeOfParallelism = -1 });

        // This client misreads a list of session tokens as one token with a wrong LSN.
        await tests.Run("own writes after pages of several partitions", async () =>
        {
            for (int round = 0; round < 3; round++)
            {
                for (int n = 0; n < 30; n++)
                {
                    string id = $"own{n}", pk = $"own{n}";
                    await client.UpsertDocumentAsync(link, new { id, pk, own = n, round });
                    Equal(await Rows(Ask($"SELECT VALUE c.round FROM c WHERE c.own = {n}")), [round]);
                    Document read = await client.ReadDocumentAsync(UriFactory.CreateDocumentUri(database, "items", id), Of(pk));
                    Equal(read.GetPropertyValue<int>("round"), round);
                }
                Equal((await Rows(Ask("SELECT VALUE c.own FROM c WHERE c.own > 4"))).Order(), Enumerable.Range(5, 25));
                Equal((await Rows(Ask("SELECT DISTINCT VALUE c.round FROM c WHERE IS_DEFINED(c.own)"))), [round]);
                FeedResponse<dynamic> feed = await client.ReadDocumentFeedAsync(link);
                Check(feed.Count > 0 && !feed.SessionToken.Contains(','), "a feed has the session tokens " + feed.SessionToken);
            }
            for (int n = 0; n < 30; n++) await client.DeleteDocumentAsync(UriFactory.CreateDocumentUri(database, "items", $"own{n}"), Of($"own{n}"));
        });
    }

    static async Task Queries(Tests tests, Uri link)
    {
        DocumentClient client = tests.Client;
        FeedOptions Options(int size = -1) => new() { EnableCrossPartitionQuery = true, MaxItemCount = size, MaxDegreeOfParallelism = -1, PopulateQueryMetrics = true };
        IQueryable<T> Sql<T>(string query, int size = -1) => client.CreateDocumentQuery<T>(link, query, Options(size));

        await tests.Run("filters over partitions, then counts, sums and distinct values", async () =>
        {
            for (int round = 0; round < 3; round++)
            {
                Equal((await Rows(Sql<Item>("SELECT * FROM c WHERE c.n > 40"))).Select(item => item.n).Order(), Enumerable.Range(41, 59));
                Equal((await Rows(Sql<int>("SELECT VALUE COUNT(1) FROM c"))).Single(), 100);
                Equal((await Rows(Sql<int>("SELECT VALUE SUM(c.n) FROM c"))).Single(), 4950);
                Equal((await Rows(Sql<string>("SELECT DISTINCT VALUE c.s FROM c"))).Order(), Enumerable.Range(0, 7).Select(i => $"s{i}"));
                await client.UpsertDocumentAsync(link, new Item { id = "0", pk = "p0", n = 0, s = "s0", tags = ["a", "t0"] });
            }
        });

        await tests.Run("ORDER BY, TOP and OFFSET LIMIT", async () =>
        {
            Equal((await Rows(Sql<int>("SELECT VALUE c.n FROM c ORDER BY c.n", 7))), Enumerable.Range(0, 100));
            Equal((await Rows(Sql<int>("SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n DESC"))), [99, 98, 97, 96, 95]);
            Equal((await Rows(Sql<int>("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 5"))), [10, 11, 12, 13, 14]);
            Equal((await Rows(Sql<string>("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 4"))), ["a", "t1"]);
        });

        await tests.Run("ORDER BY with a continuation token for each page", async () =>
        {
            var got = new List<int>();
            string token = null;
            do
            {
                var options = Options(9);
                options.RequestContinuation = token;
                var page = await client.CreateDocumentQuery<int>(link, "SELECT VALUE c.n FROM c ORDER BY c.n", options).AsDocumentQuery().ExecuteNextAsync<int>();
                got.AddRange(page);
                token = page.ResponseContinuation;
            } while (token != null);
            Equal(got, Enumerable.Range(0, 100));
        });

        await tests.Run("a query of one key, and parameters", async () =>
        {
            var query = new SqlQuerySpec("SELECT VALUE c.n FROM c WHERE c.n < @n", [new SqlParameter("@n", 50)]);
            var rows = await Rows(client.CreateDocumentQuery<int>(link, query, new FeedOptions { PartitionKey = new PartitionKey("p3") }));
            Equal(rows.Order(), [3, 13, 23, 33, 43]);
        });

        await tests.Run("LINQ", async () =>
        {
            IQueryable<Item> items() => client.CreateDocumentQuery<Item>(link, Options());
            Equal((await Rows(items().Where(i => i.n > 90 && i.s.StartsWith("s")).OrderBy(i => i.n).Select(i => i.n))), Enumerable.Range(91, 9));
            Equal((await Rows(items().Where(i => i.id == "7").SelectMany(i => i.tags))), ["a", "t1"]);
            Equal(await items().Where(i => i.n >= 50).CountAsync(), 50);
            Equal(await items().Select(i => i.n).MaxAsync(), 99);
            Equal((await Rows(items().OrderByDescending(i => i.n).Take(3).Select(i => i.n))), [99, 98, 97]);
        });
    }

    static async Task Changes(Tests tests, Uri link)
    {
        DocumentClient client = tests.Client;
        await tests.Run("the change feed of each range", async () =>
        {
            var tokens = new Dictionary<string, string>();
            async Task<List<int>> Read()
            {
                var found = new List<int>();
                FeedResponse<PartitionKeyRange> ranges = await client.ReadPartitionKeyRangeFeedAsync(link);
                Equal(ranges.Count, Partitions);
                foreach (PartitionKeyRange range in ranges)
                {
                    using IDocumentQuery<Document> feed = client.CreateDocumentChangeFeedQuery(link, new ChangeFeedOptions
                    {
                        PartitionKeyRangeId = range.Id, StartFromBeginning = true, MaxItemCount = 9, RequestContinuation = tokens.GetValueOrDefault(range.Id),
                    });
                    while (feed.HasMoreResults)
                    {
                        FeedResponse<Document> page = await feed.ExecuteNextAsync<Document>();
                        found.AddRange(page.Select(item => item.GetPropertyValue<int>("n")));
                        tokens[range.Id] = page.ResponseContinuation;
                    }
                }
                return found;
            }
            Equal((await Read()).Order(), Enumerable.Range(0, 100));
            Equal(await Read(), []);
            await client.UpsertDocumentAsync(link, new Item { id = "5", pk = "p5", n = 5 });
            Equal(await Read(), [5]);
        });
    }

    static async Task Scripts(Tests tests, Uri link, string database)
    {
        DocumentClient client = tests.Client;
        await tests.Run("a stored procedure, a trigger and a function", async () =>
        {
            await client.CreateStoredProcedureAsync(link, new StoredProcedure { Id = "greet", Body = "function (name) { getContext().getResponse().setBody('hello ' + name); }" });
            StoredProcedureResponse<string> said = await client.ExecuteStoredProcedureAsync<string>(UriFactory.CreateStoredProcedureUri(database, "items", "greet"), Of("p1"), "you");
            Equal(said.Response, "hello you");
            await client.CreateTriggerAsync(link, new Trigger
            {
                Id = "stamp", TriggerType = TriggerType.Pre, TriggerOperation = TriggerOperation.Create,
                Body = "function () { const r = getContext().getRequest(); const d = r.getBody(); d.stamp = 1; r.setBody(d); }",
            });
            var options = new RequestOptions { PreTriggerInclude = ["stamp"] };
            Document made = await client.CreateDocumentAsync(link, new Item { id = "stamped", pk = "x" }, options);
            Equal(made.GetPropertyValue<int>("stamp"), 1);
            await client.CreateUserDefinedFunctionAsync(link, new UserDefinedFunction { Id = "twice", Body = "function (n) { return 2 * n; }" });
            Equal(await Rows(client.CreateDocumentQuery<int>(link, "SELECT VALUE udf.twice(c.n) FROM c WHERE c.id = '8'", new FeedOptions { EnableCrossPartitionQuery = true })), [16]);
        });
    }

    static async Task Access(Tests tests, Database database)
    {
        DocumentClient client = tests.Client;
        await tests.Run("a resource token", async () =>
        {
            User user = await client.CreateUserAsync(database.SelfLink, new User { Id = "ann" });
            DocumentCollection collection = await client.ReadDocumentCollectionAsync(UriFactory.CreateDocumentCollectionUri(database.Id, "items"));
            Permission permission = await client.CreatePermissionAsync(user.SelfLink, new Permission
            {
                Id = "read", PermissionMode = PermissionMode.Read, ResourceLink = collection.SelfLink, ResourcePartitionKey = new PartitionKey("p4"),
            });
            using DocumentClient limited = tests.Connect(permission.Token);
            Uri four = UriFactory.CreateDocumentUri(database.Id, "items", "4");
            Equal((await limited.ReadDocumentAsync<Item>(four, Of("p4"))).Document.n, 4);
            await Refused(HttpStatusCode.Forbidden, () => limited.DeleteDocumentAsync(four, Of("p4")));
            await Refused(HttpStatusCode.Forbidden, () => limited.ReadDocumentAsync<Item>(UriFactory.CreateDocumentUri(database.Id, "items", "5"), Of("p5")));
        });
    }

    static async Task Throughput(Tests tests, string database)
    {
        DocumentClient client = tests.Client;
        await tests.Run("offers are found and replaced", async () =>
        {
            DocumentCollection collection = await client.ReadDocumentCollectionAsync(UriFactory.CreateDocumentCollectionUri(database, "items"));
            var offer = (OfferV2)client.CreateOfferQuery().Where(o => o.ResourceLink == collection.SelfLink).AsEnumerable().Single();
            Equal(offer.Content.OfferThroughput, Partitions * PartitionRUs);
            await client.ReplaceOfferAsync(new OfferV2(offer, 20000));
            Equal(((OfferV2)(Offer)await client.ReadOfferAsync(offer.SelfLink)).Content.OfferThroughput, 20000);
        });

        await tests.Run("a collection without a partition key is refused", async () =>
        {
            var error = await Refused(HttpStatusCode.BadRequest, () => client.CreateDocumentCollectionAsync(UriFactory.CreateDatabaseUri(database), new DocumentCollection { Id = "single" }));
            Check(error.Message.Contains("partition key", StringComparison.OrdinalIgnoreCase), error.Message);
        });
    }
}
