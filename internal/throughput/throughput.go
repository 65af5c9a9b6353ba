// Package throughput says what a request costs in request units and keeps
// budgets of them.
//
// The engine gives every request one [Meter]; partition and engine add to it
// what the cost functions of model.go say ([Read], [Insert], [Replace],
// [Delete], [Query] and the metadata figures); a door shows the sum as the
// charge. A [Budget] is what one physical partition may spend, [Shares] says how
// a container's throughput is divided into budgets and [Redistribute] changes
// that, [Autoscale] is the figure that a load drives a budget to, and [Heavy]
// finds the keys that spend most. The simulator asks the same functions.
//
// # Invariants
//
// A cost depends on the work alone: the same work costs the same every time,
// more work never costs less, and the pages of a query cost together what the
// query would have cost in one, once a document was loaded for the first. Time
// is always an argument.
//
// The package knows no document and no clock, opens no partition and refuses
// nothing: who owns a Budget decides whether it binds.
//
// Page: docs/throughput.md
package throughput
