package nosql

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// queryEngine tells clients with their own query planner which features the
// server's query language has, and .NET whether a query of one partition needs a
// plan. It is a JSON document inside a string, with the values of the service.
// https://learn.microsoft.com/rest/api/cosmos-db/get-account-information
const queryEngine = `{"allowNewKeywords":true,"maxJoinsPerSqlQuery":10,"maxQueryRequestTimeoutFraction":0.9,` +
	`"maxSqlQueryInputLength":524288,"maxUdfRefPerSqlQuery":10,"queryMaxGroupByTableCellCount":500000,` +
	`"queryMaxInMemorySortDocumentCount":-1000,"spatialMaxGeometryPointCount":256,"sqlAllowNonFiniteNumbers":false,` +
	`"sqlDisableOptimizationFlags":0,"sqlQueryILDisableOptimizationFlags":0,` +
	`"clientDisableOptimisticDirectExecution":false,"queryEnableFullText":true,` +
	`"queryEnableFullTextPreviewFeatures":false,"queryMaxFullTextScoreSearchTerms":5,"queryMaxRrfArgumentCount":100,` +
	`"enableSpatialIndexing":true,"maxInExpressionItemsCount":2147483647,"maxLogicalAndPerSqlQuery":2147483647,` +
	`"maxLogicalOrPerSqlQuery":2147483647,"maxSpatialQueryCells":2147483647,"sqlAllowAggregateFunctions":true,` +
	`"sqlAllowGroupByClause":true,"sqlAllowLike":true,"sqlAllowScalarSubQuery":true,"sqlAllowSubQuery":true,` +
	`"sqlAllowTop":true}`

// readAccount answers GET /, every client's first request.
func (h *handler) readAccount(r *request) (*response, error) {
	return r.answer(http.StatusOK, h.accountDocument(h.advertised(r)).Append(nil)), nil
}

// advertised returns the URL that clients should use: the one that this client
// has used, so that port mappings and host names of any kind work.
func (h *handler) advertised(r *request) string { return string(h.appendAdvertised(nil, r)) }

func (h *handler) appendAdvertised(out []byte, r *request) []byte {
	if h.endpoint != "" {
		return append(out, h.endpoint...)
	}
	scheme := "http"
	if r.secure {
		scheme = "https"
	}
	if h.switches.TrustForwardedProto {
		proto, _, _ := strings.Cut(r.header(headerForwardedProto), ",")
		switch proto = strings.ToLower(strings.TrimSpace(proto)); proto {
		case "http", "https":
			scheme = proto
		}
	}
	out = append(append(out, scheme...), "://"...)
	return append(append(out, r.host...), '/')
}

func (h *handler) accountDocument(endpoint string) value.Value {
	locations := value.Array([]value.Value{value.Object([]value.Member{
		{Name: "name", Value: value.String(h.account.Region)},
		{Name: "databaseAccountEndpoint", Value: value.String(endpoint)},
	})})
	policy := []value.Member{{Name: "defaultConsistencyLevel", Value: value.String(h.account.Consistency.String())}}
	if h.account.Consistency == resource.BoundedStaleness {
		policy = append(policy,
			value.Member{Name: "maxStalenessPrefix", Value: value.Int(100)},
			value.Member{Name: "maxIntervalInSeconds", Value: value.Int(5)})
	}
	replicas := []value.Member{
		{Name: "minReplicaSetSize", Value: value.Int(3)},
		{Name: "maxReplicasetSize", Value: value.Int(4)},
	}
	return value.Object([]value.Member{
		{Name: "_self", Value: value.String("")},
		{Name: "id", Value: value.String(h.account.ID)},
		{Name: "_rid", Value: value.String(h.account.ID + ".sql.cosmos.azure.com")},
		{Name: "media", Value: value.String("//media/")},
		{Name: "addresses", Value: value.String("//addresses/")},
		{Name: "_dbs", Value: value.String("//dbs/")},
		{Name: "writableLocations", Value: locations},
		{Name: "readableLocations", Value: locations},
		{Name: "enableMultipleWriteLocations", Value: value.Bool(false)},
		{Name: "continuousBackupEnabled", Value: value.Bool(false)},
		{Name: "enableNRegionSynchronousCommit", Value: value.Bool(false)},
		{Name: "enablePerPartitionFailoverBehavior", Value: value.Bool(false)},
		{Name: "userReplicationPolicy", Value: value.Object(append([]value.Member{{Name: "asyncReplication", Value: value.Bool(false)}}, replicas...))},
		{Name: "userConsistencyPolicy", Value: value.Object(policy)},
		{Name: "systemReplicationPolicy", Value: value.Object(replicas)},
		{Name: "readPolicy", Value: value.Object([]value.Member{
			{Name: "primaryReadCoefficient", Value: value.Int(1)},
			{Name: "secondaryReadCoefficient", Value: value.Int(1)},
		})},
		{Name: "queryEngineConfiguration", Value: value.String(queryEngine)},
	})
}
