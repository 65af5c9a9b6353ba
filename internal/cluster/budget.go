package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Enforcement says what happens to a request whose budget is used up. Consumption is
// counted at every level.
type Enforcement uint8

// The levels of enforcement.
const (
	EnforceOff  Enforcement = iota // the request is served
	EnforceWarn                    // the request is served, counted, and logged as warnings says
	EnforceOn                      // the request is refused with 429
)

var enforcements = [...]string{EnforceOff: "off", EnforceWarn: "warn", EnforceOn: "on"}

// ParseEnforcement reads off, warn or on.
func ParseEnforcement(text string) (Enforcement, error) {
	for level, name := range enforcements {
		if strings.EqualFold(text, name) {
			return Enforcement(level), nil
		}
	}
	return EnforceOff, fmt.Errorf("throughput %q: use off, warn or on", text)
}

// String returns what ParseEnforcement reads.
func (e Enforcement) String() string { return enforcements[e] }

// Throttling says how a node enforces budgets. The zero value only counts.
type Throttling struct {
	Enforcement Enforcement

	// Burst lets physical partitions below 3,000 RU/s save what they do not use.
	Burst bool

	// Serverless gives containers without provisioned throughput the limits of a
	// serverless account of the service.
	Serverless bool
}

// budget is what one partition may spend, alone and together with others, and what it
// has spent on which keys. It belongs to a slot and is safe for concurrent use.
type budget struct {
	node *Node
	slot *slot

	terms    atomic.Pointer[terms] // nil until the first call of current
	deciding sync.Mutex            // held while new terms are computed

	keys     throughput.Heavy[partitionkey.Key] // by EPK
	prefixes throughput.Heavy[partitionkey.Key] // by the EPK of some levels; the key may have more
}

// terms are the rules of a budget under one version of the catalog.
type terms struct {
	version   uint64
	container *catalog.Container // nil if the version does not name it
	offer     resource.ETag      // of the throughput that the terms follow from; empty without one

	own    *throughput.Budget // of the partition; the same in all terms of a slot
	shared *throughput.Budget // of its database; nil unless the database shares its throughput
}

// hashBytes is the width of one level of an EPK of a hierarchical key.
const hashBytes = 16

// current returns the terms of the newest view.
func (b *budget) current(now time.Time) *terms {
	view := b.node.cfg.Catalog.View()
	if t := b.terms.Load(); t != nil && t.version == view.Version() {
		return t
	}
	b.deciding.Lock()
	defer b.deciding.Unlock()
	old := b.terms.Load()
	if old == nil {
		old = &terms{own: throughput.NewBudget(throughput.Plan{}, now)}
	} else if old.version >= view.Version() {
		return old
	}
	fresh := b.node.termsOf(view, b.slot, old, now)
	b.terms.Store(fresh)
	return fresh
}

// termsOf computes the terms of a partition. A partition that the view does not name
// keeps its terms, because its requests will soon be sent elsewhere. A partition with a
// shared throughput may burst like any other: the budget of its database bounds what
// all partitions spend together.
func (n *Node) termsOf(view *catalog.View, s *slot, old *terms, now time.Time) *terms {
	fresh := *old
	fresh.version = view.Version()
	c, named := view.ContainerByRID(s.ref.Container)
	if named {
		_, named = c.Partition(s.ref.Partition)
	}
	if !named {
		return &fresh
	}
	t, own := view.Throughput(c.RID)
	shares := false
	if !own {
		t, shares = view.Throughput(c.Database.RID)
	}
	if fresh.container == c && fresh.offer == t.ETag {
		return &fresh // The catalog has changed something else.
	}
	fresh.container, fresh.offer = c, t.ETag
	most := n.cfg.Limits.Of(c.Limits).PartitionRUs
	plan := n.plan(most)
	switch {
	case own:
		plan.Rate, plan.Autoscale = shareOf(c, s.ref.Partition, t, most), t.IsAutoscale()
		plan = throughput.Caps(plan, t.Buckets)
	case shares:
		fresh.shared = n.shared.budget(view, t, n.plan(n.cfg.Limits.PartitionRUs), now)
		plan.Rate = float64(min(most, t.Total()))
		if given := shareOf(c, s.ref.Partition, t, most); given > 0 && throughput.Divided(t, c.RID) {
			plan.Rate = given
		}
	case n.cfg.Throttling.Serverless && !c.Database.IsSystem():
		plan.Rate, plan.Burst = min(float64(most), throughput.Serverless(c.Ranges.Len())), 0
	}
	fresh.own.Set(plan, now)
	return &fresh
}

// shareOf returns the RU/s that one partition of a container has of a throughput.
func shareOf(c *catalog.Container, id resource.PartitionID, t resource.Throughput, most int) float64 {
	partitions := c.Partitions()
	for i, share := range throughput.Shares(t, c.RID, partitions, most) {
		if partitions[i].ID == id {
			return share
		}
	}
	return 0 // unreachable: the caller has found the partition
}

// plan returns a plan without a rate, for a budget that can have at most most RU/s.
func (n *Node) plan(most int) throughput.Plan {
	p := throughput.Plan{Forgive: n.cfg.Throttling.Enforcement != EnforceOn}
	if n.cfg.Throttling.Burst {
		p.Burst = min(throughput.BurstRUs, float64(most))
	}
	return p
}

// sharedBudgets holds one budget for each database whose containers share its
// throughput. The zero value is empty.
type sharedBudgets struct {
	mu sync.Mutex

	byDatabase map[resource.RID]*throughput.Budget
}

// budget returns the budget of a database with the plan that follows from its
// throughput.
func (s *sharedBudgets) budget(view *catalog.View, t resource.Throughput, plan throughput.Plan, now time.Time) *throughput.Budget {
	plan.Rate, plan.Autoscale = float64(t.Total()), t.IsAutoscale()
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.byDatabase[t.Owner]; ok {
		b.Set(plan, now)
		return b
	}
	for rid := range s.byDatabase { // A database is new, so this is the moment to remove deleted ones.
		if _, exists := view.DatabaseByRID(rid); !exists {
			delete(s.byDatabase, rid)
		}
	}
	if s.byDatabase == nil {
		s.byDatabase = map[resource.RID]*throughput.Budget{}
	}
	b := throughput.NewBudget(plan, now)
	s.byDatabase[t.Owner] = b
	return b
}

// purchase is a request between its admission and its bill.
type purchase struct {
	budget *budget
	terms  *terms
	meter  *throughput.Meter
	before float64   // the meter's count at the admission
	now    time.Time // of the admission
}

// admit admits a request or refuses it with 429. The caller calls bill when an admitted
// request has ended.
func (b *budget) admit(meter *throughput.Meter) (purchase, error) {
	now := b.node.cfg.Now()
	p := purchase{budget: b, terms: b.current(now), meter: meter, before: meter.Due(), now: now}
	enforcement := b.node.cfg.Throttling.Enforcement
	if enforcement == EnforceOff {
		return p, nil
	}
	refused, ok := p.terms.own.Take(meter.As(), now)
	if ok && p.terms.shared != nil {
		if refused, ok = p.terms.shared.Take(meter.As(), now); !ok {
			p.terms.own.Note(refused)
		}
	}
	if ok {
		return p, nil
	}
	b.node.throttled.count(refused.Sub, enforcement)
	if enforcement == EnforceWarn {
		b.warn(refused, now)
		return p, nil
	}
	return p, refusal(refused)
}

// refusal returns the error for a refused request. Clients know its first sentence from
// the service.
func refusal(r throughput.Refusal) error {
	if r.Sub == status.SubBucketExceeded {
		return status.TooManyRequests(r.Sub, r.Wait, "Request rate is large. The requests of this throughput bucket have used up its part of the throughput. More throughput or a higher percentage avoids this.")
	}
	return status.TooManyRequests(r.Sub, r.Wait, "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later.")
}

// warnEvery is the shortest time between two warnings of a node, in seconds.
const warnEvery = 60

// warnings says of which throughputs a node has warned. It is safe for concurrent use.
// The zero value is empty.
type warnings struct {
	last  atomic.Int64 // the second of the last warning; zero for none yet
	mu    sync.Mutex
	of    map[resource.RID]resource.ETag // the throughput that was exceeded last, by its container or database
	rates map[float64]struct{}           // the shares of a partition that a warning was about
}

// warningsMax bounds the containers that warnings remembers: one that is deleted is
// not removed. Beyond it, warnings begins again.
const warningsMax = 10_000

// due reports whether to warn that a share of a throughput is exceeded: once for each
// throughput of an owner that had another before, and once for all owners that have had
// only one and give their partitions the same share.
func (w *warnings) due(owner resource.RID, offer resource.ETag, rate float64, now time.Time) bool {
	if last := w.last.Load(); last > 0 && now.Unix() < last+warnEvery {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil || len(w.of) >= warningsMax {
		w.of, w.rates = map[resource.RID]resource.ETag{}, map[float64]struct{}{}
	}
	before, known := w.of[owner]
	w.of[owner] = offer
	_, said := w.rates[rate]
	if known && before == offer || !known && said {
		return false
	}
	w.rates[rate] = struct{}{}
	w.last.Store(now.Unix())
	return true
}

// warn logs that a request would have been refused, if that is due. The metrics count
// every request.
func (b *budget) warn(r throughput.Refusal, now time.Time) {
	t, owner := b.terms.Load(), b.slot.ref.Container
	if t.shared != nil {
		owner = owner.Database()
	}
	u := t.own.Usage(now)
	if !b.node.warned.due(owner, t.offer, u.Rate, now) {
		return
	}
	b.node.cfg.Logger.Warn("throughput exceeded", "container", b.slot.ref.Container, "partition", b.slot.ref.Partition,
		"share", u.Rate, "sub_status", int(r.Sub), "would_be_refused", u.Throttled+u.Capped)
}

// bill spends the cost of the request from the budgets and adds it to its key. An EPK of
// only the first levels of a hierarchical key counts as a prefix, and an empty one as no
// key; key is nil if only the EPK is known.
func (p purchase) bill(epk partitionkey.EPK, key *partitionkey.Key) {
	charge := p.meter.Due() - p.before
	if charge <= 0 {
		return
	}
	as := p.meter.As()
	p.terms.own.Spend(as, charge, p.now)
	if p.terms.shared != nil {
		p.terms.shared.Spend(as, charge, p.now)
	}
	if epk == "" || p.terms.container == nil {
		return
	}
	levels := 1
	if d := &p.terms.container.PartitionKey; d.Kind == partitionkey.KindMultiHash {
		levels = d.Levels()
	}
	if levels == 1 || len(epk) >= levels*hashBytes {
		p.budget.keys.Add(string(epk), key, charge, p.now)
	}
	for level := 1; level < levels && level*hashBytes <= len(epk); level++ {
		p.budget.prefixes.Add(string(epk[:level*hashBytes]), key, charge, p.now)
	}
}

// billRange is bill for a request for a part of the key space: a key, a prefix or more.
func (p purchase) billRange(r partitionkey.Range) {
	epk := partitionkey.EPK("")
	if c := p.terms.container; c != nil && r.Min != "" && (r.Max == c.PartitionKey.Successor(r.Min) || r.Max == r.Min+partitionkey.MaxEPK) {
		epk = r.Min
	}
	p.bill(epk, nil)
}

// Load is what a partition has spent, in total and for its hottest keys.
type Load struct {
	throughput.Usage
	Keys     []HotKey // the hottest keys of this minute and the one before
	Prefixes []HotKey // the same for the first levels of hierarchical keys
}

// HotKey is a partition key, or a prefix of one, that spends much.
type HotKey struct {
	EPK   partitionkey.EPK
	Key   partitionkey.Key // empty if only queries have used it
	Units float64          // an upper bound of the request units spent
	Error float64          // by how much Units may be too high
}

// hottestMax is how many hot keys, and how many prefixes, a Load names.
const hottestMax = 10

// load returns what the partition has spent since it was opened.
func (b *budget) load() Load {
	now := b.node.cfg.Now()
	return Load{
		Usage:    b.current(now).own.Usage(now),
		Keys:     hottest(&b.keys, now),
		Prefixes: hottest(&b.prefixes, now),
	}
}

func hottest(h *throughput.Heavy[partitionkey.Key], now time.Time) []HotKey {
	var all []HotKey
	for _, hot := range h.Top(hottestMax, now) {
		key := hot.Value
		if levels := len(hot.ID) / hashBytes; levels > 0 && key.Len() > levels {
			key = partitionkey.NewKey(key.Components()[:levels]...)
		}
		all = append(all, HotKey{EPK: partitionkey.EPK(hot.ID), Key: key, Units: hot.Units, Error: hot.Error})
	}
	return all
}

// clearing returns how many units Clear may use in this second, and how many of them it
// spends from the budgets.
func (b *budget) clearing() (most, share float64) {
	now := b.node.cfg.Now()
	share = math.Inf(1)
	for _, own := range b.current(now).budgets() {
		if rate := own.Usage(now).Rate; rate > 0 {
			share = min(share, clearShare*rate)
		}
	}
	if b.node.cfg.Throttling.Enforcement != EnforceOn {
		return math.Inf(1), share
	}
	return share, share
}

// leftover returns how many units of the budgets were not spent in the last second, for
// work that must not compete with requests. It is infinite unless requests are refused.
func (b *budget) leftover() float64 {
	left := math.Inf(1)
	if b.node.cfg.Throttling.Enforcement != EnforceOn {
		return left
	}
	now := b.node.cfg.Now()
	for _, own := range b.current(now).budgets() {
		if u := own.Usage(now); u.Rate > 0 {
			left = min(left, max(0, u.Rate-u.Second))
		}
	}
	return left
}

// reachedMax reports whether the load has reached the autoscale maximum of one of the
// budgets in this hour.
func (b *budget) reachedMax() bool {
	now := b.node.cfg.Now()
	return slices.ContainsFunc(b.current(now).budgets(), func(own *throughput.Budget) bool {
		u := own.Usage(now)
		return u.Billed > 0 && float64(u.Billed) >= u.Rate
	})
}

// spend spends the units of work that no request has caused.
func (b *budget) spend(units float64) {
	now := b.node.cfg.Now()
	for _, own := range b.current(now).budgets() {
		own.Spend(throughput.Spender{Low: true}, units, now)
	}
}

// budgets returns the budgets that a partition spends from.
func (t *terms) budgets() []*throughput.Budget {
	if t.shared == nil {
		return []*throughput.Budget{t.own}
	}
	return []*throughput.Budget{t.own, t.shared}
}
