// Package query turns the text of a query into a plan, and a plan and documents into
// rows.
//
// The engine compiles a query once, asks the plan which ranges of the key space
// to visit, runs it in each partition, and merges the results. Learn
// [Plan] first: [Compile] makes one; [Plan.Ranges] and [Plan.Access] say where
// to look; [Plan.Run] does the work of one partition, reading documents from a
// [Source]; [Plan.Merge] combines partitions; [Plan.Describe] tells a client how
// to do the same itself, and [Plan.Hybrid] tells the server how to rank. Package
// query/sql is the syntax.
//
// A row is made of one document, or, with aggregates, GROUP BY and DISTINCT, of
// many. In the second case Run returns one partition's part of each [Group], in
// the order of keys, and Merge joins the parts. A source that is [Indexed]
// answers counts, groups and orders without its documents where it can.
//
// # Invariants
//
//   - The ranges and the index expression of a plan admit every document that
//     the filter admits. They may admit more: the filter is always evaluated.
//   - A page that is resumed at the position of another begins with the next
//     row: at any page size, a query over unchanged documents returns each row
//     once and in the same order.
//   - An index, the number of partitions and the page size change no result.
//   - The memory of a query is bounded, whatever it reads.
//   - A plan is immutable and may run in many goroutines at once.
//
// The package knows nothing about partitions, request units or HTTP. It runs no
// JavaScript: a user-defined function is a [Function] that the caller provides.
//
// Page: docs/query.md.
package query
