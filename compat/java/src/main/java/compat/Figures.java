package compat;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Runs queries for compat/figures/figures.py: each line of the input is
 * {"container", "query", "key", "times"}; each answer is the number of rows of one run.
 */
final class Figures {
  static int run(String endpoint, String key, String database) throws IOException {
    try (CosmosClient client = Cosmos.connect(endpoint, key);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        JsonNode ask = Cosmos.JSON.readTree(line);
        CosmosContainer container = client.getDatabase(database).getContainer(ask.get("container").textValue());
        CosmosQueryRequestOptions options = new CosmosQueryRequestOptions();
        if (!ask.get("key").isNull())
          options.setPartitionKey(new PartitionKey(ask.get("key").textValue()));
        long rows = 0;
        for (int i = 0; i < ask.get("times").intValue(); i++)
          rows = container.queryItems(ask.get("query").textValue(), options, JsonNode.class).stream().count();
        System.out.println(rows);
      }
    }
    return 0;
  }

  private Figures() {}
}
