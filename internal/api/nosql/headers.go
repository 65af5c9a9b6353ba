package nosql

// Only the documentation page lists the names that no code reads.

// Headers of requests, in the canonical form of net/http, so that maps can be
// indexed with them directly.
const (
	headerAccept             = "Accept"                                                 // text/html comes from a browser
	headerAuthorization      = "Authorization"                                          // signature or token
	headerUserAgent          = "User-Agent"                                             // name and version of the SDK
	headerDate               = "X-Ms-Date"                                              // the signed time, RFC 1123
	headerHTTPDate           = "Date"                                                   // the same for clients that cannot set x-ms-date
	headerPartitionKey       = "X-Ms-Documentdb-Partitionkey"                           // key as a JSON array
	headerGivenRangeID       = "X-Ms-Documentdb-Partitionkeyrangeid"                    // one physical partition
	headerStartEPK           = "X-Ms-Start-Epk"                                         // first hashed key of the requested range, hexadecimal
	headerEndEPK             = "X-Ms-End-Epk"                                           // first hashed key after it
	headerStartID            = "X-Ms-Start-Id"                                          // rid range; refused
	headerEndID              = "X-Ms-End-Id"                                            // rid range; refused
	headerGivenActivityID    = "X-Ms-Activity-Id"                                       // echoed if it is a GUID
	headerGivenSession       = "X-Ms-Session-Token"                                     // the versions that the client has seen
	headerGivenContinuation  = "X-Ms-Continuation"                                      // position of the page
	headerMaxItemCount       = "X-Ms-Max-Item-Count"                                    // rows of a page; -1: as many as fit
	headerConsistency        = "X-Ms-Consistency-Level"                                 // may only weaken the account's
	headerReadStrategy       = "X-Ms-Cosmos-Read-Consistency-Strategy"                  // newer form of the same
	headerIfMatch            = "If-Match"                                               // write only this version
	headerIfNoneMatch        = "If-None-Match"                                          // read only another version; cursor of feeds
	headerIfModifiedSince    = "If-Modified-Since"                                      // change feed: start time
	headerIncremental        = "A-Im"                                                   // asks for a change feed
	headerFeedFormat         = "X-Ms-Cosmos-Changefeed-Wire-Format-Version"             // form of the feed of all versions
	headerPrefer             = "Prefer"                                                 // return=minimal: no body after a write
	headerContentOnWrite     = "X-Ms-Cosmos-Populate-Content-Response-On-Write"         // False: the same
	headerFormats            = "X-Ms-Cosmos-Supported-Serialization-Formats"            // CosmosBinary without JsonText: the answer is binary JSON
	headerContentFormat      = "X-Ms-Documentdb-Content-Serialization-Format"           // CosmosBinary: the same; an unknown one is 400
	headerIsUpsert           = "X-Ms-Documentdb-Is-Upsert"                              // POST replaces what exists
	headerIsQuery            = "X-Ms-Documentdb-Isquery"                                // POST is a query
	headerIsQueryGo          = "X-Ms-Documentdb-Query"                                  // POST is a query, in the form of the Go client
	headerIsQueryPlan        = "X-Ms-Cosmos-Is-Query-Plan-Request"                      // POST requests the plan, not the rows
	headerQueryFeatures      = "X-Ms-Cosmos-Supported-Query-Features"                   // features that the client can merge
	headerCrossPartition     = "X-Ms-Documentdb-Query-Enablecrosspartition"             // more than one partition is allowed
	headerDecanCross         = "X-Decan-Cross-Partition"                                // Decan's own: with full the server merges
	headerIsBatch            = "X-Ms-Cosmos-Is-Batch-Request"                           // POST is a batch
	headerBatchAtomic        = "X-Ms-Cosmos-Batch-Atomic"                               // all operations or none
	headerBatchContinue      = "X-Ms-Cosmos-Batch-Continue-On-Error"                    // operations are independent
	headerIntendedRID        = "X-Ms-Cosmos-Intended-Collection-Rid"                    // the container that the client has cached
	headerOfferThroughput    = "X-Ms-Offer-Throughput"                                  // manual RU/s on create
	headerOfferAutopilot     = "X-Ms-Cosmos-Offer-Autopilot-Settings"                   // autoscale maximum on create, JSON
	headerAutopilotTier      = "X-Ms-Cosmos-Offer-Autopilot-Tier"                       // old form of autoscale; refused
	headerAutopilotUpgrade   = "X-Ms-Cosmos-Offer-Autopilot-Autoupgrade"                // likewise
	headerOfferType          = "X-Ms-Offer-Type"                                        // old S1, S2, S3; refused
	headerMigrateAutoscale   = "X-Ms-Cosmos-Migrate-Offer-To-Autopilot"                 // switch an offer to autoscale
	headerMigrateManual      = "X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput"         // and back
	headerThroughputPolicy   = "X-Ms-Cosmos-Throughput-Policy"                          // PUT of an offer divides it over physical partitions: equal or custom
	headerTargetPartitions   = "X-Ms-Cosmos-Target-Partition-Throughput-Info"           // custom: new throughput of partitions, JSON
	headerSourcePartitions   = "X-Ms-Cosmos-Source-Partition-Throughput-Info"           // custom: partitions that give throughput, JSON
	headerPartitionRUs       = "X-Ms-Cosmos-Include-Physical-Partition-Throughput-Info" // requests the throughput of each physical partition
	headerVersion            = "X-Ms-Version"                                           // of the protocol that the client speaks; read for the creation of a container
	headerPriority           = "X-Ms-Cosmos-Priority-Level"                             // Low has to wait for High
	headerBucket             = "X-Ms-Cosmos-Throughput-Bucket"                          // the throughput bucket of the request, 1 to 5
	headerDecanPartitions    = "X-Decan-Partition-Count"                                // Decan's own: exact number of partitions on create
	headerTokenLifetime      = "X-Ms-Documentdb-Expiry-Seconds"                         // lifetime of a permission's resource token
	headerIndexing           = "X-Ms-Indexing-Directive"                                // Default, Include or Exclude; checked, and without effect
	headerScriptLogging      = "X-Ms-Documentdb-Script-Enable-Logging"                  // requests headerScriptLog
	headerPreTrigger         = "X-Ms-Documentdb-Pre-Trigger-Include"                    // ids separated by commas
	headerPostTrigger        = "X-Ms-Documentdb-Post-Trigger-Include"                   // likewise
	headerOptimistic         = "X-Ms-Cosmos-Query-Optimisticdirectexecute"              // the client asks one partition without a plan
	headerPopulateMetrics    = "X-Ms-Documentdb-Populatequerymetrics"                   // requests headerQueryMetrics
	headerPopulateIndexes    = "X-Ms-Cosmos-Populateindexmetrics"                       // requests headerIndexes in base64
	headerPopulateIndexesV2  = "X-Ms-Cosmos-Populateindexmetrics-V2"                    // requests headerIndexes percent-encoded
	headerDecanExplain       = "X-Decan-Explain"                                        // Decan's own: with true the answer describes how the query runs
	headerPopulateQuota      = "X-Ms-Documentdb-Populatequotainfo"                      // requests headerQuota, headerUsage and headerIndexProgress of a container
	headerTokenLimit         = "X-Ms-Documentdb-Responsecontinuationtokenlimitinkb"     // largest continuation in KB; tokens are below 1 KB
	headerWithoutSystem      = "X-Ms-Exclude-System-Properties"                         // documents without the properties that the server sets
	headerPopulateStatistics = "X-Ms-Documentdb-Populatepartitionstatistics"            // requests statistics in the container
	headerForwardedProto     = "X-Forwarded-Proto"                                      // scheme before a proxy
	headerContentEncoding    = "Content-Encoding"                                       // all values except identity are refused
)

// Headers of responses, in lower case as the service sends them, because one
// client requires it. Those that net/http knows are in its form.
const (
	headerContentType    = "Content-Type"
	headerContentLength  = "Content-Length"
	headerConnection     = "Connection"                                               // close, if this is the last answer on the connection
	headerAllow          = "Allow"                                                    // verbs, with 405
	headerActivityID     = "x-ms-activity-id"                                         // of the request, or a new one
	headerCharge         = "x-ms-request-charge"                                      // request units
	headerSession        = "x-ms-session-token"                                       // the versions that the client has seen with this answer
	headerRangeID        = "x-ms-documentdb-partitionkeyrangeid"                      // the one physical partition that answered, or the former one that was asked
	headerETag           = "etag"                                                     // quoted version
	headerItemCount      = "x-ms-item-count"                                          // rows of this page
	headerContinuation   = "x-ms-continuation"                                        // position of the next page
	headerSubStatus      = "x-ms-substatus"                                           // documented reason below the status
	headerRetryAfter     = "x-ms-retry-after-ms"                                      // with 429 and 449
	headerAltContentPath = "x-ms-alt-content-path"                                    // owner by names
	headerContentPath    = "x-ms-content-path"                                        // owner's RID
	headerLSN            = "lsn"                                                      // of the partition that answered
	headerDuration       = "x-ms-request-duration-ms"                                 // from the headers of the request to those of the answer
	headerItemLSN        = "x-ms-item-lsn"                                            // of the last write of the document
	headerLocation       = "content-location"                                         // URL of the request
	headerShared         = "x-ms-share-throughput"                                    // True: the container has the throughput of its database
	headerQuota          = "x-ms-resource-quota"                                      // limits of the container in KB, or of its scripts of a kind
	headerUsage          = "x-ms-resource-usage"                                      // storage of the container or physical partition in KB, or number of scripts
	headerSchemaVersion  = "x-ms-schemaversion"                                       // of the protocol's resources
	headerServiceVersion = "x-ms-serviceversion"                                      // of this program
	headerGatewayVersion = "x-ms-gatewayversion"                                      // of this program
	headerMinThroughput  = "x-ms-cosmos-min-throughput"                               // offers: lowest accepted RU/s
	headerInstantMax     = "x-ms-cosmos-instant-scale-up-value"                       // offers: highest RU/s without a split
	headerMaxThroughput  = "x-ms-cosmos-offer-max-allowed-throughput"                 // offers: highest accepted RU/s
	headerReplacePending = "x-ms-offer-replace-pending"                               // offers: partitions are being split for it
	headerQueryMetrics   = "x-ms-documentdb-query-metrics"                            // statistics of the query
	headerDistribution   = "x-ms-cosmos-query-requiresdistribution"                   // whether a client merges later pages by a plan; only to headerOptimistic
	headerIndexes        = "x-ms-cosmos-index-utilization"                            // indexes used, and those that would help
	headerIndexProgress  = "x-ms-documentdb-collection-index-transformation-progress" // percent
	headerScriptLog      = "x-ms-documentdb-script-log-results"                       // output of a stored procedure to console.log, percent-encoded
	headerPreference     = "preference-applied"                                       // return=minimal
	headerVisited        = "x-decan-partitions"                                       // Decan's own: ids of the physical partitions that were asked

	// Of the page for browsers.
	headerContentSecurity    = "content-security-policy"
	headerContentTypeOptions = "x-content-type-options"
	headerFrameOptions       = "x-frame-options"
	headerReferrerPolicy     = "referrer-policy"
	headerCacheControl       = "cache-control"
	headerVary               = "vary"
)

const (
	typeJSON      = "application/json"
	typeBinary    = "application/octet-stream"
	typeQuery     = "application/query+json"
	typeSQL       = "application/sql"
	schemaVersion = "1.19"
)
