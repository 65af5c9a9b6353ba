#pragma warning disable CS0618 // resolvers are obsolete but still available
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Partitioning;
using static Compat.Tests;

namespace Compat;

// Client-side partitioning with the resolvers of the SDK (S151, S154 to S163, S171 to S174,
// S199): documents are created and queried on the link of a database, and a resolver chooses
// the collections.
static class Resolvers
{
    enum Region { UnitedStatesEast, EuropeWest, AsiaPacific }

    enum Status { Available, AppearAway }

    sealed class UserProfile
    {
        public string id { get; set; }
        public string UserName { get; set; }
        public Region PrimaryRegion { get; set; }
        public Status Status { get; set; }
        public int Joined { get; set; }
    }

    public static async Task Run(Tests tests)
    {
        DocumentClient client = tests.Client;
        Database database = await client.CreateDatabaseAsync(new Database { Id = $"resolvers-{Guid.NewGuid()}" });
        try
        {
            var collections = new List<DocumentCollection>();
            for (int i = 0; i < 3; i++)
            {
                var definition = new DocumentCollection { Id = $"users{i}" };
                definition.PartitionKey.Paths.Add("/id");
                collections.Add(await client.CreateDocumentCollectionAsync(database.SelfLink, definition));
            }
            await Hash(tests, database, collections[..2]);
            await Range(tests, database, collections);
        }
        finally
        {
            await client.DeleteDatabaseAsync(database.SelfLink);
        }
    }

    // Count returns how many documents each collection has.
    static async Task<int[]> Count(DocumentClient client, List<DocumentCollection> collections)
    {
        var counts = new List<int>();
        foreach (DocumentCollection collection in collections)
            counts.Add((await Rows(client.CreateDocumentQuery<UserProfile>(collection.SelfLink, new FeedOptions { EnableCrossPartitionQuery = true }))).Count);
        return [.. counts];
    }

    static async Task Hash(Tests tests, Database database, List<DocumentCollection> collections)
    {
        DocumentClient client = tests.Client;
        var resolver = new HashPartitionResolver(u => ((UserProfile)u).UserName, [.. collections.Select(c => c.SelfLink)]);
        client.PartitionResolvers[database.SelfLink] = resolver;
        var users = Enumerable.Range(0, 60).Select(i => new UserProfile
        {
            id = $"U{i}", UserName = $"@user{i}", PrimaryRegion = (Region)(i % 3), Status = (Status)(i % 2), Joined = i,
        }).ToList();

        await tests.Run("S156 S160 creates are routed by the hash of the key", async () =>
        {
            foreach (UserProfile user in users) await client.CreateDocumentAsync(database.SelfLink, user);
            int[] counts = await Count(client, collections);
            Check(counts.Min() >= 10 && counts.Sum() == users.Count, $"the collections have {string.Join(" and ", counts)} documents");
            foreach (UserProfile user in users.Take(10))
            {
                string link = resolver.ResolveForCreate(user.UserName);
                Equal((await Rows(client.CreateDocumentQuery<UserProfile>(link, new FeedOptions { EnableCrossPartitionQuery = true }).Where(u => u.UserName == user.UserName))).Single().id, user.id);
            }
        });

        var everywhere = new FeedOptions { EnableCrossPartitionQuery = true };
        await tests.Run("S161 S163 a query with a key asks its collection", async () =>
        {
            object key = resolver.GetPartitionKey(users[7]);
            Equal(resolver.ResolveForRead(key).Count(), 1);
            var found = client.CreateDocumentQuery<UserProfile>(database.SelfLink, everywhere, key).Where(u => u.UserName == "@user7");
            Equal((await Rows(found)).Select(u => u.id), ["U7"]);
        });

        await tests.Run("S155 S162 a query without a key asks every collection", async () =>
        {
            var found = client.CreateDocumentQuery<UserProfile>(database.SelfLink, everywhere).Where(u => u.Status == Status.Available);
            Equal((await Rows(found)).Select(u => u.Joined).Order(), Enumerable.Range(0, 30).Select(i => 2 * i));
        });

        await tests.Run("S157 a document that was read is replaced and deleted by its own link", async () =>
        {
            Document read = client.CreateDocumentQuery<Document>(database.SelfLink, "SELECT * FROM c WHERE c.UserName = '@user5'", everywhere).AsEnumerable().Single();
            var key = new RequestOptions { PartitionKey = new PartitionKey("U5") };
            read.SetPropertyValue("Joined", 500);
            await client.ReplaceDocumentAsync(read, key);
            Equal(((Document)await client.ReadDocumentAsync(read.SelfLink, key)).GetPropertyValue<int>("Joined"), 500);
            await client.DeleteDocumentAsync(read.SelfLink, key);
            Equal((await Count(client, collections)).Sum(), users.Count - 1);
        });
    }

    static async Task Range(Tests tests, Database database, List<DocumentCollection> collections)
    {
        DocumentClient client = tests.Client;
        foreach (DocumentCollection collection in collections)
        {
            foreach (UserProfile user in await Rows(client.CreateDocumentQuery<UserProfile>(collection.SelfLink, new FeedOptions { EnableCrossPartitionQuery = true })))
                await client.DeleteDocumentAsync($"{collection.AltLink}/docs/{user.id}", new RequestOptions { PartitionKey = new PartitionKey(user.id) });
        }
        var resolver = new RangePartitionResolver<int>(u => ((UserProfile)u).Joined, new Dictionary<Range<int>, string>
        {
            [new(0, 9)] = collections[0].SelfLink,
            [new(10, 19)] = collections[1].SelfLink,
            [new(20)] = collections[2].SelfLink, // one value
        });
        client.PartitionResolvers[database.SelfLink] = resolver;
        var everywhere = new FeedOptions { EnableCrossPartitionQuery = true };

        await tests.Run("S171 S172 S173 documents go to the collection of their range", async () =>
        {
            for (int i = 0; i <= 20; i++) await client.CreateDocumentAsync(database.SelfLink, new UserProfile { id = $"R{i}", Joined = i });
            Equal(await Count(client, collections), [10, 10, 1]);
        });

        await tests.Run("S174 a query of a range asks the collections that it meets", async () =>
        {
            Equal(resolver.ResolveForRead(new Range<int>(5, 12)), [collections[0].SelfLink, collections[1].SelfLink]);
            var found = client.CreateDocumentQuery<UserProfile>(database.SelfLink, everywhere, new Range<int>(5, 12)).Where(u => u.Joined >= 5 && u.Joined <= 12);
            Equal((await Rows(found)).Select(u => u.Joined).Order(), Enumerable.Range(5, 8));
        });

        await tests.Run("S177 a value in no range is an error for a create", async () =>
        {
            try
            {
                await client.CreateDocumentAsync(database.SelfLink, new UserProfile { id = "none", Joined = 99 });
            }
            catch (InvalidOperationException)
            {
                return;
            }
            Check(false, "created");
        });
        client.PartitionResolvers.Remove(database.SelfLink);
    }
}
