package nosql

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// operation is the kind of a request. It is a label of the metrics.
type operation uint8

const (
	opUnknown operation = iota // no such path or verb, or no authentication
	opRefused                  // a feature that Decan does not have yet
	opAccountRead
	opDatabaseCreate
	opDatabaseRead
	opDatabaseDelete
	opDatabaseList
	opDatabaseQuery
	opContainerCreate
	opContainerRead
	opContainerReplace
	opContainerDelete
	opContainerList
	opContainerQuery
	opFunctionCreate
	opFunctionRead
	opFunctionReplace
	opFunctionUpsert
	opFunctionDelete
	opFunctionList
	opFunctionQuery
	opTriggerCreate
	opTriggerRead
	opTriggerReplace
	opTriggerUpsert
	opTriggerDelete
	opTriggerList
	opTriggerQuery
	opProcedureCreate
	opProcedureRead
	opProcedureReplace
	opProcedureUpsert
	opProcedureDelete
	opProcedureList
	opProcedureQuery
	opProcedureExecute
	opUserCreate
	opUserRead
	opUserReplace
	opUserUpsert
	opUserDelete
	opUserList
	opUserQuery
	opPermissionCreate
	opPermissionRead
	opPermissionReplace
	opPermissionUpsert
	opPermissionDelete
	opPermissionList
	opPermissionQuery
	opRangeList
	opAddresses
	opBarrier
	opRangeRead
	opOfferList
	opOfferQuery
	opOfferRead
	opOfferReplace
	opConflict
	opDocumentCreate
	opDocumentUpsert
	opDocumentReplace
	opDocumentPatch
	opDocumentBatch
	opDocumentDelete
	opDocumentPurge
	opDocumentRead
	opDocumentList
	opDocumentFeed
	opDocumentQuery
	opQueryPlan
	operations
)

var operationNames = [operations]string{
	opUnknown:           "unknown",
	opRefused:           "refused",
	opAccountRead:       "account_read",
	opDatabaseCreate:    "database_create",
	opDatabaseRead:      "database_read",
	opDatabaseDelete:    "database_delete",
	opDatabaseList:      "database_list",
	opDatabaseQuery:     "database_query",
	opContainerCreate:   "container_create",
	opContainerRead:     "container_read",
	opContainerReplace:  "container_replace",
	opContainerDelete:   "container_delete",
	opContainerList:     "container_list",
	opContainerQuery:    "container_query",
	opFunctionCreate:    "function_create",
	opFunctionRead:      "function_read",
	opFunctionUpsert:    "function_upsert",
	opFunctionReplace:   "function_replace",
	opFunctionDelete:    "function_delete",
	opFunctionList:      "function_list",
	opFunctionQuery:     "function_query",
	opTriggerCreate:     "trigger_create",
	opTriggerRead:       "trigger_read",
	opTriggerUpsert:     "trigger_upsert",
	opTriggerReplace:    "trigger_replace",
	opTriggerDelete:     "trigger_delete",
	opTriggerList:       "trigger_list",
	opTriggerQuery:      "trigger_query",
	opProcedureCreate:   "procedure_create",
	opProcedureRead:     "procedure_read",
	opProcedureUpsert:   "procedure_upsert",
	opProcedureReplace:  "procedure_replace",
	opProcedureDelete:   "procedure_delete",
	opProcedureList:     "procedure_list",
	opProcedureQuery:    "procedure_query",
	opProcedureExecute:  "procedure_execute",
	opUserCreate:        "user_create",
	opUserRead:          "user_read",
	opUserReplace:       "user_replace",
	opUserUpsert:        "user_upsert",
	opUserDelete:        "user_delete",
	opUserList:          "user_list",
	opUserQuery:         "user_query",
	opPermissionCreate:  "permission_create",
	opPermissionRead:    "permission_read",
	opPermissionReplace: "permission_replace",
	opPermissionUpsert:  "permission_upsert",
	opPermissionDelete:  "permission_delete",
	opPermissionList:    "permission_list",
	opPermissionQuery:   "permission_query",
	opRangeList:         "range_list",
	opAddresses:         "addresses",
	opBarrier:           "barrier",
	opRangeRead:         "range_read",
	opOfferList:         "offer_list",
	opOfferQuery:        "offer_query",
	opOfferRead:         "offer_read",
	opOfferReplace:      "offer_replace",
	opConflict:          "conflict",
	opDocumentCreate:    "document_create",
	opDocumentUpsert:    "document_upsert",
	opDocumentReplace:   "document_replace",
	opDocumentPatch:     "document_patch",
	opDocumentBatch:     "document_batch",
	opDocumentDelete:    "document_delete",
	opDocumentPurge:     "document_delete_by_key",
	opDocumentRead:      "document_read",
	opDocumentList:      "document_list",
	opDocumentFeed:      "document_feed",
	opDocumentQuery:     "document_query",
	opQueryPlan:         "query_plan",
}

// String returns the label.
func (o operation) String() string { return operationNames[o] }

// onDocuments reports whether the operation is on documents of a container, whose
// bodies may be binary JSON.
func (o operation) onDocuments() bool { return o >= opDocumentCreate && o <= opDocumentQuery }

// reads reports whether the operation changes nothing, so that its answer can be
// dropped and requested again.
func (o operation) reads() bool {
	switch o {
	case opDocumentRead, opDocumentList, opDocumentFeed, opDocumentQuery, opQueryPlan, opAccountRead,
		opDatabaseRead, opDatabaseList, opDatabaseQuery,
		opContainerRead, opContainerList, opContainerQuery,
		opFunctionRead, opFunctionList, opFunctionQuery,
		opTriggerRead, opTriggerList, opTriggerQuery,
		opProcedureRead, opProcedureList, opProcedureQuery,
		opUserRead, opUserList, opUserQuery,
		opPermissionRead, opPermissionList, opPermissionQuery,
		opRangeRead, opRangeList, opAddresses, opBarrier, opOfferRead, opOfferList, opOfferQuery:
		return true
	}
	return false
}

// metrics counts the requests of the door.
type metrics struct {
	requests *prometheus.CounterVec
	duration [operations]prometheus.Observer
	charge   prometheus.Counter
	visited  [operations]prometheus.Counter

	// counters holds the requests counters that were used, by operation and
	// status, so that counting one needs no look-up of labels.
	counters [operations][statusEnd - statusBegin]atomic.Pointer[prometheus.Counter]
}

// The range of an answer's status.
const (
	statusBegin = 200
	statusEnd   = 505
)

// newMetrics registers with registry; with nil the metrics are not published.
func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "decan_nosql_requests_total",
			Help: "Requests over the NoSQL REST protocol, by operation and HTTP status.",
		}, []string{"operation", "status"})),
		charge: register(registry, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "decan_nosql_charge_total",
			Help: "Request units charged for requests over the NoSQL REST protocol.",
		})),
	}
	visits := register(registry, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "decan_nosql_partitions_visited_total",
		Help: "Physical partitions asked by requests over the NoSQL REST protocol, one per request and partition, by operation.",
	}, []string{"operation"}))
	durations := register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "decan_nosql_request_duration_seconds",
		Help:    "Time from the headers of a request to the last byte of its answer, by operation.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation"}))
	for o := range operations {
		m.duration[o] = durations.WithLabelValues(o.String())
		m.visited[o] = visits.WithLabelValues(o.String())
	}
	return m
}

// register returns collector, or the equal one that another door registered.
func register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
	if registry == nil {
		return collector
	}
	err := registry.Register(collector)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		return registered.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // A programming error: two different metrics with one name.
	}
	return collector
}

func (m *metrics) observe(r *request, status int, took time.Duration) {
	m.counter(r.operation, status).Inc()
	m.duration[r.operation].Observe(took.Seconds())
	if r.result.Charge > 0 {
		m.charge.Add(r.result.Charge)
	}
	if n := len(r.result.Partitions); n > 0 {
		m.visited[r.operation].Add(float64(n))
	}
}

func (m *metrics) counter(o operation, status int) prometheus.Counter {
	if status < statusBegin || status >= statusEnd {
		return m.requests.WithLabelValues(o.String(), strconv.Itoa(status))
	}
	slot := &m.counters[o][status-statusBegin]
	if counter := slot.Load(); counter != nil {
		return *counter
	}
	counter := m.requests.WithLabelValues(o.String(), strconv.Itoa(status))
	slot.Store(&counter)
	return counter
}
