package compat;

import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBulkExecutionOptions;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
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
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import reactor.core.Exceptions;
import reactor.core.publisher.Flux;

/**
 * What an application with default options notices of splits and merges (S8, S91, S95, S111), of connections
 * that end, of a server that starts again, and of refused throughput. Started by
 * ../direct.sh, with a supervisor of the server (../go/supervisor).
 *
 * <p>Twelve kinds of operation run all the time, each in a thread of its own and as fast
 * as it can. Splits and merges cause no error at all. When connections end, the SDK
 * repeats what only reads, and tells the application of a write whose outcome it does not
 * know (408, 503, from 4.42.0 also 410): the application writes again. While the server is away, other
 * calls fail too. What was acknowledged is read afterwards.
 */
final class Endure {
  private static final int KEYS = 12;
  private static final String TEXT = "x".repeat(500);

  private final String control;
  private final Admin admin;
  private final CosmosContainer container;
  private final CosmosAsyncContainer bulk;
  private final int rounds;
  private final int[] versions = new int[KEYS]; // by key, as acknowledged; each written by its own thread
  private final Map<String, AtomicInteger> done = new ConcurrentSkipListMap<>(); // by kind
  private final Map<String, AtomicInteger> unknown = new ConcurrentSkipListMap<>(); // writes without an outcome, by status
  private final AtomicInteger created = new AtomicInteger();

  /**
   * How long a call may take. When all connections to a server end under load, the SDK
   * neither sends nor fails requests that it had given to one of them: such calls never
   * return, although the server has answered others for minutes. They are interrupted and
   * counted. A call without such trouble may take as long as the machine is slow.
   */
  private static final long ENDLESS = 60_000_000_000L;

  /** A thread that runs one kind of operation. */
  private static final class Worker {
    final Thread thread;
    volatile long began;
    volatile boolean endless; // interrupted, since its call does not return

    Worker(Thread thread) {
      this.thread = thread;
    }
  }

  private final Map<String, Worker> workers = new ConcurrentHashMap<>(); // by kind

  /** What a test takes from its clients. */
  private enum Loss {
    NONE, CONNECTIONS, SERVER
  }

  /** Something that a test does to the server while clients work. */
  private interface Trouble {
    void make() throws Exception;
  }

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint, String admin, String control, int rounds, int items) {
    return Cosmos.run(endpoint, "endurance", (tests, database) -> {
      CosmosAsyncClient client = Cosmos.builder(endpoint).key(Cosmos.KEY).buildAsyncClient();
      Endure endure = new Endure(database, client.getDatabase(database.getId()).getContainer("endure"), admin, control, rounds);
      tests.run("splits and merges cause no error", () -> endure.load(Loss.NONE, endure::reshape));
      tests.run("connections end", () -> endure.load(Cosmos.DIRECT ? Loss.CONNECTIONS : Loss.SERVER, () -> endure.repeat(Cosmos.DIRECT ? "cut/direct" : "cut/gateway")));
      tests.run("the server restarts", () -> endure.load(Loss.SERVER, () -> endure.repeat("restart")));
      tests.run("the server is killed", () -> endure.load(Loss.SERVER, () -> endure.repeat("crash")));
      tests.run("more throughput than there is", () -> storm(database, endure.container, endure.admin));
      tests.run("a bulk of " + items + " items", () -> bulk(client, database, items));
    });
  }

  private Endure(CosmosDatabase database, CosmosAsyncContainer bulk, String admin, String control, int rounds) {
    this.bulk = bulk;
    this.control = control;
    this.rounds = rounds;
    this.admin = new Admin(admin, database.getId(), "endure");
    container = Cosmos.create(database, new CosmosContainerProperties("endure", "/pk"), 2);
    container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("double",
        "function (n) { getContext().getResponse().setBody(2 * n); }"));
    for (int key = 0; key < KEYS; key++)
      container.createItem(item(key, 0));
  }

  /** Splits the partitions one after another, and merges them again, with operations of all kinds in between. */
  private void reshape() {
    for (int i = 0; i < rounds; i++) {
      for (String partition : List.copyOf(admin.bounds().values())) {
        progress(1);
        admin.split(partition, "");
      }
      List<String> halves = List.copyOf(admin.bounds().values());
      for (int j = 0; j + 1 < halves.size(); j += 2) {
        progress(1);
        admin.merge(halves.get(j), halves.get(j + 1));
      }
    }
    progress(2);
  }

  private void repeat(String trouble) {
    for (int i = 0; i < rounds; i++) {
      progress(1);
      post(trouble);
    }
    progress(2);
  }

  /** Waits until each kind of operation was done n times more. */
  private void progress(int n) {
    Map<String, Integer> before = new TreeMap<>();
    done.forEach((kind, count) -> before.put(kind, count.get()));
    for (int waited = 0; !done.entrySet().stream().allMatch(now -> now.getValue().get() >= before.get(now.getKey()) + n); waited++) {
      check(waited < 30_000, "no progress from " + before + " to " + done);
      if (stop.get())
        return; // The thread that failed tells why.
      sleep(20);
      for (Worker worker : workers.values()) {
        if (interrupts && System.nanoTime() - worker.began > ENDLESS) {
          worker.endless = true;
          worker.began = System.nanoTime();
          worker.thread.interrupt();
        }
      }
    }
  }

  private final AtomicBoolean stop = new AtomicBoolean();
  private volatile boolean interrupts; // connections end, so calls may have no end

  /** Makes trouble while all kinds of operation run, then checks what was written. */
  private void load(Loss loss, Trouble trouble) {
    stop.set(false);
    interrupts = loss != Loss.NONE;
    workers.clear();
    Map<String, Runnable> kinds = kinds(loss != Loss.NONE);
    kinds.keySet().forEach(kind -> done.computeIfAbsent(kind, none -> new AtomicInteger()));
    ExecutorService threads = Executors.newCachedThreadPool();
    List<Future<?>> running = new ArrayList<>();
    kinds.forEach((kind, operation) -> running.add(threads.submit(() -> {
      Worker worker = new Worker(Thread.currentThread());
      workers.put(kind, worker);
      while (!stop.get()) {
        worker.began = System.nanoTime();
        try {
          operation.run();
        } catch (RuntimeException | AssertionError failure) {
          if (worker.endless && loss != Loss.NONE) {
            worker.endless = false;
            Thread.interrupted(); // The SDK sets it again.
            count(kind + " without an end");
            continue;
          }
          if (loss == Loss.SERVER && Exceptions.unwrapMultiple(failure).stream().allMatch(Endure::unanswered)) {
            Exceptions.unwrapMultiple(failure).forEach(one -> count(kind + " " + status((CosmosException) one)));
            continue;
          }
          stop.set(true);
          throw new IllegalStateException(kind, failure);
        }
        done.get(kind).incrementAndGet();
      }
    })));
    Throwable failed = null;
    try {
      trouble.make();
    } catch (Exception | AssertionError failure) {
      failed = failure;
    }
    stop.set(true);
    threads.shutdown();
    for (Future<?> one : running) {
      try {
        one.get();
      } catch (ExecutionException failure) {
        failed = failure.getCause();
      } catch (InterruptedException end) {
        throw new IllegalStateException(end);
      }
    }
    if (failed != null)
      throw new IllegalStateException(failed);
    for (int key = 0; key < KEYS; key++)
      equal(read(key).get("n").intValue(), versions[key], "the last version of " + key);
    System.out.println("loss " + loss + ": operations until now: " + done + "; what failed: " + unknown);
  }

  private Map<String, Runnable> kinds(boolean outcomes) {
    Map<String, Runnable> kinds = new TreeMap<>();
    // Of each key, one thread writes: every write continues from the last version.
    kinds.put("create", () -> {
      String id = "new " + created.incrementAndGet();
      write(outcomes, () -> container.upsertItem(object("id", id, "pk", id, "text", TEXT)).getStatusCode());
      equal(container.readItem(id, new PartitionKey(id), JsonNode.class).getStatusCode(), 200);
      write(outcomes, () -> {
        try {
          return container.deleteItem(id, new PartitionKey(id), new CosmosItemRequestOptions()).getStatusCode();
        } catch (CosmosException gone) {
          if (outcomes && gone.getStatusCode() == 404) // An earlier try has deleted it.
            return 204;
          throw gone;
        }
      });
    });
    kinds.put("upsert", () -> next(0, n -> write(outcomes, () -> container.upsertItem(item(0, n)).getStatusCode())));
    kinds.put("replace", () -> next(1, n -> write(outcomes, () ->
        container.replaceItem(item(1, n), "1", new PartitionKey("k1"), new CosmosItemRequestOptions()).getStatusCode())));
    kinds.put("patch", () -> next(2, n -> write(outcomes, () ->
        container.patchItem("2", new PartitionKey("k2"), CosmosPatchOperations.create().set("/n", n), JsonNode.class).getStatusCode())));
    kinds.put("batch", () -> next(3, n -> write(outcomes, () -> {
      CosmosBatch batch = CosmosBatch.createCosmosBatch(new PartitionKey("k3"));
      batch.upsertItemOperation(item(3, n));
      batch.readItemOperation("3");
      return container.executeCosmosBatch(batch).getStatusCode();
    })));
    kinds.put("bulk", () -> next(4, n -> write(outcomes, () -> {
      List<CosmosItemOperation> operations = new ArrayList<>();
      for (int key = 4; key < 10; key++)
        operations.add(CosmosBulkOperations.getUpsertItemOperation(item(key, n), new PartitionKey("k" + key)));
      int status = 200;
      for (var each : bulk.executeBulkOperations(Flux.fromIterable(operations)).collectList().block()) {
        if (each.getException() instanceof CosmosException failure)
          throw failure;
        check(each.getException() == null, "" + each.getException());
        status = Math.max(status, each.getResponse().getStatusCode());
      }
      for (int key = 5; key < 10; key++)
        versions[key] = n;
      return status;
    })));
    kinds.put("procedure", () -> write(outcomes, () -> {
      var answer = container.getScripts().getStoredProcedure("double")
          .execute(List.of(21), new CosmosStoredProcedureRequestOptions().setPartitionKey(new PartitionKey("k10")));
      equal(answer.getResponseAsString(), "42");
      return answer.getStatusCode();
    }));
    kinds.put("read", () -> IntStream.range(0, KEYS).forEach(key -> equal(read(key).get("id").textValue(), "" + key)));
    kinds.put("query of one key", () -> equal(Cosmos.texts(container, new PartitionKey("k11"), "SELECT VALUE c.id FROM c"), List.of("11")));
    kinds.put("query with order", () -> equal(
        Cosmos.rows(container, 5, new CosmosQueryRequestOptions(), new SqlQuerySpec("SELECT VALUE c.key FROM c WHERE IS_DEFINED(c.key) ORDER BY c.key"))
            .stream().map(JsonNode::intValue).toList(), IntStream.range(0, KEYS).boxed().toList()));
    kinds.put("query", () -> equal(Cosmos.rows(container, "SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.key)").get(0).intValue(), KEYS));
    kinds.put("read many", () -> equal(container.readMany(IntStream.range(0, KEYS)
        .mapToObj(key -> new CosmosItemIdentity(new PartitionKey("k" + key), "" + key)).toList(), JsonNode.class).getResults().size(), KEYS));
    if (Tests.SDK.equals("4.42.0")) // Its change feed does not survive a split.
      return kinds;
    // In direct mode the SDK gives up with 410/1002 if a second split or merge falls into a page.
    kinds.put("change feed", () -> {
      try {
        feed();
      } catch (CosmosException gone) {
        if (!Cosmos.DIRECT || gone.getStatusCode() != 410 || gone.getSubStatusCode() != 1002)
          throw gone;
        count("change feed 410/1002");
      }
    });
    return kinds;
  }

  /** Reads the change feed until every item was seen. */
  private void feed() {
    Set<String> seen = new HashSet<>();
    for (FeedResponse<JsonNode> page : container.queryChangeFeed(
        CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(FeedRange.forFullRange()), JsonNode.class).iterableByPage()) {
      for (JsonNode change : page.getResults())
        if (change.has("key"))
          seen.add(change.get("id").textValue());
      if (seen.size() == KEYS)
        return; // The others write all the time: the feed may have no end.
    }
    equal(seen.size(), KEYS);
  }

  /** Writes the next version of a key. */
  private void next(int key, java.util.function.IntConsumer write) {
    write.accept(versions[key] + 1);
    versions[key]++;
    check(read(key).get("n").intValue() == versions[key], "an own write is not read");
  }

  /** Writes until the outcome is known; without a reason not to know it, once. */
  private void write(boolean outcomes, Supplier<Integer> call) {
    while (true) {
      try {
        int status = call.get();
        check(status / 100 == 2, "status " + status);
        return;
      } catch (CosmosException failure) {
        if (!outcomes || !List.of(0, 408, 410, 503).contains(failure.getStatusCode())) // 410/0 from 4.42.0, 0/0 in gateway mode
          throw failure;
        count(status(failure));
      }
    }
  }

  /** Whether the server has not answered, or not with what an item is or is not. */
  private static boolean unanswered(Throwable failure) {
    return failure instanceof CosmosException refused && refused.getStatusCode() != 404;
  }

  private static String status(CosmosException failure) {
    return failure.getStatusCode() + "/" + failure.getSubStatusCode();
  }

  private void count(String outcome) {
    unknown.computeIfAbsent(outcome, none -> new AtomicInteger()).incrementAndGet();
  }

  private JsonNode read(int key) {
    return container.readItem("" + key, new PartitionKey("k" + key), JsonNode.class).getItem();
  }

  private static JsonNode item(int key, int n) {
    return object("id", "" + key, "pk", "k" + key, "key", key, "n", n, "text", TEXT);
  }

  /** Many writers in a container with little throughput: the SDK waits and tries again, and another container is served. */
  private static void storm(CosmosDatabase database, CosmosContainer other, Admin admin) {
    database.createContainer(new CosmosContainerProperties("storm", "/pk"), ThroughputProperties.createManualThroughput(400));
    CosmosContainer storm = database.getContainer("storm");
    ExecutorService threads = Executors.newFixedThreadPool(40);
    List<Future<Integer>> writers = new ArrayList<>();
    long before = admin.refusedUpserts();
    for (int i = 0; i < 240; i++) {
      String id = "" + i;
      writers.add(threads.submit(() -> {
        for (int tries = 1; ; tries++) {
          try {
            storm.upsertItem(object("id", id, "pk", id, "text", TEXT.repeat(4)));
            return tries;
          } catch (CosmosException refused) {
            equal(refused.getStatusCode(), 429, "status"); // after nine tries
          }
        }
      }));
    }
    threads.shutdown();
    while (!threads.isTerminated())
      other.readItem("0", new PartitionKey("k0"), JsonNode.class);
    for (Future<Integer> writer : writers) {
      try {
        writer.get();
      } catch (InterruptedException | ExecutionException failure) {
        throw new IllegalStateException(failure);
      }
    }
    equal(Cosmos.rows(storm, "SELECT VALUE COUNT(1) FROM c").get(0).intValue(), 240);
    check(admin.refusedUpserts() > before, "no request was refused");
  }

  private static void bulk(CosmosAsyncClient client, CosmosDatabase database, int items) {
    Cosmos.create(database, new CosmosContainerProperties("bulk", "/pk"), 4);
    CosmosAsyncContainer bulk = client.getDatabase(database.getId()).getContainer("bulk");
    List<Integer> missing = IntStream.range(0, items).boxed().toList();
    int again = 0;
    for (int pass = 0; !missing.isEmpty(); pass++) { // On a slow machine some time out: the application tries these again.
      check(pass < 20, missing.size() + " items of " + items + " are missing");
      boolean first = pass == 0;
      Flux<CosmosItemOperation> operations = Flux.fromIterable(missing).map(i -> CosmosBulkOperations.getCreateItemOperation(
          object("id", "" + i, "pk", "k" + i % 1000, "n", i), new PartitionKey("k" + i % 1000), i));
      Set<Integer> made = bulk.<Integer>executeBulkOperations(operations, new CosmosBulkExecutionOptions())
          .filter(each -> each.getResponse() != null && (each.getResponse().getStatusCode() == 201 || !first && each.getResponse().getStatusCode() == 409))
          .map(each -> (Integer) each.getOperation().getContext()).collect(Collectors.toSet()).block();
      missing = missing.stream().filter(i -> !made.contains(i)).toList();
      again += missing.size();
    }
    System.out.println("a bulk of " + items + ": " + again + " operations tried again");
    equal(Cosmos.rows(database.getContainer("bulk"), "SELECT VALUE COUNT(1) FROM c").get(0).intValue(), items);
  }

  private void post(String trouble) {
    try {
      HttpResponse<String> answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(control + trouble))
          .POST(HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
      equal(answer.statusCode(), 200, answer.body());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    } catch (InterruptedException end) {
      throw new IllegalStateException(end);
    }
  }

  private static void sleep(int millis) {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException end) {
      throw new IllegalStateException(end);
    }
  }
}
