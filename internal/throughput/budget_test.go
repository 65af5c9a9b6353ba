package throughput

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/resource"
)

// start is the beginning of an hour; the cases count seconds from it.
var start = time.Unix(1_700_002_800, 0).Truncate(time.Hour)

// TestText runs the cases of testdata. Lines of a budget, an autoscale figure
// and a sketch begin with the time in seconds since the start.
//
//	budget rate= [burst=] [caps=1:50,2:20] [default=] [forgive]
//	    load <charge> [low] [bucket <id>], spend <charge>, rate <units>, usage
//	autoscale max=   use <charge>, current, billed
//	heavy            add <id> <units>, top <n>
//	window most= seconds=  event
//	share manual=|max= partitions= [most=]    shares of partitions 0, 1, ...; lines: id=RU/s as divided by hand, child<parents, gone id
//	redistribute manual=|max= partitions= [most=]  lines: equal, target id=RU/s, source id=RU/s or id
//	serverless       lines: a number of partitions
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "share":
					return runShare(t, d)
				case "redistribute":
					return runRedistribute(t, d)
				}
				step := stepper(t, d)
				var b strings.Builder
				for line := range strings.SplitSeq(d.Input, "\n") {
					fmt.Fprintf(&b, "%s -> %s\n", line, runLine(t, line, step))
				}
				return b.String()
			})
		})
	}
}

// stepper returns the function that executes one line.
func stepper(t *testing.T, d *datadriven.TestData) func(now time.Time, words []string) string {
	t.Helper()
	switch d.Cmd {
	case "budget":
		b := NewBudget(planOf(t, d), start)
		return func(now time.Time, words []string) string { return stepBudget(t, b, now, words) }
	case "autoscale":
		var maximum float64
		d.ScanArgs(t, "max", &maximum)
		a := NewAutoscale(maximum, start)
		return func(now time.Time, words []string) string { return stepAutoscale(t, a, now, words) }
	case "window":
		var most, seconds int
		d.ScanArgs(t, "most", &most)
		d.ScanArgs(t, "seconds", &seconds)
		w := NewWindow(most, time.Duration(seconds)*time.Second)
		return func(now time.Time, _ []string) string {
			if wait, ok := w.Take(now); !ok {
				return fmt.Sprintf("waits %v", wait)
			}
			return "goes ahead"
		}
	case "heavy":
		var h Heavy[string]
		return func(now time.Time, words []string) string { return stepHeavy(t, &h, now, words) }
	case "serverless":
		return func(_ time.Time, words []string) string {
			return strconv.FormatFloat(Serverless(int(number(t, words[0]))), 'f', 2, 64)
		}
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return nil
}

func planOf(t *testing.T, d *datadriven.TestData) Plan {
	t.Helper()
	plan := Plan{Forgive: d.HasArg("forgive")}
	d.ScanArgs(t, "rate", &plan.Rate)
	d.MaybeScanArgs(t, "burst", &plan.Burst)
	var fallback int
	d.MaybeScanArgs(t, "default", &fallback)
	var buckets []resource.Bucket
	for _, arg := range d.CmdArgs {
		for _, text := range arg.Vals {
			if arg.Key != "cap" {
				continue
			}
			var b resource.Bucket
			if _, err := fmt.Sscanf(text, "%d:%d", &b.ID, &b.Percent); err != nil {
				t.Fatalf("%s: cap %q: %v", d.Pos, text, err)
			}
			b.Default = b.ID == fallback
			buckets = append(buckets, b)
		}
	}
	return Caps(plan, buckets)
}

func number(t *testing.T, word string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func runLine(t *testing.T, line string, step func(now time.Time, words []string) string) string {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 {
		return step(start, words)
	}
	at := number(t, words[0])
	out := step(start.Add(time.Duration(math.Round(at*1000))*time.Millisecond), words[1:])
	if out == "" {
		t.Fatalf("%q: unknown verb", line)
	}
	return out
}

func stepBudget(t *testing.T, b *Budget, now time.Time, words []string) string {
	t.Helper()
	switch words[0] {
	case "load":
		var as Spender
		for i := 2; i < len(words); i++ {
			switch words[i] {
			case "low":
				as.Low = true
			case "bucket":
				i++
				as.Bucket = uint8(number(t, words[i]))
			default:
				return ""
			}
		}
		if refused, ok := b.Take(as, now); !ok {
			return fmt.Sprintf("throttled %d, wait %v", refused.Sub, refused.Wait)
		}
		b.Spend(as, number(t, words[1]), now)
	case "spend":
		b.Spend(Spender{}, number(t, words[1]), now)
	case "rate":
		plan := b.plan
		plan.Rate = number(t, words[1])
		b.Set(plan, now)
	case "usage":
		u := b.Usage(now)
		return fmt.Sprintf("second %.0f, total %.0f, normalized %.1f%%, throttled %d, capped %d, saved %.0f",
			u.Second, u.Total, u.Normalized, u.Throttled, u.Capped, u.Saved)
	default:
		return ""
	}
	return fmt.Sprintf("%.2f left", b.Left(now))
}

func stepAutoscale(t *testing.T, a *Autoscale, now time.Time, words []string) string {
	t.Helper()
	switch words[0] {
	case "use":
		a.Observe(number(t, words[1]), now)
	case "current", "billed":
	default:
		return ""
	}
	return fmt.Sprintf("current %d billed %d", a.Current(now), a.Billed(now))
}

func stepHeavy(t *testing.T, h *Heavy[string], now time.Time, words []string) string {
	t.Helper()
	switch words[0] {
	case "add":
		v := "value of " + words[1]
		h.Add(words[1], &v, number(t, words[2]), now)
		return "ok"
	case "each": // many ids, one after another
		for i := range int(number(t, words[1])) {
			h.Add(fmt.Sprintf("id%04d", i), nil, number(t, words[2]), now)
		}
		return "ok"
	case "top":
		var b strings.Builder
		for _, hot := range h.Top(int(number(t, words[1])), now) {
			fmt.Fprintf(&b, "[%s %q %.0f-%.0f]", hot.ID, hot.Value, hot.Units-hot.Error, hot.Units)
		}
		return b.String() + "."
	}
	return ""
}

// owned is a throughput and the partitions that it is for.
func owned(t *testing.T, d *datadriven.TestData) (resource.Throughput, []resource.Partition, resource.Limits) {
	t.Helper()
	var th resource.Throughput
	limits := resource.DefaultLimits()
	var count int
	d.MaybeScanArgs(t, "manual", &th.Manual)
	d.MaybeScanArgs(t, "max", &th.Max)
	d.ScanArgs(t, "partitions", &count)
	d.MaybeScanArgs(t, "most", &limits.PartitionRUs)
	partitions := make([]resource.Partition, count)
	for i := range partitions {
		partitions[i].ID = resource.PartitionID(i)
	}
	return th, partitions, limits
}

func runShare(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	th, partitions, limits := owned(t, d)
	for line := range strings.SplitSeq(d.Input, "\n") {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "split":
			th, partitions = reshaped(th, "", partitions, 2, resource.PartitionID(number(t, words[1])))
		case len(words) == 3 && words[0] == "merge":
			th, partitions = reshaped(th, "", partitions, 1, resource.PartitionID(number(t, words[1])), resource.PartitionID(number(t, words[2])))
		case line != "":
			id, rus, _ := strings.Cut(line, "=")
			th.Shares = append(th.Shares, resource.Share{ID: resource.PartitionID(number(t, id)), RUs: int(number(t, rus))})
		}
	}
	var b strings.Builder
	for i, share := range Shares(th, "", partitions, limits.PartitionRUs) {
		fmt.Fprintf(&b, "%s=%.2f ", partitions[i].ID, share)
	}
	if Pending(th, "", partitions, limits.PartitionRUs) {
		b.WriteString("pending")
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// reshaped replaces the gone partitions by new ones, whose ids follow the
// highest id.
func reshaped(th resource.Throughput, container resource.RID, partitions []resource.Partition, made int, gone ...resource.PartitionID) (resource.Throughput, []resource.Partition) {
	next := resource.PartitionID(0)
	for _, p := range partitions {
		next = max(next, p.ID+1)
	}
	left := slices.DeleteFunc(slices.Clone(partitions), func(p resource.Partition) bool { return slices.Contains(gone, p.ID) })
	var heirs []resource.PartitionID
	for range made {
		heirs = append(heirs, next)
		left = append(left, resource.Partition{ID: next})
		next++
	}
	th, _ = th.Inherited(container, gone, heirs)
	return th, left
}

func runRedistribute(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	th, partitions, limits := owned(t, d)
	var wish Redistribution
	for line := range strings.SplitSeq(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) == 1 && words[0] == "equal" {
			wish.Equal = true
			continue
		}
		if len(words) == 0 {
			continue
		}
		var w resource.Share
		id, rus, _ := strings.Cut(words[1], "=")
		w.ID = resource.PartitionID(number(t, id))
		if rus != "" {
			w.RUs = int(number(t, rus))
		}
		if words[0] == "target" {
			wish.Targets = append(wish.Targets, w)
		} else {
			wish.Sources = append(wish.Sources, w)
		}
	}
	changed, err := Redistribute(th, []Paid{{Partitions: partitions}}, wish, limits)
	if err != nil {
		return err.Error() + "\n"
	}
	out := fmt.Sprintf("total %d:", changed.Total())
	for i, share := range Shares(changed, "", partitions, limits.PartitionRUs) {
		out += fmt.Sprintf(" %d=%.0f", i, share)
	}
	if Pending(changed, "", partitions, limits.PartitionRUs) {
		out += ", pending"
	}
	return out + "\n"
}

// TestBudgetKeepsItsRate checks that over a long time a budget admits what its
// rate allows, what it may have saved and one debt, and that a request that
// waits as long as told is admitted.
func TestBudgetKeepsItsRate(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	for _, plan := range []Plan{{Rate: 400}, {Rate: 0.3}, {Rate: 10_000}, {Rate: 400, Burst: BurstRUs}} {
		now := start
		b := NewBudget(plan, now)
		spent, dearest := 0.0, 0.0
		for range 2000 {
			charge := random.Float64() * plan.Rate * 3
			for attempt := 0; ; attempt++ {
				refused, ok := b.Take(Spender{}, now)
				if ok {
					break
				}
				if refused.Wait <= 0 || attempt > 0 && plan.Burst == 0 {
					t.Fatalf("%+v: refused with a wait of %v, attempt %d", plan, refused.Wait, attempt)
				}
				if _, early := b.Take(Spender{}, now.Add(refused.Wait-1)); early {
					t.Fatalf("%+v: admitted before %v were over", plan, refused.Wait)
				}
				now = now.Add(refused.Wait)
			}
			b.Spend(Spender{}, charge, now)
			spent += charge
			dearest = max(dearest, charge)
			now = now.Add(time.Duration(random.Int64N(int64(time.Second) / 10)))
			if random.IntN(500) == 0 {
				now = now.Add(time.Duration(random.IntN(300)) * time.Second)
			}
		}
		seconds := math.Floor(now.Sub(start).Seconds()) + 1
		if spent > plan.Rate*seconds+dearest+1e-6 {
			t.Errorf("%+v: %v spent in %v seconds", plan, spent, seconds)
		}
		if u := b.Usage(now); math.Abs(u.Total-spent) > 1e-6 {
			t.Errorf("%+v: %v spent, %v counted", plan, spent, u.Total)
		}
	}
}

// TestSharesSum checks that the shares of a throughput sum to it after any
// splits and merges.
func TestSharesSum(t *testing.T) {
	t.Parallel()
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 12))
	for range 300 {
		th := resource.Throughput{Manual: 100 * (4 + random.IntN(500))}
		partitions := make([]resource.Partition, 1+random.IntN(6))
		for i := range partitions {
			partitions[i].ID = resource.PartitionID(i)
		}
		if random.IntN(2) == 0 {
			var wish Redistribution
			for _, p := range partitions {
				wish.Targets = append(wish.Targets, resource.Share{ID: p.ID, RUs: 400 + 100*random.IntN(100)})
			}
			var err error
			if th, err = Redistribute(th, []Paid{{Partitions: partitions}}, wish, resource.DefaultLimits()); err != nil {
				t.Fatal(err)
			}
		}
		for range random.IntN(8) {
			at := random.IntN(len(partitions))
			if random.IntN(3) == 0 && len(partitions) > 1 {
				th, partitions = reshaped(th, "", partitions, 1, partitions[at].ID, partitions[(at+1)%len(partitions)].ID)
			} else {
				th, partitions = reshaped(th, "", partitions, 2, partitions[at].ID)
			}
		}
		sum := 0.0
		for _, share := range Shares(th, "", partitions, math.MaxInt) {
			sum += share
		}
		if math.Abs(sum-float64(th.Total())) > 1e-6 {
			t.Fatalf("seed %d: shares of %+v over %+v sum to %v", seed, th, partitions, sum)
		}
	}
}

// TestSharedSharesSum checks that the shares of a throughput that containers
// share sum to the total, while containers are created, dropped and split; until
// the next division, the shares of dropped containers are missing.
func TestSharedSharesSum(t *testing.T) {
	t.Parallel()
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	database := resource.DatabaseRID(1)
	for round := range 300 {
		th := resource.Throughput{Owner: database, Manual: 100 * (10 + random.IntN(500))}
		var paid []Paid
		add := func() {
			p := Paid{Container: resource.ContainerRID(database, uint32(2+len(paid)+round)), Partitions: make([]resource.Partition, 1+random.IntN(3))}
			for i := range p.Partitions {
				p.Partitions[i].ID = resource.PartitionID(i)
			}
			paid = append(paid, p)
		}
		check := func(what string, want int) {
			t.Helper()
			sum := 0.0
			for _, g := range Distribution(th, paid) {
				sum += g.RUs
			}
			if math.Abs(sum-float64(want)) > 1e-6 {
				t.Fatalf("seed %d: %s: %+v over %+v sums to %v, want %d", seed, what, th, paid, sum, want)
			}
		}
		divide := func() {
			t.Helper()
			var wish Redistribution
			sum := 0
			for _, g := range Distribution(th, paid) {
				g.share.RUs = 100 * (1 + random.IntN(100))
				wish.Targets = append(wish.Targets, g.share)
				sum += g.share.RUs
			}
			wish.Targets[0].RUs += max(0, resource.ManualMin-sum)
			var err error
			if th, err = Redistribute(th, paid, wish, resource.DefaultLimits()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for range 2 + random.IntN(3) {
			add()
		}
		check("undivided", th.Manual)
		divide()
		check("divided", th.Manual)
		add()
		check("with a container that was made later", th.Manual)
		split := &paid[random.IntN(len(paid)-1)]
		th, split.Partitions = reshaped(th, split.Container, split.Partitions, 2, split.Partitions[0].ID)
		check("split", th.Manual)
		lost := 0.0
		for _, share := range Shares(th, paid[0].Container, paid[0].Partitions, math.MaxInt) {
			lost += share
		}
		paid = paid[1:]
		check("without a dropped container", th.Manual-int(lost+0.5))
		divide()
		check("divided again", th.Manual)
	}
}

// TestHeavyFindsWhatIsHeavy checks that every id that has spent more than its
// fraction of the units is found, and that the bounds contain the true value.
func TestHeavyFindsWhatIsHeavy(t *testing.T) {
	t.Parallel()
	const seed = 13
	random := rand.New(rand.NewPCG(seed, 14))
	var h Heavy[int]
	truth, sum := map[string]float64{}, 0.0
	for range 50_000 {
		id := strconv.Itoa(int(math.Floor(math.Pow(5000, random.Float64()))))
		units := 1 + random.Float64()*9
		h.Add(id, nil, units, start)
		truth[id] += units
		sum += units
	}
	found := map[string]bool{}
	for _, hot := range h.Top(heavyKept, start) {
		found[hot.ID] = true
		if have := truth[hot.ID]; have > hot.Units+1e-6 || have < hot.Units-hot.Error-1e-6 {
			t.Errorf("seed %d: %s spent %v, said to be %v to %v", seed, hot.ID, have, hot.Units-hot.Error, hot.Units)
		}
	}
	heavy := 0
	for id, units := range truth {
		if units > sum/heavyKept {
			heavy++
			if !found[id] {
				t.Errorf("seed %d: %s spent %v of %v and is not found", seed, id, units, sum)
			}
		}
	}
	if heavy == 0 {
		t.Error("nothing was heavy, so nothing was tested")
	}
}

// TestBudgetAllocatesNothing checks that the calls in the path of every request
// do not allocate.
func TestBudgetAllocatesNothing(t *testing.T) {
	b := NewBudget(Plan{Rate: 400, Burst: BurstRUs, Autoscale: true}, start)
	var h Heavy[int]
	now, n := start, 0
	h.Add("a", &n, 1, start)
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		now = now.Add(13 * time.Millisecond)
		n++
		if _, ok := b.Take(Spender{}, now); ok {
			b.Spend(Spender{}, 10, now)
		}
		h.Add(ids[n%len(ids)], &n, 10, now)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkBudget(b *testing.B) {
	budget := NewBudget(Plan{Rate: 1e12}, start)
	b.ReportAllocs()
	for b.Loop() {
		budget.Take(Spender{}, start)
		budget.Spend(Spender{}, 1, start)
	}
}

func BenchmarkHeavy(b *testing.B) {
	for _, distinct := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("distinct=%d", distinct), func(b *testing.B) {
			ids := make([]string, distinct)
			for i := range ids {
				ids[i] = fmt.Sprintf("%032d", i)
			}
			var h Heavy[int]
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Add(ids[i%distinct], &i, 1, start)
			}
		})
	}
}
