package apps;

import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;
import org.springframework.data.cassandra.core.query.CassandraScrollPosition;
import org.springframework.data.cassandra.repository.AllowFiltering;
import org.springframework.data.cassandra.repository.CassandraRepository;
import org.springframework.data.cassandra.repository.Query;
import org.springframework.data.domain.Limit;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;
import org.springframework.data.domain.Window;

/** A repository; Spring Data writes its statements. */
public interface Readings extends CassandraRepository<Reading, ReadingKey> {
  Slice<Reading> findByKeySiteAndKeyDay(String site, int day, Pageable page);

  List<Reading> findByKeySiteAndKeyDay(String site, int day, Sort sort);

  List<Reading> findByKeySiteAndKeyDay(String site, int day, Limit limit);

  Window<Reading> findByKeySiteAndKeyDay(String site, int day, CassandraScrollPosition position, Limit limit);

  List<Reading> findByKeySiteAndKeyDayAndKeyAtBetween(String site, int day, Instant from, Instant to);

  List<Reading> findByKeySiteAndKeyDayIn(String site, List<Integer> days);

  <T> List<T> findByKeySiteAndKeyDay(String site, int day, Class<T> part);

  Stream<Reading> streamByKeySiteAndKeyDay(String site, int day);

  @AllowFiltering
  List<Reading> findByValueGreaterThan(double value);

  long countByKeySiteAndKeyDay(String site, int day);

  boolean existsByKeySiteAndKeyDay(String site, int day);

  void deleteByKeySiteAndKeyDay(String site, int day);

  @Query("SELECT avg(value) FROM readings WHERE site = :site AND day = :day")
  double average(String site, int day);

  @Query("SELECT * FROM readings WHERE site = ?0 AND day = ?1 AND at >= ?2 LIMIT 2")
  List<Reading> latest(String site, int day, Instant from);
}
