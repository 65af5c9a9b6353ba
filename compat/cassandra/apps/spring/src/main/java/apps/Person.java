package apps;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.cassandra.core.mapping.Element;
import org.springframework.data.cassandra.core.mapping.Frozen;
import org.springframework.data.cassandra.core.mapping.Indexed;
import org.springframework.data.cassandra.core.mapping.Table;
import org.springframework.data.cassandra.core.mapping.Tuple;

/** An entity with collections, a user-defined type, a tuple, indexes and a version. */
@Table("people")
public class Person {
  /** A tuple. */
  @Tuple
  public record Size(@Element(0) int height, @Element(1) String unit) {}

  @Id public UUID id;
  @Indexed public String city;
  public String name;
  public LocalDate born;
  public BigDecimal balance;
  public Place home;
  public Size size;
  @Indexed public Set<String> tags;
  public List<Integer> scores;
  public Map<String, @Frozen Place> places;
  @Version public Long version;

  /** For the mapper. */
  public Person() {}

  Person(UUID id, String name, String city) {
    this.id = id;
    this.name = name;
    this.city = city;
  }
}
