package compat;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.config.ProgrammaticDriverConfigLoaderBuilder;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PagingState;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;

/**
 * Runs the Java driver on the server at DECAN_CQL, with the user DECAN_CQL_USER and the password
 * DECAN_CQL_KEY, on each version of the protocol that it has. ../run.sh runs it.
 */
public final class Drivers {
  private static final String ADMIN = System.getenv("DECAN_ADMIN");
  private static final String TURNS = System.getenv("DECAN_TURNS");
  private static final String KEY = System.getenv("DECAN_CQL_KEY");
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final Set<String> NEWER = Set.of("da", "ti", "si", "ty"); // version 3 does not know them

  private Drivers() {}

  public static void main(String[] arguments) throws Exception {
    for (String version : new String[] {"", "V3", "V4", "V5"}) {
      for (String compression : new String[] {"none", "lz4"}) {
        program(version, compression);
      }
    }
    try {
      session("V4", "none", "d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=").close();
      throw new AssertionError("a wrong key is accepted");
    } catch (AllNodesFailedException refused) {
      check(refused.toString().contains("Authentication error") || refused.getAllErrors().toString().contains("Provided username"), refused);
    }
    splits();
    restart();
    System.out.println("the Java driver: versions 3, 4 and 5, splits, a restart: OK");
  }

  private static void check(boolean holds, Object otherwise) {
    if (!holds) {
      throw new AssertionError(otherwise);
    }
  }

  private static CqlSession session(String version, String compression, String key) {
    String[] endpoint = System.getenv("DECAN_CQL").split(":");
    ProgrammaticDriverConfigLoaderBuilder config = DriverConfigLoader.programmaticBuilder()
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, MINUTE)
        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, MINUTE)
        .withDuration(DefaultDriverOption.CONNECTION_CONNECT_TIMEOUT, MINUTE)
        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, MINUTE)
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, MINUTE)
        .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(50))
        .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(200))
        .withDuration(DefaultDriverOption.RECONNECTION_MAX_DELAY, Duration.ofSeconds(1))
        .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression);
    if (!version.isEmpty()) {
      config.withString(DefaultDriverOption.PROTOCOL_VERSION, version);
    }
    CqlSessionBuilder builder = CqlSession.builder()
        .addContactPoint(new InetSocketAddress(endpoint[0], Integer.parseInt(endpoint[1])))
        .withLocalDatacenter(System.getenv("DECAN_CQL_DC"))
        .withAuthCredentials(System.getenv("DECAN_CQL_USER"), key)
        .withConfigLoader(config.build());
    if (!compression.equals("none")) {
      builder.withSslContext(trusting());
    }
    return builder.build();
  }

  /** Accepts every certificate. */
  private static SSLContext trusting() {
    X509ExtendedTrustManager all = new X509ExtendedTrustManager() {
      @Override
      public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {}

      @Override
      public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) {}

      @Override
      public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

      @Override
      public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

      @Override
      public void checkClientTrusted(X509Certificate[] chain, String type) {}

      @Override
      public void checkServerTrusted(X509Certificate[] chain, String type) {}

      @Override
      public X509Certificate[] getAcceptedIssuers() {
        return new X509Certificate[0];
      }
    };
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, new TrustManager[] {all}, null);
      return context;
    } catch (GeneralSecurityException impossible) {
      throw new AssertionError(impossible);
    }
  }

  private static CqlSession session(String keyspace) {
    CqlSession s = session("", "none", KEY);
    s.execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    return s;
  }

  private static void program(String version, String compression) throws Exception {
    String ks = "java_" + (version.isEmpty() ? "v0" : version.toLowerCase()) + "_" + compression;
    try (CqlSession s = session(version, compression, KEY)) {
      check(s.getContext().getProtocolVersion().name().equals(version.isEmpty() ? "V5" : version), s.getContext().getProtocolVersion());
      s.execute("CREATE KEYSPACE " + ks + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      s.execute("CREATE TABLE " + ks + ".t (k int, c int, v text, PRIMARY KEY (k, c))");
      PreparedStatement insert = s.prepare("INSERT INTO " + ks + ".t (k, c, v) VALUES (?, ?, ?)");
      for (int i = 0; i < 100; i++) {
        s.execute(insert.bind(i, 0, String.valueOf(i)));
      }
      PreparedStatement read = s.prepare("SELECT v FROM " + ks + ".t WHERE k = ? AND c = 0");
      check("7".equals(s.execute(read.bind(7)).one().getString(0)), "the row 7");
      check(read.getPartitionKeyIndices().equals(List.of(0)) || version.equals("V3"), read.getPartitionKeyIndices());
      for (int size : new int[] {10, 37, 5000}) {
        check(keys(s, "SELECT k FROM " + ks + ".t", size).size() == 100, "pages of " + size);
      }
      for (BatchType kind : new BatchType[] {DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED}) {
        s.execute(BatchStatement.builder(kind).addStatement(insert.bind(200, 0, "a"))
            .addStatement(SimpleStatement.newInstance("INSERT INTO " + ks + ".t (k, c, v) VALUES (?, 0, ?)", 201, "b")).build());
      }
      check("b".equals(s.execute(read.bind(201)).one().getString(0)), "the row of a batch");
      PreparedStatement once = s.prepare("INSERT INTO " + ks + ".t (k, c, v) VALUES (?, 0, 'x') IF NOT EXISTS");
      check(s.execute(once.bind(300)).wasApplied(), "the first one is not applied");
      check(!s.execute(once.bind(300)).wasApplied(), "the second one is applied");
      PreparedStatement star = s.prepare("SELECT * FROM " + ks + ".t WHERE k = ? AND c = 0");
      s.execute(star.bind(300));
      s.execute("ALTER TABLE " + ks + ".t ADD w int");
      s.execute("UPDATE " + ks + ".t SET w = 5 WHERE k = 300 AND c = 0");
      // The driver prepares again. Before version 5 it does not learn of the new column.
      Row row = s.execute(star.bind(300)).one();
      check("x".equals(row.getString("v")), row.getFormattedContents());
      check(!"V5".equals(version) || row.getInt("w") == 5, row.getFormattedContents());
      s.execute(insert.bind(0, 0, "again"));
      try {
        s.execute("nonsense");
        throw new AssertionError("nonsense is accepted");
      } catch (SyntaxError expected) {
        check(expected.getMessage().startsWith("line 1:0"), expected);
      }
      s.refreshSchema();
      var table = s.getMetadata().getKeyspace(ks).orElseThrow().getTable("t").orElseThrow();
      check(table.getPartitionKey().get(0).getName().asInternal().equals("k") && table.getColumn("w").isPresent(), table);
      check(s.getMetadata().getTokenMap().orElseThrow().getReplicas(CqlIdentifier.fromInternal(ks), ByteBuffer.allocate(4)).size() == 1, "replicas");
      types(s, ks, version);
      feed(s, ks);
      trace(s, ks);
    }
  }

  /**
   * Reads the change feed of a table page by page: the paging state of each page, an empty one too,
   * is where the next one begins.
   */
  private static void feed(CqlSession s, String ks) {
    s.execute("CREATE TABLE " + ks + ".feed (k int, c int, v text, PRIMARY KEY (k, c))");
    PreparedStatement insert = s.prepare("INSERT INTO " + ks + ".feed (k, c, v) VALUES (1, ?, ?)");
    for (int i = 0; i < 10; i++) {
      s.execute(insert.bind(i, "a"));
    }
    s.execute(insert.bind(0, "b"));
    PreparedStatement feed = s.prepare("SELECT c, v FROM " + ks + ".feed WHERE COSMOS_CHANGEFEED_START_TIME() = ? AND COSMOS_FEEDRANGE() = ?");
    String range = s.execute(s.prepare("SELECT range FROM system_cosmos.feedranges WHERE keyspace_name = ? AND table_name = ?").bind(ks, "feed")).one().getString(0);
    List<String> seen = new ArrayList<>();
    PagingState state = null;
    for (int round = 0; round < 2; round++) {
      for (boolean more = true; more; ) {
        ResultSet page = s.execute(feed.bind(Instant.EPOCH, range).setPageSize(4).setPagingState(state));
        int rows = page.getAvailableWithoutFetching();
        more = rows > 0;
        for (; rows > 0; rows--) {
          Row row = page.one();
          seen.add(row.getInt(0) + row.getString(1));
        }
        state = page.getExecutionInfo().getSafePagingState();
        check(state != null, "a page has no state");
      }
      if (round == 0) {
        check(seen.size() == 10 && seen.get(9).equals("0b"), seen);
        s.execute(insert.bind(5, "c"));
        s.execute("DELETE FROM " + ks + ".feed WHERE k = 1 AND c = 9");
      }
    }
    check(seen.size() == 11 && seen.get(10).equals("5c"), seen);
  }

  /** The driver finds the trace of a statement at once. */
  private static void trace(CqlSession s, String ks) {
    SimpleStatement text = SimpleStatement.newInstance("SELECT * FROM " + ks + ".feed WHERE k = 1").setTracing(true);
    QueryTrace trace = s.execute(text).getExecutionInfo().getQueryTrace();
    check(trace.getDurationMicros() > 0 && trace.getRequestType().equals("Execute CQL3 query"), trace.getRequestType());
    check(trace.getParameters().get("query").equals(text.getQuery()) && trace.getCoordinatorAddress() != null, trace.getParameters());
    List<String> events = new ArrayList<>();
    trace.getEvents().forEach(e -> events.add(e.getActivity()));
    check(events.toString().contains("Read a partition key of feed: ") && events.get(events.size() - 1).startsWith("Request charge: "), events);
  }

  /** Reads a value of each type and writes it back: the server has the same value. */
  private static void types(CqlSession s, String ks, String version) throws Exception {
    for (String line : Files.readAllLines(Path.of("compat/cassandra/types.cql"))) {
      s.execute(line.replace("ks.", ks + "."));
    }
    s.refreshSchema();
    List<String> names = new ArrayList<>();
    for (CqlIdentifier name : s.getMetadata().getKeyspace(ks).orElseThrow().getTable("types").orElseThrow().getColumns().keySet()) {
      if (!name.asInternal().equals("k") && !(version.equals("V3") && NEWER.contains(name.asInternal()))) {
        names.add(name.asInternal());
      }
    }
    String list = String.join(", ", names);
    Row row = s.execute("SELECT " + list + " FROM " + ks + ".types WHERE k = 'literal'").one();
    PreparedStatement write = s.prepare("INSERT INTO " + ks + ".types (k, " + list + ") VALUES (?" + ", ?".repeat(names.size()) + ")");
    BoundStatement driver = write.bind("driver");
    BoundStatement nulls = write.bind("nulls");
    for (int i = 0; i < names.size(); i++) {
      var codec = s.getContext().getCodecRegistry().codecFor(row.getType(i));
      driver = driver.set(i + 1, row.get(i, codec), codec);
      nulls = nulls.setToNull(i + 1);
    }
    s.execute(driver);
    s.execute(nulls);
    PreparedStatement json = s.prepare("SELECT JSON " + list + " FROM " + ks + ".types WHERE k = ?");
    String literal = s.execute(json.bind("literal")).one().getString(0);
    String written = s.execute(json.bind("driver")).one().getString(0);
    check(literal.equals(written) && literal.contains("Zürich 漢字 😀"), literal + "\n" + written);
    Row empty = s.execute("SELECT " + list + " FROM " + ks + ".types WHERE k = 'nulls'").one();
    for (int i = 0; i < names.size(); i++) {
      check(empty.isNull(i), names.get(i));
    }
  }

  private static List<Integer> keys(CqlSession s, String text, int size) {
    List<Integer> all = new ArrayList<>();
    for (Row row : s.execute(SimpleStatement.builder(text).setPageSize(size).build())) {
      all.add(row.getInt(0));
    }
    return all;
  }

  private static String admin(String path, String method) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(ADMIN + path)).header("x-decan-key", KEY)
        .method(method, HttpRequest.BodyPublishers.noBody()).build();
    HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    check(answer.statusCode() == 200, answer.body());
    return answer.body();
  }

  private static List<String> partitions() throws Exception {
    List<String> ids = new ArrayList<>();
    var found = Pattern.compile("\"id\":\"(\\d+)\",\"min\"").matcher(admin("partitions?database=java_splits&container=t", "GET"));
    while (found.find()) {
      ids.add(found.group(1));
    }
    return ids;
  }

  /**
   * Writes and reads while all physical partitions of a table split: no statement fails, and no row
   * is lost or comes twice (S115, S142).
   */
  private static void splits() throws Exception {
    if (ADMIN == null) {
      return;
    }
    try (CqlSession s = session("java_splits")) {
      s.execute("CREATE TABLE java_splits.t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 20000");
      PreparedStatement insert = s.prepare("INSERT INTO java_splits.t (k, c, n) VALUES (?, ?, 0)");
      PreparedStatement change = s.prepare("UPDATE java_splits.t SET n = 1 WHERE k = ? AND c = ? IF n = 0");
      for (int i = 0; i < 150; i++) { // A partition with one key does not split.
        s.execute(insert.bind(i, 9));
      }
      ConcurrentLinkedQueue<Throwable> failed = new ConcurrentLinkedQueue<>();
      List<Thread> writers = new ArrayList<>();
      for (int w = 0; w < 4; w++) {
        int writer = w;
        Thread thread = new Thread(() -> {
          try {
            for (int i = 0; i < 150; i++) {
              s.execute(insert.bind(i, writer));
              check(s.execute(change.bind(i, writer)).wasApplied(), "not applied");
            }
          } catch (Throwable failure) {
            failed.add(failure);
          }
        });
        writers.add(thread);
        thread.start();
      }
      for (int round = 0; round < 2; round++) {
        for (String id : partitions()) {
          admin("partitions/split?database=java_splits&container=t&partition=" + id, "POST");
          rows(s);
        }
      }
      for (Thread writer : writers) {
        writer.join();
      }
      check(failed.isEmpty(), failed);
      check(rows(s) == 750, "rows are lost");
      check(partitions().size() >= 4, partitions());
    }
  }

  private static int rows(CqlSession s) {
    Set<String> seen = new HashSet<>();
    for (Row row : s.execute(SimpleStatement.builder("SELECT k, c FROM java_splits.t").setPageSize(20).build())) {
      check(seen.add(row.getInt(0) + " " + row.getInt(1)), "a row comes twice");
    }
    return seen.size();
  }

  /**
   * Writes until the server was killed and started again, which ../run.sh does when all drivers wait
   * for it: the session goes on, and no acknowledged row is lost.
   */
  private static void restart() throws Exception {
    if (TURNS == null) {
      return;
    }
    try (CqlSession s = session("java_restart")) {
      s.execute("CREATE TABLE java_restart.t (k int PRIMARY KEY)");
      PreparedStatement insert = s.prepare("INSERT INTO java_restart.t (k) VALUES (?)");
      Files.createFile(Path.of(TURNS, "java"));
      Set<Integer> written = new HashSet<>();
      long restarted = 0;
      for (int i = 0, after = 0; after < 20; i++) {
        if (restarted == 0 && Files.exists(Path.of(TURNS, "restarted"))) {
          restarted = System.nanoTime();
        }
        try {
          s.execute(insert.bind(i));
          written.add(i);
          if (restarted != 0) {
            after++;
          }
        } catch (RuntimeException failure) {
          check(restarted == 0 || System.nanoTime() - restarted < 2 * MINUTE.toNanos(), failure);
        }
        Thread.sleep(restarted == 0 && i >= 20 ? 300 : 20); // The others take their time.
      }
      keys(s, "SELECT k FROM java_restart.t", 100).forEach(written::remove);
      check(written.isEmpty(), "lost: " + written);
    }
  }
}
