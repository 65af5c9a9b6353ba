package apps;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.PartitionKey;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.exception.CosmosPreconditionFailedException;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;

/**
 * An application with Spring Data: a repository with derived queries, sorted pages
 * over several partitions, and etags. The argument is the endpoint. Exits with 1 if
 * something is not as expected.
 */
public final class Main {
  private static final String KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
  private static final int PEOPLE = 60;

  private static int passed;
  private static int failed;

  /** Connects with default options, in direct mode, or with apps.gateway in gateway mode; the name of the database is new. */
  @Configuration
  @EnableCosmosRepositories(basePackageClasses = People.class)
  public static class Settings extends AbstractCosmosConfiguration {
    @Bean
    public CosmosClientBuilder client() {
      CosmosClientBuilder builder = new CosmosClientBuilder().endpoint(System.getProperty("endpoint")).key(KEY);
      return Boolean.getBoolean("apps.gateway") ? builder.gatewayMode() : builder;
    }

    @Override
    protected String getDatabaseName() {
      return "spring-" + UUID.randomUUID();
    }
  }

  private interface Body {
    void run() throws Exception;
  }

  public static void main(String[] args) {
    System.setProperty("endpoint", args[0]);
    try (var context = new AnnotationConfigApplicationContext(Settings.class)) {
      run(context.getBean(People.class));
    }
    System.out.printf("Spring Data at %s%s: %d tests passed, %d failed%n", args[0], Boolean.getBoolean("apps.gateway") ? " in gateway mode" : "", passed, failed);
    System.exit(failed == 0 && passed > 0 ? 0 : 1);
  }

  private static void run(People people) {
    List<Person> all = IntStream.range(0, PEOPLE).mapToObj(i -> new Person("" + i, "f" + i % 12, "city" + i % 5, i * 7 % PEOPLE,
        i % 3 == 0 ? List.of("chess") : List.of("tea", "go"))).toList();
    people.saveAll(all);

    test("items are read, saved and deleted", () -> {
      equal(people.count(), (long) PEOPLE);
      Person read = people.findById("7", new PartitionKey("f7")).orElseThrow();
      equal(read.getAge(), 49);
      read.setAge(50);
      equal(people.save(read).getAge(), 50);
      read = people.findById("7", new PartitionKey("f7")).orElseThrow();
      read.setAge(49);
      people.save(read);
      people.save(new Person("extra", "fx", "nowhere", 1, List.of()));
      people.deleteById("extra", new PartitionKey("fx"));
      equal(people.findById("extra", new PartitionKey("fx")).isPresent(), false);
    });

    test("an old etag is refused", () -> {
      Person one = people.findById("3", new PartitionKey("f3")).orElseThrow();
      Person two = people.findById("3", new PartitionKey("f3")).orElseThrow();
      people.save(one);
      try {
        people.save(two);
      } catch (CosmosPreconditionFailedException expected) {
        return;
      }
      throw new AssertionError("saved");
    });

    test("derived queries", () -> {
      equal(ids(people.findByFamily("f5")), List.of("17", "29", "41", "5", "53"));
      equal(people.findByCityAndAgeGreaterThan("city1", 30, Sort.by("age").descending()).stream().map(Person::getAge).toList(),
          all.stream().filter(p -> p.getCity().equals("city1") && p.getAge() > 30).map(Person::getAge).sorted((a, b) -> b - a).toList());
      equal(people.findByCityIgnoreCase("CITY2").size(), 12);
      equal(people.findByCityContaining("ty3").size(), 12);
      equal(people.withHobby("chess").size(), 20);
      // Spring Data writes CONTAINS(r.hobbies, ...), which is undefined for a list.
      equal(people.findByHobbiesContaining("chess").size(), 0);
      equal(people.findByAgeIn(List.of(1, 2, 99)).size(), 2);
      equal(people.countByCity("city3"), 12L);
      equal(people.existsByFamily("none"), false);
      equal(people.search(List.of("city0", "city4"), 10, 20).size(),
          (int) all.stream().filter(p -> List.of("city0", "city4").contains(p.getCity()) && p.getAge() >= 10 && p.getAge() <= 20).count());
      equal(people.oldest(), List.of(PEOPLE - 1));
    });

    test("all items in order", () -> {
      List<Integer> ages = StreamSupport.stream(people.findAll(Sort.by("age")).spliterator(), false).map(Person::getAge).toList();
      equal(ages, IntStream.range(0, PEOPLE).boxed().toList());
      List<String> places = StreamSupport.stream(people.findAll(Sort.by(Sort.Order.asc("city"), Sort.Order.desc("age"))).spliterator(), false)
          .map(p -> "%s %02d".formatted(p.getCity(), 99 - p.getAge())).toList();
      equal(places, places.stream().sorted().toList());
    });

    test("sorted pages with their total", () -> {
      var found = new ArrayList<Integer>();
      Page<Person> page = people.findByAgeLessThan(45, new CosmosPageRequest(0, 7, null, Sort.by("age")));
      equal(page.getTotalElements(), 45L);
      equal(page.getTotalPages(), 7);
      while (true) {
        page.forEach(p -> found.add(p.getAge()));
        if (!page.hasNext())
          break;
        page = people.findByAgeLessThan(45, page.nextPageable());
      }
      equal(found, IntStream.range(0, 45).boxed().toList());
    });

    test("sorted slices", () -> {
      var found = new ArrayList<Integer>();
      Slice<Person> slice = people.findByAgeGreaterThanEqual(20, new CosmosPageRequest(0, 9, null, Sort.by("age").descending()));
      while (true) {
        slice.forEach(p -> found.add(p.getAge()));
        if (!slice.hasNext())
          break;
        slice = people.findByAgeGreaterThanEqual(20, slice.nextPageable());
      }
      equal(found, IntStream.range(0, 40).mapToObj(i -> PEOPLE - 1 - i).toList());
    });

    test("pages of all items", () -> {
      var found = new ArrayList<String>();
      Page<Person> page = people.findAll(new CosmosPageRequest(0, 11, null));
      while (true) {
        page.forEach(p -> found.add(p.getId()));
        if (!page.hasNext())
          break;
        page = people.findAll(page.nextPageable());
      }
      equal(found.stream().sorted().toList(), all.stream().map(Person::getId).sorted().toList());
    });

    test("deletes by a property", () -> {
      people.deleteByFamily("f11");
      equal(people.count(), (long) PEOPLE - 5);
      people.deleteAll();
      equal(people.count(), 0L);
    });
  }

  private static List<String> ids(List<Person> people) {
    return people.stream().map(Person::getId).sorted().toList();
  }

  private static void test(String name, Body body) {
    try {
      body.run();
      passed++;
    } catch (Exception | AssertionError e) {
      failed++;
      System.out.println("FAILED " + name + ": " + e);
    }
  }

  private static void equal(Object got, Object want) {
    if (!want.equals(got))
      throw new AssertionError("got " + got + ", want " + want);
  }
}
