using System.Net;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// The change feed as a program pulls it: of a container, its ranges and a key, from the
// beginning, from now, from a time and from a continuation token.
static class ChangeFeed
{
    const int Partitions = 4;

    public static async Task Run(Tests tests)
    {
        Container container = await tests.Database.CreateContainerAsync(new ContainerProperties("feed", "/pk"), Partitions * PartitionRUs);
        async Task Write(int from, int to)
        {
            for (int i = from; i < to; i++) await container.UpsertItemAsync(Item(new { id = $"{i}", pk = $"p{i % 20}", n = i }));
        }
        await Write(0, 100);

        FeedIterator<JObject> Open(ChangeFeedStartFrom start, int size = 7) =>
            container.GetChangeFeedIterator<JObject>(start, ChangeFeedMode.Incremental, new ChangeFeedRequestOptions { PageSizeHint = size });

        await tests.Run("from the beginning, each item once, until there is nothing new", async () =>
        {
            using var feed = Open(ChangeFeedStartFrom.Beginning());
            var (items, token) = await Drain(feed);
            Equal(items.Select(item => (int)item["n"]).Order(), Enumerable.Range(0, 100));
            Equal((await Drain(feed)).Items.Count, 0);

            await Write(95, 105);
            Equal((await Drain(feed)).Items.Select(item => (int)item["n"]).Order(), Enumerable.Range(95, 10));
            using CosmosClient later = tests.Connect(); // the token alone determines the position
            using var resumed = later.GetContainer(tests.Database.Id, "feed").GetChangeFeedIterator<JObject>(ChangeFeedStartFrom.ContinuationToken(token), ChangeFeedMode.Incremental);
            Equal((await Drain(resumed)).Items.Select(item => (int)item["n"]).Order(), Enumerable.Range(95, 10));
        });

        await tests.Run("each range of the container has its own items", async () =>
        {
            IReadOnlyList<FeedRange> ranges = await container.GetFeedRangesAsync();
            Equal(ranges.Count, Partitions);
            var all = new List<int>();
            foreach (FeedRange range in ranges)
            {
                using var feed = Open(ChangeFeedStartFrom.Beginning(FeedRange.FromJsonString(range.ToJsonString())));
                all.AddRange((await Drain(feed)).Items.Select(item => (int)item["n"]));
            }
            Equal(all.Order(), Enumerable.Range(0, 105));
        });

        await tests.Run("the items of one key, in order", async () =>
        {
            using var feed = Open(ChangeFeedStartFrom.Beginning(FeedRange.FromPartitionKey(new PartitionKey("p3"))), 2);
            Equal((await Drain(feed)).Items.Select(item => (int)item["n"]), [3, 23, 43, 63, 83, 103]);
        });

        await tests.Run("from now", async () =>
        {
            using var feed = Open(ChangeFeedStartFrom.Now());
            Equal((await Drain(feed)).Items.Count, 0);
            await Write(200, 203);
            Equal((await Drain(feed)).Items.Select(item => (int)item["n"]).Order(), [200, 201, 202]);
        });

        await tests.Run("from a time", async () =>
        {
            using (var none = Open(ChangeFeedStartFrom.Time(DateTime.UtcNow.AddMinutes(1)))) Equal((await Drain(none)).Items.Count, 0);
            using var all = Open(ChangeFeedStartFrom.Time(DateTime.UtcNow.AddHours(-1)));
            Equal((await Drain(all)).Items.Count, 108);
        });

        await tests.Run("an item that changed often is returned once, in its latest version", async () =>
        {
            using var feed = Open(ChangeFeedStartFrom.Now());
            await Drain(feed);
            for (int n = 0; n < 5; n++) await container.UpsertItemAsync(Item(new { id = "often", pk = "p0", n }));
            await container.UpsertItemAsync(Item(new { id = "deleted", pk = "p0", n = 0 }));
            await container.DeleteItemAsync<JObject>("deleted", new PartitionKey("p0"));
            Equal((await Drain(feed)).Items.Select(item => $"{item["id"]} {item["n"]}"), ["often 4"]);
        });

#if NEWEST
        await AllVersions(tests);
        await tests.Run("a container without a retention refuses all versions", async () =>
        {
            using var feed = container.GetChangeFeedIterator<ChangeFeedItem<JObject>>(ChangeFeedStartFrom.Now(), ChangeFeedMode.AllVersionsAndDeletes);
            await Refused(HttpStatusCode.BadRequest, () => feed.ReadNextAsync());
        });
#endif
    }

    // Drain reads until the feed has nothing new.
    public static async Task<(List<T> Items, string Token)> Drain<T>(FeedIterator<T> feed)
    {
        var items = new List<T>();
        while (feed.HasMoreResults)
        {
            FeedResponse<T> page = await feed.ReadNextAsync();
            if (page.StatusCode == HttpStatusCode.NotModified) return (items, page.ContinuationToken);
            items.AddRange(page);
        }
        throw new Exception("a change feed has no end");
    }

#if NEWEST
    // Doc is an item of the feed of all versions.
    public sealed record Doc(string id, string pk, int n);

    static async Task AllVersions(Tests tests)
    {
        var properties = new ContainerProperties("versions", "/pk") { DefaultTimeToLive = -1 };
        properties.ChangeFeedPolicy.FullFidelityRetention = TimeSpan.FromMinutes(10);
        Container container = await tests.Database.CreateContainerAsync(properties, Partitions * PartitionRUs);

        await tests.Run("all versions and deletes", async () =>
        {
            using var feed = container.GetChangeFeedIterator<ChangeFeedItem<Doc>>(ChangeFeedStartFrom.Now(), ChangeFeedMode.AllVersionsAndDeletes);
            Equal((await Drain(feed)).Items.Count, 0);
            var key = new PartitionKey("a");
            await container.CreateItemAsync(new Doc("1", "a", 1), key);
            await container.ReplaceItemAsync(new Doc("1", "a", 2), "1", key);
            await container.UpsertItemAsync(new Doc("1", "a", 3), key);
            await container.PatchItemAsync<Doc>("1", key, [PatchOperation.Increment("/n", 1)]);
            await container.DeleteItemAsync<Doc>("1", key);
            await container.CreateItemAsync(Item(new { id = "brief", pk = "a", n = 9, ttl = 1 }), key);

            var changes = new List<ChangeFeedItem<Doc>>();
            for (int i = 0; i < 150 && changes.Count < 7; i++)
            {
                changes.AddRange((await Drain(feed)).Items);
                await Task.Delay(100);
            }
            Equal(changes.Select(change => change.Metadata.OperationType.ToString()), ["Create", "Replace", "Replace", "Replace", "Delete", "Create", "Delete"]);
            Equal(changes.Take(4).Select(change => change.Current.n), [1, 2, 3, 4]);
            Equal(changes.Select(change => change.Metadata.IsTimeToLiveExpired), [false, false, false, false, false, false, true]);
            Check(changes.All(change => change.Current != null), "an entry has no current"); // handlers read item.Current.id
            ChangeFeedItem<Doc> deleted = changes[4];
            Equal(deleted.Metadata.Id ?? deleted.Previous?.id, "1");
            for (int i = 1; i < changes.Count; i++) Check(changes[i - 1].Metadata.Lsn < changes[i].Metadata.Lsn, "the LSNs do not rise");
        });

        await tests.Run("deletes by partition key are deletes in the feed", async () =>
        {
            var key = new PartitionKey("many");
            using var feed = container.GetChangeFeedIterator<ChangeFeedItem<Doc>>(ChangeFeedStartFrom.Now(), ChangeFeedMode.AllVersionsAndDeletes);
            await Drain(feed);
            for (int i = 0; i < 20; i++) await container.CreateItemAsync(new Doc($"{i}", "many", i), key);
            using ResponseMessage deleted = await container.DeleteAllItemsByPartitionKeyStreamAsync(key);
            Check(deleted.IsSuccessStatusCode, deleted.ErrorMessage);
            Equal((await Rows<int>(container, "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'many'")).Single(), 0);
            var changes = new List<ChangeFeedItem<Doc>>();
            for (int i = 0; i < 100 && changes.Count < 40; i++)
            {
                changes.AddRange((await Drain(feed)).Items);
                await Task.Delay(50);
            }
            Equal(changes.Count(change => change.Metadata.OperationType == ChangeFeedOperationType.Delete), 20);
        });
    }
#endif
}
