using System.Net;
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// Pages as a web API returns them: continuation tokens leave the process and come back to
// a new client, over 1 and 8 partitions and, for ORDER BY, values of all types; the newest
// client also over 64 partitions and while all partitions split and merge.
static class Paging
{
    // The values to order by, as JSON; null is a missing property.
    static readonly string[] values =
    [
        null, "null", "true", "false", "0", "1", "-1", "2.5", "1e300", "-1e300", "9007199254740993", "9007199254740992",
        "\"\"", "\"a\"", "\"B\"", "\"é\"", "\"\\uE000\"", "\"😀\"", "\"\\uFFFF\"", "\"a😀\"", "\"a\\uFFFF\"",
        "[]", "[1]", "[1,2]", "[[null]]", "[{\"a\":1}]", "{}", "{\"a\":1}", "{\"b\":[true]}", "{\"a\":{\"b\":\"x\"}}",
    ];

#if NEWEST
    static readonly string[] sorted = values;
#else
    // Clients before 3.39 continue an ORDER BY with a filter of their own (c.k >= value).
    // It compares code points where ORDER BY has UTF-16 code units, and is undefined for
    // arrays and objects.
    static readonly string[] sorted = [.. values.Where(value => value == null || !"[{".Contains(value[0]) && !value.Contains('\\') && !value.Contains("😀"))];
#endif

    public static async Task Run(Tests tests)
    {
#if NEWEST
        Environment.SetEnvironmentVariable("AZURE_COSMOS_OPTIMISTIC_DIRECT_EXECUTION_ENABLED", "True"); // off by default in 3.64
#endif
        foreach (int partitions in new[] { 1, 8 })
        {
            Container container = await Fill(tests, partitions);
            foreach (string query in new[]
            {
                "SELECT * FROM c",
                "SELECT c.id, c.k FROM c WHERE c.m = 2",
                "SELECT c.id, c.k FROM c ORDER BY c.k",
                "SELECT c.id, c.k FROM c ORDER BY c.k DESC",
                "SELECT c.id, c.k FROM c WHERE c.pass ORDER BY c.k",
                "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
                "SELECT c.id, c.k, c.m FROM c ORDER BY c.k, c.m DESC",
                "SELECT c.id, c.k, c.m FROM c ORDER BY c.k DESC, c.m",
                "SELECT c.id, c.m FROM c ORDER BY c.m OFFSET 5 LIMIT 40",
                "SELECT TOP 23 c.id, c.m FROM c ORDER BY c.m",
            })
            {
                await tests.Run($"{query} over {partitions} partitions", () => Page(tests, container, query));
            }
            // Over several partitions this client returns a row of JOIN repeatedly:
            // when it skips rows of the last document, it counts only those in the last
            // page.
            const string join = "SELECT c.id, c.k, t FROM c JOIN t IN c.tags ORDER BY c.k";
            if (partitions == 1) await tests.Run(join, () => Page(tests, container, join));
            await tests.Run($"a feed without a query over {partitions} partitions", () => Page(tests, container, null));
#if NEWEST
            await tests.Run($"requests of a query of one of {partitions} partitions", () => CountRequests(tests, container));
#endif
            await tests.Run($"a page of a web API and its link to the next, over {partitions} partitions", () => Browse(tests, container));
        }
#if NEWEST
        Container many = await Fill(tests, 64);
        await tests.Run("ORDER BY over 64 partitions", () => Page(tests, many, "SELECT c.id, c.k FROM c ORDER BY c.k"));
        foreach (int partitions in Environment.GetEnvironmentVariable("COMPAT_ALL") is null ? new[] { 1, 8 } : new[] { 1, 8, 64 })
        {
            Container container = tests.Database.GetContainer($"c{partitions}");
            foreach (string query in new[] { "SELECT c.id, c.k FROM c ORDER BY c.k", "SELECT c.id, c.k FROM c ORDER BY c.k DESC", "SELECT c.id, c.k FROM c WHERE c.pass ORDER BY c.k" })
                await tests.Run($"{query} while {partitions} partitions split and merge", () => Page(tests, container, query, partitions));
        }
        // A token of optimistic direct execution does not survive a split of the only
        // partition: this client then returns an error that names the reason.
        await tests.Run("a token of optimistic direct execution after a split", async () =>
        {
            async Task<FeedResponse<JToken>> Read(string token)
            {
                using CosmosClient fresh = tests.Connect();
                using var feed = fresh.GetContainer(tests.Database.Id, "c1").GetItemQueryIterator<JToken>(
                    "SELECT c.id, c.k FROM c ORDER BY c.k", token, new QueryRequestOptions { MaxItemCount = 7 });
                return await feed.ReadNextAsync();
            }
            FeedResponse<JToken> before = await Read(null);
            string token = before.ContinuationToken;
            await Partitions.Change(tests.Database.Id, "c1", 1);
            if (Tests.Direct)
            {
                FeedResponse<JToken> next = await Read(token); // There the client goes on.
                var all = await Rows<JToken>(tests.Database.GetContainer("c1"), "SELECT c.id, c.k FROM c ORDER BY c.k");
                Equal(next.Select(row => $"{row["k"]}"), all.Skip(before.Count).Take(next.Count).Select(row => $"{row["k"]}"));
                Check(next.Count > 0 && !next.Select(row => (string)row["id"]).Intersect(before.Select(row => (string)row["id"])).Any(), "no rows, or some twice");
                return;
            }
            string error = "";
            try
            {
                await Read(token);
            }
            catch (InvalidOperationException e)
            {
                error = e.Message;
            }
            Check(error.Contains("due to partition split"), $"not refused, or for another reason: {error}");
        });
#endif
        await tests.Run("an invalid continuation token", async () =>
        {
            using var feed = tests.Database.GetContainer("c1").GetItemQueryIterator<JToken>("SELECT * FROM c", "not a token");
            await Refused(HttpStatusCode.BadRequest, () => feed.ReadNextAsync());
        });
    }

    static async Task<Container> Fill(Tests tests, int partitions)
    {
        var properties = new ContainerProperties($"c{partitions}", "/pk");
        properties.IndexingPolicy.CompositeIndexes.Add(
        [
            new() { Path = "/k", Order = CompositePathSortOrder.Ascending },
            new() { Path = "/m", Order = CompositePathSortOrder.Descending },
        ]);
        Container container = await tests.Database.CreateContainerAsync(properties, partitions * PartitionRUs);
        for (int i = 0; i < 3 * sorted.Length; i++)
        {
            var item = new StringBuilder($"{{\"id\":\"{i}\",\"pk\":\"p{i % 37}\",\"m\":{i % 4},\"pass\":{(i % 5 > 0 ? "true" : "false")},\"tags\":[\"x\",\"y\"]");
            if (sorted[i % sorted.Length] is string k) item.Append($",\"k\":{k}");
            item.Append('}');
            using var response = await container.CreateItemStreamAsync(new MemoryStream(Encoding.UTF8.GetBytes(item.ToString())), new PartitionKey($"p{i % 37}"));
            response.EnsureSuccessStatusCode();
        }
        return container;
    }

    // Page reads a query with a new client for every page and compares the rows with those
    // that one client reads with large pages. With a number of partitions it changes them
    // after every page.
    static async Task Page(Tests tests, Container container, string query, int partitions = 0)
    {
        var whole = new List<JToken>();
        using (var all = container.GetItemQueryIterator<JToken>(query, requestOptions: new QueryRequestOptions { MaxItemCount = -1 }))
            whole = await Rows(all);
        var paged = new List<JToken>();
        string token = null;
        int pages = 0;
        var options = new QueryRequestOptions { MaxItemCount = 7 };
#if NEWEST
        if (partitions == 1) options.EnableOptimisticDirectExecution = false; // as by default
#endif
        do
        {
            using CosmosClient fresh = tests.Connect();
            using var feed = fresh.GetContainer(tests.Database.Id, container.Id)
                .GetItemQueryIterator<JToken>(query, token, options);
            FeedResponse<JToken> page = await feed.ReadNextAsync();
            Check(page.Count <= 7, $"{page.Count} rows in a page of 7");
            paged.AddRange(page);
            token = page.ContinuationToken;
            // Two splits and two merges; with 64 partitions each takes a second or two.
            if (token != null && pages < (partitions > 8 ? 2 : partitions > 0 ? 4 : 0)) await Partitions.Change(tests.Database.Id, container.Id, partitions);
        } while (token != null && ++pages < 1000);

        string[] Texts(List<JToken> rows) => [.. rows.Select(row => row.ToString(Formatting.None))];
        string[] got = Texts(paged), want = Texts(whole);
        Check(want.Length >= 12, $"{want.Length} rows in one page");
        // OFFSET and TOP may choose any of the rows that are equal in the order.
        bool chooses = query != null && (query.Contains("OFFSET") || query.Contains("TOP"));
        Check(chooses ? got.Length == want.Length && got.Distinct().Count() == got.Length : got.Order().SequenceEqual(want.Order()),
            $"{got.Length} rows in {pages} pages, not the {want.Length} of one page; lost {string.Join(" ", want.Except(got))}");
        if (query == null || !query.Contains("ORDER BY")) return;
        bool descending = query.Contains("c.k DESC"), number = query.Contains("ORDER BY c.m");
        for (int i = 1; i < paged.Count; i++)
        {
            int order = number ? Compare(paged[i - 1]["m"], paged[i]["m"]) : Compare(Sorted(paged[i - 1]), Sorted(paged[i]));
            Check((descending ? -order : order) <= 0, $"{got[i - 1]} before {got[i]}");
        }
    }

    // Sorted returns the value that a row is ordered by.
    static JToken Sorted(JToken row) => row is JObject item && item.ContainsKey("id") ? item["k"] : row;

    // Compare orders values, except those that the client orders by hashes.
    static int Compare(JToken a, JToken b)
    {
        int rank = Rank(a).CompareTo(Rank(b));
        if (rank != 0) return rank;
        return Rank(a) switch
        {
            4 => a.Type == JTokenType.Integer && b.Type == JTokenType.Integer ? ((long)a).CompareTo((long)b) : ((double)a).CompareTo((double)b),
            5 => string.CompareOrdinal((string)a, (string)b),
            _ => 0,
        };
    }

    static int Rank(JToken value) => value?.Type switch
    {
        null => 0,
        JTokenType.Null => 1,
        JTokenType.Boolean => (bool)value ? 3 : 2,
        JTokenType.Integer or JTokenType.Float => 4,
        JTokenType.Array => 6,
        JTokenType.Object => 7,
        _ => 5,
    };

    // Browse pages like the handler of a web API: the token goes into a link, and each
    // answer tells whether there are more items. Writes between two pages do not shift
    // items.
    static async Task Browse(Tests tests, Container container)
    {
        async Task<(List<string> Items, string Next)> Get(string link)
        {
            var at = System.Web.HttpUtility.ParseQueryString(link);
            string token = at["next"] is string next ? Encoding.UTF8.GetString(Convert.FromBase64String(next)) : null;
            QueryDefinition query = new QueryDefinition("SELECT VALUE c.id FROM c WHERE c.m = @m ORDER BY c.id").WithParameter("@m", int.Parse(at["m"]));
            using var feed = container.GetItemQueryIterator<string>(query, token, new QueryRequestOptions { MaxItemCount = int.Parse(at["size"]) });
            FeedResponse<string> page = await feed.ReadNextAsync();
            return ([.. page], page.ContinuationToken == null ? null
                : $"m={at["m"]}&size={at["size"]}&next={Uri.EscapeDataString(Convert.ToBase64String(Encoding.UTF8.GetBytes(page.ContinuationToken)))}");
        }

        var seen = new List<string>();
        string late = "0-" + Guid.NewGuid(); // it sorts before all pages
        for (string link = "m=1&size=4"; link != null;)
        {
            var (items, next) = await Get(link);
            Check(items.Count is > 0 and <= 4, $"{items.Count} items in a page of 4");
            if (seen.Count == 0) await container.CreateItemAsync(Item(new { id = late, pk = "late", m = 1 }));
            seen.AddRange(items);
            link = next;
        }
        await container.DeleteItemAsync<JObject>(late, new PartitionKey("late"));
        Equal(seen, Enumerable.Range(0, 3 * sorted.Length).Where(i => i % 4 == 1).Select(i => $"{i}").OrderBy(id => id, StringComparer.Ordinal).ToList());
    }

#if NEWEST
    // CountRequests queries one logical partition: one request, and no plan (optimistic
    // direct execution). Each further page is one request. In direct mode, whose requests
    // are not counted here, this client asks for a plan.
    static async Task CountRequests(Tests tests, Container container)
    {
        foreach (var (query, requests, size) in new[]
        {
            ("SELECT * FROM c", 1, 100),
            ("SELECT * FROM c WHERE c.m >= 0 ORDER BY c.k", 1, 100),
            ("SELECT * FROM c ORDER BY c.k", 3, 1),
        })
        {
            tests.Requests.Reset();
            int rows = 0;
            using var feed = container.GetItemQueryIterator<JToken>(query,
                requestOptions: new QueryRequestOptions { PartitionKey = new PartitionKey("p1"), MaxItemCount = size });
            for (int page = 0; feed.HasMoreResults && page < 3; page++) rows += (await feed.ReadNextAsync()).Count;
            Check(rows > 0, $"{query}: no rows");
            var (queries, plans, _) = tests.Requests.Seen;
            if (!Tests.Direct) Check(plans == 0 && queries == requests, $"{query}, pages of {size}: {queries} requests and {plans} plans, not {requests} and none");
        }
    }
#endif
}
