// Runs queries with the .NET SDK for figures.py: each line of the input is
// {"container", "query", "key", "times"}; each answer is the number of rows of one run.
using Microsoft.Azure.Cosmos;
using Newtonsoft.Json.Linq;

using var client = new CosmosClient(args[0], args[1], new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway, LimitToEndpoint = true });
while (Console.ReadLine() is string line)
{
    JObject ask = JObject.Parse(line);
    Container container = client.GetContainer(args[2], (string)ask["container"]!);
    int rows = 0;
    for (int i = 0; i < (int)ask["times"]!; i++)
    {
        rows = 0;
        var options = new QueryRequestOptions();
        if (ask["key"]!.Type == JTokenType.String) options.PartitionKey = new PartitionKey((string)ask["key"]!);
        using var feed = container.GetItemQueryIterator<JToken>((string)ask["query"]!, requestOptions: options);
        while (feed.HasMoreResults) rows += (await feed.ReadNextAsync()).Count;
    }
    Console.WriteLine(rows);
}
