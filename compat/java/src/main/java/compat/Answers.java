package compat;

import static compat.Cosmos.JSON;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs every query of queries.json with the Java SDK, in pages of three sizes,
 * and compares the rows with those that the server returns when it merges. The
 * list of exclusions names what this SDK cannot do, with the reason; an excluded
 * query that works fails here.
 */
final class Answers {
  private static final List<Integer> SIZES = List.of(-1, 1, 7); // rows per page; -1 lets the SDK choose

  private final CosmosDatabase database;
  private final Map<String, JsonNode> answers = new HashMap<>(); // rows by the name of the query

  /** Runs the queries of the list with answers and returns how many fail. */
  static int run(String endpoint, String file) throws IOException {
    JsonNode list = JSON.readTree(new File(file));
    try (CosmosClient client = Cosmos.connect(endpoint, Cosmos.KEY)) {
      return new Answers(client.getDatabase(list.get("database").asText())).run(list);
    }
  }

  private Answers(CosmosDatabase database) {
    this.database = database;
  }

  private int run(JsonNode list) {
    for (JsonNode query : list.get("queries"))
      answers.put(query.get("name").asText(), query.get("rows"));
    Map<String, JsonNode> excluded = excluded(list.get("exclusions"));
    Tests tests = new Tests("answers");
    for (JsonNode query : list.get("queries")) {
      String name = query.get("name").asText();
      tests.run(name, () -> check(query, excluded.get(name)));
    }
    tests.run("exclusions name queries", () -> Tests.check(answers.keySet().containsAll(excluded.keySet()), excluded.keySet().toString()));
    return tests.failed();
  }

  /** Returns the exclusions of this version by the name of the query. */
  private static Map<String, JsonNode> excluded(JsonNode exclusions) {
    Map<String, JsonNode> excluded = new HashMap<>();
    for (JsonNode exclusion : exclusions) {
      boolean mine = false;
      for (JsonNode version : exclusion.get("versions"))
        mine |= version.asText().equals(Tests.SDK);
      if (mine && exclusion.get("sdk").asText().equals("java"))
        for (JsonNode query : exclusion.get("queries"))
          excluded.put(query.asText(), exclusion);
    }
    return excluded;
  }

  private void check(JsonNode query, JsonNode exclusion) {
    if (exclusion == null) {
      works(query, SIZES);
      return;
    }
    List<Integer> pages = new ArrayList<>();
    exclusion.path("pages").forEach(size -> pages.add(size.asInt()));
    if (pages.isEmpty())
      pages.addAll(SIZES);
    works(query, SIZES.stream().filter(size -> !pages.contains(size)).toList());
    try {
      works(query, pages);
    } catch (RuntimeException | AssertionError expected) {
      return;
    }
    throw new AssertionError("it works now: remove it from the exclusions of queries.json");
  }

  private void works(JsonNode query, List<Integer> sizes) {
    if (query.has("refusal"))
      throw new AssertionError("the server has no answer: " + query.get("refusal").asText());
    for (int size : sizes)
      compare(query, rows(query, size));
  }

  private List<JsonNode> rows(JsonNode query, int size) {
    CosmosQueryRequestOptions options = new CosmosQueryRequestOptions();
    if (query.has("partitionKey"))
      options.setPartitionKey(Cosmos.key((Object[]) JSON.convertValue(query.get("partitionKey"), String[].class)));
    List<SqlParameter> parameters = new ArrayList<>();
    for (JsonNode parameter : query.path("parameters"))
      parameters.add(new SqlParameter(parameter.get("name").asText(), parameter.get("value")));
    var pages = database.getContainer(query.get("container").asText())
        .queryItems(new SqlQuerySpec(query.get("query").asText(), parameters), options, JsonNode.class);
    List<JsonNode> found = new ArrayList<>();
    for (FeedResponse<JsonNode> page : size < 0 ? pages.iterableByPage() : pages.iterableByPage(size))
      found.addAll(page.getResults());
    return found;
  }

  private void compare(JsonNode query, List<JsonNode> rows) {
    List<String> got = texts(rows);
    List<String> want = texts(query.get("rows"));
    String compare = query.get("compare").asText();
    if (compare.equals("some")) {
      Tests.equal(got.size(), want.size(), "rows");
      List<String> left = texts(answers.get(query.get("of").asText()));
      for (String row : got)
        Tests.check(left.remove(row), row + " is no row of " + query.get("of") + ", or comes too often");
      return;
    }
    if (compare.equals("rows")) {
      got.sort(null);
      want.sort(null);
    }
    Tests.equal(got, want, "rows");
  }

  /** Returns the rows as JSON, with one form for each number and the members of objects in order. */
  private static List<String> texts(Iterable<JsonNode> rows) {
    List<String> texts = new ArrayList<>();
    for (JsonNode row : rows) {
      StringBuilder text = new StringBuilder();
      write(row, text);
      texts.add(text.toString());
    }
    return texts;
  }

  private static void write(JsonNode value, StringBuilder out) {
    if (value.isNumber()) {
      out.append(value.asDouble());
    } else if (value.isArray()) {
      out.append('[');
      for (JsonNode item : value) {
        write(item, out);
        out.append(',');
      }
      out.append(']');
    } else if (value.isObject()) {
      out.append('{');
      new TreeMap<>(JSON.convertValue(value, new TypeReference<Map<String, JsonNode>>() {})).forEach((name, member) -> {
        out.append(name).append(':');
        write(member, out);
        out.append(',');
      });
      out.append('}');
    } else {
      out.append(value);
    }
  }
}
