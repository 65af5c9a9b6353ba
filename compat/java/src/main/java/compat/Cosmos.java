package compat;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.BiConsumer;

/** Shared by the tests: clients, databases, containers, keys, items and rows. */
final class Cosmos {
  static final String KEY =
      "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
  static final ObjectMapper JSON = new ObjectMapper();
  private static final int RUS_OF_A_PARTITION = 6_000; // the server makes one for as many

  /** Runs the tests that the callback adds, in a new database, and returns how many fail. */
  static int run(String endpoint, String title, BiConsumer<Tests, CosmosDatabase> add) {
    try (CosmosClient client = connect(endpoint, KEY)) {
      String name = "compat-java-" + UUID.randomUUID();
      client.createDatabase(name);
      Tests tests = new Tests(title + " over " + endpoint + (DIRECT ? " in direct mode" : ""));
      try {
        add.accept(tests, client.getDatabase(name));
      } finally {
        client.getDatabase(name).delete();
      }
      return tests.failed();
    }
  }

  static CosmosClient connect(String endpoint, String key) {
    return builder(endpoint).key(key).buildClient();
  }

  /** Whether clients use direct mode, as they do unless they are told otherwise. */
  static final boolean DIRECT = Boolean.getBoolean("compat.direct");

  static CosmosClientBuilder builder(String endpoint) {
    CosmosClientBuilder builder = new CosmosClientBuilder().endpoint(endpoint).contentResponseOnWriteEnabled(true);
    return DIRECT ? builder : builder.gatewayMode();
  }

  /** Creates a container with a number of physical partitions. */
  static CosmosContainer create(CosmosDatabase database, CosmosContainerProperties properties, int partitions) {
    database.createContainer(properties, ThroughputProperties.createManualThroughput(partitions * RUS_OF_A_PARTITION));
    return database.getContainer(properties.getId());
  }

  /** Describes a container with a hierarchical partition key. */
  static CosmosContainerProperties hierarchical(String id, List<String> paths) {
    return new CosmosContainerProperties(id, new PartitionKeyDefinition().setPaths(paths)
        .setKind(PartitionKind.MULTI_HASH).setVersion(PartitionKeyDefinitionVersion.V2));
  }

  /** Returns the key, or the prefix of one, with these values. */
  static PartitionKey key(Object... values) {
    PartitionKeyBuilder builder = new PartitionKeyBuilder();
    for (Object value : values) {
      if (value == null)
        builder.addNullValue();
      else if (value instanceof Boolean flag)
        builder.add(flag);
      else if (value instanceof Number number)
        builder.add(number.doubleValue());
      else
        builder.add((String) value);
    }
    return builder.build();
  }

  /** Returns an object of names and values in turn. */
  static ObjectNode object(Object... members) {
    ObjectNode object = JSON.createObjectNode();
    for (int i = 0; i < members.length; i += 2)
      object.set((String) members[i], JSON.valueToTree(members[i + 1]));
    return object;
  }

  /** Parses JSON with apostrophes instead of quotes. */
  static JsonNode json(String text) {
    try {
      return JSON.readTree(text.replace('\'', '"'));
    } catch (IOException wrong) {
      throw new IllegalArgumentException(wrong);
    }
  }

  /** Returns the rows of a query in pages of that size. */
  static List<JsonNode> rows(CosmosContainer container, int size, CosmosQueryRequestOptions options, SqlQuerySpec query) {
    List<JsonNode> found = new ArrayList<>();
    for (FeedResponse<JsonNode> page : container.queryItems(query, options, JsonNode.class).iterableByPage(size))
      found.addAll(page.getResults());
    return found;
  }

  static List<JsonNode> rows(CosmosContainer container, String query) {
    return rows(container, 100, new CosmosQueryRequestOptions(), new SqlQuerySpec(query));
  }

  /** Returns the texts that a query of one partition key yields, in their order. */
  static List<String> texts(CosmosContainer container, PartitionKey key, String query) {
    return rows(container, 100, new CosmosQueryRequestOptions().setPartitionKey(key), new SqlQuerySpec(query))
        .stream().map(JsonNode::asText).toList();
  }

  private Cosmos() {}
}
