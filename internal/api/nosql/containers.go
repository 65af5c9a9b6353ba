package nosql

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// postContainers creates a container, or queries them.
func (h *handler) postContainers(r *request) (*response, error) {
	if r.isQuery() {
		return h.queryContainers(r)
	}
	return h.createContainer(r)
}

// containerRequest returns the request for the container in the path.
func (r *request) containerRequest() engine.ContainerRequest {
	return engine.ContainerRequest{Link: r.link(), IfMatch: r.ifMatch(), IfNoneMatch: r.ifNoneMatch()}
}

func (h *handler) createContainer(r *request) (*response, error) {
	req := r.containerRequest()
	var err error
	req.Body, req.Throughput, err = r.definition(h.limits.BodyBytes)
	if err != nil {
		return nil, err
	}
	if err := r.refuseMultiHash(req.Body); err != nil {
		return nil, err
	}
	if text := r.header(headerDecanPartitions); text != "" {
		if req.Partitions, err = strconv.Atoi(text); err != nil || req.Partitions < 1 {
			return nil, status.BadRequest("The partition count %q in x-decan-partition-count is not a positive number.", text)
		}
	}
	res, err := h.engine.CreateContainer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describe(http.StatusCreated, &res), nil
}

// multiHashVersion is the first version of the protocol with hierarchical keys.
const multiHashVersion = "2020-07-15"

// refuseMultiHash refuses a hierarchical key from a client that speaks an earlier version
// of the protocol, as the service does. A request without a version has the latest.
func (r *request) refuseMultiHash(definition value.Value) error {
	kind := definition.Get("partitionKey").Get("kind").Text()
	if v := r.header(headerVersion); v == "" || v >= multiHashVersion || !strings.EqualFold(kind, "MultiHash") {
		return nil
	}
	return status.Service("The 'kind' value '%.32s' specified in the partition key definition is invalid. Please choose 'Hash' partition type.", kind)
}

func (h *handler) readContainer(r *request) (*response, error) {
	req := r.containerRequest()
	req.Usage = r.flag(headerPopulateQuota)
	res, err := h.engine.ReadContainer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	if r.flag(headerPopulateStatistics) {
		if res.Body, err = h.withStatistics(r, res.Body); err != nil {
			return nil, err
		}
	}
	return r.describe(http.StatusOK, &res), nil
}

func (h *handler) replaceContainer(r *request) (*response, error) {
	req := r.containerRequest()
	var err error
	// The SDKs document the headers for throughput as valid for a creation only.
	req.Body, _, err = r.definition(h.limits.BodyBytes)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReplaceContainer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describe(http.StatusOK, &res), nil
}

func (h *handler) deleteContainer(r *request) (*response, error) {
	res, err := h.engine.DeleteContainer(r.ctx, r.caller, r.containerRequest())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listContainers(r *request) (*response, error) {
	req, err := r.page(r.link())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListContainers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("DocumentCollections", &page), nil
}

func (h *handler) queryContainers(r *request) (*response, error) {
	r.operation = opContainerQuery
	req, err := h.definitionQuery(r, r.link())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryContainers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("DocumentCollections", &page), nil
}

// describe answers with a container, and if requested with its index progress,
// quota and usage.
func (r *request) describe(status int, res *engine.Resource) *response {
	answer := r.resource(status, res)
	if res.Shared {
		answer.set(headerShared, "True")
	}
	if r.flag(headerPopulateQuota) {
		answer.set(headerIndexProgress, strconv.Itoa(res.IndexProgress))
	}
	if usage := res.Usage; usage != nil {
		answer.set(headerQuota, unlimited)
		answer.set(headerUsage, string(appendUsage(nil, usage.Documents, usage.DocumentBytes, usage.DocumentBytes+usage.IndexBytes)))
	}
	return answer
}

// unlimited is the quota of a container that grows by partitions: -1 means no
// limit.
const unlimited = "documentSize=-1;documentsSize=-1;documentsCount=-1;collectionSize=-1;"

// appendUsage appends the usage that belongs to unlimited. documentSize is in MB,
// the other sizes are in KB.
func appendUsage(out []byte, documents, bytes, stored int64) []byte {
	for _, figure := range [...]struct {
		name string
		n    int64
	}{
		{"documentSize=", blocks(bytes, 1<<20)},
		{"documentsSize=", blocks(bytes, 1<<10)},
		{"documentsCount=", documents},
		{"collectionSize=", blocks(stored, 1<<10)},
	} {
		out = append(strconv.AppendInt(append(out, figure.name...), figure.n, 10), ';')
	}
	return out
}

// blocks returns the number of blocks of that size that hold the bytes. Only
// nothing is 0.
func blocks(bytes, size int64) int64 { return (bytes + size - 1) / size }

// withStatistics adds the storage of each physical partition to a container's
// JSON.
func (h *handler) withStatistics(r *request, body []byte) ([]byte, error) {
	stats, err := h.engine.PartitionStats(r.ctx, r.caller, r.link())
	if err != nil {
		return nil, err
	}
	list := make([]value.Value, len(stats))
	for i, s := range stats {
		list[i] = value.Object([]value.Member{
			{Name: "id", Value: value.String(s.Partition.ID.String())},
			{Name: "sizeInKB", Value: value.Int((s.DocumentBytes + 1023) / 1024)},
			{Name: "documentCount", Value: value.Int(s.Documents)},
			{Name: "partitionKeys", Value: value.Array(nil)},
		})
	}
	open, found := bytes.CutSuffix(body, []byte("}"))
	if !found {
		return body, nil
	}
	out := append(bytes.Clone(open), `,"statistics":`...)
	out = value.Array(list).Append(out)
	return append(out, '}'), nil
}

// throughput reads the throughput for a resource that the client creates.
func (r *request) throughput() (engine.ThroughputRequest, error) {
	var req engine.ThroughputRequest
	switch kind := r.header(headerOfferType); kind {
	case "", "Invalid", "invalid":
	default:
		return req, status.Unsupported("The throughput type " + strconv.Quote(kind) + " (x-ms-offer-type)")
	}
	if r.header(headerAutopilotTier) != "" || r.header(headerAutopilotUpgrade) != "" {
		return req, status.Unsupported("An autoscale tier (x-ms-cosmos-offer-autopilot-tier, x-ms-cosmos-offer-autopilot-autoupgrade)")
	}
	if text := r.header(headerOfferThroughput); text != "" {
		figure, err := strconv.Atoi(text)
		if err != nil {
			return req, status.BadRequest("The throughput %q in x-ms-offer-throughput is not a number.", text)
		}
		req.Manual = &figure
	}
	if text := r.header(headerOfferAutopilot); text != "" {
		figure, upgrade, err := autoscaleSettings(text)
		if err != nil {
			return req, err
		}
		req.AutoscaleMax, req.Upgrade = &figure, upgrade
	}
	return req, nil
}

// autoscaleSettings reads settings such as {"maxThroughput":4000}.
func autoscaleSettings(text string) (maximum int, upgrade resource.Upgrade, err error) {
	settings, err := value.ParseString(text)
	if err != nil {
		return 0, upgrade, status.BadRequest("The autoscale settings are not valid JSON: %s.", err)
	}
	if upgrade, err = resource.ParseUpgrade(settings.Get("autoUpgradePolicy")); err != nil {
		return 0, upgrade, err
	}
	figure, whole := settings.Get("maxThroughput").Int64()
	if !whole || figure != int64(int32(figure)) {
		return 0, upgrade, status.BadRequest("The autoscale settings name no whole maxThroughput.")
	}
	return int(figure), upgrade, nil
}
