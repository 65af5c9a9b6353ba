package cluster

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The clock of the machine may be wrong. When it jumps, a node cannot know whether it is
// wrong now or was wrong before. So the node compares it with the time that has passed
// and with the last known time, and delays what cannot be undone: see docs/clock.md.

// Defaults of ClockConfig.
const (
	ClockJump   = time.Minute
	ClockAhead  = 30 * 24 * time.Hour
	ClockSteady = 15 * time.Minute
)

// clockPlausible is a time before which no clock is right, because this program is newer.
var clockPlausible = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// ClockConfig configures a [Clock].
type ClockConfig struct {
	Now func() time.Time // the clock of the machine; nil: time.Now

	// Elapsed returns the time that has passed since some moment; setting the clock does
	// not change it. Nil means the monotonic time of Now, and on Linux also the time that
	// the machine was suspended.
	Elapsed func() time.Duration

	// Jump is the largest difference between the machine's clock and the time that has
	// passed that does not count as a jump, and the largest tolerated difference between
	// the clock at the start and the last known time. Zero means ClockJump; with a
	// negative value nothing counts as a jump.
	Jump time.Duration
	// Ahead is the largest jump ahead that the time of writes follows. Zero means
	// ClockAhead; with a negative value it follows none.
	Ahead time.Duration
	// Steady is how long a clock that has jumped ahead must run without another jump
	// until it is trusted. Zero means ClockSteady.
	Steady time.Duration

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: the metrics are not registered
}

// Clock is the guarded clock of a node. It is safe for concurrent use.
//
// After a jump ahead the clock is in doubt until it has run without another jump for
// Steady, or an operator accepts it. Until then nothing expires because of the jump.
// Writes get the time of the clock, unless it has jumped by more than Ahead: then they
// get the time before the jump and what has passed since, and the doubt remains until an
// operator accepts the clock or the node is restarted. A jump back is followed
// immediately, because nothing expires by it.
type Clock struct {
	cfg   ClockConfig
	off   bool
	state atomic.Pointer[clockState]
	known atomic.Int64 // the last known time at the start, in nanoseconds since 1970; zero for none

	mu     sync.Mutex    // held while the state changes
	warned time.Duration // after the jump, when the doubt was logged last; zero for not yet

	jumps *prometheus.CounterVec
}

// clockState is the result of one check of the clock. It is immutable.
type clockState struct {
	wall   time.Time     // the clock at the check
	passed time.Duration // Elapsed at the check; zero without one
	asleep time.Duration // for how long the machine had been suspended
	even   time.Time     // the monotonic time at the check, see Clock.Monotonic

	// How much is subtracted from the clock for writes, expiry and removal.
	// writes <= certain <= removal. All are zero for a clock that is not in doubt.
	writes, certain, removal time.Duration

	since time.Time // the monotonic time of the last jump, or of the start
}

// doubt reports whether the clock is in doubt.
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

// since returns how much time has passed since a state, and how much more than that the
// clock has advanced.
func (c *Clock) since(s *clockState, now time.Time) (passed, drift time.Duration) {
	if c.cfg.Elapsed != nil {
		passed = c.cfg.Elapsed() - s.passed
	} else {
		passed = now.Sub(s.wall) // by the monotonic clock, if both times have its reading
	}
	return passed, now.Round(0).Sub(s.wall.Round(0)) - passed
}

// read returns the time of the machine's clock and the state that applies to it.
func (c *Clock) read() (time.Time, *clockState) {
	s, now := c.state.Load(), c.cfg.Now()
	if _, drift := c.since(s, now); c.off || drift.Abs() <= c.cfg.Jump {
		return now, s
	}
	return c.check()
}

// Now returns the time for writes.
func (c *Clock) Now() time.Time {
	now, s := c.read()
	return now.Add(-s.writes)
}

// Certain returns the time for deciding whether a document has expired. It does not
// include a jump ahead that is in doubt.
func (c *Clock) Certain() time.Time {
	now, s := c.read()
	return now.Add(-s.certain)
}

// Removal returns the time for deleting expired documents. It is at most Certain. If the
// clock at the start is ahead of the last known time, Removal continues from that time
// while the clock is in doubt.
func (c *Clock) Removal() time.Time {
	now, s := c.read()
	return now.Add(-s.removal)
}

// Monotonic returns a time without jumps: that of the start, and the time that has passed since.
func (c *Clock) Monotonic() time.Time {
	s := c.state.Load()
	passed, _ := c.since(s, c.cfg.Now())
	return s.even.Add(passed)
}

// Check compares the clock with the time that has passed, and ends a doubt after Steady.
// The owner calls it about once per second.
func (c *Clock) Check() { c.check() }

func (c *Clock) check() (time.Time, *clockState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := c.state.Load(), c.cfg.Now()
	passed, drift := c.since(s, now)
	even := s.even.Add(passed)
	// The clock advanced during a suspension, and the monotonic clock did not.
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
		return now, s // Nothing has changed.
	}
	next.wall, next.passed, next.asleep, next.even = now, s.passed, slept, even
	if c.cfg.Elapsed != nil {
		next.passed = s.passed + passed
	}
	c.state.Store(&next)
	return now, &next
}

// ahead records a jump ahead.
func (c *Clock) ahead(s *clockState, by time.Duration, even time.Time) {
	c.jumps.WithLabelValues(jumpAhead).Inc()
	if s.wall.Before(clockPlausible) {
		c.cfg.Logger.Warn("clock was set: before, it had an impossible time", "by", by.String())
		s.writes, s.certain, s.removal, s.since = 0, 0, 0, even
		return
	}
	s.certain += by
	s.removal = max(s.removal+by, s.certain)
	s.since = even
	c.bound(s)
	c.warned = 0
	c.cfg.Logger.Warn("clock has jumped ahead", "by", by.String(), "clock", clock(s.wall.Add(by)), "says", s.trouble(c))
}

// back records a jump back.
func (c *Clock) back(s *clockState, by time.Duration, even time.Time) {
	c.jumps.WithLabelValues(jumpBack).Inc()
	doubted := s.doubt()
	for _, less := range []*time.Duration{&s.certain, &s.removal} {
		if *less -= by; *less <= c.cfg.Jump {
			*less = 0
		}
	}
	s.since = even
	c.bound(s)
	c.cfg.Logger.Warn("clock has jumped back", "by", by.String(), "was_in_doubt", doubted, "is_in_doubt", s.doubt())
}

// bound sets the time of writes for a clock that is in doubt.
func (c *Clock) bound(s *clockState) {
	s.writes = 0
	if s.certain > max(0, c.cfg.Ahead) {
		s.writes = s.certain
	}
}

// steady ends the doubt about a clock that has not jumped for Steady, unless its jump was
// larger than Ahead.
func (c *Clock) steady(s *clockState, even time.Time) {
	const again = time.Hour
	if s.writes == 0 {
		c.cfg.Logger.Info("clock has not jumped again and is trusted", "was_in_doubt_by", s.removal.String())
		s.certain, s.removal, s.since = 0, 0, even
		return
	}
	if at := even.Sub(s.since); c.warned == 0 || at >= c.warned+again {
		c.warned = at
		c.cfg.Logger.Warn("clock is in doubt", "says", s.trouble(c))
	}
}

// Accept ends a doubt about the clock, and returns by how much the clock was in doubt.
func (c *Clock) Accept() time.Duration {
	c.check()
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

// begin compares the clock with the last known time before the start. It does nothing if
// that is zero.
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
		c.cfg.Logger.Warn("clock is behind the last known time: "+remedyClock, // words: said of a clock
			"by", (-away).Round(time.Second).String(), "last_known", clock(known), "clock", clock(next.wall))
	}
}

// remedyClock says what to do about times that are ahead of the clock.
const remedyClock = "if the clock is wrong, set it; if it was wrong before, stop the server and run 'decan check --repair-clock'"

// Ahead returns by how much a time, in seconds since 1970, is ahead of the clock for
// writes. It is zero if the difference is not more than Jump.
func (c *Clock) Ahead(ts int64) time.Duration {
	if ahead := time.Unix(ts, 0).Sub(c.Now()); !c.off && ahead > c.cfg.Jump {
		return ahead
	}
	return 0
}

// ClockStatus is the status of a [Clock].
type ClockStatus struct {
	Clock    time.Time     // the machine's clock
	Writes   time.Time     // the time that writes get
	Certain  time.Time     // the time by which documents expire
	Removal  time.Time     // the time by which expired documents are deleted
	Doubt    time.Duration // by how much the clock may be ahead of the right time; zero for no doubt
	Behind   time.Duration // by how much the last known time at the start is ahead of it; zero if it is not
	Accepted bool          // the clock is not in doubt

	// Trouble says in a sentence what is wrong and what ends it; empty if nothing is.
	Trouble string
}

// Status returns the status of the clock.
func (c *Clock) Status() ClockStatus {
	now, s := c.read()
	st := ClockStatus{
		Clock: now, Writes: now.Add(-s.writes), Certain: now.Add(-s.certain), Removal: now.Add(-s.removal),
		Doubt: s.removal, Accepted: !s.doubt(), Trouble: s.trouble(c),
	}
	if known := c.known.Load(); known > 0 {
		st.Behind = c.Ahead(time.Unix(0, known).Unix())
	}
	if st.Behind > 0 && st.Trouble == "" {
		st.Trouble = fmt.Sprintf("The clock is %s behind the last known time: %s.", st.Behind.Round(time.Second), remedyClock) // words: said of a clock
	}
	return st
}

// trouble returns a sentence on what a doubt delays and what ends it; empty without a
// doubt.
func (s *clockState) trouble(c *Clock) string {
	switch {
	case s.writes > 0:
		return fmt.Sprintf("The clock has jumped ahead by %s, which is more than %s (--clock-ahead): writes do not follow the jump, and nothing expires because of it. Set the clock right; or, if it is right, accept it with POST /clock/accept on the admin port or restart the server.", s.certain.Round(time.Second), max(0, c.cfg.Ahead))
	case s.certain > 0:
		return fmt.Sprintf("The clock has jumped ahead by %s: nothing expires because of that until it has run without another jump for %s (--clock-steady).", s.certain.Round(time.Second), c.cfg.Steady)
	case s.removal > 0:
		return fmt.Sprintf("At the start the clock was ahead of the last known time by %s: documents that have expired since then are hidden; they are deleted when the clock has run without a jump for %s (--clock-steady).", s.removal.Round(time.Second), c.cfg.Steady)
	}
	return ""
}

// clockMetrics exports by how much the clock is in doubt.
type clockMetrics struct{ c *Clock }

var doubtDesc = prometheus.NewDesc("decan_clock_doubt_seconds",
	"By how much the clock of the machine may be ahead of the right time, after a jump or a start; 0 if it is trusted.", nil, nil)

// Describe implements prometheus.Collector.
func (clockMetrics) Describe(to chan<- *prometheus.Desc) { to <- doubtDesc }

// Collect implements prometheus.Collector.
func (m clockMetrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(doubtDesc, prometheus.GaugeValue, m.c.Status().Doubt.Seconds())
}
