package throughput

import (
	"math"
	"sync"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// burstSeconds is the maximum number of seconds' worth of unused units that a
// budget keeps.
const burstSeconds = 300

// BurstRUs is the rate to which saved units can raise a physical partition for a
// second. A partition with a rate of BurstRUs or more saves nothing.
const BurstRUs = 3_000

// Spender identifies the kind of a request. The zero value is a normal request.
type Spender struct {
	Low    bool  // low priority: yields to requests of high priority
	Bucket uint8 // throughput bucket 1 to 5; 0 for none
}

// Plan is the configuration of a budget. Rates are in units per second.
type Plan struct {
	Rate float64 // zero or less: no limit

	// Burst is the maximum rate of a second including saved units. If it is not
	// above Rate, nothing is saved.
	Burst float64

	// Caps bounds the requests of each throughput bucket; zero means no cap. A
	// cap does not reserve anything.
	Caps [resource.BucketsMax + 1]float64

	// Default is the bucket of requests that name none; zero means no bucket.
	Default uint8

	// Autoscale means that Rate is the maximum of an autoscale setting.
	Autoscale bool

	// Forgive drops the debt of a second when the second ends. It is for budgets
	// that only warn: no request waits there, so the debt would only grow.
	Forgive bool
}

// Budget is what one physical partition, or the containers that share a
// database's throughput, may spend: a number of units for each second of the
// clock.
//
// A request is admitted while anything is left, because its cost is known only
// when it has ended. A debt is paid by the following seconds. The unused units
// of a second are lost, or saved for a burst. Requests of low priority leave the
// amount that requests of high priority spent in the previous second.
//
// A Budget is safe for concurrent use. Its methods do not allocate. Create it
// with [NewBudget].
type Budget struct {
	mu sync.Mutex

	plan   Plan
	second int64   // current second since 1970; never decreases
	left   float64 // of the current second, without savings; negative is debt
	saved  float64 // at most burstSeconds times the rate
	capped [resource.BucketsMax + 1]float64

	high     float64 // spent by high priority in this second
	reserved float64 // spent by high priority in the previous second

	use   consumption
	scale Autoscale
}

// Refusal says why a request is not admitted, and when to retry.
type Refusal struct {
	Sub  status.Sub    // of status 429
	Wait time.Duration // until the budget has units again, as far as is known
}

// NewBudget returns a full budget without savings.
func NewBudget(plan Plan, now time.Time) *Budget {
	b := &Budget{second: now.Unix()}
	b.use.begin(b.second)
	b.Set(plan, now)
	return b
}

// Set changes the plan. What this second has spent stays spent, a debt remains,
// and savings remain up to the maximum of the new rate.
func (b *Budget) Set(plan Plan, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.plan.Rate > 0 && plan.Rate > 0 {
		b.left += plan.Rate - b.plan.Rate
	} else {
		b.left = plan.Rate
	}
	for i, limit := range plan.Caps {
		if limit != b.plan.Caps[i] {
			b.capped[i] = limit
		}
	}
	if plan.Autoscale && (!b.plan.Autoscale || plan.Rate != b.plan.Rate) {
		b.scale = *NewAutoscale(plan.Rate, now)
	}
	b.plan = plan
	b.saved = min(b.saved, b.savedMax())
}

// Take reports whether a request may run. It spends nothing; call [Budget.Spend]
// when the cost is known. It counts a refusal.
func (b *Budget) Take(s Spender, now time.Time) (Refusal, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	bucket := b.bucketOf(s)
	if limit := b.plan.Caps[bucket]; limit > 0 && b.capped[bucket] <= 0 {
		b.use.capped++
		return Refusal{Sub: status.SubBucketExceeded, Wait: b.until(now, wholeSeconds(-b.capped[bucket], limit))}, false
	}
	if b.plan.Rate <= 0 {
		return Refusal{}, true
	}
	burst := 0.0
	if bucket == 0 {
		burst = min(b.saved, b.extra())
	}
	headroom := b.left + burst
	if s.Low {
		headroom -= max(0, b.reserved-b.high)
	}
	if headroom > 0 {
		return Refusal{}, true
	}
	b.use.throttled++
	seconds := 1.0
	if b.left+burst <= 0 {
		seconds = wholeSeconds(-b.left-burst, b.plan.Rate+burst)
	}
	return Refusal{Sub: status.SubRequestRateTooLarge, Wait: b.until(now, seconds)}, false
}

// Note counts a refusal by another budget, of which this one is a part.
func (b *Budget) Note(r Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Sub == status.SubBucketExceeded {
		b.use.capped++
	} else {
		b.use.throttled++
	}
}

// Spend spends the charge of a request that was admitted.
func (b *Budget) Spend(s Spender, charge float64, now time.Time) {
	if charge <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.use.spend(charge, b.plan.Rate)
	if b.plan.Autoscale {
		b.scale.Observe(charge, now)
	}
	if bucket := b.bucketOf(s); b.plan.Caps[bucket] > 0 {
		b.capped[bucket] -= charge
	}
	if !s.Low {
		b.high += charge
	}
	if b.plan.Rate > 0 {
		b.left -= charge
	}
}

// Left returns what is left of the current second, without savings; a negative
// value is debt. Without a limit it is infinite.
func (b *Budget) Left(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.plan.Rate <= 0 {
		return math.Inf(1)
	}
	b.advance(now)
	return b.left
}

// bucketOf returns the bucket that caps a request, 0 for none. A bucket that
// does not exist or has no cap counts as none.
func (b *Budget) bucketOf(s Spender) uint8 {
	bucket := s.Bucket
	if bucket == 0 {
		bucket = b.plan.Default
	}
	if int(bucket) >= len(b.plan.Caps) || b.plan.Caps[bucket] <= 0 {
		return 0
	}
	return bucket
}

// extra returns how many saved units may be added to a second.
func (b *Budget) extra() float64 { return max(0, b.plan.Burst-b.plan.Rate) }

func (b *Budget) savedMax() float64 {
	if b.plan.Rate <= 0 || b.extra() == 0 {
		return 0
	}
	return burstSeconds * b.plan.Rate
}

// advance begins a new second if now is in one. While a clock that was set back
// has not reached its old time, nothing is added.
func (b *Budget) advance(now time.Time) {
	passed := now.Unix() - b.second
	if passed <= 0 {
		return
	}
	b.second += passed
	b.use.advance(b.second, passed)
	b.reserved = 0
	if passed == 1 {
		b.reserved = b.high
	}
	b.high = 0
	if b.plan.Rate > 0 {
		b.refill(float64(passed))
	}
	for i, limit := range b.plan.Caps {
		b.capped[i] = min(limit, b.capped[i]+limit*float64(passed))
	}
}

// refill settles the second that ends, first from savings, and adds the seconds
// that have passed.
func (b *Budget) refill(passed float64) {
	b.draw(b.extra())
	if b.plan.Forgive {
		b.left = max(b.left, 0)
	}
	b.left += b.plan.Rate * passed
	b.draw(b.extra() * (passed - 1))
	if surplus := b.left - b.plan.Rate; surplus > 0 {
		b.saved = min(b.savedMax(), b.saved+surplus)
		b.left = b.plan.Rate
	}
}

// draw pays a debt from savings, with at most that many units.
func (b *Budget) draw(most float64) {
	if pay := min(-b.left, b.saved, most); pay > 0 {
		b.left += pay
		b.saved -= pay
	}
}

// wholeSeconds returns after how many seconds a debt that is reduced by rate in
// each is paid and something is left.
func wholeSeconds(debt, rate float64) float64 {
	// In floating point, a debt of exactly n seconds may be on either side of n;
	// the first second with something left is one more than the whole ones.
	return math.Floor(debt/rate) + 1
}

// until returns the time until that many seconds have begun.
func (b *Budget) until(now time.Time, seconds float64) time.Duration {
	const secondsMax = 1 << 30
	return time.Unix(b.second+int64(min(seconds, secondsMax)), 0).Sub(now)
}
