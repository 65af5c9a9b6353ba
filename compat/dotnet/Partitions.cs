using System.Text.RegularExpressions;
using Newtonsoft.Json.Linq;

namespace Compat;

// Partitions changes the physical partitions of a container through the admin port,
// which DECAN_ADMIN names. A part of both projects, v2 and v3.
static class Partitions
{
    static readonly HttpClient http = new();

    // Change splits all partitions in the middle of their ranges, or merges them in pairs
    // if there are more than the container began with.
    public static async Task Change(string database, string container, int before)
    {
        string where = $"database={database}&container={container}";
        JToken[] list = [.. (await Call(HttpMethod.Get, $"partitions?{where}"))["partitions"].OrderBy(p => (string)p["min"], StringComparer.Ordinal)];
        if (list.Length > before)
        {
            for (int i = 0; i + 1 < list.Length; i += 2)
                await Call(HttpMethod.Post, $"partitions/merge?{where}&partition={list[i]["id"]}&with={list[i + 1]["id"]}");
            return;
        }
        foreach (JToken one in list) await Halve(where, one);
    }

    // Split splits the partition with the widest range in the middle.
    public static async Task Split(string database, string container)
    {
        string where = $"database={database}&container={container}";
        await Halve(where, (await Call(HttpMethod.Get, $"partitions?{where}"))["partitions"].MaxBy(p => Hash(p["max"]) - Hash(p["min"])));
    }

    static Task Halve(string where, JToken one)
    {
        long middle = (Hash(one["min"]) + Hash(one["max"])) / 2;
        return Call(HttpMethod.Post, $"partitions/split?{where}&partition={one["id"]}&at={Regex.Replace($"{middle:X16}", "(00)+$", "")}");
    }

    // Hash returns the first eight bytes of a bound. Hashed keys are below 40.
    static long Hash(JToken bound) => Convert.ToInt64(((string)bound == "FF" ? "40" : (string)bound).PadRight(16, '0')[..16], 16);

    static async Task<JToken> Call(HttpMethod method, string path)
    {
        string admin = Environment.GetEnvironmentVariable("DECAN_ADMIN") ?? throw new Exception("DECAN_ADMIN is not set: run compat/run.sh");
        using var request = new HttpRequestMessage(method, admin + path);
        request.Headers.Add("x-decan-key", Tests.Key);
        using HttpResponseMessage answer = await http.SendAsync(request);
        string text = await answer.Content.ReadAsStringAsync();
        Tests.Check(answer.IsSuccessStatusCode, $"{path}: {text}");
        return JToken.Parse(text);
    }
}
