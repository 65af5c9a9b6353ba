package compat;

import java.io.IOException;

/**
 * Runs the tests with the Java SDK on the class path. Started by ../run.sh with one of
 *
 * <ul>
 *   <li>{@code all ANSWERS ADMIN ENDPOINT...}: what an application does, over each endpoint or
 *       the last one; the first argument is the list that ../go/answers wrote
 *   <li>{@code splits ENDPOINT ADMIN}: readers and writers while partitions split
 *   <li>{@code paging ENDPOINT ADMIN}: ORDER BY with a new client for every page
 *   <li>{@code figures ENDPOINT KEY DATABASE}: the queries of ../figures
 *   <li>{@code endure ENDPOINT ADMIN SUPERVISOR ROUNDS ITEMS}: splits, merges, restarts, killed
 *       connections, refused throughput and a bulk of so many items; started by ../direct.sh
 *   <li>{@code levels ENDPOINT ADMIN LEVEL}: an account with a consistency level; started by ../direct.sh
 *   <li>{@code bench ENDPOINT ROUNDS}: direct mode against gateway mode; started by ../direct.sh
 *   <li>{@code processor ENDPOINT ADMIN}: the change feed processor while partitions split and merge
 * </ul>
 */
public final class Main {
  public static void main(String[] arguments) throws Exception {
    int failed = switch (arguments[0]) {
      case "all" -> all(arguments);
      case "figures" -> Figures.run(arguments[1], arguments[2], arguments[3]);
      case "splits" -> Splits.run(arguments[1], arguments[2]);
      case "paging" -> Paging.run(arguments[1], arguments[2]);
      case "endure" ->
          Endure.run(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]), Integer.parseInt(arguments[5]));
      case "levels" -> Levels.run(arguments[1], arguments[2], arguments[3]);
      case "bench" -> Bench.run(arguments[1], Integer.parseInt(arguments[2]));
      case "processor" -> Processor.run(arguments[1], arguments[2]);
      default -> throw new IllegalArgumentException(arguments[0]);
    };
    System.exit(failed == 0 ? 0 : 1); // the SDK's threads outlive its clients
  }

  private static int all(String[] arguments) throws IOException {
    int failed = 0;
    for (int i = 3; i < arguments.length; i++) {
      failed += Scenario.run(arguments[i]);
      failed += ChangeFeed.run(arguments[i]);
    }
    String last = arguments[arguments.length - 1];
    failed += Management.run(last);
    failed += Writes.run(last);
    failed += Scripts.run(last);
    failed += Access.run(last, arguments[2]);
    failed += Sessions.run(last);
    return failed + Answers.run(last, arguments[1]);
  }

  private Main() {}
}
