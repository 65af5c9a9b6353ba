package compat;

import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.ConflictResolutionPolicy;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosContainerRequestOptions;
import com.azure.cosmos.models.CosmosContainerResponse;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingDirective;
import com.azure.cosmos.models.IndexingMode;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SpatialSpec;
import com.azure.cosmos.models.SpatialType;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import reactor.core.publisher.Flux;

/**
 * Databases, containers, throughput, indexing policies, items and queries, as the
 * public samples of the SDK.
 */
final class Management {
  private final String endpoint;
  private final CosmosClient client;
  private final CosmosDatabase database;

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "management", (tests, database) -> {
      try (CosmosClient client = Cosmos.connect(endpoint, Cosmos.KEY)) {
        Management management = new Management(endpoint, client, database);
        tests.run("databases", management::databases);
        tests.run("databases that share their throughput", management::sharedThroughput);
        tests.run("containers", management::containers);
        tests.run("throughput", management::throughput);
        tests.run("indexing policies", management::indexing);
        tests.run("manual indexing", management::indexingByHand);
        tests.run("items", management::items);
        tests.run("ids of every kind", management::ids);
        tests.run("queries", management::queries);
        tests.run("pages and where they continue", management::pages);
        tests.run("reading many", management::readMany);
        tests.run("items, pages and bulk with the asynchronous client", management::asynchronous);
      }
    });
  }

  private Management(String endpoint, CosmosClient client, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.client = client;
    this.database = database;
  }

  private void databases() {
    String name = "management-" + UUID.randomUUID();
    equal(client.createDatabaseIfNotExists(name).getStatusCode(), 201);
    equal(client.createDatabaseIfNotExists(name).getStatusCode(), 200);
    refused(409, () -> client.createDatabase(name));
    equal(client.getDatabase(name).read().getProperties().getId(), name);
    check(client.readAllDatabases().stream().map(CosmosDatabaseProperties::getId).anyMatch(name::equals), "the list has it");
    equal(client.queryDatabases("SELECT * FROM d WHERE d.id = '" + name + "'", new CosmosQueryRequestOptions()).stream().count(), 1L);
    refused(400, () -> client.getDatabase(name).readThroughput()); // the SDK returns an error if there is none
    equal(client.getDatabase(name).delete().getStatusCode(), 204);
    refused(404, () -> client.getDatabase(name).read());
    refused(404, () -> client.getDatabase(name).delete());
  }

  private void sharedThroughput() {
    String name = "shared-" + UUID.randomUUID();
    for (int status : new int[] {201, 200})
      equal(client.createDatabaseIfNotExists(name, ThroughputProperties.createAutoscaledThroughput(4000)).getStatusCode(), status);
    CosmosDatabase shared = client.getDatabase(name);
    equal(shared.readThroughput().getProperties().getAutoscaleMaxThroughput(), 4000);
    shared.createContainer("inside", "/pk");
    refused(400, () -> shared.getContainer("inside").readThroughput());
    shared.createContainer("beside", "/pk", ThroughputProperties.createManualThroughput(500));
    equal(shared.getContainer("beside").readThroughput().getProperties().getManualThroughput(), 500);
    for (int most : new int[] {6000, 1000}) {
      shared.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(most));
      equal(shared.readThroughput().getProperties().getAutoscaleMaxThroughput(), most);
    }
    shared.delete();
    client.createDatabase(name, ThroughputProperties.createManualThroughput(500));
    equal(shared.readThroughput().getProperties().getManualThroughput(), 500);
    equal(shared.replaceThroughput(ThroughputProperties.createManualThroughput(900)).getProperties().getManualThroughput(), 900);
    shared.delete();
  }

  private void containers() {
    CosmosContainerResponse made = database.createContainerIfNotExists("c", "/pk");
    equal(made.getStatusCode(), 201);
    equal(database.createContainerIfNotExists("c", "/pk").getStatusCode(), 200);
    refused(409, () -> database.createContainer("c", "/pk"));
    CosmosContainer container = database.getContainer("c");
    CosmosContainerProperties properties = container.read().getProperties();
    equal(properties.getPartitionKeyDefinition().getPaths(), List.of("/pk"));
    equal(properties.getIndexingPolicy().getIndexingMode(), IndexingMode.CONSISTENT);
    equal(properties.getDefaultTimeToLiveInSeconds(), null);
    container.replace(properties.setDefaultTimeToLiveInSeconds(1000));
    equal(container.read().getProperties().getDefaultTimeToLiveInSeconds(), 1000);
    CosmosContainerResponse quota = container.read(new CosmosContainerRequestOptions().setQuotaInfoEnabled(true));
    check(quota.getCurrentResourceQuotaUsage().contains("documentsCount=0"), quota.getCurrentResourceQuotaUsage());
    check(database.readAllContainers().stream().anyMatch(one -> one.getId().equals("c")), "the list has it");
    equal(database.queryContainers("SELECT * FROM c WHERE c.id = 'c'").stream().count(), 1L);
    equal(container.delete().getStatusCode(), 204);
    refused(404, container::read);
    database.createContainer("c", "/other"); // a new one, which the client has to notice
    equal(container.createItem(object("id", "1", "other", "o")).getStatusCode(), 201);
    equal(container.readItem("1", new PartitionKey("o"), JsonNode.class).getStatusCode(), 200);
    refused(404, () -> database.getContainer("nowhere").createItem(object("id", "1")));
    CosmosContainerProperties wins = new CosmosContainerProperties("wins", "/pk");
    for (int status : new int[] {201, 200})
      equal(database.createContainerIfNotExists(wins.setConflictResolutionPolicy(ConflictResolutionPolicy.createLastWriterWinsPolicy("/n")),
          ThroughputProperties.createManualThroughput(500)).getStatusCode(), status);
    equal(database.getContainer("wins").read().getProperties().getConflictResolutionPolicy().getConflictResolutionPath(), "/n");
    equal(database.getContainer("wins").readThroughput().getProperties().getManualThroughput(), 500);
    refused(400, () -> database.createContainer(new CosmosContainerProperties("decides", "/pk")
        .setConflictResolutionPolicy(ConflictResolutionPolicy.createCustomPolicy()))); // only one region writes
  }

  private void throughput() {
    database.createContainer("manual", "/pk", ThroughputProperties.createManualThroughput(500));
    CosmosContainer manual = database.getContainer("manual");
    equal(manual.readThroughput().getProperties().getManualThroughput(), 500);
    equal(manual.readThroughput().getMinThroughput(), 400);
    equal(manual.replaceThroughput(ThroughputProperties.createManualThroughput(900)).getProperties().getManualThroughput(), 900);
    refused(400, () -> manual.replaceThroughput(ThroughputProperties.createManualThroughput(100)));
    refused(400, () -> database.createContainer("little", "/pk", ThroughputProperties.createManualThroughput(300)));
    database.createContainer("scaled", "/pk", ThroughputProperties.createAutoscaledThroughput(4000));
    CosmosContainer scaled = database.getContainer("scaled");
    equal(scaled.readThroughput().getProperties().getAutoscaleMaxThroughput(), 4000);
    equal(scaled.replaceThroughput(ThroughputProperties.createAutoscaledThroughput(5000)).getProperties().getAutoscaleMaxThroughput(), 5000);
  }

  private void indexing() {
    IndexingPolicy policy = new IndexingPolicy()
        .setIncludedPaths(List.of(new IncludedPath("/*")))
        .setExcludedPaths(List.of(new ExcludedPath("/secret/*")))
        .setCompositeIndexes(List.of(List.of(
            new CompositePath().setPath("/name").setOrder(CompositePathSortOrder.ASCENDING),
            new CompositePath().setPath("/age").setOrder(CompositePathSortOrder.DESCENDING))))
        .setSpatialIndexes(List.of(new SpatialSpec().setPath("/place/*").setSpatialTypes(List.of(SpatialType.POINT))));
    database.createContainer(new CosmosContainerProperties("indexed", "/pk").setIndexingPolicy(policy));
    CosmosContainer indexed = database.getContainer("indexed");
    IndexingPolicy kept = indexed.read().getProperties().getIndexingPolicy();
    check(kept.getExcludedPaths().stream().anyMatch(path -> path.getPath().equals("/secret/*")), "the excluded path");
    equal(kept.getCompositeIndexes().get(0).stream().map(path -> path.getPath() + " " + path.getOrder()).toList(), List.of("/name ascending", "/age descending"));
    check(kept.getSpatialIndexes().get(0).getSpatialTypes().contains(SpatialType.POINT), "the spatial index");
    for (int i = 0; i < 6; i++)
      indexed.createItem(object("id", "" + i, "pk", "p", "name", "n" + i % 2, "age", i, "secret", i));
    equal(ids(Cosmos.rows(indexed, "SELECT * FROM c ORDER BY c.name, c.age DESC")), List.of("4", "2", "0", "5", "3", "1"));
    equal(ids(Cosmos.rows(indexed, "SELECT * FROM c WHERE c.secret = 3")), List.of("3"));

    CosmosContainerProperties changed = indexed.read().getProperties();
    indexed.replace(changed.setIndexingPolicy(new IndexingPolicy().setIndexingMode(IndexingMode.NONE).setAutomatic(false)));
    equal(indexed.read().getProperties().getIndexingPolicy().getIndexingMode(), IndexingMode.NONE);
    equal(indexed.readItem("3", new PartitionKey("p"), JsonNode.class).getStatusCode(), 200);
    indexed.replace(indexed.read().getProperties().setIndexingPolicy(policy.setIncludedPaths(List.of(new IncludedPath("/age/?")))
        .setExcludedPaths(List.of(new ExcludedPath("/*")))));
    equal(ids(Cosmos.rows(indexed, "SELECT * FROM c WHERE c.age > 3 ORDER BY c.age")), List.of("4", "5"));
    refused(400, () -> indexed.replace(indexed.read().getProperties().setIndexingPolicy(new IndexingPolicy()
        .setIncludedPaths(List.of(new IncludedPath("/age"))))));
  }

  private void indexingByHand() {
    database.createContainer("words", "/id");
    CosmosContainer words = database.getContainer("words");
    words.createItem(object("id", "excluded", "mark", "m"), new CosmosItemRequestOptions().setIndexingDirective(IndexingDirective.EXCLUDE));
    finds(words, List.of("excluded")); // F7: a directive has no effect
    equal(words.readItem("excluded", new PartitionKey("excluded"), JsonNode.class).getStatusCode(), 200);
    words.replace(words.read().getProperties().setIndexingPolicy(new IndexingPolicy().setAutomatic(false)));
    words.createItem(object("id", "left out", "mark", "m"));
    words.createItem(object("id", "included", "mark", "m"), new CosmosItemRequestOptions().setIndexingDirective(IndexingDirective.INCLUDE));
    finds(words, List.of("excluded", "included", "left out"));
    words.replace(words.read().getProperties().setIndexingPolicy(new IndexingPolicy().setIncludedPaths(List.of(new IncludedPath("/")))));
    equal(words.read().getProperties().getIndexingPolicy().getIncludedPaths().stream().map(IncludedPath::getPath).toList(), List.of("/*"));
    finds(words, List.of("excluded", "included", "left out"));
  }

  /** Waits until a query that uses the index finds these: a change of the policy takes some time. */
  private static void finds(CosmosContainer words, List<String> want) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!ids(Cosmos.rows(words, "SELECT * FROM w WHERE w.mark = 'm'")).stream().sorted().toList().equals(want)) {
      check(System.nanoTime() < end, "the query does not find " + want);
      LockSupport.parkNanos(50_000_000);
    }
  }

  private void items() {
    CosmosContainer items = Cosmos.create(database, new CosmosContainerProperties("items", "/pk"), 2);
    var made = items.createItem(object("id", "1", "pk", "a", "n", 1));
    equal(made.getStatusCode(), 201);
    check(made.getRequestCharge() > 1 && made.getETag() != null && made.getSessionToken() != null && made.getActivityId() != null, "headers");
    for (String property : List.of("_rid", "_self", "_etag", "_ts", "_attachments"))
      check(made.getItem().has(property), property);
    var silent = items.upsertItem(object("id", "1", "pk", "a", "n", 2), new CosmosItemRequestOptions().setContentResponseOnWriteEnabled(false));
    equal(silent.getStatusCode(), 200);
    equal(silent.getItem(), null);
    equal(items.replaceItem(object("id", "1", "pk", "a", "n", 3), "1", new PartitionKey("a"), null).getItem().get("n").asInt(), 3);
    refused(404, () -> items.replaceItem(object("id", "2", "pk", "a"), "2", new PartitionKey("a"), null));
    refused(404, () -> items.readItem("1", new PartitionKey("b"), JsonNode.class));
    refused(413, () -> items.createItem(object("id", "large", "pk", "a", "text", "x".repeat(2_200_000))));
    items.createItem(object("id", "none"), PartitionKey.NONE, null);
    equal(items.readItem("none", PartitionKey.NONE, JsonNode.class).getStatusCode(), 200);
    items.createItem(object("id", "nothing", "pk", null));
    equal(items.readItem("nothing", new PartitionKey(null), JsonNode.class).getStatusCode(), 200);
    for (int i = 2; i < 5; i++)
      items.createItem(object("id", "" + i, "pk", "a"));
    equal(items.readAllItems(new PartitionKey("a"), JsonNode.class).stream().map(item -> item.get("id").asText()).toList(), List.of("1", "2", "3", "4"));
  }

  private void ids() {
    CosmosContainer odd = Cosmos.create(database, new CosmosContainerProperties("odd", "/pk"), 1);
    for (String id : List.of("with blank", "ü€😀", "a+b&c=d", "100%", "\"quoted\"", "a:b;c,d", "x".repeat(255))) {
      odd.createItem(object("id", id, "pk", id));
      equal(odd.readItem(id, new PartitionKey(id), JsonNode.class).getItem().get("id").asText(), id);
      equal(odd.deleteItem(id, new PartitionKey(id), null).getStatusCode(), 204, id);
    }
  }

  private void queries() {
    CosmosContainer families = Cosmos.create(database, new CosmosContainerProperties("families", "/name"), 2);
    families.createItem(Cosmos.json("{'id':'A','name':'Andersen','children':[{'given':'Ann','grade':5,'pets':[{'p':'Fluffy'}]}],'city':'Seattle','ok':true}"));
    families.createItem(Cosmos.json("{'id':'W','name':'Wakefield','children':[{'given':'Jesse','grade':1,'pets':[{'p':'Goofy'},{'p':'Shadow'}]},{'given':'Lisa','grade':8}],'city':'NY','ok':false}"));
    equal(ids(Cosmos.rows(families, 100, new CosmosQueryRequestOptions(), new SqlQuerySpec("SELECT * FROM Families f WHERE f.id = @id AND f.city = @city",
        new SqlParameter("@id", "A"), new SqlParameter("@city", "Seattle")))), List.of("A"));
    for (var one : List.of(
        List.of("SELECT VALUE c.given FROM c IN f.children", "Jesse Lisa Ann"),
        List.of("SELECT VALUE p.p FROM f JOIN c IN f.children JOIN p IN c.pets WHERE p.p != 'Goofy'", "Shadow Fluffy"),
        List.of("SELECT VALUE f.id FROM f WHERE f.children[0].grade > 3", "A"),
        List.of("SELECT VALUE f.id FROM f WHERE f.city IN ('NY', 'LA')", "W"),
        List.of("SELECT VALUE f.id FROM f WHERE f.id BETWEEN 'B' AND 'Z' OR f.ok", "W A"),
        List.of("SELECT VALUE f.id FROM f WHERE CONTAINS(UPPER(f.name), 'FIELD')", "W"),
        List.of("SELECT VALUE COUNT(1) FROM f JOIN c IN f.children", "3"),
        List.of("SELECT VALUE COUNT(f) FROM Families f WHERE f.name = 'Andersen'", "1"),
        List.of("SELECT VALUE COUNT(child) FROM child IN f.children", "3"),
        List.of("SELECT VALUE f.id FROM f WHERE f.id <> 'A'", "W"),
        List.of("SELECT VALUE p.p from f JOIN c IN f.children join p IN c.pets", "Fluffy Goofy Shadow"),
        List.of("SELECT VALUE MAX(c.grade) FROM f JOIN c IN f.children", "8"),
        List.of("SELECT VALUE {'who': f.id}.who FROM f ORDER BY f._ts", "A W"),
        List.of("SELECT DISTINCT VALUE IS_DEFINED(f.missing) FROM f", "false"),
        List.of("SELECT VALUE f.id FROM f ORDER BY f.name DESC", "W A"),
        List.of("SELECT VALUE f.id FROM f WHERE EXISTS(SELECT VALUE c FROM c IN f.children WHERE c.grade > 7)", "W"))) {
      String want = String.join(" ", List.of(one.get(1).split(" ")).stream().sorted().toList());
      String got = String.join(" ", Cosmos.rows(families, one.get(0)).stream().map(JsonNode::asText).sorted().toList());
      equal(got, want, one.get(0));
    }
    refused(400, () -> Cosmos.rows(families, "SELECT * FRM f"));
    for (FeedResponse<JsonNode> page : families.queryItems("SELECT * FROM f", new CosmosQueryRequestOptions().setQueryMetricsEnabled(true)
        .setIndexMetricsEnabled(true), JsonNode.class).iterableByPage()) {
      check(page.getRequestCharge() > 0, "it costs");
      check(page.getCosmosDiagnostics().toString().contains("retrievedDocumentCount") || page.getCosmosDiagnostics().toString().contains("Retrieved Document Count"), "metrics");
    }
  }

  private void pages() {
    CosmosContainer paged = Cosmos.create(database, new CosmosContainerProperties("paged", "/pk"), 3);
    for (int i = 0; i < 30; i++)
      paged.createItem(object("id", "" + i, "pk", "p" + i, "n", i));
    for (String query : List.of("SELECT * FROM c", "SELECT * FROM c ORDER BY c.n"))
      for (int degree : new int[] {0, 1, 10}) {
        CosmosQueryRequestOptions options = new CosmosQueryRequestOptions().setMaxDegreeOfParallelism(degree).setMaxBufferedItemCount(100);
        List<Integer> found = new ArrayList<>();
        String token = null;
        int pages = 0;
        do { // a new query for each page
          FeedResponse<JsonNode> page = paged.queryItems(query, options, JsonNode.class).iterableByPage(token, 7).iterator().next();
          page.getResults().forEach(item -> found.add(item.get("n").asInt()));
          token = page.getContinuationToken();
          check(++pages < 40, "no end");
        } while (token != null);
        equal(found.stream().sorted().toList(), IntStream.range(0, 30).boxed().toList(), query);
        if (query.contains("ORDER"))
          equal(found, found.stream().sorted().toList(), query);
      }
  }

  private void readMany() {
    CosmosContainer many = Cosmos.create(database, Cosmos.hierarchical("many", List.of("/t", "/u")), 3);
    List<CosmosItemIdentity> wanted = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      many.createItem(object("id", "id" + i, "t", "t" + i % 5, "u", "u" + i));
      if (i % 2 == 0)
        wanted.add(new CosmosItemIdentity(key("t" + i % 5, "u" + i), "id" + i));
    }
    wanted.add(new CosmosItemIdentity(key("t9", "u9"), "missing"));
    FeedResponse<JsonNode> found = many.readMany(wanted, JsonNode.class);
    equal(found.getResults().size(), 20);
    equal(found.getResults().stream().map(item -> item.get("id").asText()).distinct().count(), 20L);
    check(found.getRequestCharge() > 0, "it costs");
  }

  private void asynchronous() {
    Cosmos.create(database, new CosmosContainerProperties("asynchronous", "/pk"), 3);
    try (CosmosAsyncClient other = Cosmos.builder(endpoint).key(Cosmos.KEY).buildAsyncClient()) {
      CosmosAsyncContainer items = other.getDatabase(database.getId()).getContainer("asynchronous");
      equal(Flux.range(0, 20).flatMap(i -> items.createItem(object("id", "" + i, "pk", "p" + i, "n", i)))
          .map(made -> made.getStatusCode()).distinct().collectList().block(), List.of(201));
      List<List<JsonNode>> pages = items.queryItems("SELECT * FROM c ORDER BY c.n", JsonNode.class).byPage(7)
          .map(FeedResponse::getResults).filter(page -> !page.isEmpty()).collectList().block();
      equal(pages.stream().map(List::size).toList(), List.of(7, 7, 6));
      equal(pages.stream().flatMap(List::stream).map(item -> item.get("n").asInt()).toList(), IntStream.range(0, 20).boxed().toList());
      equal(items.executeBulkOperations(Flux.range(0, 20).map(i -> CosmosBulkOperations.getDeleteItemOperation("" + i, new PartitionKey("p" + i))))
          .map(done -> done.getResponse().getStatusCode()).collectList().block(), Collections.nCopies(20, 204));
      equal(items.queryItems("SELECT VALUE COUNT(1) FROM c", JsonNode.class).blockLast().asInt(), 0);
    }
  }

  private static List<String> ids(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("id").asText()).toList();
  }
}
