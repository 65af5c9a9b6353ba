package compat;

import java.io.IOException;

/**
 * Runs the tests with the Java SDK on the class path. The arguments are the list
 * with answers that ../go/answers wrote, and the endpoints: the scenario and the change
 * feed run over each, the queries over the last. Started by ../run.sh.
 */
public final class Main {
  public static void main(String[] arguments) throws IOException {
    int failed = 0;
    for (int i = 1; i < arguments.length; i++) {
      failed += Scenario.run(arguments[i]);
      failed += ChangeFeed.run(arguments[i]);
    }
    failed += Answers.run(arguments[arguments.length - 1], arguments[0]);
    System.exit(failed == 0 ? 0 : 1); // the SDK's threads outlive its clients
  }

  private Main() {}
}
