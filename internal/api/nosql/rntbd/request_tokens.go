package rntbd

// RequestID identifies a token of a request.
type RequestID uint16

// String returns the name of the token.
func (id RequestID) String() string { return nameOf(requestTokens[:], uint16(id)) }

// The tokens that clients send, with the header of the REST protocol that says the same.
// Others, which only parts of the service send to each other, are skipped.
const (
	RequestResourceID                             RequestID = 0x0000
	RequestAuthorizationToken                     RequestID = 0x0001 // authorization
	RequestPayloadPresent                         RequestID = 0x0002
	RequestDate                                   RequestID = 0x0003 // x-ms-date (else Date)
	RequestPageSize                               RequestID = 0x0004 // x-ms-max-item-count
	RequestSessionToken                           RequestID = 0x0005 // x-ms-session-token
	RequestContinuationToken                      RequestID = 0x0006 // x-ms-continuation
	RequestIndexingDirective                      RequestID = 0x0007 // x-ms-indexing-directive
	RequestMatch                                  RequestID = 0x0008 // If-None-Match / If-Match
	RequestPreTriggerInclude                      RequestID = 0x0009 // x-ms-documentdb-pre-trigger-include
	RequestPostTriggerInclude                     RequestID = 0x000A // x-ms-documentdb-post-trigger-include
	RequestPreTriggerExclude                      RequestID = 0x000E // x-ms-documentdb-pre-trigger-exclude
	RequestPostTriggerExclude                     RequestID = 0x000F // x-ms-documentdb-post-trigger-exclude
	RequestConsistencyLevel                       RequestID = 0x0010 // x-ms-consistency-level
	RequestReplicaPath                            RequestID = 0x0013
	RequestResourceTokenExpiry                    RequestID = 0x0014 // x-ms-documentdb-expiry-seconds
	RequestDatabaseName                           RequestID = 0x0015
	RequestCollectionName                         RequestID = 0x0016
	RequestDocumentName                           RequestID = 0x0017
	RequestAttachmentName                         RequestID = 0x0018
	RequestUserName                               RequestID = 0x0019
	RequestPermissionName                         RequestID = 0x001A
	RequestStoredProcedureName                    RequestID = 0x001B
	RequestUserDefinedFunctionName                RequestID = 0x001C
	RequestTriggerName                            RequestID = 0x001D
	RequestEnableScanInQuery                      RequestID = 0x001E // x-ms-documentdb-query-enable-scan
	RequestEmitVerboseTracesInQuery               RequestID = 0x001F // x-ms-documentdb-query-emit-traces
	RequestConflictName                           RequestID = 0x0020
	RequestEnableLowPrecisionOrderBy              RequestID = 0x0027 // x-ms-documentdb-query-enable-low-precision-order-by
	RequestClientVersion                          RequestID = 0x0028 // x-ms-version
	RequestPartitionKey                           RequestID = 0x002B // x-ms-documentdb-partitionkey
	RequestPartitionKeyRangeID                    RequestID = 0x002C // x-ms-documentdb-partitionkeyrangeid
	RequestCollectionRID                          RequestID = 0x0035 // x-ms-documentdb-collection-rid
	RequestPartitionKeyRangeName                  RequestID = 0x0036
	RequestSchemaName                             RequestID = 0x003A
	RequestEnableLogging                          RequestID = 0x003E // x-ms-documentdb-script-enable-logging
	RequestAIM                                    RequestID = 0x003F // A-IM
	RequestPopulateQuotaInfo                      RequestID = 0x0040 // x-ms-documentdb-populatequotainfo
	RequestPopulateQueryMetrics                   RequestID = 0x0042 // x-ms-documentdb-populatequerymetrics
	RequestResponseContinuationTokenLimitInKB     RequestID = 0x0043 // x-ms-documentdb-responsecontinuationtokenlimitinkb
	RequestIfModifiedSince                        RequestID = 0x0047 // If-Modified-Since
	RequestPopulateCollectionThroughputInfo       RequestID = 0x0048 // x-ms-documentdb-populatecollectionthroughputinfo
	RequestRemainingTimeMillisOnClient            RequestID = 0x0049 // x-ms-remaining-time-in-ms-on-client
	RequestClientRetryAttemptCount                RequestID = 0x004A // x-ms-client-retry-attempt-count
	RequestTargetLSN                              RequestID = 0x004B // x-ms-target-lsn
	RequestTargetGlobalCommittedLSN               RequestID = 0x004C // x-ms-target-global-committed-lsn
	RequestTransportRequestID                     RequestID = 0x004D // x-ms-transport-request-id
	RequestIsReadOnlyScript                       RequestID = 0x0052 // x-ms-is-readonly-script
	RequestForceQueryScan                         RequestID = 0x0054 // x-ms-documentdb-force-query-scan
	RequestTimeToLiveInSeconds                    RequestID = 0x0059 // x-ms-time-to-live-in-seconds
	RequestEffectivePartitionKey                  RequestID = 0x005A // x-ms-effective-partition-key
	RequestEnumerationDirection                   RequestID = 0x005E // x-ms-enumeration-direction
	RequestStartID                                RequestID = 0x005F // x-ms-start-id
	RequestEndID                                  RequestID = 0x0060 // x-ms-end-id
	RequestStartEPK                               RequestID = 0x0062 // x-ms-start-epk
	RequestEndEPK                                 RequestID = 0x0063 // x-ms-end-epk
	RequestReadFeedKeyType                        RequestID = 0x0064 // x-ms-read-key-type
	RequestContentSerializationFormat             RequestID = 0x0065 // x-ms-documentdb-content-serialization-format
	RequestAllowTentativeWrites                   RequestID = 0x0066 // x-ms-cosmos-allow-tentative-writes
	RequestIncludeTentativeWrites                 RequestID = 0x0070 // x-ms-cosmos-include-tentative-writes
	RequestIsBatchAtomic                          RequestID = 0x0073 // x-ms-cosmos-batch-atomic
	RequestShouldBatchContinueOnError             RequestID = 0x0074 // x-ms-cosmos-batch-continue-on-error
	RequestIsBatchOrdered                         RequestID = 0x0075 // x-ms-cosmos-batch-ordered
	RequestReturnPreference                       RequestID = 0x0082 // Prefer
	RequestIsClientEncrypted                      RequestID = 0x0087 // x-ms-cosmos-is-client-encrypted
	RequestChangeFeedStartFullFidelityIfNoneMatch RequestID = 0x009A // x-ms-cosmos-start-full-fidelity-if-none-match
	RequestIntendedCollectionRID                  RequestID = 0x009D // x-ms-cosmos-intended-collection-rid
	RequestSDKSupportedCapabilities               RequestID = 0x00A2 // x-ms-cosmos-sdk-supportedcapabilities
	RequestPopulateIndexMetrics                   RequestID = 0x00A9 // x-ms-cosmos-populateindexmetrics
	RequestCorrelatedActivityID                   RequestID = 0x00B0 // x-ms-cosmos-correlated-activityid
	RequestChangeFeedWireFormatVersion            RequestID = 0x00B2 // x-ms-cosmos-changefeed-wire-format-version
	RequestPriorityLevel                          RequestID = 0x00BF // x-ms-cosmos-priority-level
	RequestPopulateIndexMetricsV2                 RequestID = 0x00C2 // x-ms-cosmos-populateindexmetrics-V2
	RequestSupportedSerializationFormats          RequestID = 0x00C4 // x-ms-cosmos-supported-serialization-formats
	RequestOptimisticDirectExecute                RequestID = 0x00C8 // x-ms-cosmos-query-optimisticdirectexecute
	RequestTraceParent                            RequestID = 0x00CC // traceparent
	RequestTraceState                             RequestID = 0x00CD // tracestate
	RequestGlobalDatabaseAccountName              RequestID = 0x00CE // GlobalDatabaseAccountName
	RequestStartEPKHash                           RequestID = 0x00D2 // x-ms-cosmos-start-epk-hash
	RequestEndEPKHash                             RequestID = 0x00D3 // x-ms-cosmos-end-epk-hash
	RequestPopulateQueryAdvice                    RequestID = 0x00DA // x-ms-cosmos-populatequeryadvice
	RequestThroughputBucket                       RequestID = 0x00DB // x-ms-cosmos-throughput-bucket
	RequestWorkloadIDByte                         RequestID = 0x00DC // x-ms-cosmos-workload-id, Java
	RequestWorkloadID                             RequestID = 0x00E7 // x-ms-cosmos-workload-id, .NET
	RequestShouldProcessOnlyInHubRegion           RequestID = 0x00EF // x-ms-cosmos-hub-region-processing-only
	RequestIdempotencyToken                       RequestID = 0x00F8 // x-ms-cosmos-idempotency-token
	RequestReadConsistencyStrategy                RequestID = 0x00FE // x-ms-cosmos-read-consistency-strategy
	RequestSupportedQueryFeatures                 RequestID = 0x00FF // x-ms-cosmos-supported-query-features
	RequestQueryVersion                           RequestID = 0x0100 // x-ms-cosmos-query-version
	RequestSupportedSerializationFeatures         RequestID = 0x0101 // x-ms-cosmos-supported-serialization-formats
)

// requestTokens has the name and the type of each token. It never changes.
var requestTokens = [...]token{
	RequestResourceID:                             {"ResourceId", TypeBytes},
	RequestAuthorizationToken:                     {"AuthorizationToken", TypeString},
	RequestPayloadPresent:                         {"PayloadPresent", TypeByte},
	RequestDate:                                   {"Date", TypeSmallString},
	RequestPageSize:                               {"PageSize", TypeULong},
	RequestSessionToken:                           {"SessionToken", TypeString},
	RequestContinuationToken:                      {"ContinuationToken", TypeString},
	RequestIndexingDirective:                      {"IndexingDirective", TypeByte},
	RequestMatch:                                  {"Match", TypeString},
	RequestPreTriggerInclude:                      {"PreTriggerInclude", TypeString},
	RequestPostTriggerInclude:                     {"PostTriggerInclude", TypeString},
	RequestPreTriggerExclude:                      {"PreTriggerExclude", TypeString},
	RequestPostTriggerExclude:                     {"PostTriggerExclude", TypeString},
	RequestConsistencyLevel:                       {"ConsistencyLevel", TypeByte},
	RequestReplicaPath:                            {"ReplicaPath", TypeString},
	RequestResourceTokenExpiry:                    {"ResourceTokenExpiry", TypeULong},
	RequestDatabaseName:                           {"DatabaseName", TypeString},
	RequestCollectionName:                         {"CollectionName", TypeString},
	RequestDocumentName:                           {"DocumentName", TypeString},
	RequestAttachmentName:                         {"AttachmentName", TypeString},
	RequestUserName:                               {"UserName", TypeString},
	RequestPermissionName:                         {"PermissionName", TypeString},
	RequestStoredProcedureName:                    {"StoredProcedureName", TypeString},
	RequestUserDefinedFunctionName:                {"UserDefinedFunctionName", TypeString},
	RequestTriggerName:                            {"TriggerName", TypeString},
	RequestEnableScanInQuery:                      {"EnableScanInQuery", TypeByte},
	RequestEmitVerboseTracesInQuery:               {"EmitVerboseTracesInQuery", TypeByte},
	RequestConflictName:                           {"ConflictName", TypeString},
	RequestEnableLowPrecisionOrderBy:              {"EnableLowPrecisionOrderBy", TypeByte},
	RequestClientVersion:                          {"ClientVersion", TypeSmallString},
	RequestPartitionKey:                           {"PartitionKey", TypeString},
	RequestPartitionKeyRangeID:                    {"PartitionKeyRangeId", TypeString},
	RequestCollectionRID:                          {"CollectionRid", TypeString},
	RequestPartitionKeyRangeName:                  {"PartitionKeyRangeName", TypeString},
	RequestSchemaName:                             {"SchemaName", TypeString},
	RequestEnableLogging:                          {"EnableLogging", TypeByte},
	RequestAIM:                                    {"A_IM", TypeString},
	RequestPopulateQuotaInfo:                      {"PopulateQuotaInfo", TypeByte},
	RequestPopulateQueryMetrics:                   {"PopulateQueryMetrics", TypeByte},
	RequestResponseContinuationTokenLimitInKB:     {"ResponseContinuationTokenLimitInKb", TypeULong},
	RequestIfModifiedSince:                        {"IfModifiedSince", TypeString},
	RequestPopulateCollectionThroughputInfo:       {"PopulateCollectionThroughputInfo", TypeByte},
	RequestRemainingTimeMillisOnClient:            {"RemainingTimeInMsOnClientRequest", TypeULong},
	RequestClientRetryAttemptCount:                {"ClientRetryAttemptCount", TypeULong},
	RequestTargetLSN:                              {"TargetLsn", TypeLongLong},
	RequestTargetGlobalCommittedLSN:               {"TargetGlobalCommittedLsn", TypeLongLong},
	RequestTransportRequestID:                     {"TransportRequestID", TypeULong},
	RequestIsReadOnlyScript:                       {"IsReadOnlyScript", TypeByte},
	RequestForceQueryScan:                         {"ForceQueryScan", TypeByte},
	RequestTimeToLiveInSeconds:                    {"TimeToLiveInSeconds", TypeULong},
	RequestEffectivePartitionKey:                  {"EffectivePartitionKey", TypeBytes},
	RequestEnumerationDirection:                   {"EnumerationDirection", TypeByte},
	RequestStartID:                                {"StartId", TypeBytes},
	RequestEndID:                                  {"EndId", TypeBytes},
	RequestStartEPK:                               {"StartEpk", TypeBytes},
	RequestEndEPK:                                 {"EndEpk", TypeBytes},
	RequestReadFeedKeyType:                        {"ReadFeedKeyType", TypeByte},
	RequestContentSerializationFormat:             {"ContentSerializationFormat", TypeByte},
	RequestAllowTentativeWrites:                   {"AllowTentativeWrites", TypeByte},
	RequestIncludeTentativeWrites:                 {"IncludeTentativeWrites", TypeByte},
	RequestIsBatchAtomic:                          {"IsBatchAtomic", TypeByte},
	RequestShouldBatchContinueOnError:             {"ShouldBatchContinueOnError", TypeByte},
	RequestIsBatchOrdered:                         {"IsBatchOrdered", TypeByte},
	RequestReturnPreference:                       {"ReturnPreference", TypeByte},
	RequestIsClientEncrypted:                      {"IsClientEncrypted", TypeByte},
	RequestChangeFeedStartFullFidelityIfNoneMatch: {"ChangeFeedStartFullFidelityIfNoneMatch", TypeString},
	RequestIntendedCollectionRID:                  {"IntendedCollectionRid", TypeString},
	RequestSDKSupportedCapabilities:               {"SDKSupportedCapabilities", TypeULong},
	RequestPopulateIndexMetrics:                   {"PopulateIndexMetrics", TypeByte},
	RequestCorrelatedActivityID:                   {"CorrelatedActivityId", TypeGUID},
	RequestChangeFeedWireFormatVersion:            {"ChangeFeedWireFormatVersion", TypeString},
	RequestPriorityLevel:                          {"PriorityLevel", TypeByte},
	RequestPopulateIndexMetricsV2:                 {"PopulateIndexMetricsV2", TypeByte},
	RequestSupportedSerializationFormats:          {"SupportedSerializationFormats", TypeByte},
	RequestOptimisticDirectExecute:                {"OptimisticDirectExecute", TypeByte},
	RequestTraceParent:                            {"TraceParent", TypeString},
	RequestTraceState:                             {"TraceState", TypeString},
	RequestGlobalDatabaseAccountName:              {"GlobalDatabaseAccountName", TypeString},
	RequestStartEPKHash:                           {"StartEpkHash", TypeBytes},
	RequestEndEPKHash:                             {"EndEpkHash", TypeBytes},
	RequestPopulateQueryAdvice:                    {"PopulateQueryAdvice", TypeByte},
	RequestThroughputBucket:                       {"ThroughputBucket", TypeByte},
	RequestWorkloadIDByte:                         {"WorkloadId", TypeByte},
	RequestWorkloadID:                             {"WorkloadId", TypeUShort},
	RequestShouldProcessOnlyInHubRegion:           {"ShouldProcessOnlyInHubRegion", TypeByte},
	RequestIdempotencyToken:                       {"IdempotencyToken", TypeGUID},
	RequestReadConsistencyStrategy:                {"ReadConsistencyStrategy", TypeByte},
	RequestSupportedQueryFeatures:                 {"SupportedQueryFeatures", TypeString},
	RequestQueryVersion:                           {"QueryVersion", TypeSmallString},
	RequestSupportedSerializationFeatures:         {"SupportedSerializationFeatures", TypeUShort},
}
