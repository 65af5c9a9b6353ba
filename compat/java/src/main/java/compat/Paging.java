package compat;

import static compat.Cosmos.connect;
import static compat.Cosmos.object;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * Pages through ORDER BY over 1, 8 and 64 partitions with continuation tokens that are
 * given to a new client after every page: every row once and in order. With unique keys, all
 * partitions also split between the pages.
 *
 * <p>Without that condition the SDK returns rows of equal keys again after a split: it
 * continues the right child of the partition of the last row at the key of that row. After
 * a merge it returns rows of any key again. It continues by a filter, so it loses
 * arrays and objects, which a filter does not order, and strings from U+E000 on, of which a
 * filter compares code points and its merge UTF-16 code units. These are left out.
 */
final class Paging {
  private static final int TOTAL = 96;
  private static final int PAGES = 500; // only an endless loop has that many

  /** The values to order by, in order; a missing property is the first. Equal ones are next to each other. */
  private static final List<JsonNode> VALUES = new ArrayList<>();

  static {
    VALUES.add(null);
    for (JsonNode value : Cosmos.json("[null, false, true, -1e300, -1, 0, 1, 2.5, 9007199254740991, 1e300, '', 'B', 'a', 'aa', 'é', '\\uD83D\\uDE00']"))
      VALUES.add(value);
  }

  private final String endpoint;
  private final String admin;
  private final CosmosDatabase database;

  private Paging(String endpoint, String admin, CosmosDatabase database) {
    this.endpoint = endpoint;
    this.admin = admin;
    this.database = database;
  }

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint, String admin) {
    return Cosmos.run(endpoint, "paging", (tests, database) -> {
      Paging paging = new Paging(endpoint, admin, database);
      for (int partitions : System.getenv("COMPAT_ALL") == null ? List.of(1, 8) : List.of(1, 8, 64))
        tests.run(partitions + " partitions", () -> paging.pages(partitions));
      tests.run("known limits", paging::limits);
    });
  }

  private void pages(int partitions) {
    CosmosContainer container = Cosmos.create(database, new CosmosContainerProperties("c" + partitions, "/pk"), partitions);
    for (int n = 0; n < TOTAL; n++) {
      ObjectNode item = object("id", "" + n, "pk", "p" + n, "m", n % 4, "rank", n % VALUES.size(), "u", n * 37 % TOTAL);
      if (VALUES.get(n % VALUES.size()) != null)
        item.set("k", VALUES.get(n % VALUES.size()));
      container.createItem(item);
    }
    String query = "SELECT c.id, c.rank AS key FROM c";
    check(container, query + " ORDER BY c.k", TOTAL, List.of());
    check(container, query + " ORDER BY c.k DESC", TOTAL, List.of());
    check(container, query + " WHERE c.m > 0 ORDER BY c.k", TOTAL / 4 * 3, List.of());
    query = "SELECT c.id, c.u AS key FROM c";
    boolean many = partitions == 64; // where each change takes a second or two
    List<Consumer<Admin>> splits = partitions == 1 ? List.of(Admin::halve, Admin::halve) : List.of(Admin::halve);
    if (!many)
      check(container, query + " ORDER BY c.u", TOTAL, splits);
    check(container, query + " ORDER BY c.u DESC", TOTAL, splits);
    check(container, query + " WHERE c.m > 0 ORDER BY c.u", TOTAL / 4 * 3, splits);
  }

  /** Checks that a query returns as many rows, each once and in order, and merges the partitions that the changes have split. */
  private void check(CosmosContainer container, String query, int want, List<Consumer<Admin>> splits) {
    String about = query + " in " + container.getId() + (splits.isEmpty() ? "" : " while all partitions split");
    List<JsonNode> rows = paged(container, query, 13, splits);
    equal(distinct(rows), (long) rows.size(), about + ": rows that differ");
    equal(rows.size(), want, about + ": rows");
    List<Integer> keys = rows.stream().map(row -> row.get("key").intValue()).toList();
    equal(keys, keys.stream().sorted(query.endsWith("DESC") ? Comparator.reverseOrder() : Comparator.naturalOrder()).toList(), about);
    for (int i = 0; i < splits.size(); i++)
      partitions(container).pair();
  }

  /** Reads a query with a new client for every page. After each page it makes the next one of the changes. */
  private List<JsonNode> paged(CosmosContainer container, String query, int size, List<Consumer<Admin>> changes) {
    List<JsonNode> rows = new ArrayList<>();
    String token = null;
    int page = 0;
    do {
      try (CosmosClient fresh = connect(endpoint, Cosmos.KEY)) {
        Iterator<FeedResponse<JsonNode>> answers = fresh.getDatabase(database.getId()).getContainer(container.getId())
            .queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).iterableByPage(token, size).iterator();
        if (!answers.hasNext())
          break;
        FeedResponse<JsonNode> answer = answers.next();
        rows.addAll(answer.getResults());
        token = answer.getContinuationToken();
      }
      if (page < changes.size())
        changes.get(page).accept(partitions(container));
    } while (token != null && ++page < PAGES);
    Tests.check(page >= changes.size() && page < PAGES, query + ": " + page + " pages");
    return rows;
  }

  private static long distinct(List<JsonNode> rows) {
    return rows.stream().map(row -> row.get("id").textValue()).distinct().count();
  }

  /** Known limits, see above. This fails when one of them is gone. */
  private void limits() {
    CosmosContainerProperties composite = new CosmosContainerProperties("ties", "/pk");
    composite.setIndexingPolicy(new IndexingPolicy()
        .setCompositeIndexes(List.of(List.of(new CompositePath().setPath("/n"), new CompositePath().setPath("/u")))));
    CosmosContainer ties = Cosmos.create(database, composite, 1);
    CosmosContainer unique = Cosmos.create(database, new CosmosContainerProperties("unique", "/pk"), 8);
    for (int n = 0; n < TOTAL; n++) {
      ties.createItem(object("id", "" + n, "pk", "p" + n, "n", 1, "u", n));
      unique.createItem(object("id", "" + n, "pk", "p" + n, "n", n * 37 % TOTAL));
    }
    repeats(ties, 70, Admin::halve);
    partitions(unique).halve();
    repeats(unique, 34, Admin::pair);

    // What a program can do: a second key that makes the order unique, for splits, and the
    // last key as a parameter in place of a token.
    List<JsonNode> rows = paged(ties, "SELECT c.id FROM c ORDER BY c.n, c.u", 20, List.of(Admin::halve, Admin::halve));
    equal(distinct(rows), (long) rows.size(), "two keys: rows that differ");
    equal(rows.size(), TOTAL, "two keys: rows");
    List<Integer> keys = new ArrayList<>();
    List<Consumer<Admin>> changes = List.of(Admin::halve, Admin::pair, Admin::halve, Admin::pair);
    for (int page = 0; page < PAGES; page++) {
      SqlQuerySpec next = new SqlQuerySpec("SELECT TOP 13 c.n FROM c WHERE c.n > @last ORDER BY c.n",
          new SqlParameter("@last", keys.isEmpty() ? -1 : keys.get(keys.size() - 1)));
      List<JsonNode> some = Cosmos.rows(unique, 13, new CosmosQueryRequestOptions(), next);
      if (some.isEmpty())
        break;
      some.forEach(row -> keys.add(row.get("n").intValue()));
      if (page < changes.size())
        changes.get(page).accept(partitions(unique));
    }
    equal(keys, IntStream.range(0, TOTAL).boxed().toList(), "the last key as a parameter");
  }

  private void repeats(CosmosContainer container, int size, Consumer<Admin> change) {
    List<JsonNode> rows = paged(container, "SELECT c.id FROM c ORDER BY c.n", size, List.of(change));
    equal(distinct(rows), (long) TOTAL, container.getId() + ": rows that differ");
    Tests.check(rows.size() > TOTAL, container.getId() + ": no row is repeated");
  }

  private Admin partitions(CosmosContainer container) {
    return new Admin(admin, database.getId(), container.getId());
  }
}
