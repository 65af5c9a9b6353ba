package compat;

import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.ConsistencyLevel;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;

/**
 * An account of one consistency level: own writes are read at the account's level and at
 * every weaker one, by another client too, and after partitions have split; definitions
 * are read; an item that does not exist is 404 at once (S91, S95). Started by ../direct.sh.
 */
final class Levels {
  private static final List<ConsistencyLevel> STRONGEST_FIRST = List.of(ConsistencyLevel.STRONG, ConsistencyLevel.BOUNDED_STALENESS,
      ConsistencyLevel.SESSION, ConsistencyLevel.CONSISTENT_PREFIX, ConsistencyLevel.EVENTUAL);

  /** Runs the tests over the endpoint of an account with a level, and returns how many fail. */
  static int run(String endpoint, String admin, String level) {
    return Cosmos.run(endpoint, "an account with " + level, (tests, database) -> {
      Cosmos.create(database, new CosmosContainerProperties("items", "/pk"), 2);
      int account = STRONGEST_FIRST.stream().map(ConsistencyLevel::toString).toList().indexOf(level);
      for (int i = account; i < STRONGEST_FIRST.size(); i++) {
        ConsistencyLevel asked = i == account ? null : STRONGEST_FIRST.get(i);
        tests.run("own writes at " + STRONGEST_FIRST.get(i), () -> ownWrites(endpoint, admin, database, asked));
      }
    });
  }

  private static void ownWrites(String endpoint, String admin, CosmosDatabase database, ConsistencyLevel asked) {
    CosmosClientBuilder builder = Cosmos.builder(endpoint).key(Cosmos.KEY);
    if (asked != null)
      builder.consistencyLevel(asked);
    try (CosmosClient client = builder.buildClient(); CosmosClient other = Cosmos.connect(endpoint, Cosmos.KEY)) {
      CosmosContainer mine = client.getDatabase(database.getId()).getContainer("items");
      CosmosContainer theirs = other.getDatabase(database.getId()).getContainer("items");
      for (int n = 0; n < 20; n++) {
        String id = "" + n % 5;
        var made = mine.upsertItem(object("id", id, "pk", id, "n", n));
        for (CosmosContainer reader : List.of(mine, theirs)) // There is one replica.
          equal(reader.readItem(id, new PartitionKey(id), JsonNode.class).getItem().get("n").intValue(), n);
        equal(Cosmos.rows(mine, "SELECT VALUE c.n FROM c WHERE c.n = " + n).stream().map(JsonNode::intValue).toList(), List.of(n));
        if (Cosmos.DIRECT)
          check(made.getDiagnostics().toString().contains("rntbd://"), "a write did not use direct mode");
        if (n == 10 && asked == null)
          new Admin(admin, database.getId(), "items").halve();
      }
      equal(refused(404, () -> mine.readItem("none", new PartitionKey("0"), JsonNode.class)).getSubStatusCode(), 0);
      equal(client.getDatabase(database.getId()).read().getProperties().getId(), database.getId());
    }
  }

  private Levels() {}
}
