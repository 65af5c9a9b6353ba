package nosql

import (
	"net/http"
	"strconv"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

func (h *handler) listOffers(r *request) (*response, error) {
	req, err := r.page(engine.Link{})
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListOffers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Offers", &page), nil
}

// queryOffers runs a query over all offers, by which clients find a container's
// throughput. An offer is created with its container, so a POST is always a
// query.
func (h *handler) queryOffers(r *request) (*response, error) {
	if !r.isQuery() {
		return nil, status.BadRequest("An offer is created with its database or container: a POST to /offers is a query, and says so in a header.")
	}
	req, err := h.definitionQuery(r, engine.Link{})
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryOffers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Offers", &page), nil
}

func (h *handler) readOffer(r *request) (*response, error) {
	req, err := r.offer()
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReadOffer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeOffer(&res), nil
}

func (h *handler) replaceOffer(r *request) (*response, error) {
	req, err := r.offer()
	if err != nil {
		return nil, err
	}
	if req.Body, _, err = r.readObject(h.limits.BodyBytes); err != nil {
		return nil, err
	}
	if req.Body.Get("id").Kind() != value.KindString && req.Body.Get("_rid").Kind() != value.KindString {
		return nil, status.Service("The input content is invalid because the required properties - 'id; _rid; ' - are missing")
	}
	if req.Redistribution != nil {
		// The division defines the throughput; the body is unchanged.
		req.PartitionRUs = true
	}
	req.MigrateToAutoscale = r.flag(headerMigrateAutoscale)
	req.MigrateToManual = r.flag(headerMigrateManual)
	res, err := h.engine.ReplaceOffer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeOffer(&res), nil
}

// offer returns the request for the offer in the path.
func (r *request) offer() (engine.OfferRequest, error) {
	req := engine.OfferRequest{
		Offer:       r.target.id(0),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
	req.PartitionRUs = r.flag(headerPartitionRUs)
	var err error
	req.Redistribution, err = r.redistribution()
	return req, err
}

// redistribution reads how a throughput is to be divided over physical
// partitions; nil if the request does not divide it.
func (r *request) redistribution() (*engine.Redistribution, error) {
	policy := r.header(headerThroughputPolicy)
	if policy == "" {
		return nil, nil
	}
	targets, err := partitionList(r.header(headerTargetPartitions))
	if err != nil {
		return nil, err
	}
	sources, err := partitionList(r.header(headerSourcePartitions))
	if err != nil {
		return nil, err
	}
	return engine.ParseRedistribution(policy, targets, sources)
}

// partitionList reads the JSON of a header; it is undefined without one.
func partitionList(text string) (value.Value, error) {
	if text == "" {
		return value.Undefined(), nil
	}
	list, err := value.ParseString(text)
	if err != nil {
		return list, status.BadRequest("The physical partitions %q are not valid JSON: %s.", text, err)
	}
	return list, nil
}

func (r *request) describeOffer(res *engine.Resource) *response {
	answer := r.resource(http.StatusOK, res)
	answer.set(headerMinThroughput, strconv.Itoa(res.MinThroughput))
	answer.set(headerInstantMax, strconv.Itoa(res.InstantThroughput))
	answer.set(headerMaxThroughput, strconv.Itoa(res.MaxThroughput))
	answer.set(headerReplacePending, strconv.FormatBool(res.ReplacePending))
	return answer
}
