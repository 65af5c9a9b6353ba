package throughput

import (
	"math"
	"time"
)

// Bucket is the budget of one physical partition: so many request units for
// each second of the clock. What a second leaves over is lost. A request is
// admitted while anything is left, whatever it will cost, since the cost is
// known only afterwards; what it overdraws is taken from the seconds after.
//
// A Bucket belongs to one goroutine or lies behind a lock of its owner.
type Bucket struct {
	rate   float64 // units per second; zero or less: no limit
	left   float64 // of the current second; negative is debt
	second int64   // current second since 1970; never goes back
}

// NewBucket returns a full budget of that many request units per second. Zero
// is no limit.
func NewBucket(rate float64, now time.Time) *Bucket {
	return &Bucket{rate: rate, left: rate, second: now.Unix()}
}

// Rate returns the units per second, zero for no limit.
func (b *Bucket) Rate() float64 { return b.rate }

// SetRate changes the units per second from now on. What this second has
// spent already stays spent, and a debt stays a debt.
func (b *Bucket) SetRate(rate float64, now time.Time) {
	b.advance(now)
	if b.rate > 0 && rate > 0 {
		b.left += rate - b.rate
	} else {
		b.left = rate
	}
	b.rate = rate
}

// Take spends the charge if anything is left of the current second. Otherwise
// it spends nothing, and ok is false and wait says in how long there is
// something again: the debt is paid by then.
func (b *Bucket) Take(charge float64, now time.Time) (wait time.Duration, ok bool) {
	if b.rate <= 0 {
		return 0, true
	}
	b.advance(now)
	if b.left <= 0 {
		return b.wait(now), false
	}
	b.left -= charge
	return 0, true
}

// Spend spends a charge that was found out after the request was admitted.
func (b *Bucket) Spend(charge float64, now time.Time) {
	if b.rate <= 0 {
		return
	}
	b.advance(now)
	b.left -= charge
}

// Left returns what is left of the current second; negative is debt. Without a
// limit it is infinite.
func (b *Bucket) Left(now time.Time) float64 {
	if b.rate <= 0 {
		return math.Inf(1)
	}
	b.advance(now)
	return b.left
}

// advance begins a new second if now lies in one. A clock that was set back
// earns nothing until it is where it was.
func (b *Bucket) advance(now time.Time) {
	passed := now.Unix() - b.second
	if passed <= 0 {
		return
	}
	b.second += passed
	b.left = min(b.rate, b.left+b.rate*float64(passed))
}

// wait returns how long it takes until something is left.
func (b *Bucket) wait(now time.Time) time.Duration {
	// In floating point a debt of exactly n seconds may fall on either side of
	// n; one second more than the whole ones is the first with something left.
	seconds := math.Floor(-b.left/b.rate) + 1
	const secondsMax = 1 << 30
	next := time.Unix(b.second+int64(min(seconds, secondsMax)), 0)
	return next.Sub(now)
}
