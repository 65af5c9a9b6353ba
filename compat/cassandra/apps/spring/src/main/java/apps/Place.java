package apps;

import org.springframework.data.cassandra.core.mapping.UserDefinedType;

/** A value of a user-defined type. */
@UserDefinedType("place")
public record Place(String street, int number) {}
