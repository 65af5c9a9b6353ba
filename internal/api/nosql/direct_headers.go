package nosql

import (
	"encoding/hex"
	"strconv"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
)

// get returns the value of a header of the REST protocol, made of the token that stands
// for it.
func (d *directRequest) get(name string) string {
	q := d.from
	switch name {
	case headerAuthorization:
		return q.Text(rntbd.RequestAuthorizationToken)
	case headerDate:
		return q.Text(rntbd.RequestDate)
	case headerUserAgent:
		return q.Client.UserAgent
	case headerVersion:
		return q.Client.Version
	case headerPartitionKey:
		return q.Text(rntbd.RequestPartitionKey)
	case headerGivenRangeID:
		return d.rangeText()
	case headerStartEPK:
		return d.epk(rntbd.RequestStartEPK)
	case headerEndEPK:
		return d.epk(rntbd.RequestEndEPK)
	case headerStartID:
		return hex.EncodeToString([]byte(q.Text(rntbd.RequestStartID)))
	case headerEndID:
		return hex.EncodeToString([]byte(q.Text(rntbd.RequestEndID)))
	case headerGivenSession:
		return q.Text(rntbd.RequestSessionToken)
	case headerGivenContinuation:
		return q.Text(rntbd.RequestContinuationToken)
	case headerMaxItemCount:
		return d.pageSize()
	case headerConsistency:
		return d.word(rntbd.RequestConsistencyLevel, consistencyBytes)
	case headerReadStrategy:
		return d.word(rntbd.RequestReadConsistencyStrategy, strategyBytes)
	case headerIfMatch:
		if !d.reads() {
			return q.Text(rntbd.RequestMatch)
		}
	case headerIfNoneMatch:
		if d.reads() {
			return q.Text(rntbd.RequestMatch)
		}
	case headerIfModifiedSince:
		return q.Text(rntbd.RequestIfModifiedSince)
	case headerIncremental:
		return q.Text(rntbd.RequestAIM)
	case headerFeedFormat:
		return q.Text(rntbd.RequestChangeFeedWireFormatVersion)
	case headerPrefer:
		return d.word(rntbd.RequestReturnPreference, preferenceBytes)
	case headerFormats:
		return d.word(rntbd.RequestSupportedSerializationFormats, formatsBytes)
	case headerContentFormat:
		return d.word(rntbd.RequestContentSerializationFormat, formatBytes)
	case headerIsUpsert:
		return given(q.Operation == rntbd.Upsert)
	case headerIsQuery:
		return given(q.Operation == rntbd.Query || q.Operation == rntbd.SQLQuery)
	case headerIsBatch:
		return given(q.Operation == rntbd.Batch)
	case headerBatchAtomic:
		return d.word(rntbd.RequestIsBatchAtomic, flagBytes)
	case headerBatchContinue:
		return d.word(rntbd.RequestShouldBatchContinueOnError, flagBytes)
	case headerIntendedRID:
		return q.Text(rntbd.RequestIntendedCollectionRID)
	case headerPriority:
		return d.word(rntbd.RequestPriorityLevel, priorityBytes)
	case headerBucket:
		return d.number(rntbd.RequestThroughputBucket)
	case headerTokenLifetime:
		return d.number(rntbd.RequestResourceTokenExpiry)
	case headerTokenLimit:
		return d.number(rntbd.RequestResponseContinuationTokenLimitInKB)
	case headerIndexing:
		return d.word(rntbd.RequestIndexingDirective, indexingBytes)
	case headerScriptLogging:
		return given(q.Bool(rntbd.RequestEnableLogging))
	case headerPreTrigger:
		return q.Text(rntbd.RequestPreTriggerInclude)
	case headerPostTrigger:
		return q.Text(rntbd.RequestPostTriggerInclude)
	case headerOptimistic:
		return given(q.Bool(rntbd.RequestOptimisticDirectExecute))
	case headerPopulateMetrics:
		return given(q.Bool(rntbd.RequestPopulateQueryMetrics))
	case headerPopulateIndexes:
		return given(q.Bool(rntbd.RequestPopulateIndexMetrics))
	case headerPopulateIndexesV2:
		return given(q.Bool(rntbd.RequestPopulateIndexMetricsV2))
	case headerPopulateQuota:
		return given(q.Bool(rntbd.RequestPopulateQuotaInfo))
	}
	return ""
}

// The values of tokens of one byte, as the words of their headers. An empty word
// means no token.
var (
	consistencyBytes = []string{"Strong", "BoundedStaleness", "Session", "Eventual", "ConsistentPrefix"}
	strategyBytes    = []string{1: "Eventual", "Session", "LatestCommitted", "GlobalStrong"}
	preferenceBytes  = []string{1: "return=minimal"}
	formatBytes      = []string{formatText, formatBinary, formatRows}
	formatsBytes     = []string{1: formatText, formatBinary, formatText + "," + formatBinary, formatRows, formatText + "," + formatRows, formatBinary + "," + formatRows, formatText + "," + formatBinary + "," + formatRows}
	flagBytes        = []string{"False", "True"}
	priorityBytes    = []string{1: "High", "Low"}
	indexingBytes    = []string{"Default", "Include", "Exclude"}
)

// invalidByte is how a client says that a token of one byte has no value.
const invalidByte = 0xFF

// word returns the word of a token of one byte. A number that has no word is its own word,
// which handlers refuse.
func (d *directRequest) word(id rntbd.RequestID, words []string) string {
	n, found := d.from.Int(id)
	switch {
	case !found || n == invalidByte:
		return ""
	case n >= 0 && n < int64(len(words)):
		return words[n]
	}
	return strconv.FormatInt(n, 10)
}

func (d *directRequest) number(id rntbd.RequestID) string {
	n, found := d.from.Int(id)
	if !found {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func given(is bool) string {
	if is {
		return "True"
	}
	return ""
}

// reads reports whether the condition of the request is If-None-Match.
func (d *directRequest) reads() bool {
	return d.from.Operation == rntbd.Read || d.from.Operation == rntbd.ReadFeed
}

// Two numbers mean a page without a limit.
const (
	pageWhole       = 1<<32 - 1
	pageWholeDotNet = 1<<31 - 1
)

func (d *directRequest) pageSize() string {
	n, found := d.from.Int(rntbd.RequestPageSize)
	switch {
	case !found:
		return ""
	case n == pageWholeDotNet, n == pageWhole:
		return "-1"
	}
	return strconv.FormatInt(n, 10)
}

// rangeText returns the partition that the request names. One that names neither a
// partition nor a key is for that of its address.
func (d *directRequest) rangeText() string {
	if text := d.from.Text(rntbd.RequestPartitionKeyRangeID); text != "" {
		return text
	}
	if d.from.Resource == rntbd.Document && d.asked.known && !d.asked.master && !d.from.Has(rntbd.RequestPartitionKey) {
		return d.asked.partition.String()
	}
	return ""
}

// epkText is the value of ReadFeedKeyType for bounds that are hexadecimal digits.
// Applications send only these.
const epkText = 3

// epk returns a bound of the hashed keys in hexadecimal digits.
func (d *directRequest) epk(id rntbd.RequestID) string {
	text := d.from.Text(id)
	if kind, _ := d.from.Int(rntbd.RequestReadFeedKeyType); kind == epkText {
		return text
	}
	return hex.EncodeToString([]byte(text))
}
