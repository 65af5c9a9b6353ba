#if !HIERARCHICAL
using System.Net;
using System.Security.Cryptography;
using System.Text;
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;
using static Compat.Tests;

namespace Compat;

// A version of the SDK that does not know hierarchical partition keys, on a container that
// has one (S92: a clear error, and no damage).
static class Unaware
{
    public static async Task Run(Tests tests)
    {
        await Post(tests, $"dbs/{tests.Database.Id}", "colls", """{"id":"sessions","partitionKey":{"paths":["/TenantId","/UserId"],"kind":"MultiHash","version":2}}""");
        await Post(tests, $"dbs/{tests.Database.Id}/colls/sessions", "docs", """{"id":"1","TenantId":"Contoso","UserId":"Alice","n":1}""");
        Container container = tests.Database.GetContainer("sessions");
        var item = Item(new { id = "2", TenantId = "Contoso", UserId = "Bob", n = 2 });
        var one = new PartitionKey("Contoso");

        foreach (var (what, call) in new (string, Func<Task>)[]
        {
            ("create", () => container.CreateItemAsync(item, one)),
            ("upsert", () => container.UpsertItemAsync(item, one)),
            ("replace", () => container.ReplaceItemAsync(item, "1", one)),
            ("patch", () => container.PatchItemAsync<JObject>("1", one, [PatchOperation.Set("/n", 9)])),
            ("delete", () => container.DeleteItemAsync<JObject>("1", one)),
            ("read", () => container.ReadItemAsync<JObject>("1", one)),
        })
        {
            await tests.Run($"{what} with the first level alone is refused", async () =>
            {
                try
                {
                    await call();
                }
                catch (ArgumentException e) // what the SDK reports for 400/1001 of a write
                {
                    Check(e.Message.Contains("PartitionKey value must be supplied"), e.Message);
                    return;
                }
                catch (CosmosException e)
                {
                    Check(e.StatusCode == HttpStatusCode.BadRequest && e.Message.Contains("partition key"), e.Message);
                    return;
                }
                Check(false, "accepted");
            });
        }

        await tests.Run("queries over partitions return every item", async () =>
            Equal((await Rows<JObject>(container, "SELECT * FROM c")).Select(row => (string)row["id"]), ["1"]));

        await tests.Run("a replace of the container as it was read keeps its key", async () =>
        {
            ContainerProperties properties = await container.ReadContainerAsync();
            properties.DefaultTimeToLive = -1;
            await container.ReplaceContainerAsync(properties);
            using ResponseMessage read = await container.ReadContainerStreamAsync();
            JToken key = JObject.Parse(new StreamReader(read.Content).ReadToEnd())["partitionKey"];
            Equal(key["paths"].Values<string>(), ["/TenantId", "/UserId"]);
            Equal((string)key["kind"], "MultiHash");
        });

        await tests.Run("the key that the SDK takes from an item is whole", async () =>
        {
            await container.CreateItemAsync(item);
            Equal(await Get(tests, $"dbs/{tests.Database.Id}/colls/sessions", "docs", "2", """["Contoso","Bob"]"""), HttpStatusCode.OK);
            Equal(await Get(tests, $"dbs/{tests.Database.Id}/colls/sessions", "docs", "2", """["Contoso","Alice"]"""), HttpStatusCode.NotFound);
        });

        await tests.Run("nothing else has changed", async () =>
        {
            var rows = await Rows<JObject>(container, "SELECT c.id, c.n FROM c ORDER BY c.id");
            Equal(rows.Select(row => row.ToString(Newtonsoft.Json.Formatting.None)), ["""{"id":"1","n":1}""", """{"id":"2","n":2}"""]);
        });
    }

    // Post and Get send signed requests, like an application with a newer SDK.
    static async Task Post(Tests tests, string parent, string kind, string body)
    {
        using HttpResponseMessage response = await Send(tests, HttpMethod.Post, $"{parent}/{kind}", kind, parent, new StringContent(body, Encoding.UTF8, "application/json"));
        Check(response.IsSuccessStatusCode, await response.Content.ReadAsStringAsync());
    }

    static async Task<HttpStatusCode> Get(Tests tests, string parent, string kind, string id, string key)
    {
        string link = $"{parent}/{kind}/{id}";
        using HttpResponseMessage response = await Send(tests, HttpMethod.Get, link, kind, link, null, key);
        return response.StatusCode;
    }

    static async Task<HttpResponseMessage> Send(Tests tests, HttpMethod method, string path, string kind, string link, HttpContent body, string key = null)
    {
        string date = DateTime.UtcNow.ToString("r");
        string text = $"{method.Method.ToLowerInvariant()}\n{kind}\n{link}\n{date.ToLowerInvariant()}\n\n";
        byte[] signature = HMACSHA256.HashData(Convert.FromBase64String(Key), Encoding.UTF8.GetBytes(text));
        using var http = new HttpClient();
        using var request = new HttpRequestMessage(method, new Uri(new Uri(tests.Endpoint), path)) { Content = body };
        request.Headers.TryAddWithoutValidation("Authorization", Uri.EscapeDataString($"type=master&ver=1.0&sig={Convert.ToBase64String(signature)}"));
        request.Headers.Add("x-ms-date", date);
        request.Headers.Add("x-ms-version", "2020-07-15");
        if (key != null) request.Headers.Add("x-ms-documentdb-partitionkey", key);
        return await http.SendAsync(request);
    }
}
#endif
