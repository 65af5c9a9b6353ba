package engine

import (
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

// control bounds the rate of requests for definitions of the account and of
// changes of throughput, if the limits set one. The service serves them from a
// reserve of its own, which provisioned throughput does not enlarge.
type control struct {
	metadata *throughput.Budget // nil for no bound
	changes  *throughput.Window // of provisioned throughput; nil for no bound
	now      func() time.Time
}

// changesSpan is the time in which [resource.Limits.ThroughputChanges] changes
// are allowed.
const changesSpan = 5 * time.Minute

func newControl(limits resource.Limits, now func() time.Time) control {
	c := control{now: now}
	if limits.MetadataRUs > 0 {
		c.metadata = throughput.NewBudget(throughput.Plan{Rate: float64(limits.MetadataRUs)}, now())
	}
	if limits.ThroughputChanges > 0 {
		c.changes = throughput.NewWindow(limits.ThroughputChanges, changesSpan)
	}
	return c
}

// metadataRequest admits a request about a kind of resource and charges it, or
// refuses it with 429/3201. Only databases, containers and offers are bounded.
func (c *control) metadataRequest(on auth.Resource, charge float64) error {
	if c.metadata == nil || on != auth.Database && on != auth.Container && on != auth.Offer {
		return nil
	}
	now := c.now()
	if refused, ok := c.metadata.Take(throughput.Spender{}, now); !ok {
		return status.TooManyRequests(status.SubMetadataRate, refused.Wait,
			"The request did not complete due to a high rate of metadata requests. More request units would not help. Please retry this request later.")
	}
	c.metadata.Spend(throughput.Spender{}, charge, now)
	return nil
}

// throughputChange admits a change of provisioned throughput, or refuses it with
// 429/3201.
func (c *control) throughputChange() error {
	if c.changes == nil {
		return nil
	}
	if wait, ok := c.changes.Take(c.now()); !ok {
		return status.TooManyRequests(status.SubMetadataRate, wait,
			"The provisioned throughput of the account has been changed too often: the limit for %d minutes is reached.", int(changesSpan.Minutes()))
	}
	return nil
}
