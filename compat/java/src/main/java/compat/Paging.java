package compat;

import static compat.Cosmos.connect;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;

/**
 * Pages through ORDER BY over 1, 8 and 64 partitions with continuation tokens that are
 * given to a new client after every page, with keys of all types: every row once and in
 * order. With unique keys, partitions also split between the pages.
 *
 * <p>Without that condition the SDK returns rows of equal keys again: it continues the right child
 * of the partition of the last row at the key of that row, and does the same when partitions merge. Strings from U+E000 on are left out: it
 * continues by a filter, which compares code points, and merges by UTF-16 code units.
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
      for (int partitions : List.of(1, 8, 64))
        tests.run(partitions + " partitions", () -> paging.pages(partitions));
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
    check(container, query + " ORDER BY c.k", TOTAL, 0);
    check(container, query + " ORDER BY c.k DESC", TOTAL, 0);
    check(container, query + " WHERE c.m > 0 ORDER BY c.k", TOTAL / 4 * 3, 0);
    if (partitions == 64)
      return;
    query = "SELECT c.id, c.u AS key FROM c";
    check(container, query + " ORDER BY c.u", TOTAL, 3);
    check(container, query + " ORDER BY c.u DESC", TOTAL, 3);
    check(container, query + " WHERE c.m > 0 ORDER BY c.u", TOTAL / 4 * 3, 3);
  }

  private void check(CosmosContainer container, String query, int want, int splits) {
    String about = query + " in " + container.getId() + (splits > 0 ? " while partitions split" : "");
    List<String> ids = new ArrayList<>();
    int last = query.endsWith("DESC") ? TOTAL : -1;
    String token = null;
    int page = 0;
    do {
      try (CosmosClient fresh = connect(endpoint, Cosmos.KEY)) {
        Iterator<FeedResponse<JsonNode>> answers = fresh.getDatabase(database.getId()).getContainer(container.getId())
            .queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).iterableByPage(token, 13).iterator();
        if (!answers.hasNext())
          break;
        FeedResponse<JsonNode> answer = answers.next();
        for (JsonNode row : answer.getResults()) {
          int key = row.get("key").intValue();
          Tests.check(query.endsWith("DESC") ? key <= last : key >= last, about + ": " + key + " after " + last);
          last = key;
          Tests.check(!ids.contains(row.get("id").textValue()), about + ": row " + row + " again on page " + page);
          ids.add(row.get("id").textValue());
        }
        token = answer.getContinuationToken();
      }
      if (page < splits)
        split(container);
    } while (token != null && ++page < PAGES);
    equal(ids.size(), want, about + ": rows");
    equal(ids.stream().distinct().count(), (long) want, about + ": rows that differ");
  }

  /** Splits the oldest partition. */
  private void split(CosmosContainer container) {
    Admin partitions = new Admin(admin, database.getId(), container.getId());
    partitions.split(partitions.bounds().values().stream().min(Comparator.comparing(Integer::valueOf)).orElseThrow(), "");
  }
}
