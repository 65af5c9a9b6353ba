package apps;

import java.time.Instant;
import org.springframework.data.cassandra.core.cql.Ordering;
import org.springframework.data.cassandra.core.cql.PrimaryKeyType;
import org.springframework.data.cassandra.core.mapping.PrimaryKeyClass;
import org.springframework.data.cassandra.core.mapping.PrimaryKeyColumn;

/** A composite key: two columns of the partition key, and the rows in descending order of time. */
@PrimaryKeyClass
public record ReadingKey(
    @PrimaryKeyColumn(ordinal = 0, type = PrimaryKeyType.PARTITIONED) String site,
    @PrimaryKeyColumn(ordinal = 1, type = PrimaryKeyType.PARTITIONED) int day,
    @PrimaryKeyColumn(ordinal = 2, type = PrimaryKeyType.CLUSTERED, ordering = Ordering.DESCENDING) Instant at) {}
