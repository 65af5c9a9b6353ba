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
import com.azure.cosmos.CosmosDiagnostics;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.GatewayConnectionConfig;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Session tokens, consistency levels, and how a client connects. */
final class Sessions {
  private static final Pattern TOKEN = Pattern.compile("(\\d+):(-1#)(\\d+)");
  private static final PartitionKey KEY = new PartitionKey("p");

  private final String endpoint;
  private final CosmosDatabase database;
  private final CosmosContainer container;

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "sessions", (tests, database) -> {
      Sessions sessions = new Sessions(endpoint, database);
      tests.run("a client reads what another wrote, by its token", sessions::handedOver);
      tests.run("a client reads its own writes after pages of several partitions", sessions::afterPages);
      tests.run("a token from the future is not served", sessions::future);
      tests.run("levels", sessions::levels);
      tests.run("direct mode, the default, reaches the replicas of the partitions", sessions::direct);
    });
  }

  private Sessions(String endpoint, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.database = database;
    container = Cosmos.create(database, new CosmosContainerProperties("c", "/pk"), 4);
  }

  private void handedOver() {
    long last = 0;
    for (int i = 0; i < 5; i++) {
      String token = container.upsertItem(object("id", "x", "pk", "p", "n", i)).getSessionToken();
      check(lsn(token) > last, "tokens rise: " + token + " after " + last);
      last = lsn(token);
      int n = i;
      as(ConsistencyLevel.SESSION, other -> equal(other.readItem("x", KEY,
          new CosmosItemRequestOptions().setSessionToken(token), JsonNode.class).getItem().get("n").asInt(), n));
    }
  }

  private void direct() {
    try (CosmosClient direct = new CosmosClientBuilder().endpoint(endpoint).key(Cosmos.KEY).buildClient()) {
      direct.getDatabase(database.getId()).createContainer("direct", "/pk");
      CosmosContainer made = direct.getDatabase(database.getId()).getContainer("direct");
      overRntbd(direct.getDatabase(database.getId()).read().getDiagnostics());
      overRntbd(made.createItem(object("id", "1", "pk", "a")).getDiagnostics());
      overRntbd(made.readItem("1", new PartitionKey("a"), JsonNode.class).getDiagnostics());
      overRntbd(made.upsertItem(object("id", "1", "pk", "a", "n", 1)).getDiagnostics());
      overRntbd(made.replaceItem(object("id", "1", "pk", "a", "n", 2), "1", new PartitionKey("a"), new CosmosItemRequestOptions()).getDiagnostics());
      overRntbd(made.patchItem("1", new PartitionKey("a"), CosmosPatchOperations.create().increment("/n", 1), JsonNode.class).getDiagnostics());
      overRntbd(refused(404, () -> made.readItem("2", new PartitionKey("a"), JsonNode.class)).getDiagnostics());
      overRntbd(made.deleteItem("1", new PartitionKey("a"), new CosmosItemRequestOptions()).getDiagnostics());
    }
  }

  private static void overRntbd(CosmosDiagnostics diagnostics) {
    check(diagnostics.toString().contains("\"storePhysicalAddress\":\"rntbd://"), diagnostics.toString());
  }

  /** F2: this SDK reads one token, not a list. */
  private void afterPages() {
    as(ConsistencyLevel.SESSION, own -> {
      for (int n = 0; n < 3; n++) {
        for (int key = 0; key < 12; key++) {
          own.upsertItem(object("id", "mine", "pk", "m" + key, "n", n));
          String text = "SELECT * FROM c WHERE c.id = 'mine' AND c.n = " + n;
          own.queryItems(text, new CosmosQueryRequestOptions(), JsonNode.class).iterableByPage()
              .forEach(page -> check(!page.getSessionToken().contains(","), "one token: " + page.getSessionToken()));
          equal(Cosmos.rows(own, text).size(), key + 1);
          equal(own.readItem("mine", new PartitionKey("m" + key), JsonNode.class).getItem().get("n").asInt(), n);
        }
      }
    });
  }

  private void future() {
    String token = container.upsertItem(object("id", "x", "pk", "p")).getSessionToken();
    Matcher parts = TOKEN.matcher(token);
    check(parts.matches(), token);
    String ahead = parts.group(1) + ":" + parts.group(2) + (lsn(token) + 1000);
    as(ConsistencyLevel.SESSION, other -> {
      try {
        other.readItem("x", KEY, new CosmosItemRequestOptions().setSessionToken(ahead), JsonNode.class);
        throw new AssertionError("served");
      } catch (CosmosException refusal) {
        equal(refusal.getStatusCode(), 404);
        equal(refusal.getSubStatusCode(), 1002);
      }
    });
  }

  private void levels() {
    container.upsertItem(object("id", "x", "pk", "p"));
    for (ConsistencyLevel level : new ConsistencyLevel[] {ConsistencyLevel.EVENTUAL, ConsistencyLevel.CONSISTENT_PREFIX, ConsistencyLevel.SESSION})
      as(level, other -> equal(other.readItem("x", KEY, JsonNode.class).getStatusCode(), 200));
    as(ConsistencyLevel.STRONG, other -> refused(400, () -> other.readItem("x", KEY, JsonNode.class)));
    as(ConsistencyLevel.SESSION, other -> equal(other.readItem("x", KEY,
        new CosmosItemRequestOptions().setConsistencyLevel(ConsistencyLevel.EVENTUAL), JsonNode.class).getStatusCode(), 200));
    String byName = endpoint.replace("127.0.0.1", "localhost"); // which the SDK wants, to put a region into
    try (CosmosClient far = Cosmos.builder(byName).key(Cosmos.KEY).preferredRegions(List.of("West US")).multipleWriteRegionsEnabled(true)
        .gatewayMode(new GatewayConnectionConfig().setMaxConnectionPoolSize(10)).connectionSharingAcrossClientsEnabled(true).buildClient()) {
      CosmosContainer other = far.getDatabase(database.getId()).getContainer(container.getId());
      equal(other.readItem("x", KEY, JsonNode.class).getStatusCode(), 200, "a region that the account has not");
      equal(other.upsertItem(object("id", "x", "pk", "p")).getStatusCode(), 200);
    }
  }

  private static long lsn(String token) {
    return Long.parseLong(token.substring(token.lastIndexOf('#') + 1));
  }

  /** Calls with the container of a new client with that level. */
  private void as(ConsistencyLevel level, Consumer<CosmosContainer> work) {
    try (CosmosClient client = Cosmos.builder(endpoint).key(Cosmos.KEY).consistencyLevel(level).buildClient()) {
      work.accept(client.getDatabase(database.getId()).getContainer(container.getId()));
    }
  }
}
