package compat;

import static compat.Cosmos.JSON;
import static compat.Cosmos.json;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Cosmos.texts;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.ThroughputControlGroupConfigBuilder;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkExecutionOptions;
import com.azure.cosmos.models.CosmosBulkItemRequestOptions;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * Conditional and grouped writes: etags, transactional batches, partial
 * updates, the bulk executor, throughput control over clients, unique keys and the
 * time to live.
 */
final class Writes {
  private static final int PARTITIONS = 4;
  /** The oldest SDK has no throughput control in gateway mode. */
  private static final boolean CONTROLS_DIRECT_MODE_ALONE = Tests.SDK.equals("4.42.0");
  private static final String IDS = "SELECT VALUE c.id FROM c ORDER BY c.id";

  private final String endpoint;
  private final CosmosDatabase database;
  private final CosmosContainer container;

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "writes", (tests, database) -> {
      Writes writes = new Writes(endpoint, database);
      tests.run("conditions of reads and writes", writes::conditions);
      tests.run("a batch of each operation", writes::batch);
      tests.run("a refused batch leaves nothing", writes::refusedBatch);
      tests.run("batches have a size", writes::batchSize);
      tests.run("a batch under a hierarchical key", writes::hierarchicalBatch);
      tests.run("partial updates, each operation", writes::patch);
      tests.run("partial updates of lists, in batches and in bulk", writes::patchMany);
      tests.run("partial updates that are refused", writes::refusedPatch);
      tests.run("bulk over four partitions", writes::bulk);
      tests.run("throughput that clients share", writes::throughputControl);
      tests.run("delete by partition key", writes::clear);
      tests.run("unique keys", writes::uniqueKeys);
      tests.run("time to live", writes::timeToLive);
    });
  }

  private Writes(String endpoint, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.database = database;
    container = Cosmos.create(database, new CosmosContainerProperties("writes", "/pk"), PARTITIONS);
  }

  private void conditions() {
    String etag = container.createItem(item("x", "conditions")).getETag();
    PartitionKey key = new PartitionKey("conditions");
    equal(container.readItem("x", key, new CosmosItemRequestOptions().setIfNoneMatchETag("\"other\""), JsonNode.class).getStatusCode(), 200);
    equal(container.readItem("x", key, new CosmosItemRequestOptions().setIfNoneMatchETag(etag), JsonNode.class).getStatusCode(), 304);
    CosmosItemRequestOptions guard = new CosmosItemRequestOptions().setIfMatchETag(etag);
    equal(container.upsertItem(item("x", "conditions").put("n", 1), guard).getStatusCode(), 200);
    refused(412, () -> container.upsertItem(item("x", "conditions"), guard));
    refused(412, () -> container.deleteItem("x", key, guard));
    equal(container.upsertItem(item("new", "conditions"), guard).getStatusCode(), 201, "an upsert of what is not there");
    equal(container.deleteItem("x", key, null).getStatusCode(), 204);
    refused(404, () -> container.deleteItem("x", key, null));
  }

  private void batch() {
    PartitionKey key = new PartitionKey("batch");
    container.createItem(item("old", "batch").put("n", 1));
    String etag = container.createItem(item("guarded", "batch")).getETag();
    CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
    batch.createItemOperation(item("new", "batch").put("n", 2));
    batch.readItemOperation("new");
    batch.upsertItemOperation(item("either", "batch"));
    batch.replaceItemOperation("guarded", item("guarded", "batch").put("n", 3), new CosmosBatchItemRequestOptions().setIfMatchETag(etag));
    batch.patchItemOperation("new", CosmosPatchOperations.create().increment("/n", 5L));
    batch.deleteItemOperation("old");
    CosmosBatchResponse done = container.executeCosmosBatch(batch);
    equal(done.getStatusCode(), 200);
    equal(statuses(done), List.of(201, 200, 201, 200, 200, 204));
    check(done.getRequestCharge() > 0, "it costs");
    equal(done.getResults().get(1).getItem(JsonNode.class).get("n").asInt(), 2, "a read sees what came before it");
    equal(done.getResults().get(4).getItem(JsonNode.class).get("n").asInt(), 7);
    equal(texts(container, key, IDS), List.of("either", "guarded", "new"));
    String version = done.getResults().get(3).getETag();
    equal(container.readItem("guarded", key, JsonNode.class).getETag(), version, "the etags of the answer are those of the items");
  }

  private void refusedBatch() {
    PartitionKey key = new PartitionKey("refused");
    String etag = container.createItem(item("there", "refused").put("n", 1)).getETag();
    Map<Integer, Consumer<CosmosBatch>> faults = Map.of(
        409, batch -> batch.createItemOperation(item("there", "refused")),
        404, batch -> batch.deleteItemOperation("nowhere"),
        412, batch -> batch.patchItemOperation("there", CosmosPatchOperations.create().set("/n", 9),
            new CosmosBatchPatchItemRequestOptions().setFilterPredicate("FROM c WHERE c.n = 7")),
        400, batch -> batch.patchItemOperation("there", CosmosPatchOperations.create().remove("/missing")));
    faults.forEach((status, fault) -> {
      CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
      batch.createItemOperation(item("first", "refused"));
      batch.patchItemOperation("there", CosmosPatchOperations.create().increment("/n", 1L));
      fault.accept(batch);
      batch.upsertItemOperation(item("last", "refused"));
      CosmosBatchResponse answer = container.executeCosmosBatch(batch);
      equal(answer.getStatusCode(), status);
      check(!answer.isSuccessStatusCode(), "it is refused");
      equal(statuses(answer), List.of(424, 424, status, 424));
      equal(texts(container, key, IDS), List.of("there"));
      equal(container.readItem("there", key, JsonNode.class).getETag(), etag, "nothing was written");
    });
  }

  private void batchSize() {
    PartitionKey key = new PartitionKey("size");
    for (int size : List.of(100, 101)) {
      CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
      for (int i = 0; i < size; i++)
        batch.createItemOperation(item("of " + size + " " + i, "size"));
      if (size == 100)
        equal(container.executeCosmosBatch(batch).getStatusCode(), 200);
      else
        refused(400, () -> container.executeCosmosBatch(batch));
    }
    equal(texts(container, key, "SELECT VALUE COUNT(1) FROM c"), List.of("100"));
  }

  private void hierarchicalBatch() {
    CosmosContainer nested = Cosmos.create(database, Cosmos.hierarchical("nested", List.of("/t", "/u")), PARTITIONS);
    CosmosBatch batch = CosmosBatch.createCosmosBatch(key("t", "u"));
    batch.createItemOperation(object("id", "1", "t", "t", "u", "u"));
    batch.createItemOperation(object("id", "2", "t", "t", "u", "u"));
    equal(statuses(nested.executeCosmosBatch(batch)), List.of(201, 201));
    CosmosBatch strange = CosmosBatch.createCosmosBatch(key("t", "u"));
    strange.createItemOperation(object("id", "3", "t", "t", "u", "u"));
    strange.createItemOperation(object("id", "4", "t", "t", "u", "of another"));
    equal(statuses(nested.executeCosmosBatch(strange)), List.of(424, 400));
    equal(texts(nested, key("t", "u"), IDS), List.of("1", "2"));
  }

  private void patch() {
    PartitionKey key = new PartitionKey("patch");
    JsonNode start = json("{'id':'x','pk':'patch','n':1,'f':0.5,'list':['a','b'],'deep':{'one':1,'two':2},'gone':true,'a/b~c':0}");
    container.createItem(start);
    CosmosPatchOperations all = CosmosPatchOperations.create()
        .add("/added", Map.of("by", "patch"))
        .add("/list/1", "between")
        .add("/list/-", "last")
        .set("/list/0", "first")
        .replace("/deep/one", 11)
        .remove("/gone")
        .increment("/n", 41L)
        .increment("/f", -0.25)
        .move("/deep/two", "/moved")
        .set("/a~1b~0c", 1);
    var patched = container.patchItem("x", key, all, JsonNode.class);
    equal(patched.getStatusCode(), 200);
    equal(user(patched.getItem()), json("{'id':'x','pk':'patch','n':42,'f':0.25,'list':['first','between','b','last'],"
        + "'deep':{'one':11},'a/b~c':1,'added':{'by':'patch'},'moved':2}"));
    equal(container.readItem("x", key, JsonNode.class).getItem(), patched.getItem());

    CosmosPatchItemRequestOptions when = new CosmosPatchItemRequestOptions().setFilterPredicate("FROM c WHERE c.n > 41 AND ARRAY_CONTAINS(c.list, 'b')");
    equal(container.patchItem("x", key, CosmosPatchOperations.create().set("/n", 0), when, JsonNode.class).getItem().get("n").asInt(), 0);
    refused(412, () -> container.patchItem("x", key, CosmosPatchOperations.create().set("/n", 1), when, JsonNode.class));
    CosmosPatchItemRequestOptions guard = new CosmosPatchItemRequestOptions();
    guard.setIfMatchETag(patched.getETag());
    refused(412, () -> container.patchItem("x", key, CosmosPatchOperations.create().set("/n", 1), guard, JsonNode.class));
  }

  private void patchMany() {
    PartitionKey key = new PartitionKey("patch many");
    container.createItem(json("{'id':'x','pk':'patch many','list':['a','b'],'parents':[{'name':'p'}],'registered':false}"));
    CosmosPatchItemRequestOptions when = new CosmosPatchItemRequestOptions().setFilterPredicate("from f where f.registered = false");
    CosmosPatchOperations lists = CosmosPatchOperations.create()
        .remove("/list/0")
        .add("/list/1", "behind")
        .set("/list/2", "last")
        .replace("/parents/0/name", "q");
    JsonNode patched = container.patchItem("x", key, lists, when, JsonNode.class).getItem();
    equal(user(patched), json("{'id':'x','pk':'patch many','list':['b','behind','last'],'parents':[{'name':'q'}],'registered':false}"));
    CosmosPatchOperations whole = CosmosPatchOperations.create().replace("/list", List.of("a")).set("/registered", true);
    equal(container.patchItem("x", key, whole, when, JsonNode.class).getItem().get("list"), json("['a']"));
    refused(412, () -> container.patchItem("x", key, whole, when, JsonNode.class));

    CosmosBatch batch = CosmosBatch.createCosmosBatch(key);
    batch.createItemOperation(item("y", "patch many").put("registered", false));
    batch.patchItemOperation("y", CosmosPatchOperations.create().set("/n", 1),
        new CosmosBatchPatchItemRequestOptions().setFilterPredicate("from f where f.registered = false"));
    equal(statuses(container.executeCosmosBatch(batch)), List.of(201, 200));
    equal(container.readItem("y", key, JsonNode.class).getItem().get("n").asInt(), 1);

    equal(bulkStatuses(container, List.of(
        CosmosBulkOperations.getCreateItemOperation(item("z", "patch many"), key, "create"),
        CosmosBulkOperations.getPatchItemOperation("z", key, CosmosPatchOperations.create().add("/n", 1), "patch")),
        new CosmosBulkExecutionOptions()), Map.of("create", 201, "patch", 200));
    equal(container.readItem("z", key, JsonNode.class).getItem().get("n").asInt(), 1);
  }

  private void refusedPatch() {
    PartitionKey key = new PartitionKey("no patch");
    String etag = container.createItem(object("id", "x", "pk", "no patch", "text", "t", "list", List.of(1))).getETag();
    Map<String, CosmosPatchOperations> faults = new TreeMap<>(Map.of(
        "replace what is not there", CosmosPatchOperations.create().set("/n", 1).replace("/missing", 1),
        "remove what is not there", CosmosPatchOperations.create().remove("/missing"),
        "move what is not there", CosmosPatchOperations.create().move("/missing", "/there"),
        "add behind the end of a list", CosmosPatchOperations.create().add("/list/7", 1),
        "add below what is not there", CosmosPatchOperations.create().add("/a/b", 1),
        "increment a text", CosmosPatchOperations.create().increment("/text", 1L),
        "the id", CosmosPatchOperations.create().set("/id", "y"),
        "the partition key", CosmosPatchOperations.create().set("/pk", "y"),
        "a property of the system", CosmosPatchOperations.create().set("/_ts", 1)));
    CosmosPatchOperations eleven = CosmosPatchOperations.create();
    IntStream.range(0, 11).forEach(i -> eleven.set("/n" + i, i));
    faults.put("eleven operations", eleven);
    faults.forEach((what, operations) -> {
      try {
        refused(400, () -> container.patchItem("x", key, operations, JsonNode.class));
      } catch (AssertionError wrong) {
        throw new AssertionError(what + ": " + wrong.getMessage());
      }
    });
    refused(404, () -> container.patchItem("y", key, CosmosPatchOperations.create().set("/n", 1), JsonNode.class));
    equal(container.readItem("x", key, JsonNode.class).getETag(), etag, "nothing was written");
  }

  private void bulk() {
    CosmosContainer many = Cosmos.create(database, new CosmosContainerProperties("bulk", "/pk"), PARTITIONS);
    int items = 160;
    String text = "x".repeat(4_000);
    List<CosmosItemOperation> creates = new ArrayList<>();
    for (int i = 0; i < items; i++)
      creates.add(CosmosBulkOperations.getCreateItemOperation(item("id" + i, "pk" + i % 40).put("n", i).put("text", text), new PartitionKey("pk" + i % 40)));
    equal(bulkStatuses(many, creates, new CosmosBulkExecutionOptions()).values().stream().distinct().toList(), List.of(201));
    int found = 0;
    for (var range : many.getFeedRanges()) {
      var count = Cosmos.rows(many, 100, new CosmosQueryRequestOptions().setFeedRange(range),
          new SqlQuerySpec("SELECT VALUE COUNT(1) FROM c"));
      check(count.get(0).asInt() > 0, "each partition has items");
      found += count.get(0).asInt();
    }
    equal(found, items);

    // One of each kind, including refused operations.
    String etag = many.readItem("id0", new PartitionKey("pk0"), JsonNode.class).getETag();
    CosmosBulkItemRequestOptions guard = new CosmosBulkItemRequestOptions().setIfMatchETag(etag);
    List<CosmosItemOperation> mixed = List.of(
        CosmosBulkOperations.getCreateItemOperation(item("id1", "pk1"), new PartitionKey("pk1"), "create what is there"),
        CosmosBulkOperations.getUpsertItemOperation(item("id2", "pk2"), new PartitionKey("pk2"), "upsert"),
        CosmosBulkOperations.getReplaceItemOperation("id0", item("id0", "pk0"), new PartitionKey("pk0"), guard, "replace"),
        CosmosBulkOperations.getReplaceItemOperation("id40", item("id40", "pk0"), new PartitionKey("pk0"), guard, "replace too late"),
        CosmosBulkOperations.getPatchItemOperation("id3", new PartitionKey("pk3"), CosmosPatchOperations.create().increment("/n", 1L), "patch"),
        CosmosBulkOperations.getReadItemOperation("id4", new PartitionKey("pk4"), "read"),
        CosmosBulkOperations.getReadItemOperation("id4", new PartitionKey("pk5"), "read elsewhere"),
        CosmosBulkOperations.getDeleteItemOperation("id5", new PartitionKey("pk5"), "delete"));
    CosmosBulkExecutionOptions two = new CosmosBulkExecutionOptions().setMaxMicroBatchConcurrency(2);
    equal(bulkStatuses(many, mixed, two), Map.of("create what is there", 409, "upsert", 200, "replace", 200, "replace too late", 412,
        "patch", 200, "read", 200, "read elsewhere", 404, "delete", 204));
    equal(many.readItem("id3", new PartitionKey("pk3"), JsonNode.class).getItem().get("n").asInt(), 4);
  }

  /** Runs the operations and returns the status of each, by its context or its place. */
  private static Map<String, Integer> bulkStatuses(CosmosContainer container, List<CosmosItemOperation> operations, CosmosBulkExecutionOptions options) {
    Map<String, Integer> statuses = new TreeMap<>();
    for (CosmosBulkOperationResponse<Object> each : container.executeBulkOperations(operations, options)) {
      if (each.getResponse() == null)
        throw new AssertionError(each.getException());
      Object context = each.getOperation().getContext();
      statuses.put(context == null ? each.getOperation().getId() + statuses.size() : context.toString(), each.getResponse().getStatusCode());
    }
    equal(statuses.size(), operations.size());
    return statuses;
  }

  /** A client stores its share of the group in a container, and reads there what the other clients use. */
  private void throughputControl() {
    database.createContainer(new CosmosContainerProperties("control", "/groupId").setDefaultTimeToLiveInSeconds(-1));
    try (CosmosClient client = Cosmos.connect(endpoint, Cosmos.KEY)) {
      CosmosContainer controlled = client.getDatabase(database.getId()).getContainer(container.getId());
      controlled.enableGlobalThroughputControlGroup(
          new ThroughputControlGroupConfigBuilder().groupName("g").targetThroughput(200).build(),
          client.createGlobalThroughputControlConfigBuilder(database.getId(), "control")
              .setControlItemRenewInterval(Duration.ofSeconds(5)).setControlItemExpireInterval(Duration.ofSeconds(20)).build());
      CosmosItemRequestOptions inGroup = new CosmosItemRequestOptions();
      inGroup.setThroughputControlGroupName("g");
      equal(controlled.createItem(item("x", "control"), inGroup).getStatusCode(), 201);
    }
    List<JsonNode> kept = Cosmos.rows(database.getContainer("control"), "SELECT * FROM c ORDER BY c.groupId");
    if (CONTROLS_DIRECT_MODE_ALONE && !Cosmos.DIRECT) {
      equal(kept, List.of());
      return;
    }
    equal(kept.stream().map(one -> one.get("groupId").asText().replaceFirst(".*\\.", "")).toList(), List.of("client", "config"), kept.toString());
    equal(kept.get(0).get("ttl").asInt(), 20);
    check(kept.get(0).get("loadFactor").asDouble() > 0, kept.toString());
    equal(kept.get(1).get("targetThroughput").asInt(), 200);
  }

  private void clear() {
    CosmosContainer cleared = Cosmos.create(database, Cosmos.hierarchical("cleared", List.of("/t", "/u")), PARTITIONS);
    for (int i = 0; i < 12; i++)
      cleared.createItem(object("id", "" + i, "t", "t" + i % 2, "u", "u" + i % 3));
    cleared.deleteAllItemsByPartitionKey(key("t0", "u0"), new CosmosItemRequestOptions());
    equal(texts(cleared, key("t0", "u0"), IDS), List.of());
    refused(404, () -> cleared.readItem("0", key("t0", "u0"), JsonNode.class));
    cleared.createItem(object("id", "0", "t", "t0", "u", "u0")); // of now
    refused(400, () -> cleared.deleteAllItemsByPartitionKey(key("t1"), new CosmosItemRequestOptions())); // F21: a prefix
    equal(Cosmos.rows(cleared, "SELECT VALUE c.id FROM c").stream().map(JsonNode::asInt).sorted().toList(), List.of(0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11));
  }

  private void uniqueKeys() {
    CosmosContainerProperties properties = new CosmosContainerProperties("unique", "/pk").setUniqueKeyPolicy(new UniqueKeyPolicy()
        .setUniqueKeys(List.of(new UniqueKey(List.of("/email")), new UniqueKey(List.of("/first", "/last/name")))));
    CosmosContainer unique = Cosmos.create(database, properties, PARTITIONS);
    equal(unique.read().getProperties().getUniqueKeyPolicy().getUniqueKeys().stream().map(UniqueKey::getPaths).toList(),
        List.of(List.of("/email"), List.of("/first", "/last/name")));
    JsonNode ann = json("{'id':'1','pk':'a','email':'ann@x','first':'Ann','last':{'name':'B'}}");
    unique.createItem(ann);
    refused(409, () -> unique.createItem(json("{'id':'2','pk':'a','email':'ann@x'}")));
    refused(409, () -> unique.createItem(json("{'id':'2','pk':'a','email':'other','first':'Ann','last':{'name':'B'}}")));
    unique.createItem(json("{'id':'2','pk':'b','email':'ann@x'}")); // another key
    unique.createItem(json("{'id':'2','pk':'a','email':'other','first':'Ann'}"));
    unique.createItem(json("{'id':'3','pk':'a','first':'Bob'}")); // no email, once
    refused(409, () -> unique.createItem(json("{'id':'4','pk':'a','first':'Eve'}")));
    refused(409, () -> unique.patchItem("2", new PartitionKey("a"), CosmosPatchOperations.create().set("/email", "ann@x"), JsonNode.class));
    unique.deleteItem("1", new PartitionKey("a"), null);
    unique.createItem(json("{'id':'4','pk':'a','email':'ann@x'}")); // free again
    CosmosContainerProperties changed = unique.read().getProperties().setUniqueKeyPolicy(
        new UniqueKeyPolicy().setUniqueKeys(Collections.singletonList(new UniqueKey(List.of("/phone")))));
    refused(400, () -> unique.replace(changed));
  }

  private void timeToLive() {
    CosmosContainer mortal = Cosmos.create(database, new CosmosContainerProperties("mortal", "/pk").setDefaultTimeToLiveInSeconds(-1), 1);
    PartitionKey key = new PartitionKey("a");
    mortal.createItem(object("id", "stays", "pk", "a"));
    for (String id : List.of("goes", "forever", "no more"))
      mortal.createItem(object("id", id, "pk", "a", "ttl", 1));
    mortal.upsertItem(object("id", "forever", "pk", "a", "ttl", -1));
    mortal.upsertItem(object("id", "no more", "pk", "a")); // the time to live of the container
    gone(mortal, key, "goes");
    refused(404, () -> mortal.readItem("goes", key, JsonNode.class));
    equal(mortal.createItem(object("id", "goes", "pk", "a", "ttl", 1000)).getStatusCode(), 201, "its id is free again");
    equal(texts(mortal, key, IDS), List.of("forever", "goes", "no more", "stays"));
    refused(400, () -> mortal.createItem(object("id", "wrong", "pk", "a", "ttl", 0)));
    refused(400, () -> mortal.createItem(object("id", "wrong", "pk", "a", "ttl", null)));
    try {
      mortal.replace(new CosmosContainerProperties("mortal", "/pk").setDefaultTimeToLiveInSeconds(1));
      throw new AssertionError("the SDK replaces a container that it has not read");
    } catch (IllegalArgumentException limit) {
      equal(mortal.read().getProperties().getDefaultTimeToLiveInSeconds(), -1);
    }
    mortal.replace(mortal.read().getProperties().setDefaultTimeToLiveInSeconds(1));
    gone(mortal, key, "stays");
    gone(mortal, key, "no more");
    equal(texts(mortal, key, IDS), List.of("forever", "goes"), "an item's own time counts");
    mortal.replace(mortal.read().getProperties().setDefaultTimeToLiveInSeconds(null));
    equal(mortal.read().getProperties().getDefaultTimeToLiveInSeconds(), null);
  }

  /** Waits until the item has expired, which takes a second or two. */
  private static void gone(CosmosContainer container, PartitionKey key, String id) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (texts(container, key, IDS).contains(id)) {
      check(System.nanoTime() < end, id + " stays");
      LockSupport.parkNanos(50_000_000);
    }
  }

  private static List<Integer> statuses(CosmosBatchResponse answer) {
    return answer.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
  }

  private static ObjectNode item(String id, String key) {
    return object("id", id, "pk", key);
  }

  /** Returns the item without the system properties. */
  private static JsonNode user(JsonNode item) {
    ObjectNode own = JSON.createObjectNode();
    item.fields().forEachRemaining(member -> {
      if (!member.getKey().startsWith("_"))
        own.set(member.getKey(), member.getValue());
    });
    return own;
  }
}
