package rntbd

// ResponseID identifies a token of a response.
type ResponseID uint16

// String returns the name of the token.
func (id ResponseID) String() string { return nameOf(responseTokens[:], uint16(id)) }

// The tokens that clients read, with the header of the REST protocol that says the same.
const (
	ResponsePayloadPresent                     ResponseID = 0x0000
	ResponseLastStateChangeDateTime            ResponseID = 0x0002 // x-ms-last-state-change-utc
	ResponseContinuationToken                  ResponseID = 0x0003 // x-ms-continuation
	ResponseETag                               ResponseID = 0x0004 // etag
	ResponseRetryAfterMilliseconds             ResponseID = 0x000C // x-ms-retry-after-ms
	ResponseIndexingDirective                  ResponseID = 0x000D // x-ms-indexing-directive
	ResponseStorageMaxResourceQuota            ResponseID = 0x000E // x-ms-resource-quota
	ResponseStorageResourceQuotaUsage          ResponseID = 0x000F // x-ms-resource-usage
	ResponseSchemaVersion                      ResponseID = 0x0010 // x-ms-schemaversion
	ResponseCollectionPartitionIndex           ResponseID = 0x0011 // collection-partition-index
	ResponseCollectionServiceIndex             ResponseID = 0x0012 // collection-service-index
	ResponseLSN                                ResponseID = 0x0013 // lsn
	ResponseItemCount                          ResponseID = 0x0014 // x-ms-item-count
	ResponseRequestCharge                      ResponseID = 0x0015 // x-ms-request-charge
	ResponseOwnerFullName                      ResponseID = 0x0017 // x-ms-alt-content-path
	ResponseOwnerID                            ResponseID = 0x0018 // x-ms-content-path
	ResponseDatabaseAccountID                  ResponseID = 0x0019 // x-ms-database-account-id
	ResponseQuorumAckedLSN                     ResponseID = 0x001A // x-ms-quorum-acked-lsn
	ResponseRequestValidationFailure           ResponseID = 0x001B // x-ms-request-validation-failure
	ResponseSubStatus                          ResponseID = 0x001C // x-ms-substatus
	ResponseCollectionUpdateProgress           ResponseID = 0x001D // x-ms-documentdb-collection-index-transformation-progress
	ResponseCurrentWriteQuorum                 ResponseID = 0x001E // x-ms-current-write-quorum
	ResponseCurrentReplicaSetSize              ResponseID = 0x001F // x-ms-current-replica-set-size
	ResponseCollectionLazyIndexProgress        ResponseID = 0x0020 // x-ms-documentdb-collection-lazy-indexing-progress
	ResponsePartitionKeyRangeID                ResponseID = 0x0021 // x-ms-documentdb-partitionkeyrangeid
	ResponseLogResults                         ResponseID = 0x0025 // x-ms-documentdb-script-log-results
	ResponseXPRole                             ResponseID = 0x0026 // x-ms-xp-role
	ResponseIsRUPerMinuteUsed                  ResponseID = 0x0027 // x-ms-documentdb-is-ru-per-minute-used
	ResponseQueryMetrics                       ResponseID = 0x0028 // x-ms-documentdb-query-metrics
	ResponseGlobalCommittedLSN                 ResponseID = 0x0029 // x-ms-global-Committed-lsn
	ResponseNumberOfReadRegions                ResponseID = 0x0030 // x-ms-number-of-read-regions
	ResponseOfferReplacePending                ResponseID = 0x0031 // x-ms-offer-replace-pending
	ResponseItemLSN                            ResponseID = 0x0032 // x-ms-item-lsn
	ResponseRestoreState                       ResponseID = 0x0033 // x-ms-restore-state
	ResponseCollectionSecurityIdentifier       ResponseID = 0x0034 // x-ms-collection-security-identifier
	ResponseTransportRequestID                 ResponseID = 0x0035 // x-ms-transport-request-id
	ResponseShareThroughput                    ResponseID = 0x0036 // x-ms-share-throughput
	ResponseDisableRntbdChannel                ResponseID = 0x0038 // x-ms-disable-rntbd-channel
	ResponseServerDateTimeUTC                  ResponseID = 0x0039 // x-ms-date
	ResponseLocalLSN                           ResponseID = 0x003A // x-ms-cosmos-llsn
	ResponseQuorumAckedLocalLSN                ResponseID = 0x003B // x-ms-cosmos-quorum-acked-llsn
	ResponseItemLocalLSN                       ResponseID = 0x003C // x-ms-cosmos-item-llsn
	ResponseHasTentativeWrites                 ResponseID = 0x003D // x-ms-cosmosdb-has-tentative-writes
	ResponseSessionToken                       ResponseID = 0x003E // x-ms-session-token
	ResponseIndexUtilization                   ResponseID = 0x0044 // x-ms-cosmos-index-utilization
	ResponseQueryExecutionInfo                 ResponseID = 0x0045 // x-ms-cosmos-query-execution-info
	ResponseBackendRequestDurationMilliseconds ResponseID = 0x0051 // x-ms-request-duration-ms
	ResponseCorrelatedActivityID               ResponseID = 0x0052 // x-ms-cosmos-correlated-activityid
	ResponseQueryAdvice                        ResponseID = 0x0075 // x-ms-cosmos-query-advice
	ResponseGlobalNRegionCommittedGLSN         ResponseID = 0x0078 // x-ms-cosmos-global-nregion-committed-glsn
)

// responseTokens has the name and the type of each token. It never changes.
var responseTokens = [...]token{
	ResponsePayloadPresent:                     {"PayloadPresent", TypeByte},
	ResponseLastStateChangeDateTime:            {"LastStateChangeDateTime", TypeSmallString},
	ResponseContinuationToken:                  {"ContinuationToken", TypeString},
	ResponseETag:                               {"ETag", TypeString},
	ResponseRetryAfterMilliseconds:             {"RetryAfterMilliseconds", TypeULong},
	ResponseIndexingDirective:                  {"IndexingDirective", TypeByte},
	ResponseStorageMaxResourceQuota:            {"StorageMaxResourceQuota", TypeString},
	ResponseStorageResourceQuotaUsage:          {"StorageResourceQuotaUsage", TypeString},
	ResponseSchemaVersion:                      {"SchemaVersion", TypeSmallString},
	ResponseCollectionPartitionIndex:           {"CollectionPartitionIndex", TypeULong},
	ResponseCollectionServiceIndex:             {"CollectionServiceIndex", TypeULong},
	ResponseLSN:                                {"LSN", TypeLongLong},
	ResponseItemCount:                          {"ItemCount", TypeULong},
	ResponseRequestCharge:                      {"RequestCharge", TypeDouble},
	ResponseOwnerFullName:                      {"OwnerFullName", TypeString},
	ResponseOwnerID:                            {"OwnerId", TypeString},
	ResponseDatabaseAccountID:                  {"DatabaseAccountId", TypeString},
	ResponseQuorumAckedLSN:                     {"QuorumAckedLSN", TypeLongLong},
	ResponseRequestValidationFailure:           {"RequestValidationFailure", TypeByte},
	ResponseSubStatus:                          {"SubStatus", TypeULong},
	ResponseCollectionUpdateProgress:           {"CollectionUpdateProgress", TypeULong},
	ResponseCurrentWriteQuorum:                 {"CurrentWriteQuorum", TypeULong},
	ResponseCurrentReplicaSetSize:              {"CurrentReplicaSetSize", TypeULong},
	ResponseCollectionLazyIndexProgress:        {"CollectionLazyIndexProgress", TypeULong},
	ResponsePartitionKeyRangeID:                {"PartitionKeyRangeId", TypeString},
	ResponseLogResults:                         {"LogResults", TypeString},
	ResponseXPRole:                             {"XPRole", TypeULong},
	ResponseIsRUPerMinuteUsed:                  {"IsRUPerMinuteUsed", TypeByte},
	ResponseQueryMetrics:                       {"QueryMetrics", TypeString},
	ResponseGlobalCommittedLSN:                 {"GlobalCommittedLSN", TypeLongLong},
	ResponseNumberOfReadRegions:                {"NumberOfReadRegions", TypeULong},
	ResponseOfferReplacePending:                {"OfferReplacePending", TypeByte},
	ResponseItemLSN:                            {"ItemLSN", TypeLongLong},
	ResponseRestoreState:                       {"RestoreState", TypeString},
	ResponseCollectionSecurityIdentifier:       {"CollectionSecurityIdentifier", TypeString},
	ResponseTransportRequestID:                 {"TransportRequestID", TypeULong},
	ResponseShareThroughput:                    {"ShareThroughput", TypeByte},
	ResponseDisableRntbdChannel:                {"DisableRntbdChannel", TypeByte},
	ResponseServerDateTimeUTC:                  {"ServerDateTimeUtc", TypeSmallString},
	ResponseLocalLSN:                           {"LocalLSN", TypeLongLong},
	ResponseQuorumAckedLocalLSN:                {"QuorumAckedLocalLSN", TypeLongLong},
	ResponseItemLocalLSN:                       {"ItemLocalLSN", TypeLongLong},
	ResponseHasTentativeWrites:                 {"HasTentativeWrites", TypeByte},
	ResponseSessionToken:                       {"SessionToken", TypeString},
	ResponseIndexUtilization:                   {"IndexUtilization", TypeString},
	ResponseQueryExecutionInfo:                 {"QueryExecutionInfo", TypeString},
	ResponseBackendRequestDurationMilliseconds: {"BackendRequestDurationMilliseconds", TypeDouble},
	ResponseCorrelatedActivityID:               {"CorrelatedActivityId", TypeGUID},
	ResponseQueryAdvice:                        {"QueryAdvice", TypeString},
	ResponseGlobalNRegionCommittedGLSN:         {"GlobalNRegionCommittedGLSN", TypeLongLong},
}
