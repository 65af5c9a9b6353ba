package azcosmos

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Tally counts items. Hash is the sum of the hashes of their contents, without
// the properties that the service adds. Equal sets of items have equal tallies,
// in whatever container they are.
type Tally struct {
	Items int64  `json:"items"`
	Hash  uint64 `json:"hash,string"`
}

func (t *Tally) add(document []byte) {
	t.Items++
	t.Hash += documentHash(document)
}

// Audit is the result of Client.Audit: what the containers of a routing hold.
type Audit struct {
	// Fingerprint and Phase are those of the state. Phase is "" without a move.
	Fingerprint string         `json:"fingerprint"`
	Phase       resolver.Phase `json:"phase,omitempty"`

	// Total counts every item once, in the container that reads accept it from.
	// A move does not change it.
	Total      Tally            `json:"total"`
	Containers []ContainerAudit `json:"containers"`

	// Pairs compare the items that the move takes from one target to another
	// with their copies.
	Pairs  []PairAudit `json:"pairs,omitempty"`
	Charge float64     `json:"charge"`
}

// ContainerAudit is what one container holds.
type ContainerAudit struct {
	Target string `json:"target"`
	All    Tally  `json:"all"`

	// Strays counts items that neither plan of the state puts in this container.
	// Unrouted counts items that the plan used for reads does not route. No read
	// by key finds either.
	Strays   int64 `json:"strays,omitempty"`
	Unrouted int64 `json:"unrouted,omitempty"`

	// Example is the id of a stray or unrouted item.
	Example string `json:"example,omitempty"`
}

// PairAudit compares both sides of a move.
type PairAudit struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Items  Tally  `json:"itemsFrom"`
	Copies Tally  `json:"itemsTo"`
}

// Equal reports whether both sides hold the same items.
func (p PairAudit) Equal() bool { return p.Items == p.Copies }

// auditPage is the number of items per request of an audit.
const auditPage = 1000

// Audit reads every container of the routing and counts and hashes the items. It
// changes nothing. Writes during the audit may or may not be counted. onPage is
// called after each page with the number of items read from a target so far; nil
// disables it. The error is ErrRestart if the state changed before the end.
func (c *Client) Audit(ctx context.Context, onPage func(target string, read int64)) (Audit, error) {
	if err := c.config.View.Refresh(ctx); err != nil {
		return Audit{}, err
	}
	a := &auditor{client: c, routing: c.config.View.Routing(), onPage: onPage, pairs: map[[2]string]*PairAudit{}}
	a.audit.Fingerprint = a.routing.Fingerprint
	if move := a.routing.State.Move; move != nil {
		a.audit.Phase = move.Phase
	}
	for _, t := range a.routing.Targets() {
		if err := a.container(ctx, t); err != nil {
			return a.audit, fmt.Errorf("read %s: %w", t.Name, err)
		}
	}
	for _, from := range a.routing.Targets() {
		for _, to := range a.routing.Targets() {
			if pair := a.pairs[[2]string{from.Name, to.Name}]; pair != nil {
				a.audit.Pairs = append(a.audit.Pairs, *pair)
			}
		}
	}
	if err := c.config.View.Refresh(ctx); err != nil {
		return a.audit, err
	}
	if c.config.View.Routing().Fingerprint != a.routing.Fingerprint {
		return a.audit, ErrRestart
	}
	return a.audit, nil
}

// auditor is an audit in progress.
type auditor struct {
	client  *Client
	routing *resolver.Routing
	onPage  func(target string, read int64)
	audit   Audit
	pairs   map[[2]string]*PairAudit // by the names of from and to
}

// container reads one container.
func (a *auditor) container(ctx context.Context, t resolver.Target) error {
	in, err := a.client.container(t)
	if err != nil {
		return err
	}
	found := ContainerAudit{Target: t.Name}
	options := &sdk.QueryOptions{PageSizeHint: auditPage}
	for {
		var page sdk.QueryItemsResponse
		err := a.client.retryThrottled(ctx, func() error {
			page, err = in.NewQueryItemsPager("SELECT * FROM c", sdk.NewPartitionKey(), options).NextPage(ctx)
			return err
		})
		if err != nil {
			return err
		}
		a.audit.Charge += float64(page.RequestCharge)
		for _, document := range page.Items {
			if err := a.item(&found, document); err != nil {
				return err
			}
		}
		if a.onPage != nil {
			a.onPage(t.Name, found.All.Items)
		}
		if page.ContinuationToken == nil {
			a.audit.Containers = append(a.audit.Containers, found)
			return nil
		}
		options.ContinuationToken = page.ContinuationToken
	}
}

// item counts one item in the tallies it belongs to.
func (a *auditor) item(found *ContainerAudit, document []byte) error {
	found.All.add(document)
	ref, err := a.client.refOf(a.routing, document)
	if err != nil {
		return err
	}
	if _, err := a.reads().ForWrite(ref.Key); err != nil {
		found.Unrouted++
		found.Example = ref.ID
		return nil
	}
	owned, err := a.owns(found.Target, ref.Key)
	if err != nil {
		return err
	}
	if owned {
		a.audit.Total.add(document)
	}
	if _, err := a.routing.Current().ForWrite(ref.Key); err != nil {
		if !owned { // only the next plan routes it, and reads use that plan
			found.Strays++
			found.Example = ref.ID
		}
		return nil
	}
	from, to, err := a.routing.Moves(ref.Key)
	if err != nil {
		return fmt.Errorf("item %s in the next plan: %w", ref.ID, err)
	}
	switch {
	case owned && a.routing.State.Move == nil:
	case found.Target != from.Name && found.Target != to.Name:
		found.Strays++
		found.Example = ref.ID
	case from.Name == to.Name:
	case found.Target == from.Name:
		a.pair(from, to).Items.add(document)
	default:
		a.pair(from, to).Copies.add(document)
	}
	return nil
}

// reads returns the resolver that the phase uses for reads.
func (a *auditor) reads() resolver.Resolver[resolver.Key] {
	if move := a.routing.State.Move; move != nil {
		if read, _ := move.Phase.Modes(); read == resolver.ReadNext {
			return a.routing.Next()
		}
	}
	return a.routing.Current()
}

// owns reports whether reads of the key accept items from the target. Without a
// move there may be several such targets, as with a spillover.
func (a *auditor) owns(target string, key resolver.Key) (bool, error) {
	if a.routing.State.Move != nil {
		owner, err := a.reads().ForWrite(key)
		return owner.Name == target, err
	}
	targets, err := a.routing.ForRead(resolver.Keys(key))
	return slices.ContainsFunc(targets, func(t resolver.Target) bool { return t.Name == target }), err
}

func (a *auditor) pair(from, to resolver.Target) *PairAudit {
	name := [2]string{from.Name, to.Name}
	if a.pairs[name] == nil {
		a.pairs[name] = &PairAudit{From: from.Name, To: to.Name}
	}
	return a.pairs[name]
}
