package compat;

import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;

/**
 * How fast an ordinary program is in direct mode, the default, and in gateway mode: point
 * reads of 1 KB, creates of as much, and queries of a partition key for ten items, each
 * with 16 threads that call the synchronous client. Both clients have their default
 * options and work in turn, so that the state of the machine touches both. Started by
 * ../direct.sh, which prints the medians and their ratio.
 */
final class Bench {
  private static final int THREADS = 16;
  private static final int ITEMS = 100; // ten for each of ten partition keys
  private static final String TEXT = "x".repeat(900); // an item has 1 KB as it is sent back

  /** Something that is measured: an operation, how often a round does it, and the rates of all rounds. */
  private record Kind(String name, int operations, IntConsumer direct, IntConsumer gateway, List<Double> inDirect, List<Double> inGateway) {
    Kind(String name, int operations, IntConsumer direct, IntConsumer gateway) {
      this(name, operations, direct, gateway, new ArrayList<>(), new ArrayList<>());
    }
  }

  /** Measures over the endpoint in so many rounds after one that does not count, and returns 0. */
  static int run(String endpoint, int rounds) throws InterruptedException, ExecutionException {
    check(Cosmos.DIRECT, "the default mode is not direct mode");
    String name = "bench-" + UUID.randomUUID();
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    try (CosmosClient direct = Cosmos.connect(endpoint, Cosmos.KEY);
        CosmosClient gateway = Cosmos.builder(endpoint).key(Cosmos.KEY).gatewayMode().buildClient()) {
      direct.createDatabase(name);
      try {
        CosmosDatabase database = direct.getDatabase(name);
        CosmosContainer first = Cosmos.create(database, new CosmosContainerProperties("items", "/pk"), 1);
        CosmosContainer second = gateway.getDatabase(name).getContainer("items");
        for (int i = 0; i < ITEMS; i++)
          first.createItem(item("" + i, "k" + i % 10));
        check(first.readItem("0", new PartitionKey("k0"), JsonNode.class).getDiagnostics().toString().contains("rntbd://"), "not direct mode");
        check(!second.readItem("0", new PartitionKey("k0"), JsonNode.class).getDiagnostics().toString().contains("rntbd://"), "not gateway mode");
        AtomicInteger created = new AtomicInteger();
        List<Kind> kinds = List.of(
            new Kind("point reads of 1 KB", 6000, i -> read(first, i), i -> read(second, i)),
            new Kind("creates of 1 KB", 3000, i -> create(first, created), i -> create(second, created)),
            new Kind("queries of a partition key, ten items", 1500, i -> query(first, i), i -> query(second, i)));
        for (int round = 0; round <= rounds; round++) {
          for (Kind kind : kinds) {
            for (boolean inDirect : round % 2 == 0 ? new boolean[] {true, false} : new boolean[] {false, true}) {
              double rate = rate(threads, kind.operations(), inDirect ? kind.direct() : kind.gateway());
              if (round > 0) // The first one is for the compiler.
                (inDirect ? kind.inDirect() : kind.inGateway()).add(rate);
            }
          }
        }
        System.out.printf("Java %s, %d threads, medians of %d rounds%n", Tests.SDK, THREADS, rounds);
        System.out.println("what | gateway mode, per second | direct mode, per second | ratio of medians | ratios of the rounds");
        for (Kind kind : kinds) {
          double[] ratios = new double[rounds];
          for (int i = 0; i < rounds; i++)
            ratios[i] = kind.inDirect().get(i) / kind.inGateway().get(i);
          Arrays.sort(ratios);
          double before = median(kind.inGateway()), now = median(kind.inDirect());
          System.out.printf("%s | %.0f | %.0f | %.2f | %.2f to %.2f%n", kind.name(), before, now, now / before, ratios[0], ratios[rounds - 1]);
        }
      } finally {
        direct.getDatabase(name).delete();
      }
    } finally {
      threads.shutdown();
    }
    return 0;
  }

  private static double median(List<Double> rates) {
    return rates.stream().sorted().toList().get(rates.size() / 2);
  }

  /** Does an operation so often, with all threads, and returns how many are done in a second. */
  private static double rate(ExecutorService threads, int operations, IntConsumer operation) throws InterruptedException, ExecutionException {
    AtomicInteger next = new AtomicInteger();
    long began = System.nanoTime();
    List<Future<?>> running = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      running.add(threads.submit(() -> {
        for (int n = next.getAndIncrement(); n < operations; n = next.getAndIncrement())
          operation.accept(n);
      }));
    }
    for (Future<?> one : running)
      one.get();
    return operations / ((System.nanoTime() - began) / 1e9);
  }

  private static void read(CosmosContainer container, int i) {
    int item = i % ITEMS;
    equal(container.readItem("" + item, new PartitionKey("k" + item % 10), JsonNode.class).getStatusCode(), 200);
  }

  private static void create(CosmosContainer container, AtomicInteger created) {
    String id = "new " + created.incrementAndGet();
    equal(container.createItem(item(id, id)).getStatusCode(), 201);
  }

  private static void query(CosmosContainer container, int i) {
    equal(Cosmos.rows(container, 100, new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k" + i % 10)), new SqlQuerySpec("SELECT * FROM c")).size(), 10);
  }

  private static JsonNode item(String id, String pk) {
    return object("id", id, "pk", pk, "text", TEXT);
  }

  private Bench() {}
}
