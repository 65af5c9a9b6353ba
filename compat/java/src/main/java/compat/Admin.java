package compat;

import static compat.Tests.check;
import static compat.Tests.equal;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;

/** The admin port: the physical partitions of one container, their splits and merges, and role assignments. */
final class Admin {
  /** The built-in roles, by the last digit of their ids. */
  static final int READER = 1;
  static final int CONTRIBUTOR = 2;

  private final String endpoint;
  private final String database;
  private final String container;

  Admin(String endpoint, String database, String container) {
    this.endpoint = endpoint;
    this.database = database;
    this.container = container;
  }

  /** Returns the ids of the partitions by their lower bound. */
  Map<String, String> bounds() {
    Map<String, String> bounds = new TreeMap<>();
    for (JsonNode partition : call("GET", "partitions?" + query()).get("partitions"))
      bounds.put(partition.get("min").textValue(), partition.get("id").textValue());
    return bounds;
  }

  /** Splits a partition at a hashed key, or at half of its bytes without one. */
  void split(String partition, String at) {
    equal(call("POST", "partitions/split?" + query() + "&partition=" + partition + "&at=" + at).get("children").size(), 2);
  }

  /** Merges two adjacent partitions. */
  void merge(String partition, String neighbour) {
    equal(call("POST", "partitions/merge?" + query() + "&partition=" + partition + "&with=" + neighbour).get("parents").size(), 2);
  }

  /** Splits all partitions in the middle of their ranges. */
  void halve() {
    for (JsonNode partition : call("GET", "partitions?" + query()).get("partitions")) {
      long middle = (hash(partition.get("min").textValue()) + hash(partition.get("max").textValue())) / 2; // below 2^62
      split(partition.get("id").textValue(), String.format("%016X", middle).replaceAll("(00)+$", ""));
    }
  }

  /** Merges the partitions in pairs of neighbours. */
  void pair() {
    List<String> ids = List.copyOf(bounds().values());
    for (int i = 0; i + 1 < ids.size(); i += 2)
      merge(ids.get(i), ids.get(i + 1));
  }

  /** Returns the first eight bytes of a bound; hashed keys are below 40. */
  private static long hash(String bound) {
    return Long.parseLong(((bound.equals("FF") ? "40" : bound) + "0".repeat(16)).substring(0, 16), 16);
  }

  /** Assigns one of the built-in roles for the database to a principal, and returns the path of the assignment. */
  String assign(int role, String principal) {
    String path = "sqlRoleAssignments/" + UUID.randomUUID();
    call("PUT", path, Cosmos.object("properties", Cosmos.object("principalId", principal, "scope", "/dbs/" + database,
        "roleDefinitionId", "/sqlRoleDefinitions/00000000-0000-0000-0000-00000000000" + role)).toString());
    return path;
  }

  /** Returns how many upserts of the whole server were refused with 429. */
  long refusedUpserts() {
    String name = "decan_nosql_requests_total{operation=\"document_upsert\",status=\"429\"} ";
    return text("GET", "metrics", "").lines().filter(line -> line.startsWith(name))
        .mapToLong(line -> (long) Double.parseDouble(line.substring(name.length()))).sum();
  }

  void revoke(String assignment) {
    call("DELETE", assignment, "");
  }

  private String query() {
    return "database=" + database + "&container=" + container;
  }

  private JsonNode call(String method, String path) {
    return call(method, path, "");
  }

  private JsonNode call(String method, String path, String body) {
    try {
      return Cosmos.JSON.readTree(text(method, path, body));
    } catch (IOException trouble) {
      throw new UncheckedIOException(trouble);
    }
  }

  private String text(String method, String path, String body) {
    try {
      HttpRequest request = HttpRequest.newBuilder(URI.create(endpoint + path)).header("x-decan-key", Cosmos.KEY)
          .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
      HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
      check(answer.statusCode() / 100 == 2, answer.body());
      return answer.body();
    } catch (IOException trouble) {
      throw new UncheckedIOException(trouble);
    } catch (InterruptedException end) {
      throw new IllegalStateException(end);
    }
  }
}
