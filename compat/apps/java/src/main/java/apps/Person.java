package apps;

import com.azure.spring.data.cosmos.core.mapping.CompositeIndex;
import com.azure.spring.data.cosmos.core.mapping.CompositeIndexPath;
import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.CosmosIndexingPolicy;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import com.azure.cosmos.models.CompositePathSortOrder;
import java.util.List;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** An entity, in a container of three physical partitions. */
@Container(containerName = "people", ru = "18000")
@CosmosIndexingPolicy(compositeIndexes = {
    @CompositeIndex(paths = {
        @CompositeIndexPath(path = "/city"),
        @CompositeIndexPath(path = "/age", order = CompositePathSortOrder.DESCENDING)
    })
})
public class Person {
  @Id private String id;
  @PartitionKey private String family;
  private String city;
  private int age;
  private List<String> hobbies;
  @Version private String etag;

  /** For the mapper. */
  public Person() {}

  Person(String id, String family, String city, int age, List<String> hobbies) {
    this.id = id;
    this.family = family;
    this.city = city;
    this.age = age;
    this.hobbies = hobbies;
  }

  public String getId() {
    return id;
  }

  public void setId(String id) {
    this.id = id;
  }

  public String getFamily() {
    return family;
  }

  public void setFamily(String family) {
    this.family = family;
  }

  public String getCity() {
    return city;
  }

  public void setCity(String city) {
    this.city = city;
  }

  public int getAge() {
    return age;
  }

  public void setAge(int age) {
    this.age = age;
  }

  public List<String> getHobbies() {
    return hobbies;
  }

  public void setHobbies(List<String> hobbies) {
    this.hobbies = hobbies;
  }

  public String getEtag() {
    return etag;
  }

  public void setEtag(String etag) {
    this.etag = etag;
  }
}
