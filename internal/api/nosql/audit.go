package nosql

import (
	"slices"
	"time"

	"github.com/decandb/decan/internal/audit"
)

// reads are the operations that change nothing. Everything else is a change to the
// audit log, so that a new operation is one until it is named here. Reading a
// permission makes a token, so it is not here.
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
	opOfferList: true, opOfferQuery: true, opOfferRead: true,
	opConflict:     true,
	opDocumentRead: true, opDocumentList: true, opDocumentFeed: true, opDocumentQuery: true, opQueryPlan: true,
	opUnknown: true, opRefused: true,
}

// changes reports whether an operation may change something or shows a secret.
func (o operation) changes() bool { return !reads[o] }

// record is what the audit log has of a request.
func (h *handler) record(r *request, begun time.Time, status int) audit.Record {
	kind, name := audit.Name(r.caller)
	return audit.Record{
		Time: begun.UTC(), Address: r.http.RemoteAddr,
		Caller: kind, Name: name,
		Operation: r.operation.String(), Resource: r.target.audited(),
		Status: status, SubStatus: int(r.sub), ActivityID: r.activity, Charge: r.result.Charge,
	}
}

// audited is the link of what the path is about, but for the ids of items, which are
// data: of an item it is the link of all items. Only words that are known not to be
// about items are followed by an id.
func (t *target) audited() string {
	n := t.count
	if n > 5 && !slices.Contains([]string{"sprocs", "triggers", "udfs", "permissions", "pkranges", "operations"}, t.segments[4]) {
		n = 5
	}
	return t.join(n)
}
