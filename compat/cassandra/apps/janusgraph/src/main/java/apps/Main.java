package apps;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.tinkerpop.gremlin.process.traversal.Order;
import org.apache.tinkerpop.gremlin.process.traversal.P;
import org.apache.tinkerpop.gremlin.process.traversal.dsl.graph.GraphTraversalSource;
import org.apache.tinkerpop.gremlin.process.traversal.dsl.graph.__;
import org.apache.tinkerpop.gremlin.structure.Direction;
import org.apache.tinkerpop.gremlin.structure.T;
import org.apache.tinkerpop.gremlin.structure.Vertex;
import org.apache.tinkerpop.gremlin.structure.VertexProperty;
import org.janusgraph.core.Cardinality;
import org.janusgraph.core.JanusGraph;
import org.janusgraph.core.JanusGraphFactory;
import org.janusgraph.core.Multiplicity;
import org.janusgraph.core.SchemaViolationException;
import org.janusgraph.core.schema.ConsistencyModifier;
import org.janusgraph.core.schema.JanusGraphManagement;
import org.janusgraph.core.schema.SchemaAction;
import org.janusgraph.core.schema.SchemaStatus;
import org.janusgraph.example.GraphOfTheGodsFactory;
import org.janusgraph.graphdb.database.management.ManagementSystem;

/**
 * A graph of JanusGraph: the schema, unique indexes with locks, indexes of a vertex,
 * traversals over edges, scans, a new index of old vertices, times to live, two instances
 * that write the same unique name, deletes, and a graph that is opened again. The
 * arguments are the address, the port, the user, the key and the data center. Exits with 1
 * if something is not as expected.
 */
public final class Main {
  private static final int PEOPLE = 300;

  private static int passed;
  private static int failed;

  private interface Body {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    JanusGraph graph = open(args, "one");
    schema(graph);
    vertices(graph);
    traversals(graph);
    reindexed(graph);
    instances(graph, args);
    graph.close();
    JanusGraph again = open(args, "one");
    deletes(again);
    JanusGraphFactory.drop(again);
    gods(args);
    System.out.printf("JanusGraph: %d tests passed, %d failed%n", passed, failed);
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }

  /** Opens a graph with default options. */
  private static JanusGraph open(String[] args, String instance) {
    return JanusGraphFactory.build().set("storage.backend", "cql").set("storage.hostname", args[0]).set("storage.port", Integer.parseInt(args[1]))
        .set("storage.username", args[2]).set("storage.password", args[3]).set("storage.cql.local-datacenter", args[4])
        .set("storage.cql.keyspace", "graph").set("graph.unique-instance-id", instance).set("graph.replace-instance-if-exists", true).open();
  }

  private static void schema(JanusGraph graph) {
    test("a schema with a unique index, an index of a vertex and times to live", () -> {
      JanusGraphManagement schema = graph.openManagement();
      var name = schema.makePropertyKey("name").dataType(String.class).make();
      var age = schema.makePropertyKey("age").dataType(Integer.class).make();
      schema.makePropertyKey("tag").dataType(String.class).cardinality(Cardinality.SET).make();
      schema.makePropertyKey("score").dataType(Double.class).cardinality(Cardinality.LIST).make();
      var since = schema.makePropertyKey("since").dataType(Long.class).make();
      var knows = schema.makeEdgeLabel("knows").multiplicity(Multiplicity.MULTI).make();
      schema.makeEdgeLabel("mother").multiplicity(Multiplicity.MANY2ONE).make();
      var note = schema.makeEdgeLabel("note").make();
      schema.setTTL(note, Duration.ofHours(1));
      schema.makeVertexLabel("person").make();
      var byName = schema.buildIndex("byName", Vertex.class).addKey(name).unique().buildCompositeIndex();
      schema.setConsistency(byName, ConsistencyModifier.LOCK);
      schema.buildIndex("byAge", Vertex.class).addKey(age).buildCompositeIndex();
      schema.buildEdgeIndex(knows, "bySince", Direction.BOTH, Order.desc, since);
      schema.commit();
      schema = graph.openManagement();
      equal(schema.getGraphIndex("byName").isUnique(), true);
      equal(schema.getTTL(schema.getEdgeLabel("note")), Duration.ofHours(1));
      schema.rollback();
    });
  }

  private static void vertices(JanusGraph graph) {
    test("vertices, edges and properties of each cardinality", () -> {
      var people = new ArrayList<Vertex>();
      for (int i = 0; i < PEOPLE; i++) {
        Vertex one = graph.addVertex(T.label, "person", "name", "p" + i, "age", i % 50);
        one.property(VertexProperty.Cardinality.set, "tag", "t" + i % 3);
        one.property(VertexProperty.Cardinality.set, "tag", "all");
        one.property(VertexProperty.Cardinality.list, "score", 1.5);
        one.property(VertexProperty.Cardinality.list, "score", 1.5);
        people.add(one);
      }
      for (int i = 0; i < PEOPLE; i++) {
        people.get(i).addEdge("knows", people.get((i + 1) % PEOPLE), "since", (long) i);
        people.get(0).addEdge("knows", people.get(i), "since", 1000L + i);
        people.get(i).addEdge("note", people.get(0));
      }
      graph.tx().commit();
      equal(graph.traversal().V().count().next(), (long) PEOPLE);
      graph.tx().rollback();
    });

    test("a name that exists is refused", () -> {
      try {
        graph.addVertex("name", "p7");
        graph.tx().commit();
      } catch (SchemaViolationException expected) {
        graph.tx().rollback();
        return;
      }
      throw new AssertionError("written");
    });

    test("a label of one edge refuses the second", () -> {
      GraphTraversalSource g = graph.traversal();
      Vertex child = g.V().has("name", "p1").next();
      child.addEdge("mother", g.V().has("name", "p2").next());
      try {
        child.addEdge("mother", g.V().has("name", "p3").next());
      } catch (SchemaViolationException expected) {
        graph.tx().rollback();
        return;
      }
      throw new AssertionError("written");
    });
  }

  private static void traversals(JanusGraph graph) {
    test("lookups by index", () -> {
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("name", "p42").values("age").next(), 42);
      equal(g.V().has("age", 7).count().next(), 6L);
      equal(Set.copyOf(g.V().has("name", "p4").values("tag").toList()), Set.of("t1", "all"));
      equal(g.V().has("name", "p4").values("score").toList(), List.of(1.5, 1.5));
      graph.tx().rollback();
    });

    test("edges by their own index, in order", () -> {
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("name", "p0").outE("knows").has("since", P.gte(1000L + PEOPLE - 5)).count().next(), 5L);
      List<Object> latest = g.V().has("name", "p0").outE("knows").order().by("since", Order.desc).limit(3).values("since").toList();
      equal(latest, List.of(1000L + PEOPLE - 1, 1000L + PEOPLE - 2, 1000L + PEOPLE - 3));
      graph.tx().rollback();
    });

    test("paths, repeats and groups", () -> {
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("name", "p1").repeat(__.outE("knows").has("since", P.lt(1000L)).inV()).times(5).values("name").toList(), List.of("p6"));
      equal(g.V().has("name", "p0").out("knows").dedup().count().next(), (long) PEOPLE);
      equal(g.V().groupCount().by("age").next().size(), 50);
      equal(g.V().has("name", "p0").in("note").count().next(), (long) PEOPLE);
      equal(g.E().count().next(), 3L * PEOPLE);
      graph.tx().rollback();
    });

    test("changes of a transaction are seen by the next one", () -> {
      Vertex one = graph.traversal().V().has("name", "p9").next();
      one.property("age", 99);
      one.property("tag", "new");
      graph.tx().rollback();
      equal(graph.traversal().V().has("name", "p9").values("age").next(), 9);
      one = graph.traversal().V().has("name", "p9").next();
      one.property("age", 99);
      graph.tx().commit();
      equal(graph.traversal().V().has("age", 99).count().next(), 1L);
      equal(graph.traversal().V().has("age", 9).count().next(), 5L);
      graph.tx().rollback();
    });
  }

  private static void reindexed(JanusGraph graph) {
    test("a new index of old vertices", () -> {
      JanusGraphManagement schema = graph.openManagement();
      schema.buildIndex("byTag", Vertex.class).addKey(schema.getPropertyKey("tag")).buildCompositeIndex();
      schema.commit();
      equal(ManagementSystem.awaitGraphIndexStatus(graph, "byTag").status(SchemaStatus.REGISTERED, SchemaStatus.ENABLED).call().getSucceeded(), true);
      schema = graph.openManagement();
      schema.updateIndex(schema.getGraphIndex("byTag"), SchemaAction.REINDEX).get();
      schema.commit();
      equal(ManagementSystem.awaitGraphIndexStatus(graph, "byTag").status(SchemaStatus.ENABLED).call().getSucceeded(), true);
      equal(graph.traversal().V().has("tag", "t2").count().next(), PEOPLE / 3L);
      graph.tx().rollback();
    });
  }

  private static void instances(JanusGraph graph, String[] args) {
    test("one of two instances writes a unique name", () -> {
      try (JanusGraph other = open(args, "two")) {
        int written = 0;
        var threads = Executors.newFixedThreadPool(2);
        for (int round = 0; round < 3; round++) {
          String name = "both" + round;
          var tries = new ArrayList<Future<Boolean>>();
          for (JanusGraph one : List.of(graph, other))
            tries.add(threads.submit(() -> write(one, name)));
          for (var each : tries)
            written += each.get() ? 1 : 0;
          equal(graph.traversal().V().has("name", name).count().next() <= 1, true);
          graph.tx().rollback();
        }
        threads.shutdown();
        equal(written <= 3, true);
      }
    });
  }

  private static boolean write(JanusGraph graph, String name) {
    try {
      graph.addVertex("name", name);
      graph.tx().commit();
      return true;
    } catch (Exception e) {
      graph.tx().rollback();
      return false;
    }
  }

  private static void deletes(JanusGraph graph) {
    test("a graph that is opened again has its schema and its data", () -> {
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("age", P.gte(0)).count().next(), (long) PEOPLE);
      equal(g.V().has("name", "p42").out("knows").values("name").next(), "p43");
      graph.tx().rollback();
    });

    test("deleted vertices leave their indexes and edges", () -> {
      graph.traversal().V().has("age", 7).drop().iterate();
      graph.traversal().V().has("name", "p1").outE("knows").drop().iterate();
      graph.tx().commit();
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("age", 7).count().next(), 0L);
      equal(g.V().has("name", "p6").outE("knows").count().next(), 0L);
      equal(g.V().has("name", "p1").outE("knows").count().next(), 0L);
      equal(g.V().has("name", "p0").outE("knows").count().next(), PEOPLE - 6L + 1);
      graph.tx().rollback();
    });
  }

  private static void gods(String[] args) throws Exception {
    JanusGraph graph = open(args, "gods");
    test("the example of JanusGraph", () -> {
      GraphOfTheGodsFactory.loadWithoutMixedIndex(graph, true);
      GraphTraversalSource g = graph.traversal();
      equal(g.V().has("name", "saturn").in("father").in("father").values("name").next(), "hercules");
      equal(Set.copyOf(g.V().has("name", "hercules").outE("battled").has("time", P.gt(1)).inV().values("name").toList()), Set.of("hydra", "cerberus"));
      equal(g.V().has("name", "jupiter").out("brother").values("name").toSet(), Set.of("neptune", "pluto"));
      graph.tx().rollback();
    });
    JanusGraphFactory.drop(graph);
  }

  private static void test(String name, Body body) {
    long start = System.nanoTime();
    try {
      body.run();
      passed++;
    } catch (Exception | AssertionError e) {
      failed++;
      System.out.println("FAILED " + name + ": " + e);
      for (Throwable cause = e; cause != null; cause = cause.getCause())
        System.out.println("  " + cause);
      for (StackTraceElement frame : e.getStackTrace())
        if (frame.getClassName().startsWith("apps."))
          System.out.println("  " + frame);
    }
    System.out.printf("%s: %d ms%n", name, (System.nanoTime() - start) / 1_000_000);
  }

  private static void equal(Object got, Object want) {
    if (!want.equals(got))
      throw new AssertionError("got " + got + ", want " + want);
  }
}
