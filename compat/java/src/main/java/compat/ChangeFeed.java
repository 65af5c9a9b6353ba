package compat;

import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * The latest-version change feed with the Java SDK: from the beginning, a time and
 * now, of the container, its ranges, a whole key and a prefix, with pages of one,
 * seven and as many as fit, compared with what the program wrote (S111).
 */
final class ChangeFeed {
  private static final int PARTITIONS = 4;
  private static final int THROUGHPUT = 24_000; // at 6,000 RU/s each: four physical partitions
  private static final int[] SIZES = {1, 7, 1000};

  private final CosmosContainer container;
  private final Map<String, ObjectNode> items = new HashMap<>();
  private int written;
  private long last; // the latest _ts

  /** A part of the container, and which items it has. */
  private record Scope(String name, FeedRange range, Predicate<JsonNode> holds) {}

  private final List<Scope> scopes = List.of(
      new Scope("the container", FeedRange.forFullRange(), item -> true),
      new Scope("a whole key", FeedRange.forLogicalPartition(new PartitionKeyBuilder().add("t1").add("u2").build()),
          item -> is(item, "TenantId", "t1") && is(item, "UserId", "u2")),
      new Scope("a prefix", FeedRange.forLogicalPartition(new PartitionKeyBuilder().add("t2").build()),
          item -> is(item, "TenantId", "t2")));

  /** What a reader found, and where the feed goes on. */
  private record Found(Map<String, Integer> items, String end) {}

  /** Runs the tests in a database of their own and returns how many fail. */
  static int run(String endpoint) {
    try (CosmosClient client = Scenario.connect(endpoint, Scenario.KEY)) {
      String name = "compat-feed-" + UUID.randomUUID();
      client.createDatabase(name);
      Tests tests = new Tests("change feed over " + endpoint);
      new ChangeFeed(client.getDatabase(name)).run(tests);
      client.getDatabase(name).delete();
      return tests.failed();
    }
  }

  private ChangeFeed(CosmosDatabase database) {
    PartitionKeyDefinition key = new PartitionKeyDefinition();
    key.setPaths(List.of("/TenantId", "/UserId"));
    key.setKind(PartitionKind.MULTI_HASH);
    key.setVersion(PartitionKeyDefinitionVersion.V2);
    database.createContainer(new CosmosContainerProperties("items", key),
        ThroughputProperties.createManualThroughput(THROUGHPUT));
    container = database.getContainer("items");
  }

  private void run(Tests tests) {
    for (int i = 0; i < 80; i++)
      change(1);
    Map<String, String> ended = new LinkedHashMap<>(); // readers that began before the second half
    for (Scope scope : scopes)
      tests.run("now, " + scope.name, () -> {
        Found found = drain(CosmosChangeFeedRequestOptions.createForProcessingFromNow(scope.range), 7);
        equal(found.items, Map.of(), "now is behind everything");
        ended.put(scope.name, found.end);
      });
    long second = last + 1; // A time counts in whole seconds and is included.
    while (Instant.now().getEpochSecond() < second)
      LockSupport.parkNanos(50_000_000);
    for (int i = 0; i < 60; i++)
      change(2);
    Predicate<JsonNode> later = item -> item.get("half").intValue() == 2;
    for (Scope scope : scopes)
      for (int size : SIZES) {
        String what = scope.name + ", pages of " + size;
        tests.run("from the beginning: " + what, () -> equal(
            drain(CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(scope.range), size).items,
            want(scope.holds)));
        tests.run("from a time: " + what, () -> equal(
            drain(CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(Instant.ofEpochSecond(second),
                scope.range), size).items,
            want(scope.holds.and(later))));
        tests.run("from now: " + what, () -> equal(
            drain(CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(ended.get(scope.name)), size).items,
            want(scope.holds.and(later))));
      }
    tests.run("the ranges together are the container", this::ranges);
    tests.run("all versions and deletes are refused where they are not kept", () -> refused(400, () -> drain(
        CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes(), 7)));
  }

  private void ranges() {
    List<FeedRange> ranges = container.getFeedRanges();
    equal(ranges.size(), PARTITIONS);
    Map<String, Integer> all = new TreeMap<>();
    for (FeedRange range : ranges)
      drain(CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range), 7).items.forEach(
          (name, n) -> check(all.put(name, n) == null, name + " is in two ranges"));
    equal(all, want(item -> true));
  }

  private void change(int half) {
    int n = written++;
    ObjectNode item = JsonNodeFactory.instance.objectNode().put("id", "id" + n * 7 % 5)
        .put("TenantId", "t" + n * 11 % 4).put("UserId", "u" + n * 5 % 3).put("n", n).put("half", half);
    PartitionKey key = new PartitionKeyBuilder().add(item.get("TenantId").textValue())
        .add(item.get("UserId").textValue()).build();
    if (n % 4 == 3 && items.remove(name(item)) != null) {
      container.deleteItem(item.get("id").textValue(), key, new CosmosItemRequestOptions());
      return;
    }
    CosmosItemRequestOptions options = new CosmosItemRequestOptions().setContentResponseOnWriteEnabled(true);
    last = Math.max(last, container.upsertItem(item, key, options).getItem().get("_ts").longValue());
    items.put(name(item), item);
  }

  /** Reads until nothing is left for now. Each item comes once. */
  private Found drain(CosmosChangeFeedRequestOptions options, int size) {
    Map<String, Integer> found = new TreeMap<>();
    String end = null;
    for (FeedResponse<JsonNode> page : container.queryChangeFeed(options.setMaxItemCount(size), JsonNode.class)
        .iterableByPage()) {
      end = page.getContinuationToken();
      check(page.getResults().size() <= size, page.getResults().size() + " items on a page of " + size);
      for (JsonNode item : page.getResults()) {
        check(item.get("_lsn").longValue() > 0, "an item has its LSN");
        check(found.put(name(item), item.get("n").intValue()) == null, name(item) + " comes twice");
      }
    }
    return new Found(found, end);
  }

  private Map<String, Integer> want(Predicate<JsonNode> holds) {
    Map<String, Integer> want = new TreeMap<>();
    items.forEach((name, item) -> {
      if (holds.test(item))
        want.put(name, item.get("n").intValue());
    });
    return want;
  }

  private static String name(JsonNode item) {
    Function<String, String> text = member -> item.get(member).textValue();
    return text.apply("TenantId") + "|" + text.apply("UserId") + "|" + text.apply("id");
  }

  private static boolean is(JsonNode item, String member, String text) {
    return item.get(member).textValue().equals(text);
  }
}
