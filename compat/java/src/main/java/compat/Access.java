package compat;

import static compat.Cosmos.hierarchical;
import static compat.Cosmos.key;
import static compat.Cosmos.object;
import static compat.Tests.check;
import static compat.Tests.equal;
import static compat.Tests.refused;

import com.azure.core.credential.AccessToken;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.ContainerChildResourceType;
import com.azure.cosmos.models.CosmosConflictRequestOptions;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosPermissionRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

/** Users, permissions, resource tokens and bearer tokens: what a token allows and what it does not (S102); and the feed of conflicts. */
final class Access {
  /** The oldest SDK sends only the first value of a hierarchical key. */
  private static final boolean SENDS_ONE_VALUE = Tests.SDK.equals("4.42.0");

  private final String endpoint;
  private final String admin;
  private final CosmosDatabase database;
  private final CosmosContainer container;
  private final CosmosAsyncContainer asynchronous; // only the asynchronous client has conflicts and permissions
  private final CosmosAsyncUser user;

  /** Runs the tests over the endpoint and returns how many fail. */
  static int run(String endpoint, String admin) {
    return Cosmos.run(endpoint, "access", (tests, database) -> {
      try (CosmosAsyncClient client = Cosmos.builder(endpoint).key(Cosmos.KEY).buildAsyncClient()) {
        Access access = new Access(endpoint, admin, database, client);
        tests.run("users", access::users);
        tests.run("permissions", access::permissions);
        tests.run("a token that reads", access::reading);
        tests.run("a token for a whole partition key", access::wholeKey);
        tests.run("a token for one item", access::oneItem);
        tests.run("bearer tokens and roles", access::bearer);
        tests.run("conflicts: there are none", access::conflicts);
        tests.run("S102 a permission for a prefix of the key is refused", access::prefix);
      }
    });
  }

  private Access(String endpoint, String admin, CosmosDatabase database, CosmosAsyncClient client) {
    this.endpoint = endpoint;
    this.admin = admin;
    this.database = database;
    container = Cosmos.create(database, hierarchical("c", List.of("/tenant", "/user")), 2);
    for (int i = 0; i < 4; i++)
      container.createItem(object("id", "" + i, "tenant", "t" + i / 2, "user", "u" + i % 2));
    database.createUser(new CosmosUserProperties().setId("ann"));
    asynchronous = client.getDatabase(database.getId()).getContainer(container.getId());
    user = client.getDatabase(database.getId()).getUser("ann");
  }

  private void users() {
    refused(409, () -> database.createUser(new CosmosUserProperties().setId("ann")));
    equal(database.getUser("ann").read().getProperties().getId(), "ann");
    equal(database.upsertUser(new CosmosUserProperties().setId("bob")).getStatusCode(), 201);
    equal(database.readAllUsers().stream().map(CosmosUserProperties::getId).sorted().toList(), List.of("ann", "bob"));
    equal(database.queryUsers("SELECT * FROM u WHERE u.id = 'bob'").stream().count(), 1L);
    database.getUser("bob").replace(database.getUser("bob").read().getProperties().setId("rob"));
    database.getUser("rob").delete();
    refused(404, () -> database.getUser("rob").read());
  }

  private void permissions() {
    grant(permission("p", PermissionMode.READ));
    refused(409, () -> grant(permission("p", PermissionMode.READ)));
    CosmosPermissionProperties kept = user.getPermission("p").read(new CosmosPermissionRequestOptions()).block().getProperties();
    equal(kept.getPermissionMode(), PermissionMode.READ);
    check(!kept.getToken().equals(""), "it has a token");
    equal(user.getPermission("p").replace(kept.setPermissionMode(PermissionMode.ALL), new CosmosPermissionRequestOptions()).block().getProperties().getPermissionMode(), PermissionMode.ALL);
    equal(user.upsertPermission(permission("p", PermissionMode.READ), new CosmosPermissionRequestOptions()).block().getStatusCode(), 200);
    equal(user.readAllPermissions().collectList().block().size(), 1);
    equal(user.queryPermissions("SELECT * FROM p WHERE p.id = 'p'").collectList().block().size(), 1);
    user.getPermission("p").delete(null).block();
    refused(404, () -> user.getPermission("p").read(new CosmosPermissionRequestOptions()).block());
  }

  private void reading() {
    CosmosPermissionProperties granted = grant(permission("read", PermissionMode.READ));
    with(granted, own -> {
      equal(own.readItem("1", key("t0", "u1"), JsonNode.class).getItem().get("id").asText(), "1");
      equal(Cosmos.rows(own, "SELECT * FROM c WHERE c.tenant = 't0'").size(), 2);
      refused(403, () -> own.createItem(object("id", "9", "tenant", "t0", "user", "u0")));
      refused(403, own::delete);
      user.getPermission("read").delete(null).block();
      refused(403, () -> own.readItem("1", key("t0", "u1"), JsonNode.class));
    });
  }

  private void wholeKey() {
    if (SENDS_ONE_VALUE) {
      refused(400, () -> grant(permission("key", PermissionMode.ALL).setResourcePartitionKey(key("t0", "u0"))));
      return;
    }
    with(grant(permission("key", PermissionMode.ALL).setResourcePartitionKey(key("t0", "u0"))), own -> {
      own.createItem(object("id", "4", "tenant", "t0", "user", "u0"));
      refused(403, () -> own.createItem(object("id", "5", "tenant", "t0", "user", "u1")));
      refused(403, () -> own.readItem("1", key("t0", "u1"), JsonNode.class));
      equal(Cosmos.rows(own, 100, new CosmosQueryRequestOptions().setPartitionKey(key("t0", "u0")), new SqlQuerySpec("SELECT VALUE c.id FROM c"))
          .stream().map(JsonNode::asText).collect(Collectors.joining(" ")), "0 4");
      own.deleteItem("4", key("t0", "u0"), null);
    });
  }

  private void oneItem() {
    CosmosPermissionProperties item = permission("item", PermissionMode.ALL).setResourcePath(ContainerChildResourceType.ITEM, "3").setResourcePartitionKey(key("t1", "u1"));
    if (SENDS_ONE_VALUE) {
      refused(400, () -> grant(item));
      return;
    }
    with(grant(item), own -> {
      equal(own.readItem("3", key("t1", "u1"), JsonNode.class).getStatusCode(), 200);
      refused(403, () -> own.readItem("2", key("t1", "u0"), JsonNode.class));
    });
  }

  private void prefix() {
    refused(400, () -> grant(permission("prefix", PermissionMode.READ).setResourcePartitionKey(new PartitionKey("t0"))));
  }

  /** A principal of the issuer that run.sh created; its roles are assigned here. */
  private void bearer() {
    String token = System.getenv("DECAN_BEARER");
    Admin roles = new Admin(admin, database.getId(), container.getId());
    try (CosmosClient client = Cosmos.builder(endpoint).credential(request -> Mono.just(new AccessToken(token, OffsetDateTime.now().plusHours(1)))).buildClient()) {
      CosmosContainer own = client.getDatabase(database.getId()).getContainer(container.getId());
      refused(403, () -> own.readItem("1", key("t0", "u1"), JsonNode.class));
      String assignment = roles.assign(Admin.READER, "compat-app");
      equal(own.readItem("1", key("t0", "u1"), JsonNode.class).getItem().get("id").asText(), "1");
      equal(Cosmos.rows(own, "SELECT * FROM c").size(), 4);
      refused(403, () -> own.createItem(object("id", "9", "tenant", "t0", "user", "u0")));
      roles.revoke(assignment);
      assignment = roles.assign(Admin.CONTRIBUTOR, "compat-app");
      own.createItem(object("id", "9", "tenant", "t0", "user", "u0"));
      own.deleteItem("9", key("t0", "u0"), null);
      refused(403, own::delete);
      roles.revoke(assignment);
      refused(403, () -> own.readItem("1", key("t0", "u1"), JsonNode.class));
    }
  }

  private void conflicts() {
    equal(asynchronous.readAllConflicts(new CosmosQueryRequestOptions()).byPage(3).blockLast().getResults().size(), 0);
    equal(asynchronous.queryConflicts("SELECT * FROM c").collectList().block(), List.of());
    CosmosConflictRequestOptions one = new CosmosConflictRequestOptions().setPartitionKey(key("t0", "u0"));
    refused(404, () -> asynchronous.getConflict("x").read(one).block());
    refused(404, () -> asynchronous.getConflict("x").delete(one).block());
  }

  private CosmosPermissionProperties permission(String id, PermissionMode mode) {
    return new CosmosPermissionProperties().setId(id).setPermissionMode(mode).setContainerName(container.getId());
  }

  private CosmosPermissionProperties grant(CosmosPermissionProperties permission) {
    return user.createPermission(permission, new CosmosPermissionRequestOptions()).block().getProperties();
  }

  /** Calls with the container of a client that has only the token, and then deletes the permission. */
  private void with(CosmosPermissionProperties granted, Consumer<CosmosContainer> work) {
    try (CosmosClient client = Cosmos.builder(endpoint).resourceToken(granted.getToken()).buildClient()) {
      work.accept(client.getDatabase(database.getId()).getContainer(container.getId()));
    }
    if (user.readAllPermissions().collectList().block().stream().anyMatch(left -> left.getId().equals(granted.getId())))
      user.getPermission(granted.getId()).delete(null).block();
  }
}
