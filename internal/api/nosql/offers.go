package nosql

import (
	"net/http"
	"strconv"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
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

// queryOffers runs a query over all offers: how clients find a container's
// throughput. An offer is made with its container, so a POST is nothing else.
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
	req.MigrateToAutoscale = r.flag(headerMigrateAutoscale)
	req.MigrateToManual = r.flag(headerMigrateManual)
	res, err := h.engine.ReplaceOffer(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeOffer(&res), nil
}

// offer is the request about the offer that the path names.
func (r *request) offer() (engine.ResourceRequest, error) {
	req := engine.ResourceRequest{
		Offer:       r.target.id(0),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
	if r.header(headerThroughputPolicy) != "" {
		return req, status.Unsupported("Redistribution of throughput over physical partitions")
	}
	if r.flag(headerPartitionRUs) {
		return req, status.Unsupported("Throughput per physical partition")
	}
	return req, nil
}

func (r *request) describeOffer(res *engine.Resource) *response {
	answer := r.resource(http.StatusOK, res)
	answer.set(headerMinThroughput, strconv.Itoa(res.MinThroughput))
	answer.set(headerReplacePending, strconv.FormatBool(res.ReplacePending))
	return answer
}
