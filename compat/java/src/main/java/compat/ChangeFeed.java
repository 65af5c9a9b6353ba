package compat;

import static compat.Cosmos.hierarchical;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * The change feed with the pull model of the Java SDK: from the beginning, a time and
 * now, of the container, its ranges, a full key and a prefix, with pages of one,
 * seven and as many items as fit, compared with what the program wrote (S111).
 */
final class ChangeFeed {
  private static final int PARTITIONS = 4;
  private static final List<String> LEVELS = List.of("/TenantId", "/UserId");
  private static final int[] SIZES = {1, 7, 1000};

  private final CosmosContainer container;
  private final Map<String, ObjectNode> items = new HashMap<>();
  private int written;
  private long last; // the latest _ts

  /** A part of the container, and which items it has. */
  private record Scope(String name, FeedRange range, Predicate<JsonNode> holds) {}

  private final List<Scope> scopes = Stream.of(
      new Scope("the container", FeedRange.forFullRange(), item -> true),
      new Scope("a whole key", FeedRange.forLogicalPartition(key("t1", "u2")),
          item -> is(item, "TenantId", "t1") && is(item, "UserId", "u2")),
      new Scope("a prefix", FeedRange.forLogicalPartition(key("t2")),
          item -> is(item, "TenantId", "t2")))
      .filter(scope -> !Cosmos.DIRECT || !scope.name.equals("a prefix")).toList(); // the SDK itself refuses prefixes in direct mode

  /** What a reader found, and the continuation of the feed. */
  private record Found(Map<String, Integer> items, String end) {}

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "change feed", (tests, database) -> new ChangeFeed(database).run(tests, database));
  }

  private ChangeFeed(CosmosDatabase database) {
    container = Cosmos.create(database, hierarchical("items", LEVELS), PARTITIONS);
  }

  private void run(Tests tests, CosmosDatabase database) {
    for (int i = 0; i < 80; i++)
      change(1);
    Map<String, String> ended = new LinkedHashMap<>(); // readers that began before the second half
    for (Scope scope : scopes)
      tests.run("now, " + scope.name, () -> {
        Found found = drain(CosmosChangeFeedRequestOptions.createForProcessingFromNow(scope.range), 7);
        equal(found.items, Map.of(), "now is after every item");
        ended.put(scope.name, found.end);
      });
    long second = last + 1; // A time counts in whole seconds and is exclusive (F9).
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
            drain(CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(Instant.ofEpochSecond(second - 1),
                scope.range), size).items,
            want(scope.holds.and(later))));
        tests.run("from now: " + what, () -> equal(
            drain(CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(ended.get(scope.name)), size).items,
            want(scope.holds.and(later))));
      }
    tests.run("the ranges together are the container", this::ranges);
    tests.run("all versions and deletes are refused where they are not kept", () -> refused(400, () -> drain(
        CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes(), 7)));
    tests.run("all versions and deletes", () -> allVersions(database));
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
    ObjectNode item = object("id", "id" + n * 7 % 5, "TenantId", "t" + n * 11 % 4, "UserId", "u" + n * 5 % 3, "n", n, "half", half);
    if (n % 4 == 3 && items.remove(name(item)) != null) {
      if (n % 8 == 3)
        container.deleteItem(item, new CosmosItemRequestOptions()); // the SDK takes the key from the item
      else
        container.deleteItem(item.get("id").textValue(), keyOf(item), new CosmosItemRequestOptions());
      return;
    }
    last = Math.max(last, container.upsertItem(item, keyOf(item), null).getItem().get("_ts").longValue());
    items.put(name(item), item);
  }

  /** Reads until there is nothing left for now. Each item is returned once. */
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

  /** The expected feed of all versions: each change, deletions with the previous version (F8), in order per key. */
  private void allVersions(CosmosDatabase database) {
    CosmosContainer all = Cosmos.create(database, hierarchical("all", LEVELS)
        .setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10))), PARTITIONS);
    Map<String, String> ends = new LinkedHashMap<>();
    for (Scope scope : scopes) {
      Events none = events(all, CosmosChangeFeedRequestOptions.createForProcessingFromNow(scope.range).allVersionsAndDeletes());
      equal(none.byKey, Map.of(), "now is after every item");
      ends.put(scope.name, none.end);
    }
    List<String> rangeEnds = all.getFeedRanges().stream()
        .map(range -> events(all, CosmosChangeFeedRequestOptions.createForProcessingFromNow(range).allVersionsAndDeletes()).end).toList();
    equal(rangeEnds.size(), PARTITIONS);
    Map<String, List<String>> happened = new TreeMap<>();
    Map<String, Integer> live = new HashMap<>();
    Map<String, JsonNode> owners = new HashMap<>();
    for (int n = 0; n < 60; n++) {
      ObjectNode item = object("id", "id" + n * 7 % 3, "TenantId", "t" + n % 4, "UserId", "u" + n * 2 / 3 % 3, "n", n);
      String id = item.get("id").textValue();
      Integer before = live.get(name(item));
      boolean deleted = n % 5 == 4 && before != null;
      if (deleted) {
        all.deleteItem(id, keyOf(item), null);
        live.remove(name(item));
      } else {
        all.upsertItem(item);
        live.put(name(item), n);
      }
      owners.put(owner(item), item);
      happened.computeIfAbsent(owner(item), none -> new ArrayList<>())
          .add(event(deleted ? "delete" : before == null ? "create" : "replace", id, deleted ? null : n, deleted ? before : null)); // F8
    }
    for (String kind : List.of("create", "replace", "delete"))
      check(happened.values().stream().flatMap(List::stream).anyMatch(event -> event.startsWith(kind)), kind);
    for (Scope scope : scopes) {
      Map<String, List<String>> want = new TreeMap<>(happened);
      want.keySet().removeIf(owner -> !scope.holds.test(owners.get(owner)));
      check(!want.isEmpty(), scope.name);
      equal(events(all, CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(ends.get(scope.name)).allVersionsAndDeletes()).byKey, want, scope.name);
    }
    Map<String, List<String>> together = new TreeMap<>();
    for (String end : rangeEnds)
      events(all, CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(end).allVersionsAndDeletes()).byKey.forEach(
          (owner, changes) -> check(together.put(owner, changes) == null, owner + " is in two ranges"));
    equal(together, happened, "the ranges together");
  }

  /** What a reader of all versions found by key, and the continuation of the feed. */
  private record Events(Map<String, List<String>> byKey, String end) {}

  private static Events events(CosmosContainer container, CosmosChangeFeedRequestOptions options) {
    Map<String, List<String>> byKey = new TreeMap<>();
    String end = null;
    for (FeedResponse<JsonNode> page : container.queryChangeFeed(options.setMaxItemCount(3), JsonNode.class).iterableByPage()) {
      end = page.getContinuationToken();
      for (JsonNode change : page.getResults()) {
        JsonNode facts = change.get("metadata");
        JsonNode current = change.path("current");
        JsonNode previous = change.path("previous");
        JsonNode item = current.has("id") ? current : previous;
        byKey.computeIfAbsent(owner(item), none -> new ArrayList<>()).add(event(facts.get("operationType").textValue(),
            item.get("id").textValue(), number(current), number(previous)));
      }
    }
    return new Events(byKey, end);
  }

  private static String event(String kind, String id, Integer n, Integer before) {
    return kind + " " + id + " " + n + " after " + before;
  }

  private static Integer number(JsonNode item) {
    return item.has("n") ? item.get("n").intValue() : null;
  }

  private static PartitionKey keyOf(JsonNode item) {
    return key(item.get("TenantId").textValue(), item.get("UserId").textValue());
  }

  private static String owner(JsonNode item) {
    return item.get("TenantId").textValue() + "|" + item.get("UserId").textValue();
  }

  private static String name(JsonNode item) {
    return owner(item) + "|" + item.get("id").textValue();
  }

  private static boolean is(JsonNode item, String member, String text) {
    return item.get(member).textValue().equals(text);
  }
}
