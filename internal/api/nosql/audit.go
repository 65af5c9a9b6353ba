package nosql

import (
	"slices"
	"time"

	"github.com/decandb/decan/internal/audit"
)

// reads are the operations that change nothing. The audit log treats all others
// as changes, so a new operation counts as a change until it is listed here.
// Reading a permission creates a token, so it is not listed.
var reads = [operations]bool{
	opAccountRead:   true,
	opDatabaseRead:  true,
	opDatabaseList:  true,
	opDatabaseQuery: true, opContainerRead: true,
	opContainerList:  true,
	opContainerQuery: true,
	opFunctionRead:   true, opFunctionList: true, opFunctionQuery: true,
	opTriggerRead: true, opTriggerList: true, opTriggerQuery: true,
	opProcedureRead: true, opProcedureList: true, opProcedureQuery: true,
	opUserRead: true, opUserList: true, opUserQuery: true,
	opRangeList: true, opRangeRead: true,
	opAddresses: true, opBarrier: true,
	opOfferList: true, opOfferQuery: true, opOfferRead: true,
	opConflict:     true,
	opDocumentRead: true, opDocumentList: true, opDocumentFeed: true, opDocumentQuery: true, opQueryPlan: true,
	opUnknown: true, opRefused: true,
}

// changes reports whether an operation may change something or reveals a secret.
func (o operation) changes() bool { return !reads[o] }

// record returns the audit log's record of a request.
func (h *handler) record(r *request, begun time.Time, status int) audit.Record {
	kind, name := audit.Name(r.caller)
	return audit.Record{
		Time: begun.UTC(), Address: r.remote,
		Caller: kind, Name: name,
		Operation: r.operation.String(), Resource: r.target.audited(),
		Status: status, SubStatus: int(r.sub), ActivityID: r.activity, Charge: r.result.Charge,
	}
}

// audited returns the link of the resource in the path, without the ids of items,
// which are data: for an item it is the link of all items. An id follows only
// type words that are known not to denote items.
func (t *target) audited() string {
	n := t.count
	if n > 5 && !slices.Contains([]string{"sprocs", "triggers", "udfs", "permissions", "pkranges", "operations"}, t.segments[4]) {
		n = 5
	}
	return t.join(n)
}
