using System.Collections.Concurrent;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// The change feed processor: two instances that share leases, the estimator of their lag,
// an instance that stops, and a start from the beginning; two instances and the estimator
// while all partitions split.
static class Processor
{
    const int Partitions = 4;

    public static async Task Run(Tests tests)
    {
        Container source = await tests.Database.CreateContainerAsync(new ContainerProperties("source", "/pk"), Partitions * PartitionRUs);
        Container leases = await tests.Database.CreateContainerAsync(new ContainerProperties("leases", "/id"));
        var seen = new ConcurrentDictionary<string, ConcurrentQueue<int>>(); // versions of an item, by id
        var busy = new ConcurrentDictionary<string, int>();                  // batches by instance
        int estimated = -1;

        async Task Write(int from, int to, int version)
        {
            for (int i = from; i < to; i++) await source.UpsertItemAsync(Item(new { id = $"{i}", pk = $"p{i % 40}", version }));
        }
        ChangeFeedProcessor Build(string instance) => source.GetChangeFeedProcessorBuilder<JObject>("work", (context, changes, cancellation) =>
            {
                busy.AddOrUpdate(instance, 1, (_, count) => count + 1);
                Check(context.LeaseToken != null && context.Headers.RequestCharge > 0, "a batch has no lease or charge");
                foreach (JObject change in changes) seen.GetOrAdd((string)change["id"], _ => new()).Enqueue((int)change["version"]);
                return Task.CompletedTask;
            })
            .WithInstanceName(instance).WithLeaseContainer(leases).WithStartTime(DateTime.MinValue.ToUniversalTime())
            .WithPollInterval(TimeSpan.FromMilliseconds(100)).WithMaxItems(10)
            .WithLeaseConfiguration(acquireInterval: TimeSpan.FromMilliseconds(500), expirationInterval: TimeSpan.FromSeconds(6), renewInterval: TimeSpan.FromSeconds(1))
            .Build();
        bool Saw(int from, int to, int version) => Enumerable.Range(from, to - from).All(i => seen.TryGetValue($"{i}", out var versions) && versions.Contains(version));

        await Write(0, 100, 1);
        ChangeFeedProcessor first = Build("first"), second = Build("second");
        ChangeFeedProcessor estimator = source.GetChangeFeedEstimatorBuilder("work", (lag, _) =>
        {
            estimated = (int)lag;
            return Task.CompletedTask;
        }, TimeSpan.FromMilliseconds(200)).WithLeaseContainer(leases).Build();
        async Task<long> Lag()
        {
            using var states = source.GetChangeFeedEstimator("work", leases).GetCurrentStateIterator();
            return (await Rows(states)).Sum(state => state.EstimatedLag);
        }

        await tests.Run("from the beginning, one instance has every item", async () =>
        {
            await first.StartAsync();
            await Until(() => Saw(0, 100, 1), "one instance does not see every item");
        });

        await tests.Run("two instances share the leases, and see every later version", async () =>
        {
            await second.StartAsync();
            await Until(async () => (await Owners(leases)).Count == 2, "the second instance gets no lease");
            Equal((await Owners(leases)).Values.Sum(), Partitions);
            await Write(50, 150, 2);
            await Until(() => Saw(50, 150, 2), "two instances do not see every item");
            // A lease may go from one instance to the other before its items are read: more
            // items come until the second has some.
            for (int extra = 1000; busy.GetValueOrDefault("second") == 0; extra += 40)
            {
                Check(extra < 9000, "the second instance gets no items");
                await Write(extra, extra + 40, 2);
                await Until(() => Saw(extra, extra + 40, 2), "two instances do not see every item");
            }
        });

        await tests.Run("the estimator reports no lag when everything was handled", async () =>
        {
            await Until(async () => await Lag() == 0, "the lag does not become 0");
            await estimator.StartAsync();
            await Until(() => estimated == 0, "the estimator does not report 0");
        });

        await tests.Run("an instance that stops leaves its leases to the other", async () =>
        {
            await first.StopAsync();
            await Until(async () => (await Owners(leases)).GetValueOrDefault("second") == Partitions, "the second instance does not take the leases");
            await Write(0, 150, 3);
            await Until(() => Saw(0, 150, 3), "the second instance does not see every item");
        });

        await tests.Run("the lag is the number of unread items when no instance runs", async () =>
        {
            await Until(async () => await Lag() == 0, "the lag does not become 0");
            await second.StopAsync();
            await Write(0, 30, 4);
            Equal(await Lag(), 30);
            await Until(() => estimated == 30, "the estimator does not report 30");
            await estimator.StopAsync();
        });

        await tests.Run("a new instance continues, and versions of an item arrive in order", async () =>
        {
            ChangeFeedProcessor third = Build("third");
            await third.StartAsync();
            await Until(() => Saw(0, 30, 4), "the third instance does not see the new items");
            await third.StopAsync();
            // A batch may be delivered twice, so only the first delivery of each
            // version counts.
            foreach (var (id, versions) in seen) Equal(versions.Distinct(), versions.Distinct().Order(), $"the versions of {id}");
        });

        await Splits(tests);
#if NEWEST
        await AllVersions(tests, leases);
#endif
    }

    // Splits has two instances read a container whose partitions split twice while items
    // are written: every version is delivered, those of an item in order, and the estimator
    // follows the new leases.
    static async Task Splits(Tests tests)
    {
        const int first = 2, keys = 20, versions = 12;
        Container source = await tests.Database.CreateContainerAsync(new ContainerProperties("split", "/pk"), first * PartitionRUs);
        Container leases = await tests.Database.CreateContainerAsync(new ContainerProperties("splitleases", "/id"));
        var seen = new ConcurrentDictionary<string, ConcurrentQueue<int>>();
        var busy = new ConcurrentDictionary<string, int>(); // items by instance
        int extras = 0;                                     // deliveries of items beyond the versions
        ChangeFeedProcessor Build(string instance) => source.GetChangeFeedProcessorBuilder<JObject>("split", (_, changes, _) =>
            {
                foreach (JObject change in changes)
                {
                    if ((int)change["n"] < 0) Interlocked.Increment(ref extras);
                    else seen.GetOrAdd((string)change["pk"], _ => new()).Enqueue((int)change["n"]);
                }
                busy.AddOrUpdate(instance, changes.Count, (_, count) => count + changes.Count);
                return Task.CompletedTask;
            })
            .WithInstanceName(instance).WithLeaseContainer(leases).WithStartTime(DateTime.MinValue.ToUniversalTime())
            .WithPollInterval(TimeSpan.FromMilliseconds(100)).WithMaxItems(7)
            .WithLeaseConfiguration(acquireInterval: TimeSpan.FromMilliseconds(500), expirationInterval: TimeSpan.FromSeconds(6), renewInterval: TimeSpan.FromSeconds(1))
            .Build();
        async Task<List<ChangeFeedProcessorState>> States()
        {
            using var states = source.GetChangeFeedEstimator("split", leases).GetCurrentStateIterator();
            return await Rows(states);
        }
        int written = 0;
        async Task Write(int to)
        {
            // Each item is written once: the feed has latest versions only.
            for (; written < to; written++)
                for (int key = 0; key < keys; key++) await source.CreateItemAsync(Item(new { id = $"{key} {written}", pk = $"p{key}", n = written }));
        }

        await tests.Run("two instances and the estimator while all partitions split", async () =>
        {
            await Write(4);
            ChangeFeedProcessor one = Build("one"), two = Build("two");
            await one.StartAsync();
            await two.StartAsync();
            try
            {
                await Until(async () => (await Owners(leases)).Count == 2, "the second instance gets no lease");
                for (int round = 1; round <= 2; round++)
                {
                    Task load = Write(4 + 4 * round);
                    await Compat.Partitions.Change(tests.Database.Id, "split", first << round - 1);
                    await load;
                    int want = first << round;
                    await Until(async () => (await Owners(leases)).Values.Sum() == want, $"there are not {want} leases that have an owner");
                }
                await Until(() => Enumerable.Range(0, keys).All(key => seen.TryGetValue($"p{key}", out var numbers) && numbers.Distinct().Count() == versions),
                    "not every item is delivered");
                // Who reads the items of a lease depends on who has it then: more items come
                // until both instances had some.
                for (int extra = 0; busy.GetValueOrDefault("one") == 0 || busy.GetValueOrDefault("two") == 0; extra++)
                {
                    Check(extra < 200, "one of the instances gets no items");
                    string[] ids = [.. Enumerable.Range(0, keys).Select(key => $"extra {key} {extra}")];
                    for (int key = 0; key < keys; key++) await source.CreateItemAsync(Item(new { id = ids[key], pk = $"p{key}", n = -1 }));
                    await Until(() => Volatile.Read(ref extras) >= (extra + 1) * keys, "not every further item is delivered");
                }
                await Until(async () => (await States()).Sum(state => state.EstimatedLag) == 0, "the lag does not become 0");
            }
            finally
            {
                await one.StopAsync();
                await two.StopAsync();
            }
            foreach (var (key, numbers) in seen) Equal(numbers.Distinct(), Enumerable.Range(0, versions), $"the items of {key}");
            Equal((await States()).Count, first << 2);
            await Write(versions + 1);
            Equal((await States()).Sum(state => state.EstimatedLag), (long)keys);
        });
    }

    // Owners counts the leases of each instance.
    static async Task<Dictionary<string, int>> Owners(Container leases)
    {
        var owners = await Rows<string>(leases, "SELECT VALUE c.Owner FROM c WHERE IS_STRING(c.Owner) AND NOT CONTAINS(c.id, '.info') AND NOT CONTAINS(c.id, '.lock')");
        return owners.GroupBy(owner => owner).ToDictionary(group => group.Key, group => group.Count());
    }

    static Task Until(Func<bool> condition, string trouble) => Until(() => Task.FromResult(condition()), trouble);

    static async Task Until(Func<Task<bool>> condition, string trouble)
    {
        for (int i = 0; i < 400; i++)
        {
            if (await condition()) return;
            await Task.Delay(100);
        }
        Check(false, trouble);
    }

#if NEWEST
    static async Task AllVersions(Tests tests, Container leases)
    {
        var properties = new ContainerProperties("versions", "/pk");
        properties.ChangeFeedPolicy.FullFidelityRetention = TimeSpan.FromMinutes(10);
        Container source = await tests.Database.CreateContainerAsync(properties, Partitions * PartitionRUs);

        await tests.Run("all versions and deletes reach a handler", async () =>
        {
            var seen = new ConcurrentQueue<string>();
            ChangeFeedProcessor processor = source.GetChangeFeedProcessorBuilderWithAllVersionsAndDeletes<ChangeFeed.Doc>("versions", (context, changes, cancellation) =>
                {
                    foreach (var change in changes) seen.Enqueue(change.Metadata.OperationType == ChangeFeedOperationType.Delete ? "deleted" : $"{change.Current.id} {change.Current.n}");
                    return Task.CompletedTask;
                })
                .WithInstanceName("only").WithLeaseContainer(leases).WithPollInterval(TimeSpan.FromMilliseconds(100)).Build();
            await processor.StartAsync();
            // It starts at the time of its first request, so the first item is written
            // until it is delivered.
            for (int i = 0; i < 100 && seen.IsEmpty; i++)
            {
                await source.UpsertItemAsync(new ChangeFeed.Doc("0", "a", 0));
                await Task.Delay(100);
            }
            await source.CreateItemAsync(new ChangeFeed.Doc("1", "a", 1));
            await source.UpsertItemAsync(new ChangeFeed.Doc("1", "a", 2));
            await source.DeleteItemAsync<ChangeFeed.Doc>("1", new PartitionKey("a"));
            await Until(() => seen.Contains("deleted"), "the handler does not get the delete");
            Equal(seen.Where(change => change != "0 0"), ["1 1", "1 2", "deleted"]);
            await processor.StopAsync();
        });
    }
#endif
}
