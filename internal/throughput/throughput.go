// Package throughput says what a request costs in request units and keeps
// budgets of them.
//
// The engine gives every request one [Meter]; partition and engine add to it
// what the cost functions of model.go say ([Read], [Insert], [Replace],
// [Delete], [Query] and the metadata figures); a door shows the sum as the
// charge. A [Bucket] is the budget of one physical partition, and [Autoscale]
// the figure that a load drives it to. The simulator asks the same functions.
//
// # Invariants
//
// A cost depends on the work alone: the same work costs the same every time,
// more work never costs less, and the pages of a query cost together what the
// query would have cost in one, once a document was loaded for the first. Time
// is always an argument.
//
// The package knows no partition, no document and no clock, and refuses
// nothing: who owns a Bucket decides whether it binds.
//
// Page: docs/architecture.md, "Floor 1: pure machines".
package throughput
