using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Linq;
using Newtonsoft.Json;
using static Compat.Tests;

namespace Compat;

// LINQ queries, over 1 and 8 partitions: each returns what the same expression returns over
// a list in memory. And two aggregates without a form in LINQ.
static class Linq
{
    enum Color { Red, Green, Blue }

    sealed record Part(string sku, int count);

    sealed record Place(string city, double area);

    sealed record Thing(string id, string pk, int n, double x, string s, bool b, int? maybe, Color color, DateTime at, string[] tags, Part[] parts, Place place);

    static readonly string[] words = ["amber", "Birch", "cedar", "delta", "Ember", "fjord", "grove"];

    static readonly Thing[] things = [.. Enumerable.Range(0, 60).Select(i => new Thing(
        id: $"{i}", pk: $"p{i % 9}", n: i * 7 % 23, x: i * 1.25 - 20, s: words[i % 7] + i % 3, b: i % 3 == 0, maybe: i % 4 == 0 ? null : i % 4,
        color: (Color)(i % 3), at: new DateTime(2026, 1, 1, 0, 0, 0, DateTimeKind.Utc).AddHours(i * 7),
        tags: [.. words.Take(i % 4)], parts: [.. Enumerable.Range(0, i % 3).Select(p => new Part($"sku{p}", i + p))],
        place: new(words[i % 5], i * 2.5)))];

    public static async Task Run(Tests tests)
    {
        foreach (int partitions in new[] { 1, 8 })
        {
            var properties = new ContainerProperties($"things{partitions}", "/pk");
            foreach (string second in new[] { "/n", "/x" })
            {
                properties.IndexingPolicy.CompositeIndexes.Add([new() { Path = "/s" }, new() { Path = second, Order = CompositePathSortOrder.Descending }]);
            }
            Container container = await tests.Database.CreateContainerAsync(properties, partitions * PartitionRUs);
            foreach (Thing thing in things) await container.CreateItemAsync(thing);
            await Queries(tests, container, partitions);
#if NEWEST
            // The SDK merges both, although it does not name them in the features of its plans
            // (F6). The order of the values is that of the partitions.
            await tests.Run($"MAKELIST and MAKESET over {partitions}", async () =>
            {
                int[] one = [.. (await Combined(container, "SELECT VALUE MAKELIST(c.n) FROM c")).Order()];
                Equal(one, [.. things.Select(t => t.n).Order()], "the list");
                one = [.. (await Combined(container, "SELECT VALUE MAKESET(c.n) FROM c")).Order()];
                Equal(one, [.. things.Select(t => t.n).Distinct().Order()], "the set");
            });
#endif
        }
    }

    static async Task<int[]> Combined(Container container, string query)
    {
        using FeedIterator<int[]> feed = container.GetItemQueryIterator<int[]>(query);
        return (await Rows(feed)).Single();
    }

    static async Task Queries(Tests tests, Container container, int partitions)
    {
        int cases = 0;
        IQueryable<Thing> memory = things.AsQueryable();
        IQueryable<Thing> stored() => container.GetItemLinqQueryable<Thing>(requestOptions: new QueryRequestOptions { MaxItemCount = 11 });

        // Same compares rows in any order, Ordered in their order, Value one value.
        Task Same<T>(string name, Func<IQueryable<Thing>, IQueryable<T>> query) => Compare(name, query, ordered: false);
        Task Ordered<T>(string name, Func<IQueryable<Thing>, IQueryable<T>> query) => Compare(name, query, ordered: true);
        Task Compare<T>(string name, Func<IQueryable<Thing>, IQueryable<T>> query, bool ordered)
        {
            cases++;
            return tests.Run($"{name} over {partitions}", async () =>
            {
                using FeedIterator<T> feed = query(stored()).ToFeedIterator();
                var got = (await Rows(feed)).Select(row => JsonConvert.SerializeObject(row)).ToList();
                var want = query(memory).ToList().Select(row => JsonConvert.SerializeObject(row)).ToList();
                Check(want.Count > 0, "nothing is expected");
                if (!ordered)
                {
                    got.Sort(StringComparer.Ordinal);
                    want.Sort(StringComparer.Ordinal);
                }
                Equal(got, want, "the rows");
            });
        }
        Task Value<T>(string name, Func<IQueryable<Thing>, Task<Response<T>>> query, Func<IQueryable<Thing>, T> want)
        {
            cases++;
            return tests.Run($"{name} over {partitions}", async () => Equal((T)await query(stored()), want(memory)));
        }

        // Filters.
        await Same("equal", q => q.Where(t => t.n == 7));
        await Same("not equal", q => q.Where(t => t.s != "amber0"));
        await Same("less and greater", q => q.Where(t => t.n > 3 && t.n <= 9));
        await Same("or", q => q.Where(t => t.n < 2 || t.x > 50));
        await Same("not", q => q.Where(t => !(t.n > 5)));
        await Same("a boolean", q => q.Where(t => t.b));
        await Same("a boolean that is false", q => q.Where(t => !t.b));
        await Same("null", q => q.Where(t => t.maybe == null));
        await Same("not null", q => q.Where(t => t.maybe != null));
        await Same("a nullable value", q => q.Where(t => t.maybe == 2));
        await Same("an enumeration", q => q.Where(t => t.color == Color.Green));
        await Same("a time", q => q.Where(t => t.at >= new DateTime(2026, 1, 5, 0, 0, 0, DateTimeKind.Utc)));
        await Same("two filters", q => q.Where(t => t.n > 3).Where(t => t.b));
        await Same("a nested property", q => q.Where(t => t.place.city == "cedar"));
        await Same("an element of an array", q => q.Where(t => t.tags.Count() > 1 && t.tags[1] == "Birch"));
        await Same("one of a list", q => q.Where(t => new List<int> { 1, 5, 9 }.Contains(t.n)));
        await Same("an array that contains a value", q => q.Where(t => Enumerable.Contains(t.tags, "cedar")));
        await Same("any element with a condition", q => q.Where(t => t.parts.Any(p => p.count > 30)));
        await Same("any element", q => q.Where(t => t.parts.Any()));
        await Same("the count of an array", q => q.Where(t => t.tags.Count() == 2));

        // Strings.
        await Same("StartsWith", q => q.Where(t => t.s.StartsWith("am")));
        await Same("StartsWith, any case", q => q.Where(t => t.s.StartsWith("BI", StringComparison.OrdinalIgnoreCase)));
        await Same("EndsWith", q => q.Where(t => t.s.EndsWith("2")));
        await Same("Contains", q => q.Where(t => t.s.Contains("mb")));
        await Same("Contains, any case", q => q.Where(t => t.s.Contains("EM", StringComparison.OrdinalIgnoreCase)));
        await Same("Equals, any case", q => q.Where(t => t.s.Equals("BIRCH1", StringComparison.OrdinalIgnoreCase)));
        await Same("ToLower", q => q.Where(t => t.s.ToLower() == "ember1"));
        await Same("ToUpper", q => q.Select(t => t.s.ToUpper()));
        await Same("Substring", q => q.Where(t => t.s.Substring(1, 2) == "jo"));
        await Same("IndexOf", q => q.Where(t => t.s.IndexOf("a") == 3));
        await Same("the length of a string", q => q.Where(t => t.s.Count() == 6));
        await Same("Replace", q => q.Select(t => t.s.Replace("e", "3")));
#if HIERARCHICAL
        await Same("Trim", q => q.Select(t => t.s.Trim()));
#endif
        await Same("Concat", q => q.Select(t => t.s + "-" + t.pk));
        await Same("CompareTo", q => q.Where(t => t.s.CompareTo("cedar1") > 0 && t.s.CompareTo("d") < 0));

        // Numbers.
        await Same("arithmetic", q => q.Where(t => t.n * 2 + 1 == 15));
        await Same("remainder", q => q.Where(t => t.n % 5 == 2));
        await Same("a product in the row", q => q.Select(t => t.x * 4));
        await Same("Abs", q => q.Where(t => Math.Abs(t.x) < 10));
        await Same("Floor", q => q.Select(t => Math.Floor(t.x)));
        await Same("Ceiling", q => q.Select(t => Math.Ceiling(t.x)));
        await Same("Truncate", q => q.Select(t => Math.Truncate(t.x)));
        await Same("Pow", q => q.Where(t => Math.Pow(t.n, 2) > 300));
        await Same("Sign", q => q.Select(t => Math.Sign(t.x)));
        await Same("a condition", q => q.Select(t => t.b ? t.n : -1));
        await Same("and of bits", q => q.Where(t => (t.n & 4) == 4));

        // Rows.
        await Same("a property", q => q.Select(t => t.n));
        await Same("an object", q => q.Select(t => new { t.id, t.place.city, twice = t.n * 2 }));
        await Same("an array", q => q.Select(t => new[] { t.n, 1 }));
        await Same("a nested object", q => q.Select(t => t.place));
        await Same("the elements of arrays", q => q.SelectMany(t => t.tags));
        await Same("elements with a condition", q => q.SelectMany(t => t.parts.Where(p => p.count > 20)));
        await Same("elements with their item", q => q.SelectMany(t => t.parts.Select(p => new { t.id, p.sku, p.count })));
        await Same("elements of elements", q => q.SelectMany(t => t.parts.SelectMany(p => t.tags.Select(tag => new { p.sku, tag }))));
        await Same("distinct values", q => q.Select(t => t.s).Distinct());
        await Same("a filter on rows", q => q.Select(t => t.n).Where(n => n > 10));

        // Order and parts.
        await Ordered("OrderBy", q => q.OrderBy(t => t.x).Select(t => t.id));
        await Ordered("OrderByDescending", q => q.OrderByDescending(t => t.at).Select(t => t.id));
        await Ordered("ThenByDescending", q => q.OrderBy(t => t.s).ThenByDescending(t => t.x).Select(t => t.id));
        await Ordered("Take", q => q.OrderBy(t => t.x).Take(7).Select(t => t.id));
        await Ordered("Skip and Take", q => q.OrderBy(t => t.x).Skip(10).Take(15).Select(t => t.id));
        await Ordered("distinct in order", q => q.OrderBy(t => t.n).Select(t => t.n).Distinct());

        // Aggregates.
        await Value("Count", q => q.CountAsync(), q => q.Count());
        await Value("Count of a filter", q => q.Where(t => t.n > 5).CountAsync(), q => q.Count(t => t.n > 5));
        await Value("Count in order", q => q.OrderBy(t => t.n).CountAsync(), q => q.Count());
        await Value("Sum", q => q.Select(t => t.n).SumAsync(), q => q.Sum(t => t.n));
        await Value("Average", q => q.Select(t => t.x).AverageAsync(), q => q.Average(t => t.x));
        await Value("Min", q => q.Select(t => t.x).MinAsync(), q => q.Min(t => t.x));
        await Value("Max", q => q.Select(t => t.n).MaxAsync(), q => q.Max(t => t.n));
        await Value("Max in order", q => q.OrderBy(t => t.x).Select(t => t.n).MaxAsync(), q => q.Max(t => t.n));
        await Value("Count of elements", q => q.SelectMany(t => t.tags).CountAsync(), q => q.SelectMany(t => t.tags).Count());
        await Value("Count of distinct values", q => q.Select(t => t.s).Distinct().CountAsync(), q => q.Select(t => t.s).Distinct().Count());

#if NEWEST
        await Same("one of an array", q => q.Where(t => new[] { 1, 5, 9 }.Contains(t.n))); // a span in C# 14
        await Same("an array that contains a value, as a span", q => q.Where(t => t.tags.Contains("cedar")));
        await Same("groups", q => q.GroupBy(t => t.color, (color, group) => new { color, count = group.Count(), most = group.Max(t => t.n) }));
#endif
        await tests.Run($"60 kinds over {partitions}", () =>
        {
            Check(cases >= 60, $"{cases} kinds");
            return Task.CompletedTask;
        });
    }
}
