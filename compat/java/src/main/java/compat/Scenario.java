package compat;

import static compat.Cosmos.KEY;
import static compat.Cosmos.connect;
import static compat.Cosmos.hierarchical;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Cosmos.rows;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.regex.Pattern;

/**
 * The work of a first user with the Java SDK in gateway mode: a container with
 * three levels of partition key, items, point reads, and the routing table of
 * the documentation (S77: with no cloud; S91, S95: the oldest SDK that knows
 * hierarchical keys and the newest).
 */
final class Scenario {
  private static final int PARTITIONS = 8;
  private static final List<String> LEVELS = List.of("/TenantId", "/UserId", "/SessionId");

  private final String endpoint;
  private final CosmosDatabase database;
  private final CosmosContainer container;
  private final List<ObjectNode> sessions = new ArrayList<>();

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "scenario", (tests, database) -> new Scenario(endpoint, database).run(tests));
  }

  private Scenario(String endpoint, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.database = database;
    container = create("sessions", LEVELS);
    for (String tenant : List.of("Microsoft", "Contoso", "Fabrikam"))
      for (String user : List.of("u0", "u1", "u2", "u3"))
        for (String session : List.of("s0", "s1"))
          sessions.add(object("id", UUID.randomUUID().toString(), "TenantId", tenant, "UserId", user,
              "SessionId", session).put("n", sessions.size()));
    for (ObjectNode item : sessions)
      container.createItem(item); // S81: the SDK takes the key from the item
  }

  private void run(Tests tests) {
    tests.run("S1 the ranges tile the key space", this::ranges);
    tests.run("S69 S70 S71 the definition is kept and the second create finds it", this::definition);
    tests.run("S2 S3 four levels are refused", this::levels);
    tests.run("S88 S89 S90 point reads need the whole key", this::pointReads);
    tests.run("S83 S85 a key by hand has to be the item's", this::keyByHand);
    tests.run("S47 to S58 routing", this::routing);
    tests.run("a prefix as a request option is enforced by the server", this::prefix);
    tests.run("pages of every size give the same rows", this::pages);
    tests.run("S53 S54 a key of two levels", this::twoLevels);
    tests.run("S55 the same program runs on a container with one level", this::oneLevel);
    tests.run("S60 the item id as the last level", this::idAsLevel);
    tests.run("etags guard writes", this::etags);
    tests.run("S85 S99 what a key fixes cannot change", this::fixed);
    tests.run("keys of every type are told apart", this::types);
    tests.run("a wrong key is refused", this::wrongKey);
  }

  private void ranges() {
    Tests.equal(container.getFeedRanges().size(), PARTITIONS);
  }

  private void definition() {
    var again = database.createContainerIfNotExists(hierarchical("sessions", LEVELS));
    Tests.equal(again.getStatusCode(), 200);
    PartitionKeyDefinition got = again.getProperties().getPartitionKeyDefinition();
    Tests.equal(got.getPaths(), LEVELS);
    Tests.equal(got.getKind(), PartitionKind.MULTI_HASH);
    Tests.equal(got.getVersion(), PartitionKeyDefinitionVersion.V2);
    Tests.equal(container.readThroughput().getProperties().getManualThroughput(), PARTITIONS * 6_000);
  }

  private void levels() {
    List<String> paths = List.of("/a", "/b", "/c", "/d");
    Tests.refused(400, () -> create("four", paths));
    for (int levels = 1; levels <= 3; levels++)
      Tests.equal(create("levels" + levels, paths.subList(0, levels)).read().getProperties()
          .getPartitionKeyDefinition().getPaths(), paths.subList(0, levels));
  }

  private void pointReads() {
    ObjectNode want = sessions.get(5);
    String id = text(want, "id");
    var found = container.readItem(id, keyOf(want), JsonNode.class);
    Tests.equal(found.getItem().get("n").asInt(), 5);
    Tests.equal(found.getRequestCharge(), 1.0);
    Tests.refused(404, () -> container.readItem(id, key(text(want, "TenantId"), text(want, "UserId"), "elsewhere"), JsonNode.class));
    Tests.refused(400, () -> container.readItem(id, key(text(want, "TenantId"), text(want, "UserId")), JsonNode.class));
    ObjectNode other = want.deepCopy().put("SessionId", "another");
    container.createItem(other); // the same id lives under another key
    container.deleteItem(id, keyOf(other), null);
  }

  private void keyByHand() {
    ObjectNode item = sessions.get(2).deepCopy();
    Tests.equal(container.upsertItem(item, keyOf(item), null).getStatusCode(), 200);
    Tests.refused(400, () -> container.upsertItem(item, keyOf(sessions.get(1)), null));
  }

  private void routing() {
    SqlParameter tenant = new SqlParameter("@tenant-id", "Contoso");
    SqlParameter user = new SqlParameter("@user-id", "u1");
    SqlParameter session = new SqlParameter("@session-id", "s1");
    routed(container, 1, 1, "SELECT * FROM c WHERE c.TenantId = @tenant-id AND c.UserId = @user-id AND c.SessionId = @session-id", tenant, user, session);
    routed(container, 8, 1, "SELECT * FROM c WHERE c.TenantId = @tenant-id", tenant);
    routed(container, 2, 1, "SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'");
    routed(container, 8, 1, "SELECT * FROM c WHERE 'Contoso' = c.TenantId");
    routed(container, 4, 1, "SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.SessionId = 's1'");
    routed(container, 6, PARTITIONS, "SELECT * FROM c WHERE c.UserId = 'u1'");
    routed(container, 12, PARTITIONS, "SELECT * FROM c WHERE c.SessionId = 's1'");
    routed(container, 3, PARTITIONS, "SELECT * FROM c WHERE c.UserId = 'u1' AND c.SessionId = 's1'");
  }

  private void prefix() {
    for (var key : List.of(List.of("Contoso"), List.of("Contoso", "u1"), List.of("Contoso", "u1", "s0"))) {
      CosmosQueryRequestOptions options = new CosmosQueryRequestOptions().setPartitionKey(key(key.toArray()));
      Tests.equal(rows(container, 100, options, new SqlQuerySpec("SELECT * FROM c")).size(), List.of(8, 2, 1).get(key.size() - 1));
    }
  }

  private void pages() {
    List<Integer> ascending = sessions.stream().map(item -> item.get("n").asInt()).toList();
    List<Integer> descending = new ArrayList<>(ascending);
    Collections.reverse(descending);
    for (int size : List.of(1, 7, 1000)) {
      Tests.equal(numbers(size, "SELECT * FROM c ORDER BY c.n"), ascending);
      Tests.equal(numbers(size, "SELECT * FROM c ORDER BY c.n DESC"), descending);
      Tests.equal(new TreeSet<>(numbers(size, "SELECT * FROM c")), new TreeSet<>(ascending));
      Tests.equal(numbers(size, "SELECT TOP 5 * FROM c ORDER BY c.n"), ascending.subList(0, 5));
      Tests.equal(numbers(size, "SELECT * FROM c ORDER BY c.n OFFSET 3 LIMIT 4"), ascending.subList(3, 7));
    }
  }

  private void twoLevels() {
    CosmosContainer two = filled("two", LEVELS.subList(0, 2));
    routed(two, 6, PARTITIONS, "SELECT * FROM c WHERE c.UserId = 'u1'");
    routed(two, 8, 1, "SELECT * FROM c WHERE c.TenantId = 'Contoso'");
    routed(two, 2, 1, "SELECT * FROM c WHERE c.TenantId = 'Contoso' AND c.UserId = 'u1'");
  }

  private void oneLevel() {
    PartitionKeyDefinition single = new PartitionKeyDefinition().setPaths(List.of("/TenantId"));
    database.createContainer(new CosmosContainerProperties("one", single));
    CosmosContainer one = database.getContainer("one");
    for (ObjectNode item : sessions)
      one.upsertItem(item);
    SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM c WHERE c.TenantId = @tenant ORDER BY c.n",
        new SqlParameter("@tenant", "Fabrikam"));
    List<Integer> want = sessions.subList(16, 24).stream().map(item -> item.get("n").asInt()).toList();
    for (CosmosContainer each : List.of(one, container))
      Tests.equal(rows(each, 100, new CosmosQueryRequestOptions(), query).stream().map(row -> row.get("n").asInt()).toList(), want);
  }

  private void idAsLevel() {
    CosmosContainer byId = filled("by-id", List.of("/TenantId", "/UserId", "/id"));
    ObjectNode want = sessions.get(9);
    PartitionKey key = key(text(want, "TenantId"), text(want, "UserId"), text(want, "id"));
    Tests.equal(byId.readItem(text(want, "id"), key, JsonNode.class).getItem().get("n").asInt(), 9);
    routed(byId, 8, 1, "SELECT * FROM c WHERE c.TenantId = 'Contoso'");
  }

  private void etags() {
    ObjectNode item = sessions.get(0);
    String id = text(item, "id");
    String etag = container.readItem(id, keyOf(item), JsonNode.class).getETag();
    CosmosItemRequestOptions guard = new CosmosItemRequestOptions().setIfMatchETag(etag);
    String changed = container.replaceItem(item, id, keyOf(item), guard).getETag();
    Tests.check(!changed.equals(etag), "the etag changes");
    Tests.refused(412, () -> container.replaceItem(item, id, keyOf(item), guard));
    Tests.refused(409, () -> container.createItem(item));
  }

  private void fixed() {
    ObjectNode item = sessions.get(1);
    Tests.refused(400, () -> container.replaceItem(item.deepCopy().put("UserId", "someone else"), text(item, "id"), keyOf(item), null));
    CosmosContainerProperties changed = container.read().getProperties();
    changed.getPartitionKeyDefinition().setPaths(List.of("/UserId", "/TenantId", "/SessionId"));
    Tests.refused(400, () -> container.replace(changed));
  }

  private void types() {
    CosmosContainer types = create("types", List.of("/a", "/b"));
    List<Object> values = Arrays.asList("1", 1, true, false, null, "", "\uD83D\uDE00 å", 1.5, -1);
    for (Object value : values) {
      ObjectNode item = object("id", "x", "b", "k", "mark", mark(value));
      item.set("a", Cosmos.JSON.valueToTree(value));
      types.createItem(item);
    }
    for (Object value : values)
      if (buildable(value))
        Tests.equal(types.readItem("x", key(value, "k"), JsonNode.class).getItem().get("mark").asText(), mark(value));
  }

  private void wrongKey() {
    // The builder requests the account; 4.42.0 does not report the status of a
    // failure.
    try {
      connect(endpoint, KEY.replace('C', 'D')).close();
    } catch (RuntimeException refusal) {
      Tests.check(refusal.getMessage().startsWith("Client initialization failed"), refusal.getMessage());
      if (refusal.getCause() instanceof CosmosException cause)
        Tests.equal(cause.getStatusCode(), 401);
      return;
    }
    throw new AssertionError("a client was created");
  }

  /** Runs a query over all partitions and checks its rows and how many physical partitions it visits. */
  private static void routed(CosmosContainer container, int want, int visited, String text, SqlParameter... parameters) {
    Set<String> seen = new HashSet<>();
    int rows = 0;
    for (FeedResponse<JsonNode> page : container.queryItems(new SqlQuerySpec(text, parameters), new CosmosQueryRequestOptions(), JsonNode.class).iterableByPage(3)) {
      rows += page.getResults().size();
      var matcher = RANGE.matcher(page.getCosmosDiagnostics().toString());
      while (matcher.find())
        seen.add(matcher.group(1));
    }
    Tests.equal(rows, want, text);
    if (visited > 1 && Tests.SDK.equals("4.42.0")) // which does not report partitions without rows
      Tests.check(seen.size() > 1, "one partition for " + text);
    else
      Tests.equal(seen.size(), visited, "partitions of " + text);
  }

  private static final Pattern RANGE = Pattern.compile("\"partitionKeyRangeId\":\"(\\d+)\"");

  private List<Integer> numbers(int size, String text) {
    return rows(container, size, new CosmosQueryRequestOptions(), new SqlQuerySpec(text)).stream().map(row -> row.get("n").asInt()).toList();
  }

  private CosmosContainer filled(String name, List<String> paths) {
    CosmosContainer made = create(name, paths);
    for (ObjectNode item : sessions)
      made.createItem(item);
    return made;
  }

  private CosmosContainer create(String name, List<String> paths) {
    return Cosmos.create(database, hierarchical(name, paths), PARTITIONS);
  }

  private static PartitionKey keyOf(ObjectNode item) {
    return key(text(item, "TenantId"), text(item, "UserId"), text(item, "SessionId"));
  }

  /** Reports whether the builder accepts the value: that of 4.42.0 fails for all values except strings. */
  private static boolean buildable(Object value) {
    try {
      key(value, "k");
      return true;
    } catch (ClassCastException limit) {
      Tests.check(!(value instanceof String), "a key of strings cannot be built");
      return false;
    }
  }

  private static String mark(Object value) {
    return value + (value == null ? "" : value.getClass().getSimpleName());
  }

  private static String text(ObjectNode item, String name) {
    return item.get(name).asText();
  }
}
