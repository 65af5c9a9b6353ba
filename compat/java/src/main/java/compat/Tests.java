package compat;

import com.azure.cosmos.CosmosException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Objects;
import java.util.Properties;

/** Runs named tests one after another, prints failures, and counts them. */
final class Tests {
  /** The version of the SDK that runs. */
  static final String SDK = version();

  private final String title;
  private int run;
  private int failed;

  Tests(String title) {
    this.title = title;
  }

  void run(String name, Runnable test) {
    run++;
    try {
      test.run();
    } catch (RuntimeException | AssertionError failure) {
      failed++;
      System.out.println("FAIL " + name + ": " + failure.getMessage());
      if (!(failure instanceof AssertionError))
        failure.printStackTrace(System.out);
    }
  }

  /** Prints the sum and returns how many tests failed. */
  int failed() {
    System.out.println("Java " + SDK + ", " + title + ": " + (run - failed) + " of " + run + " tests pass");
    return failed;
  }

  private static String version() {
    Properties about = new Properties();
    try (InputStream in = CosmosException.class.getResourceAsStream("/azure-cosmos.properties")) {
      about.load(in);
    } catch (IOException trouble) {
      throw new UncheckedIOException(trouble);
    }
    return about.getProperty("version");
  }

  static void check(boolean holds, String what) {
    if (!holds)
      throw new AssertionError(what);
  }

  static void equal(Object got, Object want) {
    equal(got, want, "value");
  }

  static void equal(Object got, Object want, String what) {
    check(Objects.equals(got, want), what + ": got " + got + ", want " + want);
  }

  static CosmosException refused(int status, Runnable call) {
    try {
      call.run();
    } catch (CosmosException refusal) {
      equal(refusal.getStatusCode(), status, "status");
      return refusal;
    }
    throw new AssertionError("not refused, want " + status);
  }
}
