package throughput

import (
	"math"
	"time"
)

// autoscaleWindow is the number of seconds over which a load is averaged: only
// full use for that long reaches the maximum; a spike of one second scales
// partially.
const autoscaleWindow = 5

// Autoscale computes the throughput to which a load scales a container or
// partition, between a tenth of its maximum and the maximum. It reports what is
// used and billed; requests may spend up to the maximum at any time.
//
// An Autoscale is not safe for concurrent use.
type Autoscale struct {
	max    float64
	used   [autoscaleWindow]float64 // units of second s, at index s modulo the window
	second int64                    // current second since 1970; never decreases
	hour   int64                    // of peak, since 1970
	peak   float64                  // highest value of that hour
}

// NewAutoscale returns an idle Autoscale with a maximum in RU/s.
func NewAutoscale(maximum float64, now time.Time) *Autoscale {
	a := &Autoscale{max: maximum, second: now.Unix(), hour: now.Unix() / 3600}
	a.peak = a.figure()
	return a
}

// Observe adds a charge at the time at which it was spent.
func (a *Autoscale) Observe(charge float64, now time.Time) {
	a.advance(now)
	a.used[a.second%autoscaleWindow] += charge
	a.peak = max(a.peak, a.figure())
}

// Current returns the RU/s for the load of the last five seconds.
func (a *Autoscale) Current(now time.Time) int {
	a.advance(now)
	return int(math.Ceil(a.figure()))
}

// Billed returns the highest RU/s of the current hour.
func (a *Autoscale) Billed(now time.Time) int {
	a.advance(now)
	return int(math.Ceil(a.peak))
}

func (a *Autoscale) figure() float64 {
	sum := 0.0
	for _, used := range a.used {
		sum += used
	}
	return max(a.max/10, min(sum/autoscaleWindow, a.max))
}

// advance clears the seconds that have left the window.
func (a *Autoscale) advance(now time.Time) {
	passed := now.Unix() - a.second
	if passed <= 0 {
		return
	}
	for range min(passed, autoscaleWindow) {
		a.second++
		a.used[a.second%autoscaleWindow] = 0
	}
	if passed > autoscaleWindow {
		a.second = now.Unix()
	}
	if hour := a.second / 3600; hour != a.hour {
		a.hour, a.peak = hour, a.figure()
	}
}
