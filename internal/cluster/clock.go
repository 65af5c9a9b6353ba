package cluster

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The clock of the machine may be wrong, and nothing tells it apart from one that was
// wrong before. So a node compares it with the time that has passed and with the last
// known time, and holds back what cannot be undone: see docs/clock.md.

// Defaults of ClockConfig.
const (
	ClockJump   = time.Minute
	ClockAhead  = 30 * 24 * time.Hour
	ClockSteady = 15 * time.Minute
)

// clockPlausible is a time before which no clock is right: this program is younger.
var clockPlausible = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// ClockConfig says what a [Clock] reads and what it takes for a jump.
type ClockConfig struct {
	Now func() time.Time // the clock of the machine; nil: time.Now

	// Elapsed is a clock that nobody sets. Nil: the monotonic one of Now, together
	// with the time that the machine was asleep where the system tells.
	Elapsed func() time.Duration

	// Jump is by how much the clock of the machine may differ from the time that has
	// passed without being called a jump, and the last known time from that of the
	// start. Zero: ClockJump; negative: there are no jumps.
	Jump time.Duration
	// Ahead is how far the time of writes follows a clock that has jumped ahead. Zero:
	// ClockAhead; negative: not at all.
	Ahead time.Duration
	// Steady is for how long a clock that has jumped ahead must hold until it is taken
	// as right. Zero: ClockSteady.
	Steady time.Duration

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: metrics are shown nowhere
}

// Clock is the time of a node. It is safe for concurrent use.
//
// A clock that has jumped ahead is in doubt until it has held for Steady, or an operator
// accepts it. Meanwhile nothing expires by the jump. Writes have its time, unless it has
// jumped by more than Ahead: then they have the time that has passed, and it stays in
// doubt until an operator accepts it or the node is started again. A clock that goes
// back is taken as it is at once, because nothing expires by that.
type Clock struct {
	cfg   ClockConfig
	off   bool
	state atomic.Pointer[clockState]
	known atomic.Int64 // the last known time of the start, in nanoseconds since 1970; zero for none

	mu     sync.Mutex // held while the state changes
	warned time.Duration

	jumps *prometheus.CounterVec
}

// clockState is what is true since a moment. It is immutable.
type clockState struct {
	wall   time.Time     // what the clock said then
	passed time.Duration // what Elapsed said then; zero without one
	asleep time.Duration // for how long the machine had slept
	even   time.Time     // what a clock without jumps would have said

	// By how much the times of writes, expiry and removal are behind the clock.
	// writes <= certain <= removal. All are zero for a clock that is not in doubt.
	writes, certain, removal time.Duration

	since time.Time // in even time: the last jump, or the start
}

// doubt reports whether something is held back.
func (s *clockState) doubt() bool { return s.removal > 0 }

// NewClock returns a clock that is not in doubt.
func NewClock(cfg ClockConfig) *Clock {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Clock{cfg: cfg, off: cfg.Jump < 0}
	if cfg.Jump == 0 {
		c.cfg.Jump = ClockJump
	}
	if cfg.Ahead == 0 {
		c.cfg.Ahead = ClockAhead
	}
	if cfg.Steady == 0 {
		c.cfg.Steady = ClockSteady
	}
	now := cfg.Now()
	c.state.Store(&clockState{wall: now, passed: c.elapsed(), asleep: c.asleep(), even: now, since: now})
	c.jumps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "decan_clock_jumps_total",
		Help: "How often the clock of the machine differed from the time that had passed by more than --clock-jump, by its direction.",
	}, []string{"direction"})
	c.jumps.WithLabelValues(jumpAhead)
	c.jumps.WithLabelValues(jumpBack)
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(c.jumps, clockMetrics{c})
	}
	return c
}

// The directions of a jump.
const (
	jumpAhead = "ahead"
	jumpBack  = "back"
)

func (c *Clock) elapsed() time.Duration {
	if c.cfg.Elapsed == nil {
		return 0
	}
	return c.cfg.Elapsed()
}

func (c *Clock) asleep() time.Duration {
	if c.cfg.Elapsed != nil {
		return 0
	}
	return asleep()
}

// since returns how much time has passed since a state, and by how much more the clock
// has gone on.
func (c *Clock) since(s *clockState, now time.Time) (passed, drift time.Duration) {
	if c.cfg.Elapsed != nil {
		passed = c.cfg.Elapsed() - s.passed
	} else {
		passed = now.Sub(s.wall) // by the monotonic clock, where the times have it
	}
	return passed, now.Round(0).Sub(s.wall.Round(0)) - passed
}

// read returns what the clock says, and what is true then.
func (c *Clock) read() (time.Time, *clockState) {
	s, now := c.state.Load(), c.cfg.Now()
	if _, drift := c.since(s, now); c.off || drift.Abs() <= c.cfg.Jump {
		return now, s
	}
	return c.look()
}

// Now returns the time for writes.
func (c *Clock) Now() time.Time {
	now, s := c.read()
	return now.Add(-s.writes)
}

// Certain returns the time by which documents expire: it is not ahead by a jump that is
// in doubt.
func (c *Clock) Certain() time.Time {
	now, s := c.read()
	return now.Add(-s.certain)
}

// Removal returns the time by which what has expired is deleted: after a start that may
// also be one with a wrong clock, it goes on from the last known time.
func (c *Clock) Removal() time.Time {
	now, s := c.read()
	return now.Add(-s.removal)
}

// Even returns a time that goes on evenly, whatever becomes of the clock.
func (c *Clock) Even() time.Time {
	s := c.state.Load()
	passed, _ := c.since(s, c.cfg.Now())
	return s.even.Add(passed)
}

// Look compares the clock with the time that has passed, and ends a doubt when its time
// has come. Its owner calls it about once in a second.
func (c *Clock) Look() { c.look() }

func (c *Clock) look() (time.Time, *clockState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := c.state.Load(), c.cfg.Now()
	passed, drift := c.since(s, now)
	even := s.even.Add(passed)
	// What slept does not count as passed, and the clock went on meanwhile.
	slept := c.asleep()
	drift -= min(slept-s.asleep, max(0, drift))
	next := *s
	switch {
	case c.off:
		return now, s
	case drift > c.cfg.Jump:
		c.ahead(&next, drift, even)
	case drift < -c.cfg.Jump:
		c.back(&next, -drift, even)
	case s.doubt() && even.Sub(s.since) >= c.cfg.Steady:
		c.steady(&next, even)
	}
	same := next.writes == s.writes && next.certain == s.certain && next.removal == s.removal && next.since.Equal(s.since)
	if same && drift.Abs() <= c.cfg.Jump/8 && slept == s.asleep {
		return now, s // What is true goes on.
	}
	next.wall, next.passed, next.asleep, next.even = now, s.passed, slept, even
	if c.cfg.Elapsed != nil {
		next.passed = s.passed + passed
	}
	c.state.Store(&next)
	return now, &next
}

// ahead takes note of a jump ahead.
func (c *Clock) ahead(s *clockState, by time.Duration, even time.Time) {
	c.jumps.WithLabelValues(jumpAhead).Inc()
	if s.wall.Before(clockPlausible) {
		c.cfg.Logger.Warn("clock was set: it could not be right before", "by", by.String())
		s.writes, s.certain, s.removal, s.since = 0, 0, 0, even
		return
	}
	s.certain += by
	s.removal = max(s.removal+by, s.certain)
	s.since = even
	c.bound(s)
	c.warned = 0
	c.cfg.Logger.Warn("clock has jumped ahead", "by", by.String(), "clock", clock(s.wall.Add(by)), "says", s.says(c))
}

// back takes note of a jump back.
func (c *Clock) back(s *clockState, by time.Duration, even time.Time) {
	c.jumps.WithLabelValues(jumpBack).Inc()
	doubted := s.doubt()
	for _, behind := range []*time.Duration{&s.certain, &s.removal} {
		if *behind -= by; *behind <= c.cfg.Jump {
			*behind = 0
		}
	}
	s.since = even
	c.bound(s)
	c.cfg.Logger.Warn("clock has jumped back", "by", by.String(), "was_in_doubt", doubted, "is_in_doubt", s.doubt())
}

// bound says how far writes follow a clock that is in doubt.
func (c *Clock) bound(s *clockState) {
	s.writes = 0
	if s.certain > max(0, c.cfg.Ahead) {
		s.writes = s.certain
	}
}

// steady ends the doubt about a clock that has held, unless it is too far ahead.
func (c *Clock) steady(s *clockState, even time.Time) {
	const again = time.Hour
	if s.writes == 0 {
		c.cfg.Logger.Info("clock has held and is taken as right", "was_in_doubt_by", s.removal.String())
		s.certain, s.removal, s.since = 0, 0, even
		return
	}
	if at := even.Sub(s.since); c.warned == 0 || at >= c.warned+again {
		c.warned = at
		c.cfg.Logger.Warn("clock is in doubt", "says", s.says(c))
	}
}

// Accept takes the clock as right, and returns by how much it was in doubt.
func (c *Clock) Accept() time.Duration {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state.Load()
	if !s.doubt() {
		return 0
	}
	next := *s
	next.writes, next.certain, next.removal = 0, 0, 0
	c.state.Store(&next)
	c.cfg.Logger.Warn("clock was accepted by an operator", "was_in_doubt_by", s.removal.String())
	return s.removal
}

// begin compares the clock with the last known time of before the start; zero for none.
func (c *Clock) begin(known time.Time) {
	if c.off || known.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Store(known.UnixNano())
	next := *c.state.Load()
	switch away := next.wall.Round(0).Sub(known); {
	case away > c.cfg.Jump:
		next.removal = max(next.removal, away)
		c.state.Store(&next)
		c.cfg.Logger.Info("clock is ahead of the last known time: what has expired is hidden, and is deleted later",
			"by", away.Round(time.Second).String(), "last_known", clock(known), "deleted_after", c.cfg.Steady.String())
	case -away > c.cfg.Jump:
		c.cfg.Logger.Warn("clock is behind the last known time: "+remedyClock,
			"by", (-away).Round(time.Second).String(), "last_known", clock(known), "clock", clock(next.wall))
	}
}

// remedyClock is what a person does about times that are ahead of the clock.
const remedyClock = "if the clock is wrong, set it; if it was wrong before, stop the server and run 'decan check --repair-clock'"

// Behind returns by how much a time in seconds since 1970 is ahead of the clock, zero
// when that is not more than the clock may differ.
func (c *Clock) Behind(ts int64) time.Duration {
	if behind := time.Unix(ts, 0).Sub(c.Now()); !c.off && behind > c.cfg.Jump {
		return behind
	}
	return 0
}

// ClockStatus is what a [Clock] knows.
type ClockStatus struct {
	Clock    time.Time     // what the machine says
	Writes   time.Time     // what writes get
	Certain  time.Time     // by which documents expire
	Removal  time.Time     // by which they are deleted
	Doubt    time.Duration // by how much the clock may be ahead of the right time; zero for none
	Behind   time.Duration // by how much it is behind the last known time of the start; zero for not at all
	Accepted bool          // nothing is held back

	// Trouble says in a sentence what is wrong and what ends it; empty for nothing.
	Trouble string
}

// Status returns what the clock knows.
func (c *Clock) Status() ClockStatus {
	now, s := c.read()
	st := ClockStatus{
		Clock: now, Writes: now.Add(-s.writes), Certain: now.Add(-s.certain), Removal: now.Add(-s.removal),
		Doubt: s.removal, Accepted: !s.doubt(), Trouble: s.says(c),
	}
	if known := c.known.Load(); known > 0 {
		st.Behind = c.Behind(time.Unix(0, known).Unix())
	}
	if st.Behind > 0 && st.Trouble == "" {
		st.Trouble = fmt.Sprintf("The clock is %s behind the last known time: %s.", st.Behind.Round(time.Second), remedyClock)
	}
	return st
}

// says returns what is held back, and what ends that.
func (s *clockState) says(c *Clock) string {
	switch {
	case s.writes > 0:
		return fmt.Sprintf("The clock has jumped ahead by %s, which is more than %s (--clock-ahead): writes have the time that has passed instead, and nothing expires by the jump. Set the clock right, or take it as right with POST /clock/accept on the admin port or a restart.", s.certain.Round(time.Second), max(0, c.cfg.Ahead))
	case s.certain > 0:
		return fmt.Sprintf("The clock has jumped ahead by %s: nothing expires by that until it has held for %s (--clock-steady).", s.certain.Round(time.Second), c.cfg.Steady)
	case s.removal > 0:
		return fmt.Sprintf("At the start the clock was ahead of the last known time by %s: what has expired since is hidden, and is deleted when the clock has held for %s (--clock-steady).", s.removal.Round(time.Second), c.cfg.Steady)
	}
	return ""
}

// clockMetrics shows by how much the clock is in doubt.
type clockMetrics struct{ c *Clock }

var doubtDesc = prometheus.NewDesc("decan_clock_doubt_seconds",
	"By how much the clock of the machine may be ahead of the right time, after a jump or a start; 0 when it is taken as right.", nil, nil)

// Describe implements prometheus.Collector.
func (clockMetrics) Describe(to chan<- *prometheus.Desc) { to <- doubtDesc }

// Collect implements prometheus.Collector.
func (m clockMetrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(doubtDesc, prometheus.GaugeValue, m.c.Status().Doubt.Seconds())
}
