using System.Collections.Concurrent;

namespace Compat;

// Trouble makes trouble for an application: kinds of operation run all the time, each in a
// task of its own, while connections end or the server starts again. The supervisor of the
// server is at DECAN_SUPERVISOR (../go/supervisor); DECAN_ROUNDS says how often each
// happens. A part of both projects, v2 and v3.
sealed class Trouble
{
    static readonly HttpClient http = new();

    public readonly int Rounds = Number("DECAN_ROUNDS", 2);
    readonly ConcurrentDictionary<string, int> done = new();     // operations by kind
    readonly ConcurrentDictionary<string, int> unknown = new();  // writes without an outcome, by status
    volatile bool stop;

    // Number returns the number in a variable of the environment.
    public static int Number(string name, int otherwise) => int.TryParse(Environment.GetEnvironmentVariable(name), out int n) ? n : otherwise;

    // Unknown counts a write whose outcome the application does not know.
    public void Unknown(string status) => unknown.AddOrUpdate(status, 1, (_, count) => count + 1);

    // Run runs all kinds of operation until the trouble has been made. Exceptions for which
    // lost returns true are those of an endpoint that is away.
    public async Task Run(Dictionary<string, Func<Task>> kinds, Func<Task> trouble, Func<Exception, bool> lost = null)
    {
        stop = false;
        foreach (string kind in kinds.Keys) done.TryAdd(kind, 0);
        Task[] running = [.. kinds.Select(kind => Task.Run(async () =>
        {
            while (!stop)
            {
                try
                {
                    await kind.Value();
                }
                catch (Exception e) when (lost != null && lost(e))
                {
                    Unknown("no answer of the endpoint");
                    continue;
                }
                catch (Exception e)
                {
                    stop = true;
                    throw new Exception(kind.Key, e);
                }
                done.AddOrUpdate(kind.Key, 1, (_, count) => count + 1);
            }
        }))];
        try
        {
            await trouble();
        }
        finally
        {
            stop = true;
            await Task.WhenAll(running);
        }
    }

    // Repeat asks the supervisor for a kind of trouble, between operations of all kinds.
    public async Task Repeat(string kind)
    {
        for (int i = 0; i < Rounds; i++)
        {
            await Progress(1);
            using HttpResponseMessage answer = await http.PostAsync(Environment.GetEnvironmentVariable("DECAN_SUPERVISOR") + kind, null);
            Tests.Check(answer.IsSuccessStatusCode, await answer.Content.ReadAsStringAsync());
        }
        await Progress(2);
    }

    // Progress waits until each kind of operation was done n times more.
    public async Task Progress(int n)
    {
        var before = done.ToDictionary();
        for (int waited = 0; !before.All(count => done[count.Key] >= count.Value + n); waited++)
        {
            if (stop) return; // The task that failed tells why.
            Tests.Check(waited < 30_000, $"no progress from {Counts(before)} to {Counts(done)}");
            await Task.Delay(20);
        }
    }

    static string Counts(IDictionary<string, int> counts) => string.Join(", ", counts.OrderBy(count => count.Key).Select(count => $"{count.Key} {count.Value}"));

    public override string ToString() => $"operations: {Counts(done)}; writes without an outcome, by status: {Counts(unknown)}";
}
