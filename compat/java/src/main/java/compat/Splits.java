package compat;

import static compat.Cosmos.KEY;
import static compat.Cosmos.connect;
import static compat.Cosmos.hierarchical;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Splits physical partitions repeatedly while the Java SDK writes, queries and
 * follows the change feed (S5, S8, S12, S37): no call fails, and nothing is lost or
 * returned twice. Started by ../run.sh with a server whose partitions hold 256 KB.
 */
final class Splits {
  private static final int WRITERS = 6;
  private static final int EACH = 200;
  private static final int TOTAL = WRITERS * EACH;
  private static final int PAGES = 20 * TOTAL; // only an endless loop has that many
  private static final long NANOSECONDS = 120_000_000_000L; // or takes that long

  private final String endpoint;
  private final String admin;
  private final CosmosDatabase database;

  private record Item(String id, String user, int n) {}

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint, String admin) {
    return Cosmos.run(endpoint, "splits", (tests, database) -> {
      Splits splits = new Splits(endpoint, admin, database);
      tests.run("one tenant grows through splits", splits::grow);
      tests.run("cuts whose hexadecimal form ends in zeros", splits::zeros);
    });
  }

  private Splits(String endpoint, String admin, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.admin = admin;
    this.database = database;
  }

  private void grow() {
    CosmosContainer container = create("grows");
    List<Item> written = new CopyOnWriteArrayList<>(); // what was acknowledged
    Map<String, Integer> rounds = new ConcurrentHashMap<>();
    List<String> followed = new ArrayList<>();
    String[] position = {null};
    ExecutorService threads = Executors.newCachedThreadPool();
    AtomicBoolean done = new AtomicBoolean();
    List<Future<?>> readers = new ArrayList<>();
    Map<String, Runnable> reads = Map.of(
        "query", () -> complete(container, written, "SELECT c.id FROM c", options(), 7),
        "prefix", () -> complete(container, written, "SELECT c.id FROM c", options().setPartitionKey(key("acme")), 7),
        "filter", () -> complete(container, written, "SELECT c.id FROM c WHERE c.tenant = 'acme'", options(), 50),
        "order", () -> {
          List<Integer> found = numbers(complete(container, written, "SELECT c.id, c.n FROM c ORDER BY c.n", options(), 50));
          equal(found, found.stream().sorted().toList(), "order");
        },
        "read", () -> {
          if (written.isEmpty())
            return;
          Item item = written.get(ThreadLocalRandom.current().nextInt(written.size()));
          equal(container.readItem(item.id, key("acme", item.user), JsonNode.class).getItem().get("n").intValue(), item.n);
        },
        "feed", () -> position[0] = follow(container, followed, position[0]));
    reads.forEach((name, read) -> {
      rounds.put(name, 0);
      readers.add(threads.submit(() -> {
        while (!done.get()) {
          try {
            read.run();
          } catch (RuntimeException failure) {
            throw new IllegalStateException(name, failure);
          }
          rounds.merge(name, 1, Integer::sum);
          LockSupport.parkNanos(250_000_000); // leaves processor time to the writers
        }
      }));
    });
    List<Future<?>> writers = new ArrayList<>();
    for (int w = 0; w < WRITERS; w++) {
      int first = w * EACH;
      writers.add(threads.submit(() -> IntStream.range(first, first + EACH).forEach(n -> written.add(write(container, n)))));
    }
    long deadline = System.nanoTime() + NANOSECONDS;
    try {
      until(deadline, readers, () -> writers.stream().allMatch(Future::isDone), rounds);
      writers.forEach(Splits::result);
      until(deadline, readers, () -> admin(container).bounds().size() >= 6, rounds);
      Map<String, Integer> before = Map.copyOf(rounds);
      until(deadline, readers, () -> before.entrySet().stream().allMatch(was -> rounds.get(was.getKey()) > was.getValue()), rounds);
    } finally {
      done.set(true);
      threads.shutdown();
    }
    readers.forEach(Splits::result);

    follow(container, followed, position[0]);
    List<String> whole = new ArrayList<>();
    follow(container, whole, null);
    Map<String, List<String>> all = Map.of(
        "a query", ids(rows(container, "SELECT c.id FROM c", options(), 100)),
        "a query of the prefix", ids(rows(container, "SELECT c.id FROM c", options().setPartitionKey(key("acme")), 7)),
        "the feed while partitions split", followed,
        "the feed from the beginning", whole);
    all.forEach((what, found) -> equal(distinct(found, what).size(), TOTAL, what));
  }

  private void zeros() {
    CosmosContainer container = create("zeros");
    for (int n = 0; n < 60; n++)
      container.createItem(item("item " + n, "tenant " + n % 4, "user " + n, n));
    check(container);
    for (String at : List.of("20", "1000", "30000000", "28" + "00".repeat(15), "08" + "00".repeat(31))) {
      admin(container).split(new TreeMap<>(admin(container).bounds()).lowerEntry(at).getValue(), at);
      check(container); // has the list of partitions from before the splits
    }
    try (CosmosClient other = connect(endpoint, KEY)) {
      check(other.getDatabase(database.getId()).getContainer("zeros"));
    }
    equal(admin(container).bounds().size(), 6);
  }

  private static void check(CosmosContainer container) {
    List<Integer> want = IntStream.range(0, 60).boxed().toList();
    String query = "SELECT c.id, c.n FROM c";
    equal(numbers(rows(container, query, options(), 7)).stream().sorted().toList(), want);
    equal(numbers(rows(container, query + " ORDER BY c.n", options(), 7)), want);
    for (int t = 0; t < 4; t++) {
      String tenant = "tenant " + t;
      List<Integer> mine = IntStream.iterate(t, n -> n < 60, n -> n + 4).boxed().toList();
      equal(numbers(rows(container, query, options().setPartitionKey(key(tenant)), 7)).stream().sorted().toList(), mine);
      equal(numbers(rows(container, query + " WHERE c.tenant = '" + tenant + "'", options(), 7)).stream().sorted().toList(), mine);
    }
    List<String> seen = new ArrayList<>();
    follow(container, seen, null);
    equal(distinct(seen, "the feed").size(), 60);
  }

  private CosmosContainer create(String id) {
    return Cosmos.create(database, hierarchical(id, List.of("/tenant", "/user")), 1);
  }

  private static Item write(CosmosContainer container, int n) {
    Item item = new Item("item " + n, "user " + n % 100, n);
    container.createItem(item(item.id, "acme", item.user, n).put("text", "x".repeat(1000)));
    return item;
  }

  /** Items are returned at most once, and those that existed before the query began are returned. */
  private static List<JsonNode> complete(CosmosContainer container, List<Item> written, String query,
      CosmosQueryRequestOptions options, int size) {
    List<String> known = written.stream().map(Item::id).collect(Collectors.toCollection(ArrayList::new));
    List<JsonNode> found = rows(container, query, options, size);
    known.removeAll(distinct(ids(found), query));
    equal(known, List.of(), query + ": missing items");
    return found;
  }

  private static List<JsonNode> rows(CosmosContainer container, String query, CosmosQueryRequestOptions options, int size) {
    List<JsonNode> found = new ArrayList<>();
    int pages = 0;
    for (FeedResponse<JsonNode> page : container.queryItems(query, options, JsonNode.class).iterableByPage(size)) {
      Tests.check(pages++ < PAGES, "the query has no end");
      found.addAll(page.getResults());
    }
    return found;
  }

  /** Reads the feed to its end for now and returns its continuation. */
  private static String follow(CosmosContainer container, List<String> seen, String position) {
    CosmosChangeFeedRequestOptions options = position == null
        ? CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange())
        : CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(position);
    int pages = 0;
    for (FeedResponse<JsonNode> page : container.queryChangeFeed(options.setMaxItemCount(50), JsonNode.class).iterableByPage()) {
      Tests.check(pages++ < PAGES, "the feed has no end");
      seen.addAll(ids(page.getResults()));
      position = page.getContinuationToken();
    }
    return position;
  }

  private static Set<String> distinct(List<String> found, String what) {
    Set<String> set = new HashSet<>(found);
    equal(set.size(), found.size(), what + ": distinct items of all that came");
    return set;
  }

  private Admin admin(CosmosContainer container) {
    return new Admin(admin, database.getId(), container.getId());
  }

  /** Waits, and fails with the first reader that does. */
  private static void until(long deadline, List<Future<?>> readers, BooleanSupplier finished, Object state) {
    while (!finished.getAsBoolean()) {
      readers.stream().filter(Future::isDone).forEach(Splits::result);
      Tests.check(System.nanoTime() < deadline, "no end, rounds " + state);
      LockSupport.parkNanos(50_000_000);
    }
  }

  private static void result(Future<?> work) {
    try {
      work.get();
    } catch (ExecutionException failure) {
      if (failure.getCause() instanceof AssertionError wrong)
        throw wrong;
      throw new IllegalStateException(failure.getCause());
    } catch (InterruptedException end) {
      throw new IllegalStateException(end);
    }
  }

  private static CosmosQueryRequestOptions options() {
    return new CosmosQueryRequestOptions();
  }

  private static ObjectNode item(String id, String tenant, String user, int n) {
    return object("id", id, "tenant", tenant, "user", user, "n", n);
  }

  private static List<String> ids(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("id").textValue()).toList();
  }

  private static List<Integer> numbers(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("n").intValue()).toList();
  }
}
