package apps;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.List;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Slice;
import org.springframework.data.domain.Sort;
import org.springframework.data.repository.query.Param;

/** The repository; Spring Data writes its queries. */
public interface People extends CosmosRepository<Person, String> {
  List<Person> findByFamily(String family);

  List<Person> findByCityAndAgeGreaterThan(String city, int age, Sort sort);

  List<Person> findByCityIgnoreCase(String city);

  List<Person> findByCityContaining(String part);

  List<Person> findByHobbiesContaining(String hobby);

  List<Person> findByAgeIn(List<Integer> ages);

  long countByCity(String city);

  boolean existsByFamily(String family);

  Page<Person> findByAgeLessThan(int age, Pageable page);

  Slice<Person> findByAgeGreaterThanEqual(int age, Pageable page);

  void deleteByFamily(String family);

  @Query("SELECT * FROM c WHERE ARRAY_CONTAINS(@cities, c.city) AND c.age BETWEEN @low AND @high")
  List<Person> search(@Param("cities") List<String> cities, @Param("low") int low, @Param("high") int high);

  @Query("SELECT * FROM c WHERE ARRAY_CONTAINS(c.hobbies, @hobby)")
  List<Person> withHobby(@Param("hobby") String hobby);

  @Query("SELECT VALUE MAX(c.age) FROM c")
  List<Integer> oldest();
}
