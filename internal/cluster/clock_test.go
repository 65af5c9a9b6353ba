package cluster_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/prometheus/client_golang/prometheus"
)

// machine has a clock that can be set, and a monotonic one.
type machine struct {
	wall, elapsed atomic.Int64 // nanoseconds
	log           bytes.Buffer
	registry      *prometheus.Registry
}

var machineStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine(at time.Time) *machine {
	m := &machine{registry: prometheus.NewRegistry()}
	m.wall.Store(at.UnixNano())
	return m
}

func (m *machine) pass(d time.Duration) { m.wall.Add(int64(d)); m.elapsed.Add(int64(d)) }
func (m *machine) set(by time.Duration) { m.wall.Add(int64(by)) }
func (m *machine) now() time.Time       { return time.Unix(0, m.wall.Load()).UTC() }

func (m *machine) config() cluster.ClockConfig {
	return cluster.ClockConfig{
		Now: m.now, Elapsed: func() time.Duration { return time.Duration(m.elapsed.Load()) },
		Logger: slog.New(slog.NewTextHandler(&m.log, nil)), Registerer: m.registry,
	}
}

// lag is how much less than the machine's clock the times of a Clock are.
type lag struct{ writes, certain, removal time.Duration }

func (m *machine) lag(c *cluster.Clock) lag {
	return lag{m.now().Sub(c.Now()), m.now().Sub(c.Certain()), m.now().Sub(c.Removal())}
}

func (m *machine) jumps(t *testing.T, direction string) (n float64) {
	t.Helper()
	return m.metric(t, "decan_clock_jumps_total", direction)
}

// metric returns the value of a metric, with the label if it has one.
func (m *machine) metric(t *testing.T, name, label string) (n float64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if f.GetName() == name && (label == "" || metric.GetLabel()[0].GetValue() == label) {
				n = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return n
}

const day = 24 * time.Hour

// TestClockJumps sets the clock of a machine in many ways and compares the times for
// writes, expiry and removal, below and above each bound.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		act  func(m *machine, c *cluster.Clock)
		want lag
		jump [2]float64 // the number of jumps ahead and back
	}{
		"time passes":             {func(m *machine, c *cluster.Clock) { m.pass(40 * day) }, lag{}, [2]float64{}},
		"a step within the bound": {func(m *machine, c *cluster.Clock) { m.set(cluster.ClockJump) }, lag{}, [2]float64{}},
		"a step beyond the bound": {func(m *machine, c *cluster.Clock) { m.set(cluster.ClockJump + 1) }, lag{0, cluster.ClockJump + 1, cluster.ClockJump + 1}, [2]float64{1, 0}},
		"a step back within it":   {func(m *machine, c *cluster.Clock) { m.set(-cluster.ClockJump) }, lag{}, [2]float64{}},
		"a step back beyond it":   {func(m *machine, c *cluster.Clock) { m.set(-cluster.ClockJump - 1) }, lag{}, [2]float64{0, 1}},
		"ahead as far as writes":  {func(m *machine, c *cluster.Clock) { m.set(cluster.ClockAhead) }, lag{0, cluster.ClockAhead, cluster.ClockAhead}, [2]float64{1, 0}},
		"ahead further than that": {func(m *machine, c *cluster.Clock) { m.set(cluster.ClockAhead + 1) }, lag{cluster.ClockAhead + 1, cluster.ClockAhead + 1, cluster.ClockAhead + 1}, [2]float64{1, 0}},
		"ahead and back":          {func(m *machine, c *cluster.Clock) { m.set(5 * day); c.Check(); m.set(-5 * day) }, lag{}, [2]float64{1, 1}},
		"ahead and half back":     {func(m *machine, c *cluster.Clock) { m.set(40 * day); c.Check(); m.set(-20 * day) }, lag{0, 20 * day, 20 * day}, [2]float64{1, 1}},
		"ahead twice":             {func(m *machine, c *cluster.Clock) { m.set(20 * day); c.Check(); m.set(20 * day) }, lag{40 * day, 40 * day, 40 * day}, [2]float64{2, 0}},
		"ahead, almost steady":    {func(m *machine, c *cluster.Clock) { m.set(day); c.Check(); m.pass(cluster.ClockSteady - 1); c.Check() }, lag{0, day, day}, [2]float64{1, 0}},
		"ahead and steady":        {func(m *machine, c *cluster.Clock) { m.set(day); c.Check(); m.pass(cluster.ClockSteady); c.Check() }, lag{}, [2]float64{1, 0}},
		"far ahead and steady":    {func(m *machine, c *cluster.Clock) { m.set(400 * day); c.Check(); m.pass(9 * day); c.Check() }, lag{400 * day, 400 * day, 400 * day}, [2]float64{1, 0}},
		"far ahead and accepted":  {func(m *machine, c *cluster.Clock) { m.set(400 * day); c.Check(); c.Accept() }, lag{}, [2]float64{1, 0}},
		"ahead again before steady": {func(m *machine, c *cluster.Clock) {
			m.set(day)
			c.Check()
			m.pass(cluster.ClockSteady - 1)
			m.set(time.Hour)
			c.Check()
			m.pass(cluster.ClockSteady - 1)
			c.Check()
		}, lag{0, day + time.Hour, day + time.Hour}, [2]float64{2, 0}},
		"slow drift, checked often": {func(m *machine, c *cluster.Clock) {
			for range 1000 {
				m.pass(time.Second)
				m.set(time.Second)
				c.Check()
			}
		}, lag{}, [2]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(machineStart)
			c := cluster.NewClock(m.config())
			test.act(m, c)
			if got := m.lag(c); got != test.want {
				t.Errorf("behind the clock by %+v, want %+v", got, test.want)
			}
			if got := [2]float64{m.jumps(t, "ahead"), m.jumps(t, "back")}; got != test.jump {
				t.Errorf("%v jumps, want %v", got, test.jump)
			}
			st := c.Status()
			if st.Accepted != (test.want.removal == 0) || st.Doubt != test.want.removal || (st.Trouble == "") != st.Accepted {
				t.Errorf("status %+v", st)
			}
			if got := c.Monotonic().Sub(machineStart); got != time.Duration(m.elapsed.Load()) {
				t.Errorf("the monotonic time advanced by %s, and %s have passed", got, time.Duration(m.elapsed.Load()))
			}
		})
	}
}

// TestClockSetFromNonsense trusts a clock that was set from an impossible time.
func TestClockSetFromNonsense(t *testing.T) {
	t.Parallel()
	m := newMachine(time.Unix(100, 0))
	c := cluster.NewClock(m.config())
	m.set(machineStart.Sub(m.now()))
	if got := m.lag(c); got != (lag{}) {
		t.Errorf("behind by %+v", got)
	}
	if m.jumps(t, "ahead") != 1 || !strings.Contains(m.log.String(), "clock was set") {
		t.Errorf("%v jumps; log: %s", m.jumps(t, "ahead"), m.log.String())
	}
}

// TestClockOff follows every jump if jumps are not detected.
func TestClockOff(t *testing.T) {
	t.Parallel()
	m := newMachine(machineStart)
	config := m.config()
	config.Jump = -1
	c := cluster.NewClock(config)
	m.set(400 * day)
	c.Check()
	if got := m.lag(c); got != (lag{}) || m.jumps(t, "ahead") != 0 {
		t.Errorf("behind by %+v", got)
	}
}

// TestRealClock shows that the clock of this machine is not in doubt.
func TestRealClock(t *testing.T) {
	t.Parallel()
	c := cluster.NewClock(cluster.ClockConfig{})
	for range 100 {
		before := time.Now()
		now, even := c.Now(), c.Monotonic()
		c.Check()
		if now.Before(before) || now.Sub(before) > time.Minute || even.Sub(now).Abs() > time.Minute || c.Status().Doubt != 0 {
			t.Fatalf("now %s, even %s, status %+v", now, even, c.Status())
		}
	}
}

// withClock restarts the node of a world with the clock of a machine.
func (w *world) withClock(t *testing.T, m *machine) {
	t.Helper()
	m.registry = prometheus.NewRegistry()
	w.restart(t, func(c *cluster.Config) {
		c.Clock = cluster.NewClock(m.config())
		c.Maintenance = -1
		c.Registerer = m.registry
	})
}

// mortalContainer creates a container whose documents expire after that many seconds.
func (w *world) mortalContainer(t *testing.T, ttl int32) *catalog.Container {
	t.Helper()
	c, err := w.create("mortal", 1)
	if err != nil {
		t.Fatal(err)
	}
	next := c.Container
	next.DefaultTTL = ttl
	view, err := w.catalog.Commit(t.Context(), catalog.ReplaceContainer{Container: next, Expect: c.ETag})
	if err != nil {
		t.Fatal(err)
	}
	c, _ = view.Container("d", "mortal")
	return c
}

// seen returns the documents that can be read.
func (w *world) seen(c *catalog.Container, p resource.PartitionID, ids ...string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return w.read(c, p, id) != nil })
}

// TestJumpExpiresNothing shows that a jump ahead neither hides nor deletes documents
// until the doubt has ended, and that writes continue.
func TestJumpExpiresNothing(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	m := newMachine(machineStart)
	w.withClock(t, m)
	c := w.mortalContainer(t, 3600)
	id := c.Ranges.At(0).Value.ID
	if err := w.write(c, id, "before"); err != nil {
		t.Fatal(err)
	}
	sees := func(want ...string) {
		t.Helper()
		if got := w.seen(c, id, "before", "meanwhile"); !slices.Equal(got, want) {
			t.Errorf("%q are seen, want %q", got, want)
		}
	}
	m.set(2 * time.Hour)
	w.node.CheckClock()
	if n := w.node.Expire(t.Context()); n != 0 {
		t.Errorf("%d documents deleted", n)
	}
	sees("before")
	if err := w.write(c, id, "meanwhile"); err != nil {
		t.Fatal(err)
	}
	m.pass(cluster.ClockSteady - time.Second)
	w.node.CheckClock()
	sees("before", "meanwhile")
	m.pass(time.Second)
	w.node.CheckClock()
	sees("meanwhile")
	if n := w.node.Expire(t.Context()); n != 1 {
		t.Errorf("%d documents deleted when the clock has held, want 1", n)
	}
}

// stopped closes the node of a world, calls do for its machine and restarts the node.
func (w *world) stopped(t *testing.T, m *machine, meanwhile func()) {
	t.Helper()
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	m.registry = prometheus.NewRegistry()
	clock, config := m.config(), w.config()
	config.Clock, config.Maintenance, config.Registerer, config.Logger = cluster.NewClock(clock), -1, m.registry, clock.Logger
	var err error
	if w.node, err = cluster.Start(config); err != nil {
		t.Fatal(err)
	}
}

// TestStartAfterDowntime shows that documents that expired after the last known time
// are hidden after the start, and deleted when the doubt has ended.
func TestStartAfterDowntime(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	for name, test := range map[string]struct {
		age, down time.Duration // of the document at the end of the node; from there to the next start
		deleted   [3]int        // immediately, before the end of the doubt, and after it
	}{
		"shorter than a jump": {ttl - 10*time.Second, cluster.ClockJump, [3]int{1, 0, 0}},
		"longer than a jump":  {ttl - 10*time.Second, cluster.ClockJump + time.Second, [3]int{0, 1, 0}},
		"long":                {0, 2 * time.Hour, [3]int{0, 0, 1}},
		"years":               {0, 1000 * day, [3]int{0, 0, 1}},
		"long, over before":   {ttl, 2 * time.Hour, [3]int{1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := start(t, 0)
			m := newMachine(time.Now().Truncate(time.Second)) // The catalog was created with the real clock.
			w.withClock(t, m)
			c := w.mortalContainer(t, int32(ttl/time.Second))
			id := c.Ranges.At(0).Value.ID
			if err := w.write(c, id, "x"); err != nil {
				t.Fatal(err)
			}
			m.pass(test.age)
			w.stopped(t, m, func() { m.set(test.down) })
			if got := w.seen(c, id, "x"); len(got) != 0 {
				t.Errorf("%q are seen when their time to live is over", got)
			}
			var deleted [3]int
			deleted[0] = w.node.Expire(t.Context())
			m.pass(cluster.ClockSteady - time.Second)
			w.node.CheckClock()
			deleted[1] = w.node.Expire(t.Context())
			m.pass(time.Second)
			w.node.CheckClock()
			deleted[2] = w.node.Expire(t.Context())
			if deleted != test.deleted {
				t.Errorf("deleted %v, want %v", deleted, test.deleted)
			}
		})
	}
}

// TestClockBehindStores shows that a partition whose times are ahead of the clock serves
// and is reported, also while it is closed, until the clock reaches them.
func TestClockBehindStores(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 1)
	m := newMachine(machineStart.AddDate(5, 0, 0))
	w.withClock(t, m)
	c, err := w.create("c", 1)
	if err != nil {
		t.Fatal(err)
	}
	id := c.Ranges.At(0).Value.ID
	if err := w.write(c, id, "x"); err != nil {
		t.Fatal(err)
	}
	w.stopped(t, m, func() { m.wall.Store(machineStart.UnixNano()) })
	if !strings.Contains(m.log.String(), "behind the last known time") || w.node.Clock().Status().Behind < 4*365*day {
		t.Errorf("status %+v, log: %s", w.node.Clock().Status(), m.log.String())
	}
	if err := w.write(c, id, "y"); err != nil {
		t.Fatal(err)
	}
	unwell := func(want int) {
		t.Helper()
		got := w.node.Unwell()
		if len(got) != want || want > 0 && (got[0].Ailment != cluster.AilmentAhead || got[0].Partition != id) {
			t.Errorf("unwell: %+v, want %d", got, want)
		}
	}
	unwell(1)
	if got := strings.Count(m.log.String(), "decan check --repair-clock"); got < 2 {
		t.Errorf("the log names the repair %d times: %s", got, m.log.String())
	}
	if n := m.metric(t, "decan_clock_behind_seconds", ""); n < 4*365*24*3600 {
		t.Errorf("behind by %v seconds", n)
	}
	if n := m.metric(t, "decan_partitions_unwell", "ahead"); n != 1 {
		t.Errorf("%v partitions are ahead", n)
	}
	m.pass(5*365*day - 10*day)
	w.node.CheckClock()
	unwell(1)
	m.pass(20 * day)
	w.node.CheckClock()
	unwell(0)
	if st := w.node.Clock().Status(); st.Behind != 0 || st.Trouble != "" {
		t.Errorf("status %+v", st)
	}
}
