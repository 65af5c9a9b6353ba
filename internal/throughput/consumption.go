package throughput

import "time"

// Usage describes what a budget has admitted and refused.
type Usage struct {
	Rate  float64 // units per second; zero for no limit
	Saved float64 // units kept for a burst

	// Second is what the last complete second spent, Total what all seconds
	// spent.
	Second, Total float64

	// Normalized is the highest fraction of the rate that one second of this
	// minute or the previous one used, in percent up to 100. Without a limit it
	// is 0.
	Normalized float64

	// Throttled counts requests over the budget, Capped those over the cap of
	// their throughput bucket. They were refused, or only logged.
	Throttled, Capped int64

	// Autoscaled is the RU/s for the current load, Billed the highest of the
	// hour; both are zero without autoscale.
	Autoscaled, Billed int
}

// Usage returns the usage of the budget until now.
func (b *Budget) Usage(now time.Time) Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	u := Usage{
		Rate:       max(0, b.plan.Rate),
		Saved:      b.saved,
		Second:     b.use.before,
		Total:      b.use.total,
		Normalized: 100 * max(b.use.peak, b.use.peakBefore),
		Throttled:  b.use.throttled,
		Capped:     b.use.capped,
	}
	if b.plan.Autoscale {
		u.Autoscaled, u.Billed = b.scale.Current(now), b.scale.Billed(now)
	}
	return u
}

// consumption counts what was spent. It belongs to its budget, whose lock guards
// it and whose clock it follows.
type consumption struct {
	now, before float64 // units of this second, and of the previous one
	total       float64

	minute           int64   // since 1970
	peak, peakBefore float64 // highest fraction of the rate used by a second, in this minute and the previous one

	throttled, capped int64
}

func (c *consumption) begin(second int64) { c.minute = minuteOf(second) }

func (c *consumption) spend(charge, rate float64) {
	c.now += charge
	c.total += charge
	if rate > 0 {
		c.peak = max(c.peak, min(1, c.now/rate))
	}
}

// advance moves to a second, passed seconds after the previous one.
func (c *consumption) advance(second, passed int64) {
	c.before = 0
	if passed == 1 {
		c.before = c.now
	}
	c.now = 0
	switch minute := minuteOf(second); minute - c.minute {
	case 0:
	case 1:
		c.minute, c.peakBefore, c.peak = minute, c.peak, 0
	default:
		c.minute, c.peakBefore, c.peak = minute, 0, 0
	}
}

func minuteOf(second int64) int64 { return second / 60 }
