package compat;

import static compat.Cosmos.hierarchical;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.ChangeFeedMetaData;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.ChangeFeedProcessorState;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * The change feed processor of the Java SDK, with its leases in a second container,
 * while partitions split and merge, two workers share the leases, and one of them
 * stops and starts again (S8, S37, S111). For each way of reading:
 *
 * <ul>
 *   <li>at least once: each version of this way of reading is delivered, all of them or the
 *       latest of each item;
 *   <li>in order: the versions of one partition key are first delivered in the
 *       order in which they were written, whichever worker gets them;
 *   <li>only the last page is repeated: when all workers have stopped, the next one
 *       gets nothing from before the last page of each lease;
 *   <li>the lag of the workers is reported by them and by a processor that only
 *       observes.
 * </ul>
 */
final class Processor {
  private static final long NANOSECONDS = 60_000_000_000L; // only a missing delivery takes that long
  private static final String COUNTER = "counter";
  private static final String PROBE = "probe";

  /** How the processor reads. */
  private enum Way {
    /** Latest versions, with a lease per partition id: the SDK does not support merges here. */
    IDS,
    /** Latest versions, with a lease for each range of the key space. */
    RANGES,
    /** All versions and deletes, with a lease for each range. */
    ALL
  }

  /** One version of an item: its operation in the all-versions feed, or nothing if only the latest is delivered. */
  private record Version(String kind, String id, int n) {
    Version latest() {
      return new Version("", id, n);
    }
  }

  private final Admin admin;
  private final CosmosContainer feed;
  private final CosmosContainer leases;
  private final CosmosAsyncClient client;
  private final String database;
  private final List<String> keys = new ArrayList<>(); // tenant/user
  private final Map<String, Set<Version>> written = new TreeMap<>(); // by key, in order; the writer's alone while it runs
  private final Map<String, Map<String, Version>> live = new TreeMap<>(); // by key and id
  private final Map<Way, Map<String, Set<Version>>> seen = new EnumMap<>(Way.class); // by key, in order of the first time
  private final Set<String> probed = new HashSet<>(); // keys of which the ALL way has seen a probe
  private final Set<String> odd = ConcurrentHashMap.newKeySet(); // changes whose getters differ from their JSON
  private final Map<String, ChangeFeedProcessor> workers = new LinkedHashMap<>(); // by way and host
  private final CosmosContainer calm; // a container that a worker without options reads
  private final Set<String> seenCalm = ConcurrentHashMap.newKeySet();
  private Set<Way> ways = EnumSet.allOf(Way.class);
  private ChangeFeedProcessor plain;
  private int rounds;
  private int n;

  /** Runs the test over the endpoint and returns how many fail. */
  static int run(String endpoint, String admin) {
    return Cosmos.run(endpoint, "change feed processor", (tests, database) -> {
      try (CosmosAsyncClient client = Cosmos.builder(endpoint).key(Cosmos.KEY).buildAsyncClient()) {
        Processor processor = new Processor(admin, client, database);
        tests.run("two workers, splits, merges and restarts", processor::run);
        processor.stopAll();
      }
    });
  }

  private Processor(String endpoint, CosmosAsyncClient client, CosmosDatabase database) {
    admin = new Admin(endpoint, database.getId(), "feed");
    feed = Cosmos.create(database, hierarchical("feed", List.of("/tenant", "/user"))
        .setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10))), 2);
    database.createContainer("leases", "/id");
    leases = database.getContainer("leases");
    calm = Cosmos.create(database, new CosmosContainerProperties("calm", "/id"), 1);
    this.client = client;
    this.database = database.getId();
    for (int tenant = 0; tenant < 3; tenant++)
      for (int user = 0; user < 2; user++)
        keys.add("t" + tenant + "/u" + user);
    for (String key : keys) {
      written.put(key, new LinkedHashSet<>());
      live.put(key, new TreeMap<>());
    }
    forget();
  }

  private void run() {
    calm.createItem(object("id", "before"));
    startPlain();
    start("one");
    probe();
    calm.upsertItem(object("id", "after"));
    writing(() -> {
      start("two");
      for (String partition : admin.bounds().values())
        admin.split(partition, "");
      await("two workers share the leases", () -> holders().values().stream().allMatch(hosts -> hosts.equals(Set.of("one", "two"))), this::holders);
    });
    complete();
    caughtUp();
    stop(Way.IDS, "one");
    stop(Way.IDS, "two");
    behind(Way.IDS);
    ways = EnumSet.of(Way.RANGES, Way.ALL);

    writing(() -> {
      mergeFirst();
      for (Way way : ways)
        stop(way, "one");
      await("one worker takes all leases over", () -> holders().values().stream().allMatch(Set.of("two")::equals), this::holders);
      mergeFirst();
      admin.split(admin.bounds().values().iterator().next(), "");
      start("one");
      await("two workers share the leases again", () -> holders().values().stream().allMatch(hosts -> hosts.equals(Set.of("one", "two"))), this::holders);
    });
    complete();
    caughtUp();

    // A worker fetches a page only when the previous one is in its lease. So
    // when a round is seen that was written after everything earlier was seen,
    // only that round can be returned again.
    written.values().forEach(Set::clear);
    round();
    await("the last round is seen", () -> missing().isEmpty(), this::missing);
    stopAll();
    Map<String, Set<Version>> again = new TreeMap<>();
    written.forEach((key, versions) -> again.put(key, new HashSet<>(versions)));
    forget();
    written.values().forEach(Set::clear);
    ways.forEach(this::behind);
    start("three");
    await("the next worker gets the new items", () -> missing().isEmpty(), this::missing);
    for (Way way : ways)
      for (String key : keys) {
        Set<Version> may = again.get(key);
        may.addAll(written.get(key));
        for (Version version : seen(way, key))
          check(may.stream().anyMatch(allowed -> version.equals(way == Way.ALL ? allowed : allowed.latest())), way + " tells again: " + version);
      }
    seePlain();
  }

  /**
   * Waits until no lease has anything left, as reported by its worker. The SDK loses a position if it
   * renews the lease at the same moment, until the next page: so this writes more if it waits long.
   */
  private void caughtUp() {
    AtomicInteger looks = new AtomicInteger();
    await("the workers see no lag", () -> {
      if (ways.stream().allMatch(this::withoutLag))
        return true;
      if (looks.incrementAndGet() % 10 == 0)
        round();
      return false;
    }, () -> ways.stream().map(way -> way + " " + states(workers.get(way + " one"))).toList());
  }

  private boolean withoutLag(Way way) {
    ChangeFeedProcessor worker = workers.get(way + " one");
    List<ChangeFeedProcessorState> states = worker.getCurrentState().block();
    if (states.isEmpty() || !states.stream().allMatch(state -> state.getEstimatedLag() == 0 && Set.of("one", "two").contains(state.getHostName())))
      return false;
    if (way != Way.IDS)
      return true;
    Map<String, Integer> lags = worker.getEstimatedLag().block(); // which the others do not have
    return states.stream().map(ChangeFeedProcessorState::getLeaseToken).collect(Collectors.toSet()).equals(Set.copyOf(admin.bounds().values()))
        && lags.size() == states.size() && lags.values().stream().allMatch(lag -> lag == 0);
  }

  /** Writes items that are not read until a processor that is not started counts them; a stopped one may still read a page. */
  private void behind(Way way) {
    ChangeFeedProcessor beside = worker(way, "beside");
    await(way + " is behind", () -> {
      round();
      int lag = beside.getCurrentState().block().stream().mapToInt(ChangeFeedProcessorState::getEstimatedLag).sum();
      return lag >= 2 * keys.size() // the writes of a round, or more
          && (way != Way.IDS || beside.getEstimatedLag().block().values().stream().mapToInt(Integer::intValue).sum() == lag);
    }, () -> states(beside));
  }

  private static List<String> states(ChangeFeedProcessor worker) {
    return worker.getCurrentState().block().stream()
        .map(state -> state.getHostName() + " " + state.getLeaseToken() + " " + state.getEstimatedLag()).toList();
  }

  private void mergeFirst() {
    List<String> partitions = List.copyOf(admin.bounds().values());
    admin.merge(partitions.get(0), partitions.get(1));
  }

  /** Waits until everything was delivered, and checks the order. */
  private void complete() {
    await("each version is seen", () -> missing().isEmpty(), this::missing);
    equal(odd, Set.of(), "changes whose getters differ from their JSON");
    for (Way way : ways)
      for (String key : keys) {
        List<Version> order = written.get(key).stream().filter(version -> way == Way.ALL || !version.kind.equals("delete"))
            .map(version -> way == Way.ALL ? version : version.latest()).toList();
        List<Version> first = seen(way, key);
        check(order.containsAll(first), way + " tells what nobody wrote: " + first + ", written " + order);
        equal(first, order.stream().filter(first::contains).toList(), way + ": order of " + key);
      }
  }

  /** Returns the missing versions, by way of reading. */
  private Map<Way, List<Version>> missing() {
    Map<Way, List<Version>> missing = new EnumMap<>(Way.class);
    for (Way way : ways)
      for (String key : keys) {
        Collection<Version> left = new LinkedHashSet<>(told(way, key));
        left.removeAll(seen(way, key));
        if (!left.isEmpty())
          missing.computeIfAbsent(way, none -> new ArrayList<>()).addAll(left);
      }
    return missing;
  }

  /** Returns the expected versions of a key: each version, or the latest of each existing item. */
  private Collection<Version> told(Way way, String key) {
    if (way == Way.ALL)
      return written.get(key);
    return live.get(key).values().stream().filter(written.get(key)::contains).map(Version::latest).toList();
  }

  private List<Version> seen(Way way, String key) {
    synchronized (seen) {
      return List.copyOf(seen.get(way).getOrDefault(key, Set.of()));
    }
  }

  private void forget() {
    synchronized (seen) {
      for (Way way : Way.values())
        seen.put(way, new TreeMap<>());
    }
  }

  // Writing.

  /** Writes rounds until the change is complete, and one more. */
  private void writing(Runnable change) {
    AtomicBoolean done = new AtomicBoolean();
    CompletableFuture<Void> writer = CompletableFuture.runAsync(() -> {
      while (!done.get()) {
        round();
        LockSupport.parkNanos(200_000_000); // leaves processor time to the workers
      }
    });
    try {
      change.run();
    } finally {
      done.set(true);
      writer.join();
    }
    round();
  }

  /** Creates an item per key and changes another; each third round deletes one. */
  private void round() {
    int round = rounds++;
    for (String key : keys) {
      upsert(key, "item " + round);
      upsert(key, COUNTER);
      if (round % 3 == 2)
        delete(key, "item " + (round - 1));
    }
  }

  private void upsert(String key, String id) {
    String[] levels = key.split("/");
    feed.upsertItem(object("id", id, "tenant", levels[0], "user", levels[1], "n", ++n));
    Version version = new Version(live.get(key).containsKey(id) ? "replace" : "create", id, n);
    live.get(key).put(id, version);
    written.get(key).add(version);
  }

  private void delete(String key, String id) {
    Version version = live.get(key).remove(id);
    if (version == null)
      return;
    feed.deleteItem(id, key((Object[]) key.split("/")), null);
    written.get(key).add(new Version("delete", id, version.n));
  }

  /** All versions start at now, so this writes until every lease has passed its start. */
  private void probe() {
    await("all versions are read", () -> {
      for (String key : keys) {
        String[] levels = key.split("/");
        feed.upsertItem(object("id", PROBE, "tenant", levels[0], "user", levels[1], "n", 0));
      }
      synchronized (seen) {
        return probed.containsAll(keys);
      }
    }, () -> probed);
  }

  // Workers.

  private void start(String host) {
    for (Way way : ways) {
      ChangeFeedProcessor worker = worker(way, host);
      worker.start().block(Duration.ofNanos(NANOSECONDS));
      workers.put(way + " " + host, worker);
    }
  }

  private void stop(Way way, String host) {
    workers.remove(way + " " + host).stop().block(Duration.ofNanos(NANOSECONDS));
  }

  private void stopAll() {
    workers.values().forEach(worker -> worker.stop().block(Duration.ofNanos(NANOSECONDS)));
    workers.clear();
  }

  private ChangeFeedProcessor worker(Way way, String host) {
    ChangeFeedProcessorBuilder builder = new ChangeFeedProcessorBuilder().hostName(host)
        .feedContainer(client.getDatabase(database).getContainer(feed.getId()))
        .leaseContainer(client.getDatabase(database).getContainer(leases.getId()))
        .options(new ChangeFeedProcessorOptions().setLeasePrefix(way.name()).setStartFromBeginning(way != Way.ALL)
            .setMaxItemCount(20).setFeedPollDelay(Duration.ofMillis(500))
            .setLeaseAcquireInterval(Duration.ofMillis(500)).setLeaseRenewInterval(Duration.ofSeconds(1))
            .setLeaseExpirationInterval(Duration.ofSeconds(8)));
    return (switch (way) {
      case IDS -> builder.handleChanges(items -> items.forEach(item -> see(way, "", item)));
      case RANGES -> builder.handleLatestVersionChanges(items -> items.forEach(item -> see(way, "", item.getCurrent())));
      case ALL -> builder.handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> items) -> items.forEach(change -> {
        JsonNode all = change.toJsonNode();
        String kind = all.get("metadata").get("operationType").textValue();
        if (!same(change, all))
          odd.add(all.toString());
        see(way, kind, all.get(kind.equals("delete") ? "previous" : "current"));
      }));
    }).buildChangeFeedProcessor();
  }

  /** Reports whether the getters of a change agree with its JSON. */
  private static boolean same(ChangeFeedProcessorItem change, JsonNode all) {
    ChangeFeedMetaData typed = change.getChangeFeedMetaData();
    JsonNode facts = all.get("metadata");
    return Objects.equals(change.getCurrent(), all.get("current")) && Objects.equals(change.getPrevious(), all.get("previous"))
        && typed.getOperationType().name().equalsIgnoreCase(facts.get("operationType").textValue())
        && typed.getLogSequenceNumber() > 0 && typed.getLogSequenceNumber() == facts.get("lsn").longValue();
  }

  /** Starts a worker with default options: it reads from now on, and polls every five seconds. */
  private void startPlain() {
    plain = new ChangeFeedProcessorBuilder().hostName("plain")
        .feedContainer(client.getDatabase(database).getContainer(calm.getId()))
        .leaseContainer(client.getDatabase(database).getContainer(leases.getId()))
        .handleChanges(items -> items.forEach(item -> seenCalm.add(item.get("id").textValue()))).buildChangeFeedProcessor();
    plain.start().block(Duration.ofNanos(NANOSECONDS));
  }

  private void seePlain() {
    await("a worker without options sees the new items", () -> {
      calm.upsertItem(object("id", "after"));
      return seenCalm.contains("after");
    }, () -> seenCalm);
    equal(seenCalm, Set.of("after"), "what was there before is not told");
    plain.stop().block(Duration.ofNanos(NANOSECONDS));
  }

  private void see(Way way, String kind, JsonNode item) {
    String key = item.get("tenant").textValue() + "/" + item.get("user").textValue();
    String id = item.get("id").textValue();
    synchronized (seen) {
      if (!id.equals(PROBE))
        seen.get(way).computeIfAbsent(key, none -> new LinkedHashSet<>()).add(new Version(kind, id, item.get("n").intValue()));
      else if (way == Way.ALL)
        probed.add(key);
    }
  }

  /** Returns the owners of the leases by way of reading, from the lease container; null has leases without an owner. */
  private Map<Way, Set<String>> holders() {
    Map<Way, Set<String>> holders = new EnumMap<>(Way.class);
    for (Way way : ways)
      holders.put(way, new HashSet<>());
    for (JsonNode lease : Cosmos.rows(leases, "SELECT c.id, c.Owner FROM c WHERE IS_DEFINED(c.Owner)"))
      for (Way way : ways)
        if (lease.get("id").textValue().startsWith(way.name()))
          holders.get(way).add(lease.get("Owner").textValue());
    return holders;
  }

  private static void await(String what, BooleanSupplier holds, Supplier<Object> state) {
    long deadline = System.nanoTime() + NANOSECONDS;
    while (!holds.getAsBoolean()) {
      check(System.nanoTime() < deadline, "not yet: " + what + ", " + state.get());
      LockSupport.parkNanos(100_000_000);
    }
  }
}
