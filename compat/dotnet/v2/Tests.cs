using System.Net;
using System.Runtime.CompilerServices;
using Microsoft.Azure.Documents;
using Microsoft.Azure.Documents.Client;
using Microsoft.Azure.Documents.Linq;
using Newtonsoft.Json;

namespace Compat;

// Tests runs tests, reports each one that fails, and counts them.
sealed class Tests
{
    public const string Key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
    public const int PartitionRUs = 6000; // the server makes a physical partition for as many

    public static readonly string SDK = typeof(DocumentClient).Assembly.GetName().Version!.ToString(3);

    public readonly string Endpoint;
    public readonly DocumentClient Client;
    public int Passed, Failed;

    public Tests(string endpoint)
    {
        Endpoint = endpoint;
        Client = Connect(Key);
    }

    // Direct is whether clients use direct mode over TCP instead of gateway mode.
    public static readonly bool Direct = Environment.GetEnvironmentVariable("DECAN_DIRECT") == "1";

    // Connect returns a client that reads at a level, by default that of the account.
    public DocumentClient Connect(string key, ConsistencyLevel? level = null) => new(new Uri(Endpoint), key, Direct
        ? new ConnectionPolicy { ConnectionMode = ConnectionMode.Direct, ConnectionProtocol = Protocol.Tcp }
        : new ConnectionPolicy { ConnectionMode = ConnectionMode.Gateway, ConnectionProtocol = Protocol.Https }, level);

    // Run runs one test. A test that throws fails.
    public async Task Run(string test, Func<Task> body)
    {
        try
        {
            await body();
            Passed++;
        }
        catch (Exception e)
        {
            Failed++;
            Console.WriteLine($"FAILED {SDK}: {test}: " + string.Join("\n  ",
                e.ToString().Split('\n').Where((line, i) => i == 0 || !line.StartsWith("---") && (!line.StartsWith("   at ") || line.Contains(".cs:line"))).Take(12)));
        }
    }

    public static void Check(bool holds, string what)
    {
        if (!holds) throw new Exception(what);
    }

    public static void Equal<T>(T got, T want, [CallerArgumentExpression(nameof(got))] string what = "")
    {
        string left = JsonConvert.SerializeObject(got), right = JsonConvert.SerializeObject(want);
        Check(left == right, $"{what} is {left}, want {right}");
    }

    public static void Equal<T>(IEnumerable<T> got, IEnumerable<T> want, [CallerArgumentExpression(nameof(got))] string what = "") =>
        Equal<List<T>>([.. got], [.. want], what);

    // Refused runs a call that has to fail with a status.
    public static async Task<DocumentClientException> Refused(HttpStatusCode status, Func<Task> call)
    {
        try
        {
            await call();
        }
        catch (DocumentClientException e)
        {
            Check(e.StatusCode == status, $"refused with {e.StatusCode}, want {status}: {e.Message}");
            return e;
        }
        throw new Exception($"not refused, want {status}");
    }

    // Rows returns all rows of a query, page by page.
    public static async Task<List<T>> Rows<T>(IQueryable<T> query)
    {
        IDocumentQuery<T> pages = query.AsDocumentQuery();
        var rows = new List<T>();
        while (pages.HasMoreResults) rows.AddRange(await pages.ExecuteNextAsync<T>());
        return rows;
    }
}
