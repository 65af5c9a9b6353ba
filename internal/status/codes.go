package status

// Code is a main status code as Azure Cosmos DB documents it.
type Code int

// The complete list of codes.
const (
	CodeNotModified        Code = 304 // the given etag names the current version
	CodeBadRequest         Code = 400
	CodeUnauthorized       Code = 401
	CodeForbidden          Code = 403
	CodeNotFound           Code = 404
	CodeMethodNotAllowed   Code = 405
	CodeRequestTimeout     Code = 408
	CodeConflict           Code = 409
	CodeGone               Code = 410
	CodePreconditionFailed Code = 412
	CodeTooLarge           Code = 413
	CodeLocked             Code = 423
	CodeFailedDependency   Code = 424
	CodeTooManyRequests    Code = 429
	CodeRetryWith          Code = 449
	CodeInternal           Code = 500
	CodeNotImplemented     Code = 501
	CodeUnavailable        Code = 503

	CodeInsufficientStorage Code = 507 // the disk is full: reads and deletions still work
)

var codeNames = map[Code]string{
	CodeNotModified:        "NotModified",
	CodeBadRequest:         "BadRequest",
	CodeUnauthorized:       "Unauthorized",
	CodeForbidden:          "Forbidden",
	CodeNotFound:           "NotFound",
	CodeMethodNotAllowed:   "MethodNotAllowed",
	CodeRequestTimeout:     "RequestTimeout",
	CodeConflict:           "Conflict",
	CodeGone:               "Gone",
	CodePreconditionFailed: "PreconditionFailed",
	CodeTooLarge:           "RequestEntityTooLarge",
	CodeLocked:             "Locked",
	CodeFailedDependency:   "FailedDependency",
	CodeTooManyRequests:    "TooManyRequests",
	CodeRetryWith:          "RetryWith",
	CodeInternal:           "InternalServerError",
	CodeNotImplemented:     "NotImplemented",
	CodeUnavailable:        "ServiceUnavailable",

	CodeInsufficientStorage: "InsufficientStorage",
}

// String returns the name that clients see in error bodies.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "InternalServerError"
}

// Sub is a sub-status: the documented reason for a code. The same number can
// mean different things under different codes.
type Sub int

// The complete list of sub-codes.
const (
	SubPartitionKeyMismatch Sub = 1001  // 400: the key in the request does not fit the document or the definition
	SubCrossPartitionQuery  Sub = 1004  // 400: the client must get a query plan and merge the results
	SubContainerRecreated   Sub = 1024  // 400: the RID that the client cached is not the container's
	SubScriptCompile        Sub = 65535 // 400: the body of a script is not valid JavaScript

	SubAuthorizationMissing   Sub = 5000 // 401: no authorization
	SubAuthorizationMalformed Sub = 5001 // 401: authorization that cannot be parsed
	SubEntraDisabled          Sub = 5002 // 401: bearer tokens are not configured
	SubEntraMalformed         Sub = 5003 // 401: a bearer token that cannot be parsed
	SubEntraSignature         Sub = 5004 // 401: a bearer token without a valid signature
	SubEntraNotYet            Sub = 5005 // 401: a bearer token that is not valid yet
	SubEntraExpired           Sub = 5006 // 401: a bearer token that has expired
	SubEntraIssuer            Sub = 5007 // 401: a bearer token of an unknown issuer
	SubEntraAudience          Sub = 5008 // 401: a bearer token for another audience
	SubEntraNoObject          Sub = 5011 // 401: a bearer token without an object id
	SubLocalAuthDisabled      Sub = 5202 // 401: account keys and resource tokens are not accepted

	SubRoleUnsupported Sub = 5300 // 403: no role can allow this operation
	SubRoleMetadata    Sub = 5301 // 403: no role of the principal allows reading the definition
	SubRoleData        Sub = 5302 // 403: no role of the principal allows the data operation

	SubAccountLimit      Sub = 1005 // 403: the account has the maximum number of databases and containers
	SubPartitionKeyQuota Sub = 1014 // 403: a logical partition is full

	SubReadSessionNotAvailable Sub = 1002 // 404: the partition has not reached the session token
	SubOwnerNotFound           Sub = 1003 // 404: the parent resource does not exist

	SubDatabaseExists Sub = 3206 // 409: a database of this name exists

	SubNameCacheStale     Sub = 1000 // 410: another container has this name now
	SubRangeGone          Sub = 1002 // 410: the partition key range was split or merged
	SubCompletingSplit    Sub = 1007 // 410: a split is being completed
	SubCompletingMovement Sub = 1008 // 410: a move or merge is being completed

	SubRequestRateTooLarge Sub = 3200 // 429: the partition's request units are used up
	SubScriptConcurrency   Sub = 3084 // 429: too many scripts that could not be stopped are still running
	SubSystemBusy          Sub = 3092 // 429: the machine has no room for the request now
	SubMetadataRate        Sub = 3201 // 429: too many metadata requests
	SubBucketExceeded      Sub = 3212 // 429: the requests of a throughput bucket exceed its cap
	SubBucketChange        Sub = 3213 // 429: throughput buckets were changed too recently
)
