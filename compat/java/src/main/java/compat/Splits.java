package compat;

import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
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
 * Physical partitions split again and again while the Java SDK writes, queries and
 * follows the change feed (S5, S8, S12, S37): no call fails, and nothing is lost or
 * comes twice. Started by ../run.sh with a server whose partitions hold 256 KB.
 */
public final class Splits {
  private static final int WRITERS = 6;
  private static final int EACH = 200;
  private static final int TOTAL = WRITERS * EACH;
  private static final int PAGES = 20 * TOTAL; // only a loop without end has as many
  private static final long NANOSECONDS = 120_000_000_000L; // or takes that long
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String endpoint;
  private final String admin;
  private final CosmosDatabase database;

  private record Item(String id, String user, int n) {}

  /** The arguments are the endpoint and the admin endpoint. */
  public static void main(String[] arguments) {
    try (CosmosClient client = Scenario.connect(arguments[0], Scenario.KEY)) {
      String name = "compat-splits-" + UUID.randomUUID();
      client.createDatabase(name);
      Splits splits = new Splits(arguments[0], arguments[1], client.getDatabase(name));
      Tests tests = new Tests("splits over " + arguments[0]);
      tests.run("one tenant grows through splits", splits::grow);
      tests.run("cuts whose hexadecimal form ends in zeros", splits::zeros);
      client.getDatabase(name).delete();
      System.exit(tests.failed() == 0 ? 0 : 1); // the SDK's threads outlive its clients
    }
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
          LockSupport.parkNanos(250_000_000); // leaves the machine to the writers
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
      until(deadline, readers, () -> bounds(container).size() >= 6, rounds);
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
      container.createItem(object("item " + n, "tenant " + n % 4, "user " + n, n));
    check(container);
    for (String at : List.of("20", "1000", "30000000", "28" + "00".repeat(15), "08" + "00".repeat(31))) {
      split(new TreeMap<>(bounds(container)).lowerEntry(at).getValue(), at);
      check(container); // knows the list from before
    }
    try (CosmosClient other = Scenario.connect(endpoint, Scenario.KEY)) {
      check(other.getDatabase(database.getId()).getContainer("zeros"));
    }
    equal(bounds(container).size(), 6);
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
    PartitionKeyDefinition key = new PartitionKeyDefinition();
    key.setPaths(List.of("/tenant", "/user"));
    key.setKind(PartitionKind.MULTI_HASH);
    key.setVersion(PartitionKeyDefinitionVersion.V2);
    database.createContainer(new CosmosContainerProperties(id, key));
    return database.getContainer(id);
  }

  private static Item write(CosmosContainer container, int n) {
    Item item = new Item("item " + n, "user " + n % 100, n);
    container.createItem(object(item.id, "acme", item.user, n).put("text", "x".repeat(1000)));
    return item;
  }

  /** Items come at most once, and those that were there before the query began do. */
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

  /** Reads the feed to its end for now and returns where it goes on. */
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

  /** Returns the partitions by lower bound, as a client that remembers nothing sees them. */
  private Map<String, String> bounds(CosmosContainer container) {
    Map<String, String> bounds = new TreeMap<>();
    for (JsonNode partition : json("GET", "partitions?database=" + database.getId() + "&container=" + container.getId()).get("partitions"))
      bounds.put(partition.get("min").textValue(), partition.get("id").textValue());
    return bounds;
  }

  private void split(String partition, String at) {
    equal(json("POST", "partitions/split?database=" + database.getId() + "&container=zeros&partition=" + partition
        + "&at=" + at).get("children").size(), 2);
  }

  private JsonNode json(String method, String path) {
    try {
      HttpRequest request = HttpRequest.newBuilder(URI.create(admin + path)).header("x-decan-key", Scenario.KEY)
          .method(method, HttpRequest.BodyPublishers.noBody()).build();
      HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
      equal(answer.statusCode(), 200, answer.body());
      return JSON.readTree(answer.body());
    } catch (IOException trouble) {
      throw new UncheckedIOException(trouble);
    } catch (InterruptedException end) {
      throw new IllegalStateException(end);
    }
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

  private static PartitionKey key(String... levels) {
    PartitionKeyBuilder key = new PartitionKeyBuilder();
    for (String level : levels)
      key.add(level);
    return key.build();
  }

  private static ObjectNode object(String id, String tenant, String user, int n) {
    return JsonNodeFactory.instance.objectNode().put("id", id).put("tenant", tenant).put("user", user).put("n", n);
  }

  private static List<String> ids(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("id").textValue()).toList();
  }

  private static List<Integer> numbers(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("n").intValue()).toList();
  }
}
