package compat;

import static compat.Cosmos.JSON;
import static compat.Cosmos.hierarchical;
import static compat.Cosmos.json;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Cosmos.texts;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureResponse;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Stored procedures, triggers and user-defined functions: the procedures that
 * programs bring with them (compat/scripts), which import, update and delete in bulk
 * and count in one item, under a key and under a hierarchical one (S145).
 */
final class Scripts {
  private final CosmosContainer flat;
  private final CosmosContainer nested;

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint) {
    return Cosmos.run(endpoint, "scripts", (tests, database) -> {
      Scripts scripts = new Scripts(database);
      tests.run("procedures of a key", () -> classics(scripts.flat, new PartitionKey("p"), "{'pk':'p'}"));
      tests.run("procedures of a hierarchical key", () -> classics(scripts.nested, key("t", "u"), "{'t':'t','u':'u'}"));
      tests.run("procedures are kept, changed, listed and deleted", scripts::procedures);
      tests.run("triggers run with a write, or undo it", scripts::triggers);
      tests.run("functions in queries", scripts::functions);
    });
  }

  private Scripts(CosmosDatabase database) {
    flat = Cosmos.create(database, new CosmosContainerProperties("flat", "/pk"), 2);
    nested = Cosmos.create(database, hierarchical("nested", List.of("/t", "/u")), 2);
  }

  private static void classics(CosmosContainer container, PartitionKey key, String members) {
    for (String name : List.of("import", "update", "delete", "count"))
      container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties(name, classic(name)));
    ArrayNode items = JSON.createArrayNode();
    for (int i = 0; i < 10; i++)
      items.add(((ObjectNode) json(members)).put("id", "i" + i).put("n", i));
    equal(result(execute(container, "import", key, items)), json("10"));
    refused(400, () -> execute(container, "import", key, items)); // they are there
    refused(400, () -> execute(container, "import", key));
    refused(400, () -> execute(container, "import", new PartitionKey("another"), items));
    equal(texts(container, key, "SELECT VALUE COUNT(1) FROM c"), List.of("10"));

    CosmosStoredProcedureResponse counted = execute(container, "count", key, "i7", 5);
    equal(result(counted).get("n").asInt(), 12);
    equal(counted.getScriptLog(), "now 12");
    check(counted.getRequestCharge() > 0, "it costs");
    check(counted.getSessionToken().contains("#"), "it has a session token");
    try {
      execute(container, "count", key, "i7", 100);
      throw new AssertionError("not refused");
    } catch (CosmosException refusal) {
      equal(refusal.getStatusCode(), 400);
      check(refusal.getMessage().contains("too much"), refusal.getMessage());
    }
    equal(texts(container, key, "SELECT VALUE c.n FROM c WHERE c.id = 'i7'"), List.of("12"), "what it wrote is undone");
    for (int changed : new int[] {4, 4, 2, 0})
      equal(result(execute(container, "update", key, "SELECT * FROM c WHERE NOT IS_DEFINED(c.seen)", "seen", 1)).get("changed").asInt(), changed);
    equal(result(execute(container, "delete", key, "SELECT * FROM c WHERE c.n < 9", 4)), json("{'deleted':4,'more':true}"));
    equal(result(execute(container, "delete", key, "SELECT * FROM c WHERE c.n < 5")), json("{'deleted':1,'more':false}"));
    equal(result(execute(container, "delete", key, "SELECT * FROM c")), json("{'deleted':5,'more':false}"));
  }

  /** Returns the text of one of the procedures that all languages run. */
  private static String classic(String name) {
    try {
      return Files.readString(Path.of("compat/scripts", name + ".js"));
    } catch (IOException missing) {
      throw new UncheckedIOException(missing);
    }
  }

  private void procedures() {
    var made = flat.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("p",
        "function (a, b) { getContext().getResponse().setBody([a, b, __.getSelfLink() !== '']); }"));
    equal(made.getStatusCode(), 201);
    refused(409, () -> flat.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("p", "function () {}")));
    flat.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("wrong", "function ( {"));
    refused(400, () -> execute(flat, "wrong", new PartitionKey("x")));
    equal(result(execute(flat, "p", new PartitionKey("x"), "å", object("n", 1))), json("['å',{'n':1},true]"));
    flat.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("list", """
        function (text) {
          if (typeof text !== "string") throw "a text is wanted";
          const all = getContext().getCollection(), made = [];
          for (const item of JSON.parse(text)) {
            const accepted = all.createDocument(all.getSelfLink(), item, (error, created) => {
              if (error) throw new Error(error.message);
              made.push(created.id);
            });
            if (!accepted) throw "no room";
          }
          getContext().getResponse().setBody(made); // still empty here
        }"""));
    PartitionKey list = new PartitionKey("list");
    equal(result(execute(flat, "list", list, "[{\"id\":\"1\",\"pk\":\"list\"},{\"id\":\"2\",\"pk\":\"list\"}]")), json("['1','2']"));
    equal(texts(flat, list, "SELECT VALUE c.id FROM c"), List.of("1", "2"));
    try {
      execute(flat, "list", list, 7);
      throw new AssertionError("not refused");
    } catch (CosmosException refusal) {
      equal(refusal.getStatusCode(), 400);
      check(refusal.getMessage().contains("a text is wanted"), refusal.getMessage());
    }
    var kept = flat.getScripts().getStoredProcedure("p");
    kept.replace(kept.read().getProperties().setBody("function () { getContext().getResponse().setBody('new'); }"));
    equal(execute(flat, "p", new PartitionKey("x")).getResponseAsString(), "\"new\"");
    check(flat.getScripts().readAllStoredProcedures().stream().anyMatch(one -> one.getId().equals("p")), "the list has it");
    equal(flat.getScripts().queryStoredProcedures("SELECT * FROM s WHERE s.id = 'p'", new CosmosQueryRequestOptions()).stream().count(), 1L);
    kept.delete();
    refused(404, () -> execute(flat, "p", new PartitionKey("x")));
  }

  private void triggers() {
    CosmosTriggerProperties stamp = new CosmosTriggerProperties("stamp", """
        function () {
          const request = getContext().getRequest(), item = request.getBody();
          if (item) request.setBody({ ...item, by: request.getOperationType() });
        }""").setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.ALL);
    CosmosTriggerProperties guard = new CosmosTriggerProperties("guard", """
        function () {
          const all = getContext().getCollection();
          all.queryDocuments(all.getSelfLink(), "SELECT VALUE COUNT(1) FROM c", (error, rows) => {
            if (error) throw error;
            if (rows[0] > 2) throw new Error("There are " + rows[0]);
          });
        }""").setTriggerType(TriggerType.POST).setTriggerOperation(TriggerOperation.CREATE);
    flat.getScripts().createTrigger(stamp);
    flat.getScripts().createTrigger(guard);
    CosmosItemRequestOptions both = new CosmosItemRequestOptions().setPreTriggerInclude(List.of("stamp")).setPostTriggerInclude(List.of("guard"));
    for (String id : List.of("1", "2"))
      equal(flat.createItem(object("id", id, "pk", "triggers"), both).getItem().get("by").asText(), "Create");
    refused(400, () -> flat.createItem(object("id", "3", "pk", "triggers"), both));
    equal(texts(flat, new PartitionKey("triggers"), "SELECT VALUE c.id FROM c"), List.of("1", "2"));
    CosmosItemRequestOptions first = new CosmosItemRequestOptions().setPreTriggerInclude(List.of("stamp"));
    equal(flat.upsertItem(object("id", "1", "pk", "triggers"), first).getItem().get("by").asText(), "Upsert");
    equal(flat.replaceItem(object("id", "1", "pk", "triggers"), "1", new PartitionKey("triggers"), first).getItem().get("by").asText(), "Replace");
    refused(400, () -> flat.createItem(object("id", "4", "pk", "triggers"), new CosmosItemRequestOptions().setPreTriggerInclude(List.of("missing"))));

    var kept = flat.getScripts().getTrigger("guard");
    equal(kept.read().getProperties().getTriggerType(), TriggerType.POST);
    kept.replace(kept.read().getProperties().setBody("function () {}"));
    equal(flat.createItem(object("id", "3", "pk", "triggers"), both).getStatusCode(), 201);
    equal(flat.getScripts().readAllTriggers().stream().count(), 2L);
    equal(flat.getScripts().queryTriggers("SELECT * FROM t WHERE t.triggerType = 'Pre'", new CosmosQueryRequestOptions()).stream().count(), 1L);
    kept.delete();
    refused(404, kept::read);
  }

  private void functions() {
    flat.getScripts().createUserDefinedFunction(new CosmosUserDefinedFunctionProperties("tax",
        "function (income) { return income < 1000 ? income * 0.1 : income * 0.25; }"));
    for (int income : List.of(500, 1000, 2000))
      flat.createItem(object("id", "i" + income, "pk", "functions", "income", income));
    PartitionKey key = new PartitionKey("functions");
    equal(texts(flat, key, "SELECT VALUE udf.tax(c.income) FROM c"), List.of("50", "250", "500"));
    equal(Cosmos.rows(flat, "SELECT VALUE c.id FROM c WHERE udf.tax(c.income) > 100 ORDER BY c.income DESC").stream().map(JsonNode::asText).toList(), List.of("i2000", "i1000"));
    refused(400, () -> texts(flat, key, "SELECT VALUE udf.missing(c.income) FROM c"));
    var kept = flat.getScripts().getUserDefinedFunction("tax");
    kept.replace(kept.read().getProperties().setBody("function () { return 0; }"));
    equal(texts(flat, key, "SELECT DISTINCT VALUE udf.tax(c.income) FROM c"), List.of("0"));
    equal(flat.getScripts().readAllUserDefinedFunctions().stream().map(CosmosUserDefinedFunctionProperties::getId).toList(), List.of("tax"));
    equal(flat.getScripts().queryUserDefinedFunctions("SELECT * FROM u", new CosmosQueryRequestOptions()).stream().count(), 1L);
    kept.delete();
    refused(404, kept::read);
  }

  private static CosmosStoredProcedureResponse execute(CosmosContainer container, String id, PartitionKey key, Object... arguments) {
    return container.getScripts().getStoredProcedure(id).execute(List.of(arguments),
        new CosmosStoredProcedureRequestOptions().setPartitionKey(key).setScriptLoggingEnabled(true));
  }

  private static JsonNode result(CosmosStoredProcedureResponse response) {
    try {
      return JSON.readTree(response.getResponseAsString());
    } catch (IOException wrong) {
      throw new UncheckedIOException(wrong);
    }
  }
}
