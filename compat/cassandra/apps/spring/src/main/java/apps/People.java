package apps;

import java.util.List;
import java.util.UUID;
import org.springframework.data.cassandra.repository.AllowFiltering;
import org.springframework.data.cassandra.repository.CassandraRepository;

/** A repository of entities with a version. */
public interface People extends CassandraRepository<Person, UUID> {
  List<Person> findByCity(String city);

  List<Person> findByTagsContains(String tag);

  @AllowFiltering
  List<Person> findByCityAndTagsContains(String city, String tag);
}
