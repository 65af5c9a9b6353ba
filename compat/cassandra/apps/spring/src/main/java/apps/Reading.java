package apps;

import org.springframework.data.cassandra.core.mapping.PrimaryKey;
import org.springframework.data.cassandra.core.mapping.Table;

/** An entity with a composite key. */
@Table("readings")
public record Reading(@PrimaryKey ReadingKey key, double value, String unit) {
  /** A part of it, which a query may read alone. */
  public record Measure(ReadingKey key, double value) {}
}
