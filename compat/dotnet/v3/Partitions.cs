using Newtonsoft.Json.Linq;

namespace Compat;

// Partitions changes the physical partitions of a container through the admin port,
// which DECAN_ADMIN names.
static class Partitions
{
    static readonly HttpClient http = new();

    // Change splits the partition with most documents, or merges the first two if there are more than
    // the container began with.
    public static async Task Change(Tests tests, string container, int before)
    {
        string where = $"database={tests.Database.Id}&container={container}";
        JToken[] list = [.. (await Call(HttpMethod.Get, $"partitions?{where}"))["partitions"].OrderBy(p => (string)p["min"], StringComparer.Ordinal)];
        await Call(HttpMethod.Post, list.Length > before
            ? $"partitions/merge?{where}&partition={list[0]["id"]}&with={list[1]["id"]}"
            : $"partitions/split?{where}&partition={list.MaxBy(p => (int)p["documents"])["id"]}");
    }

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
