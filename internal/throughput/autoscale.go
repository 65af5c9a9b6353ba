package throughput

import (
	"math"
	"time"
)

// autoscaleWindow is over how many seconds a load is averaged: full use must
// last that long to reach the maximum, a spike of one second scales in part.
const autoscaleWindow = 5

// Autoscale is the throughput that a load drives a container or partition to,
// between a tenth of its maximum and the maximum. It tells what is used and
// billed; requests may spend up to the maximum at any moment.
//
// An Autoscale belongs to one goroutine or lies behind a lock of its owner.
type Autoscale struct {
	max    float64
	used   [autoscaleWindow]float64 // units of the second s at s mod the window
	second int64                    // current second since 1970; never goes back
	hour   int64                    // of peak, since 1970
	peak   float64                  // highest figure of that hour
}

// NewAutoscale returns an idle Autoscale with that maximum in RU/s.
func NewAutoscale(maximum float64, now time.Time) *Autoscale {
	a := &Autoscale{max: maximum, second: now.Unix(), hour: now.Unix() / 3600}
	a.peak = a.figure()
	return a
}

// Observe counts a charge at the time it was spent.
func (a *Autoscale) Observe(charge float64, now time.Time) {
	a.advance(now)
	a.used[a.second%autoscaleWindow] += charge
	a.peak = max(a.peak, a.figure())
}

// Current returns the RU/s that the load of the last five seconds asks for.
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

// advance empties the seconds that have left the window.
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
