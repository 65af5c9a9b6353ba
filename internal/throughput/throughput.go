// Package throughput computes what a request costs in request units and keeps
// budgets of them.
//
// The engine gives every request a [Meter]. Partition and engine add to it the
// results of the cost functions in model.go ([Read], [Insert], [Replace],
// [Delete], [Query] and the metadata charges); a door returns the sum as the
// charge. A [Budget] is what one physical partition may spend. [Shares] divides
// a container's throughput into budgets, and [Redistribute] changes the
// division. [Autoscale] is the value to which a load scales a budget, and
// [Heavy] finds the keys that spend the most. The simulator uses the same
// functions.
//
// # Invariants
//
// A cost depends only on the work: the same work always costs the same, more
// work never costs less, and the pages of a query together cost what the query
// would have cost in one page, if the first page loaded a document. Time is
// always an argument.
//
// The package knows no document and no clock, opens no partition and refuses
// nothing: the owner of a Budget decides whether it is enforced.
//
// Page: docs/throughput.md
package throughput
