package nosql

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/resource"
)

// encode sets the answer of direct mode. Every answer has the same set of tokens, errors
// too: without the LSNs clients take an error for no answer, and ask again.
func (d directDoor) encode(w *rntbd.Response, r *request, answer *response) {
	w.Begin(answer.status)
	result := &r.result
	lsn := result.LSN
	if lsn == 0 {
		lsn, _ = d.reached(r, false) // Without an error the first.
	}
	itemLSN := int64(lsn)
	switch {
	case result.ItemLSN > 0:
		itemLSN = int64(min(result.ItemLSN, lsn))
	case answer.status >= 400:
		itemLSN = -1 // There is no item.
	}
	for _, id := range [...]rntbd.ResponseID{
		rntbd.ResponseLSN, rntbd.ResponseLocalLSN, rntbd.ResponseQuorumAckedLSN, rntbd.ResponseQuorumAckedLocalLSN, rntbd.ResponseGlobalCommittedLSN,
	} {
		w.Int(id, int64(lsn))
	}
	w.Int(rntbd.ResponseItemLSN, itemLSN)
	w.Int(rntbd.ResponseItemLocalLSN, itemLSN)
	w.Int(rntbd.ResponseCurrentReplicaSetSize, replicas)
	w.Int(rntbd.ResponseCurrentWriteQuorum, writeQuorum)
	w.Int(rntbd.ResponseNumberOfReadRegions, 0)
	d.encodeSession(w, r, lsn)
	charge, err := strconv.ParseFloat(formatCharge(result.Charge), 64)
	if err != nil {
		charge = result.Charge
	}
	w.Real(rntbd.ResponseRequestCharge, charge)
	w.Real(rntbd.ResponseBackendRequestDurationMilliseconds, millis(d.now().Sub(r.begun)))
	w.Text(rntbd.ResponseSchemaVersion, schemaVersion)
	if answer.etag != "" {
		w.Text(rntbd.ResponseETag, string(answer.etag))
	}
	d.encodeOwner(w, r, answer.status)
	if size := &result.Size; size.Known {
		w.Text(rntbd.ResponseStorageMaxResourceQuota, unlimited)
		r.head = appendUsage(r.head[:0], size.Documents, size.Bytes, size.Bytes)
		w.TextBytes(rntbd.ResponseStorageResourceQuotaUsage, r.head)
	}
	for _, f := range answer.fields[:answer.count] {
		encodeField(w, f)
	}
	if r.method != http.MethodHead {
		w.Payload = r.keep(answer.body)
	}
}

// keep returns a body that stays as it is when the request is used again.
func (r *request) keep(body []byte) []byte {
	switch {
	case len(body) == 0:
		return nil
	case cap(r.out) > 0 && len(r.out) > 0 && &body[0] == &r.out[0]:
		if cap(r.out) <= bufferKept {
			return bytes.Clone(body)
		}
		r.out = nil // It belongs to the answer now.
	}
	return body
}

// encodeSession sets the session token and the partition that it belongs to: answers have
// the two apart, and clients cannot read the one without the other.
func (d directDoor) encodeSession(w *rntbd.Response, r *request, lsn resource.LSN) {
	id, token, found := strings.Cut(r.result.Session, ":")
	if !found {
		token = ""
		if id = masterID; !r.direct.asked.master {
			id = r.direct.asked.partition.String()
		}
	}
	w.Text(rntbd.ResponsePartitionKeyRangeID, id)
	if token != "" {
		w.Text(rntbd.ResponseSessionToken, token)
		return
	}
	r.head = append(r.head[:0], "-1#"...)
	r.head = strconv.AppendUint(r.head, uint64(lsn), 10)
	w.TextBytes(rntbd.ResponseSessionToken, r.head)
}

func (d directDoor) encodeOwner(w *rntbd.Response, r *request, status int) {
	owner, rid := r.result.Owner, r.result.OwnerRID
	if owner.Database == "" && r.direct.located {
		owner, rid = r.direct.found.Owner(), r.direct.found.RID()
	}
	if owner.Database != "" {
		r.head = appendOwnerLink(r.head[:0], owner)
		w.TextBytes(rntbd.ResponseOwnerFullName, r.head)
	}
	if rid != "" && status != http.StatusNotFound { // The service has none with a 404.
		r.head = rid.AppendText(r.head[:0])
		w.TextBytes(rntbd.ResponseOwnerID, r.head)
	}
}

// encodeField sets the token of a header. Headers without a token are for clients of the
// REST protocol only.
func encodeField(w *rntbd.Response, f field) {
	number := func(id rntbd.ResponseID) {
		if n, err := strconv.ParseInt(f.value, 10, 64); err == nil {
			w.Int(id, n)
		}
	}
	switch f.name {
	case headerItemCount:
		number(rntbd.ResponseItemCount)
	case headerSubStatus:
		number(rntbd.ResponseSubStatus)
	case headerRetryAfter:
		number(rntbd.ResponseRetryAfterMilliseconds)
	case headerIndexProgress:
		number(rntbd.ResponseCollectionUpdateProgress)
	case headerContinuation:
		w.Text(rntbd.ResponseContinuationToken, f.value)
	case headerQuota:
		w.Text(rntbd.ResponseStorageMaxResourceQuota, f.value)
	case headerUsage:
		w.Text(rntbd.ResponseStorageResourceQuotaUsage, f.value)
	case headerShared:
		w.Bool(rntbd.ResponseShareThroughput, f.value == "True")
	case headerQueryMetrics:
		w.Text(rntbd.ResponseQueryMetrics, f.value)
	case headerIndexes:
		w.Text(rntbd.ResponseIndexUtilization, f.value)
	case headerScriptLog:
		w.Text(rntbd.ResponseLogResults, f.value)
	}
}
