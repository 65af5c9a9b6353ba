package apps;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.dao.OptimisticLockingFailureException;
import org.springframework.data.cassandra.CassandraInvalidQueryException;
import org.springframework.data.cassandra.CassandraQuerySyntaxException;
import org.springframework.data.cassandra.config.AbstractCassandraConfiguration;
import org.springframework.data.cassandra.config.SchemaAction;
import org.springframework.data.cassandra.config.SessionBuilderConfigurer;
import org.springframework.data.cassandra.core.AsyncCassandraTemplate;
import org.springframework.data.cassandra.core.CassandraTemplate;
import org.springframework.data.cassandra.core.InsertOptions;
import org.springframework.data.cassandra.core.UpdateOptions;
import org.springframework.data.cassandra.core.WriteResult;
import org.springframework.data.cassandra.core.cql.CqlTemplate;
import org.springframework.data.cassandra.core.cql.keyspace.CreateKeyspaceSpecification;
import org.springframework.data.cassandra.core.query.CassandraPageRequest;
import org.springframework.data.cassandra.core.query.CassandraScrollPosition;
import org.springframework.data.cassandra.core.query.Criteria;
import org.springframework.data.cassandra.core.query.Query;
import org.springframework.data.cassandra.core.query.Update;
import org.springframework.data.cassandra.repository.config.EnableCassandraRepositories;
import org.springframework.data.domain.Limit;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;
import org.springframework.data.domain.Window;

/**
 * An application with Spring Data: the schema is created from the entities; repositories
 * with derived and written queries, slices and scrolling; versions, user-defined types,
 * tuples, collections, indexes, times to live, batches, conditional writes and prepared
 * statements. The arguments are the address, the port, the user, the key and the data
 * center. Exits with 1 if something is not as expected.
 */
public final class Main {
  private static final int READINGS = 250;

  private static String[] arguments;
  private static int passed;
  private static int failed;

  /** Connects with default options and creates the keyspace and what the entities need. */
  @Configuration
  @EnableCassandraRepositories(basePackageClasses = Main.class)
  public static class Settings extends AbstractCassandraConfiguration {
    @Override
    protected String getContactPoints() {
      return arguments[0];
    }

    @Override
    protected int getPort() {
      return Integer.parseInt(arguments[1]);
    }

    @Override
    protected SessionBuilderConfigurer getSessionBuilderConfigurer() {
      return builder -> builder.withAuthCredentials(arguments[2], arguments[3]);
    }

    @Override
    protected String getLocalDataCenter() {
      return arguments[4];
    }

    @Override
    protected String getKeyspaceName() {
      return "spring";
    }

    @Override
    protected List<CreateKeyspaceSpecification> getKeyspaceCreations() {
      return List.of(CreateKeyspaceSpecification.createKeyspace(getKeyspaceName()).ifNotExists().withSimpleReplication());
    }

    @Override
    public SchemaAction getSchemaAction() {
      return SchemaAction.valueOf(System.getProperty("apps.schema", "CREATE_IF_NOT_EXISTS"));
    }

    @Override
    public String[] getEntityBasePackages() {
      return new String[] {"apps"};
    }
  }

  private interface Body {
    void run() throws Exception;
  }

  /** Runs the tests with a new schema, looks at the data with the schema of before, and with one that replaces it. */
  public static void main(String[] args) {
    arguments = args;
    try (var context = new AnnotationConfigApplicationContext(Settings.class)) {
      readings(context.getBean(Readings.class));
      people(context.getBean(People.class), context.getBean(CassandraTemplate.class));
      template(context.getBean(CassandraTemplate.class), context.getBean(CqlTemplate.class));
      async(context.getBean(CqlSession.class), context.getBean(CassandraTemplate.class));
    }
    try (var context = new AnnotationConfigApplicationContext(Settings.class)) {
      test("an application that starts again finds its rows", () -> equal(context.getBean(People.class).count(), 1L));
    }
    System.setProperty("apps.schema", "RECREATE");
    try (var context = new AnnotationConfigApplicationContext(Settings.class)) {
      test("tables and types are dropped and created again", () -> {
        People people = context.getBean(People.class);
        equal(people.count(), 0L);
        people.save(new Person(UUID.randomUUID(), "Ada", "Paris"));
        equal(people.findByCity("Paris").size(), 1);
      });
      context.getBean(CqlTemplate.class).execute("DROP KEYSPACE spring");
    }
    System.out.printf("Spring Data Cassandra: %d tests passed, %d failed%n", passed, failed);
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }

  private static Instant at(int i) {
    return Instant.parse("2026-01-01T00:00:00Z").plusSeconds(60L * i);
  }

  private static void readings(Readings readings) {
    List<Reading> all = IntStream.range(0, READINGS).mapToObj(i -> new Reading(new ReadingKey("north", 1, at(i)), i, "kW")).toList();
    readings.saveAll(all);
    List<Reading> latest = new ArrayList<>(all);
    Collections.reverse(latest);
    readings.save(new Reading(new ReadingKey("north", 2, at(0)), 1000, "kW"));
    readings.save(new Reading(new ReadingKey("south", 1, at(0)), 2000, "kW"));

    test("rows are read, saved and deleted by their key", () -> {
      equal(readings.count(), READINGS + 2L);
      var key = new ReadingKey("west", 1, at(7));
      readings.insert(new Reading(key, 7.5, "MW"));
      equal(readings.findById(key).orElseThrow(), new Reading(key, 7.5, "MW"));
      equal(readings.existsById(key), true);
      readings.deleteById(key);
      equal(readings.findById(key).isPresent(), false);
    });

    test("slices of a partition", () -> {
      var found = new ArrayList<Reading>();
      Slice<Reading> slice = readings.findByKeySiteAndKeyDay("north", 1, CassandraPageRequest.first(60));
      while (true) {
        equal(slice.getNumberOfElements() <= 60, true);
        found.addAll(slice.getContent());
        if (!slice.hasNext())
          break;
        slice = readings.findByKeySiteAndKeyDay("north", 1, slice.nextPageable());
      }
      equal(found, latest);
    });

    test("slices of the table", () -> {
      var found = new ArrayList<Reading>();
      Slice<Reading> slice = readings.findAll(CassandraPageRequest.first(33));
      while (true) {
        found.addAll(slice.getContent());
        if (!slice.hasNext())
          break;
        slice = readings.findAll(slice.nextPageable());
      }
      equal(found.size(), READINGS + 2);
      equal(Set.copyOf(found).size(), READINGS + 2);
    });

    test("scrolling", () -> {
      var found = new ArrayList<Reading>();
      Window<Reading> window = readings.findByKeySiteAndKeyDay("north", 1, CassandraScrollPosition.initial(), Limit.of(90));
      while (true) {
        window.forEach(found::add);
        if (!window.hasNext())
          break;
        window = readings.findByKeySiteAndKeyDay("north", 1, (CassandraScrollPosition) window.positionAt(window.size() - 1), Limit.of(90));
      }
      equal(found, latest);
    });

    test("derived queries", () -> {
      equal(readings.findByKeySiteAndKeyDay("north", 1, Sort.by("key.at").ascending()), all);
      equal(readings.findByKeySiteAndKeyDay("north", 1, Limit.of(3)), latest.subList(0, 3));
      equal(readings.findByKeySiteAndKeyDayAndKeyAtBetween("north", 1, at(10), at(20)).size(), 9);
      equal(readings.findByKeySiteAndKeyDayIn("north", List.of(1, 2, 3)).size(), READINGS + 1);
      equal(readings.findByKeySiteAndKeyDay("north", 2, Reading.Measure.class), List.of(new Reading.Measure(new ReadingKey("north", 2, at(0)), 1000)));
      try (var stream = readings.streamByKeySiteAndKeyDay("north", 1)) {
        equal(stream.toList(), latest);
      }
      equal(readings.findByValueGreaterThan(999).size(), 2);
      equal(readings.countByKeySiteAndKeyDay("north", 1), (long) READINGS);
      equal(readings.existsByKeySiteAndKeyDay("east", 1), false);
    });

    test("written queries", () -> {
      equal(readings.average("north", 1), (READINGS - 1) / 2.0);
      equal(readings.latest("north", 1, at(5)), latest.subList(0, 2));
    });

    test("deletes of a partition", () -> {
      readings.deleteByKeySiteAndKeyDay("north", 1);
      equal(readings.count(), 2L);
      readings.deleteAll();
      equal(readings.count(), 0L);
    });
  }

  private static void people(People people, CassandraTemplate template) {
    var person = new Person(UUID.randomUUID(), "Ada", "Paris");
    person.born = LocalDate.of(1815, 12, 10);
    person.balance = new BigDecimal("12.50");
    person.home = new Place("Rue A", 4);
    person.size = new Person.Size(165, "cm");
    person.tags = Set.of("tea", "chess");
    person.scores = List.of(3, 1, 2);
    person.places = Map.of("work", new Place("Rue B", 5));

    test("values of all kinds return as they were", () -> {
      people.save(person);
      Person read = people.findById(person.id).orElseThrow();
      equal(read.born, person.born);
      equal(read.balance, person.balance);
      equal(read.home, person.home);
      equal(read.size, person.size);
      equal(read.tags, person.tags);
      equal(read.scores, person.scores);
      equal(read.places, person.places);
      equal(read.version, 0L);
    });

    test("a version is written with a condition", () -> {
      Person one = people.findById(person.id).orElseThrow();
      Person two = people.findById(person.id).orElseThrow();
      Person three = people.findById(person.id).orElseThrow();
      one.name = "Ada L.";
      equal(people.save(one).version, 1L);
      fails(OptimisticLockingFailureException.class, () -> people.save(two));
      fails(OptimisticLockingFailureException.class, () -> template.delete(three));
      var twin = new Person(person.id, "Eve", "Rome");
      fails(OptimisticLockingFailureException.class, () -> people.insert(twin));
      equal(people.findById(person.id).orElseThrow().name, "Ada L.");
    });

    test("indexes of a column and of a set", () -> {
      equal(people.findByCity("Paris").size(), 1);
      equal(people.findByCity("Rome").size(), 0);
      equal(people.findByTagsContains("tea").size(), 1);
      equal(people.findByCityAndTagsContains("Paris", "go").size(), 0);
    });

    test("collections and conditions in updates", () -> {
      var by = Query.query(Criteria.where("id").is(person.id));
      equal(template.update(by, Update.empty().addTo("tags").append("go").set("city", "Rome"), Person.class), true);
      equal(template.update(by, Update.empty().addTo("scores").prepend(9).remove("tags", "tea"), Person.class), true);
      equal(template.update(by, Update.empty().set("scores").atIndex(1).to(8).addTo("places").entry("bank", new Place("Rue C", 6)), Person.class), true);
      Person read = people.findById(person.id).orElseThrow();
      equal(read.tags, Set.of("chess", "go"));
      equal(read.scores, List.of(9, 8, 1, 2));
      equal(read.places.size(), 2);
      equal(read.city, "Rome");
      var paris = UpdateOptions.builder().ifCondition(Criteria.where("city").is("Paris")).build();
      equal(template.update(by.queryOptions(paris), Update.update("name", "nobody"), Person.class), false);
      var rome = UpdateOptions.builder().ifCondition(Criteria.where("city").is("Rome")).build();
      equal(template.update(by.queryOptions(rome), Update.update("name", "Ada"), Person.class), true);
    });
  }

  private static void template(CassandraTemplate template, CqlTemplate cql) {
    var key = new ReadingKey("t", 1, at(0));
    var reading = new Reading(key, 1, "kW");

    test("times to live and timestamps", () -> {
      template.insert(reading, InsertOptions.builder().ttl(Duration.ofHours(1)).build());
      int left = cql.queryForObject("SELECT ttl(value) FROM readings WHERE site = 't' AND day = 1 AND at = ?", Integer.class, at(0));
      equal(left > 3500 && left <= 3600, true);
      template.update(new Reading(key, 2, "kW"), UpdateOptions.builder().timestamp(1).build());
      equal(template.selectOneById(key, Reading.class), reading);
      template.update(new Reading(key, 3, "kW"), UpdateOptions.builder().ttl(30).build());
      equal(template.selectOneById(key, Reading.class).value(), 3.0);
    });

    test("conditional writes", () -> {
      WriteResult result = template.insert(reading, InsertOptions.builder().withIfNotExists().build()).wasApplied() ? null
          : template.insert(new Reading(new ReadingKey("t", 2, at(0)), 5, "kW"), InsertOptions.builder().withIfNotExists().build());
      equal(result != null && result.wasApplied(), true);
      var absent = new Reading(new ReadingKey("t", 3, at(0)), 5, "kW");
      equal(template.update(absent, UpdateOptions.builder().withIfExists().build()).wasApplied(), false);
      equal(template.count(Reading.class), 2L);
    });

    test("batches", () -> {
      List<Reading> many = IntStream.range(0, 40).mapToObj(i -> new Reading(new ReadingKey("b" + i % 4, 1, at(i)), i, "kW")).toList();
      equal(template.batchOps().insert(many).withTimestamp(1000).execute().wasApplied(), true);
      equal(template.count(Query.query(Criteria.where("site").is("b1"), Criteria.where("day").is(1)), Reading.class), 10L);
      equal(template.batchOps().delete(many.get(1)).update(new Reading(many.get(5).key(), 55, "MW")).execute().wasApplied(), true);
      equal(template.exists(Query.query(Criteria.where("site").is("b1"), Criteria.where("day").is(1), Criteria.where("at").is(at(1))), Reading.class), false);
      equal(template.selectOneById(many.get(5).key(), Reading.class).unit(), "MW");
    });

    test("statements that are prepared", () -> {
      for (int i = 0; i < 5; i++) {
        cql.execute("INSERT INTO readings (site, day, at, value) VALUES (?, ?, ?, ?)", "p", i, at(i), (double) i);
        equal(cql.queryForObject("SELECT value FROM readings WHERE site = ? AND day = ? AND at = ?", Double.class, "p", i, at(i)), (double) i);
      }
      equal(cql.queryForList("SELECT site FROM readings WHERE site = ? AND day = ?", String.class, "p", 3), List.of("p"));
    });

    test("errors are those of the statement", () -> {
      fails(CassandraInvalidQueryException.class, () -> cql.query("SELECT nothing FROM readings", (row, n) -> row));
      fails(CassandraInvalidQueryException.class, () -> template.select(Query.query(Criteria.where("value").is(1.0)), Reading.class));
      fails(CassandraQuerySyntaxException.class, () -> cql.execute("SELEC 1"));
    });

    test("truncation", () -> {
      template.truncate(Reading.class);
      equal(template.count(Reading.class), 0L);
    });
  }

  private static void async(CqlSession session, CassandraTemplate template) {
    test("asynchronous templates", () -> {
      var async = new AsyncCassandraTemplate(session);
      var all = IntStream.range(0, 30).mapToObj(i -> async.insert(new Reading(new ReadingKey("a", 1, at(i)), i, "kW"))).toList();
      for (var one : all)
        one.get();
      equal(async.select("SELECT * FROM readings WHERE site = 'a' AND day = 1", Reading.class).get().size(), 30);
      equal(async.count(Reading.class).get(), 30L);
      var slice = async.slice(SimpleStatement.newInstance("SELECT * FROM readings").setPageSize(20), Reading.class).get();
      equal(slice.getNumberOfElements(), 20);
      template.truncate(Reading.class);
    });
  }

  private static void test(String name, Body body) {
    try {
      body.run();
      passed++;
    } catch (Exception | AssertionError e) {
      failed++;
      System.out.println("FAILED " + name + ": " + e);
      for (StackTraceElement frame : e.getStackTrace())
        if (frame.getClassName().startsWith("apps."))
          System.out.println("  " + frame);
    }
  }

  private static void fails(Class<? extends Exception> kind, Body body) throws Exception {
    try {
      body.run();
    } catch (Exception e) {
      if (kind.isInstance(e))
        return;
      throw new AssertionError("got " + e + ", want " + kind.getSimpleName());
    }
    throw new AssertionError("no " + kind.getSimpleName());
  }

  private static void equal(Object got, Object want) {
    if (!want.equals(got))
      throw new AssertionError("got " + got + ", want " + want);
  }
}
