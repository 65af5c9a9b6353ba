package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// events returns n documents of the user's scenario (S31): events of users within
// tenants. Half of them belong to two large tenants with thousands of users.
func events(t testing.TB, n, tenants int) Sample {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 31))
	var s Sample
	for i := range n {
		tenant, users := 2+random.IntN(max(1, tenants-2)), 5
		if i%2 == 0 {
			tenant, users = random.IntN(min(2, tenants)), 4000
		}
		s.Documents = append(s.Documents, parse(t, fmt.Sprintf(
			`{"id":"e%d","TenantId":"t%d","UserId":"t%d-u%d","SessionId":"s%d","type":%q,"note":%q}`,
			i, tenant, tenant, random.IntN(users), random.IntN(1_000_000),
			[]string{"sign-in", "click", "payment"}[random.IntN(3)], strings.Repeat("x", 700))))
	}
	return s
}

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var (
	byTenant  = Query{Text: "SELECT TOP 10 * FROM c WHERE c.TenantId = @t", Parameters: []Parameter{{Name: "@t", Path: "/TenantId"}}, PerSecond: 300}
	byUser    = Query{Text: "SELECT * FROM c WHERE c.TenantId = @t AND c.UserId = @u", Parameters: []Parameter{{Name: "@t", Path: "/TenantId"}, {Name: "@u", Path: "/UserId"}}, PerSecond: 20}
	bySession = Query{Text: "SELECT * FROM c WHERE c.TenantId = @t AND c.UserId = @u AND c.SessionId = @s", Parameters: []Parameter{{Name: "@t", Path: "/TenantId"}, {Name: "@u", Path: "/UserId"}, {Name: "@s", Path: "/SessionId"}}, PerSecond: 10}
	ofUser    = Query{Text: "SELECT TOP 10 * FROM c WHERE c.UserId = @u", Parameters: []Parameter{{Name: "@u", Path: "/UserId"}}, PerSecond: 1}
	ofSession = Query{Text: "SELECT TOP 10 * FROM c WHERE c.SessionId = @s", Parameters: []Parameter{{Name: "@s", Path: "/SessionId"}}, PerSecond: 1}
)

func advise(t testing.TB, s Sample, w Workload, candidates ...[]string) *Advice {
	t.Helper()
	a, err := Advise(t.Context(), s, w, candidates, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// of returns the report of a candidate.
func (a *Advice) of(t testing.TB, paths ...string) *Report {
	t.Helper()
	for i := range a.Candidates {
		if slices.Equal(a.Candidates[i].Paths, paths) {
			return &a.Candidates[i]
		}
	}
	t.Fatalf("there is no report of %v", paths)
	return nil
}

// says reports whether findings apply a statement with a weight and contain the words.
func says(list []Finding, rule string, w Weight, words ...string) bool {
	return slices.ContainsFunc(list, func(f Finding) bool {
		return slices.Contains(strings.Fields(f.Rule), rule) && f.Weight == w && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(f.Text, word) })
	})
}

func (r *Report) want(t testing.TB, rule string, w Weight, words ...string) {
	t.Helper()
	if !says(r.Findings, rule, w, words...) {
		t.Errorf("%v: no finding %s %s with %q in:\n%s", r.Paths, rule, w, words, listed(r.Findings))
	}
}

func (r *Report) wantNot(t testing.TB, rule string, w Weight) {
	t.Helper()
	if says(r.Findings, rule, w) {
		t.Errorf("%v: unexpected finding %s %s in:\n%s", r.Paths, rule, w, listed(r.Findings))
	}
}

func listed(list []Finding) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "  %s %s: %s\n", f.Rule, f.Weight, f.Text)
	}
	return b.String()
}

// large is a workload over so much data that two tenants pass 20 GB.
func large(queries ...Query) Workload {
	return Workload{Documents: 200_000_000, WritesPerSecond: 300, ReadsPerSecond: 500, Queries: queries}
}

// TestProposal is S4, S7, S31: for events of users within tenants the advisor proposes a
// hierarchical key that begins with the tenant, and ranks it above the tenant alone.
func TestProposal(t *testing.T) {
	a := advise(t, events(t, 400, 3000), large(byTenant, byUser, bySession))
	best := a.Candidates[0]
	if best.Paths[0] != "/TenantId" || len(best.Paths) < 2 || best.Paths[1] != "/UserId" {
		t.Errorf("proposed %v", best.Paths)
	}
	if !says(a.Proposal, "S4", Good, "hierarchical key /TenantId, /UserId.") || !says(a.Proposal, "S7", Good) {
		t.Errorf("the proposal says\n%s", listed(a.Proposal))
	}
	if !says(a.Proposal, "S32", Good, "/TenantId alone", "20 GB") {
		t.Errorf("the proposal does not say that a tenant passes the limit\n%s", listed(a.Proposal))
	}
	if len(a.TradeOffs) == 0 || !strings.Contains(a.TradeOffs[0], "/TenantId") || !strings.Contains(a.TradeOffs[0], "S10") {
		t.Errorf("trade-offs: %q", a.TradeOffs)
	}

	asked := advise(t, events(t, 400, 3000), large(byTenant, byUser, bySession), []string{"/TenantId"}, []string{"/TenantId", "/UserId"})
	if got := asked.Candidates[0].Paths; len(got) != 2 {
		t.Errorf("S7: %v is ranked first", got)
	}
	single := asked.of(t, "/TenantId")
	single.want(t, "S32", Bad, "refused (403)", "20 GB")
	single.want(t, "S26", Bad)
	single.want(t, "S36", Note)
	// S28: each further level makes the largest logical partition smaller.
	three := advise(t, events(t, 400, 3000), large(byUser), []string{"/TenantId"}, []string{"/TenantId", "/UserId"}, []string{"/TenantId", "/UserId", "/SessionId"})
	one, two, last := three.of(t, "/TenantId").LargestBytes, three.of(t, "/TenantId", "/UserId").LargestBytes, three.of(t, "/TenantId", "/UserId", "/SessionId").LargestBytes
	if !(one > two && two > last) {
		t.Errorf("S28: the largest keys have %d, %d, %d bytes", one, two, last)
	}
}

// TestOtherKinds is the rest of S4: keys near 20 GB, and a synthetic key of today.
func TestOtherKinds(t *testing.T) {
	near := advise(t, events(t, 400, 3000), Workload{Documents: 60_000_000, WritesPerSecond: 100, Queries: []Query{byTenant}}, []string{"/TenantId"}, []string{"/TenantId", "/UserId"})
	near.of(t, "/TenantId").want(t, "S9", Warn, "of the limit of 20 GB")
	if got := near.Candidates[0].Paths; len(got) != 2 {
		t.Errorf("S9: %v is ranked first", got)
	}

	s := events(t, 400, 3000)
	for i, d := range s.Documents {
		s.Documents[i] = d.With("TenantUser", value.String(d.Get("TenantId").Text()+"-"+d.Get("UserId").Text()))
	}
	a := advise(t, s, large(byTenant, byUser), []string{"/TenantUser"}, []string{"/TenantId", "/UserId"})
	if got := a.Candidates[0].Paths; len(got) != 2 {
		t.Errorf("S4: %v is ranked first, before the hierarchical key", got)
	}
	// S34: queries of a tenant ask all partitions under the synthetic key.
	if q := a.of(t, "/TenantUser").Queries[0]; q.Route != FanOut {
		t.Errorf("S34: %+v", q)
	}
	if q := a.of(t, "/TenantId", "/UserId").Queries[0]; q.Route != Targeted {
		t.Errorf("S6: %+v", q)
	}
}

// TestFewTenants is S12, S13, S15, S16, S17, S24, S105 to S112: five tenants.
func TestFewTenants(t *testing.T) {
	five := Sample{}
	for i := range 500 {
		five.Documents = append(five.Documents, parse(t, fmt.Sprintf(`{"id":"e%d","TenantId":"t%d","UserId":"u%d","note":%q}`, i, i%5, i, strings.Repeat("x", 800))))
	}
	w := Workload{Documents: 1_000_000, Throughput: 150_000, WritesPerSecond: 20_000, LoadHours: 0.02}
	a := advise(t, five, w, []string{"/TenantId", "/UserId"}, []string{"/UserId"})
	r := a.of(t, "/TenantId", "/UserId")
	if r.Partitions != 25 || r.Active > 5 {
		t.Errorf("S13: %d partitions, %d have documents", r.Partitions, r.Active)
	}
	r.want(t, "S12", Warn, "one physical partition")
	r.want(t, "S13", Warn, "6,000 of the 150,000 RU/s")
	r.want(t, "S17", Bad, "have documents")
	r.want(t, "S105", Bad)
	r.want(t, "S11", Warn, "/TenantId", "5 values")
	r.want(t, "S25", Good, "/UserId")
	r.want(t, "S15", Bad, "load")
	if !slices.ContainsFunc(r.Steps, func(s string) bool { return strings.Contains(s, "S107, S108, S109") }) ||
		!slices.ContainsFunc(r.Steps, func(s string) bool { return strings.Contains(s, "S110, S111, S112") }) ||
		!strings.Contains(r.Steps[0], "S106") {
		t.Errorf("steps: %q", r.Steps)
	}
	if got := a.Candidates[0].Paths[0]; got != "/UserId" {
		t.Errorf("S24: %s is ranked first", got)
	}

	// S15: read mostly, loaded once: acceptable.
	reads := advise(t, five, Workload{Documents: 1_000_000, Throughput: 150_000, ReadsPerSecond: 10_000}, []string{"/TenantId", "/UserId"})
	reads.Candidates[0].want(t, "S15", Note, "acceptable")
	reads.Candidates[0].wantNot(t, "S15", Bad)
	// S24: written mostly.
	writes := advise(t, five, Workload{Documents: 1_000_000, Throughput: 150_000, WritesPerSecond: 10_000}, []string{"/TenantId", "/UserId"})
	writes.Candidates[0].want(t, "S24", Warn, "first level with many values")

	// S16: the highest rate in theory.
	for throughput, want := range map[int]struct {
		partitions int
		rate       float64
	}{10_000: {1, 10_000}, 30_000: {5, 50_000}, 150_000: {25, 250_000}} {
		r := advise(t, five, Workload{Documents: 1_000_000, Throughput: throughput}, []string{"/UserId"}).Candidates[0]
		if r.Partitions != want.partitions || r.IngestMost != want.rate {
			t.Errorf("S16: %d RU/s: %d partitions take %v RU/s, want %d and %v", throughput, r.Partitions, r.IngestMost, want.partitions, want.rate)
		}
		if throughput == 150_000 {
			continue
		}
		r.want(t, "S16", Note)
	}
}

// TestSplits is S17, S37: one value with enough data is spread by splits, and a partition
// above 50 GB is divided into halves.
func TestSplits(t *testing.T) {
	s := Sample{}
	for i := range 512 {
		s.Documents = append(s.Documents, parse(t, fmt.Sprintf(`{"id":"e%d","TenantId":"t0","UserId":"u%d","note":%q}`, i, i, strings.Repeat("x", 950))))
	}
	small := advise(t, s, Workload{Documents: 40_000_000, Throughput: 400}, []string{"/TenantId", "/UserId"}).Candidates[0]
	if small.Partitions != 1 {
		t.Errorf("%s: %d partitions", size(40_000_000*1000), small.Partitions)
	}
	big := advise(t, s, Workload{Documents: 160_000_000, Throughput: 400}, []string{"/TenantId", "/UserId"}).Candidates[0]
	if big.Partitions != 4 || big.PhysicalStorage.MaxToMean > 1.1 {
		t.Errorf("%s: %d partitions, the largest %.2f of the mean", size(160_000_000*1000), big.Partitions, big.PhysicalStorage.MaxToMean)
	}
	whole := advise(t, s, Workload{Documents: 160_000_000, Throughput: 400}, []string{"/TenantId"}).Candidates[0]
	if whole.Partitions != 1 {
		t.Errorf("one full key is on %d partitions", whole.Partitions)
	}
}

// TestHotUser is S20: a first level with many values, one of which has most of the work.
func TestHotUser(t *testing.T) {
	w := large(byUser)
	w.Throughput = 60_000
	even := advise(t, events(t, 400, 3000), w, []string{"/UserId"}).Candidates[0]
	even.wantNot(t, "S20", Bad)
	w.Busiest = map[string]float64{"/UserId": 0.9}
	hot := advise(t, events(t, 400, 3000), w, []string{"/UserId"}).Candidates[0]
	hot.want(t, "S20", Bad, "/UserId", "90 % of the work")
	if hot.Hottest < 3*even.Hottest || hot.PhysicalWork.Gini <= even.PhysicalWork.Gini {
		t.Errorf("the busiest partition: %.2f and %.2f; Gini %.2f and %.2f", even.Hottest, hot.Hottest, even.PhysicalWork.Gini, hot.PhysicalWork.Gini)
	}
	hot.want(t, "S13", Bad, "429")
	hot.want(t, "S19", Note, "Gini")
	if !slices.ContainsFunc(hot.Steps, func(s string) bool { return strings.Contains(s, "S113") }) {
		t.Errorf("S113: steps: %q", hot.Steps)
	}
}

// TestEvenTenants is S35.
func TestEvenTenants(t *testing.T) {
	advise(t, events(t, 400, 3000), large(), []string{"/TenantId", "/UserId"}).Candidates[0].want(t, "S35", Warn, "/TenantId")
	even := Sample{}
	for i := range 600 {
		even.Documents = append(even.Documents, parse(t, fmt.Sprintf(`{"id":"e%d","TenantId":"t%d","UserId":"u%d"}`, i, i%60, i)))
	}
	r := advise(t, even, large(), []string{"/TenantId", "/UserId"}).Candidates[0]
	r.want(t, "S35", Good)
	if r.Tenants.MaxToMean > 1.001 || r.Tenants.Gini > 0.001 {
		t.Errorf("%+v", r.Tenants)
	}
}

// TestRoutes is S21, S33, S47 to S53: how each query is routed under each key.
func TestRoutes(t *testing.T) {
	a := advise(t, events(t, 400, 3000), Workload{Documents: 1_000_000, Throughput: 60_000, Queries: []Query{byTenant, byUser, bySession, ofUser, ofSession}},
		[]string{"/TenantId", "/UserId", "/SessionId"}, []string{"/TenantId", "/UserId"}, []string{"/TenantId"}, []string{"/UserId"})
	for _, c := range []struct {
		paths []string
		want  []Route
	}{
		{[]string{"/TenantId", "/UserId", "/SessionId"}, []Route{Targeted, Targeted, SinglePartition, FanOut, FanOut}},
		{[]string{"/TenantId", "/UserId"}, []Route{Targeted, SinglePartition, SinglePartition, FanOut, FanOut}},
		{[]string{"/TenantId"}, []Route{SinglePartition, SinglePartition, SinglePartition, FanOut, FanOut}},
		{[]string{"/UserId"}, []Route{FanOut, SinglePartition, SinglePartition, SinglePartition, FanOut}},
	} {
		r := a.of(t, c.paths...)
		for i, q := range r.Queries {
			if q.Route != c.want[i] {
				t.Errorf("%v: %s is %s, want %s", c.paths, q.Query, q.Route, c.want[i])
			}
			switch q.Route {
			case FanOut:
				if q.Partitions != 10 {
					t.Errorf("%v: %s asks %v partitions", c.paths, q.Query, q.Partitions)
				}
			case SinglePartition:
				if q.Partitions != 1 {
					t.Errorf("%v: %s asks %v partitions", c.paths, q.Query, q.Partitions)
				}
			}
		}
	}
	three := a.of(t, "/TenantId", "/UserId", "/SessionId")
	if one, all := three.Queries[2].Charge, three.Queries[4].Charge; all < 10*one*0.9 {
		t.Errorf("S50: a query of one partition costs %.2f RU, of all %.2f", one, all)
	}
	a.of(t, "/UserId").want(t, "S21", Warn, "all partitions")
	three.want(t, "S21", Good)
}

// TestSynthetic is S30: few values at the first level, and too much data for each.
func TestSynthetic(t *testing.T) {
	s := Sample{}
	for i := range 400 {
		s.Documents = append(s.Documents, parse(t, fmt.Sprintf(`{"id":"e%d","region":"r%d","kind":"k%d","note":%q}`, i, i%3, i%2, strings.Repeat("x", 900))))
	}
	a := advise(t, s, Workload{Documents: 500_000_000, WritesPerSecond: 100}, []string{"/region", "/kind"})
	if !says(a.Proposal, "S30", Warn, "synthetic key", "/region") || !says(a.Proposal, "S34", Note) {
		t.Errorf("the proposal says\n%s", listed(a.Proposal))
	}
	a.Candidates[0].want(t, "S26", Bad)
	a.Candidates[0].want(t, "S60", Note, "/id")
	a.Candidates[0].want(t, "S62", Note)
	if many := advise(t, events(t, 400, 3000), large(byUser), []string{"/TenantId", "/UserId"}); says(many.Proposal, "S30", Warn) {
		t.Error("a synthetic key is proposed for many tenants")
	}
}

// TestLastLevel is S29, S36, S59 to S62: a third level where a pair may pass 20 GB, the
// one with the most values, and with the item id no key has more than one document.
func TestLastLevel(t *testing.T) {
	s := events(t, 600, 40)
	w := Workload{Documents: 20_000_000_000, WritesPerSecond: 100, Queries: []Query{byTenant, byUser}, Values: map[string]int64{"/UserId": 9000}}
	a := advise(t, s, w, []string{"/TenantId", "/UserId"}, []string{"/TenantId", "/UserId", "/id"})
	pair, all := a.of(t, "/TenantId", "/UserId"), a.of(t, "/TenantId", "/UserId", "/id")
	pair.want(t, "S62", Note, "/id", "further level")
	pair.want(t, "S59", Note)
	if !pair.Growth[0].Refused || all.Growth[1].Refused || all.LargestBytes > 2000 {
		t.Errorf("S29, S61: %+v; %d bytes, %+v", pair.Growth, all.LargestBytes, all.Growth)
	}
	if len(a.Candidates[0].Paths) != 3 {
		t.Errorf("S36: %v is ranked first", a.Candidates[0].Paths)
	}
	all.want(t, "S44", Good, "20 GB for each value of /UserId")
}

// TestGrowth is about 10 and 100 times the data.
func TestGrowth(t *testing.T) {
	r := advise(t, events(t, 400, 3000), large(), []string{"/TenantId"}).Candidates[0]
	if len(r.Growth) != 2 || r.Growth[0].Factor != 10 || r.Growth[1].Factor != 100 {
		t.Fatalf("%+v", r.Growth)
	}
	if r.Growth[0].LargestBytes < 9*r.LargestBytes || r.Growth[1].Partitions <= r.Growth[0].Partitions || r.Growth[1].Bytes < 99*int64(0.9*float64(r.Growth[0].Bytes)/10) {
		t.Errorf("%+v", r)
	}
}

// TestCapacity is S122: request units per second follow from operations and sizes.
func TestCapacity(t *testing.T) {
	s := Sample{}
	for i := range 50 {
		s.Documents = append(s.Documents, parse(t, fmt.Sprintf(`{"id":"e%02d","pk":"p%02d","note":%q}`, i, i, strings.Repeat("x", 1024-39))))
	}
	a := advise(t, s, Workload{ReadsPerSecond: 1000}, []string{"/pk"})
	if a.ReadCharge != 1 || a.Candidates[0].Needed != 1000 {
		t.Errorf("1,000 reads of 1 KB: %v RU each, %v RU/s", a.ReadCharge, a.Candidates[0].Needed)
	}
	if twice := advise(t, s, Workload{ReadsPerSecond: 1000, WritesPerSecond: 100}, []string{"/pk"}); twice.Candidates[0].Needed != 1000+100*twice.WriteCharge || !says(twice.Proposal, "S122", Note, "100 writes") {
		t.Errorf("%v RU/s, writes %v RU\n%s", twice.Candidates[0].Needed, twice.WriteCharge, listed(twice.Proposal))
	}
}

// TestRefused has input that is not valid.
func TestRefused(t *testing.T) {
	s := events(t, 20, 5)
	for _, c := range []struct {
		name      string
		sample    Sample
		workload  Workload
		candidate []string
		want      string
	}{
		{"no documents", Sample{}, Workload{}, nil, "no documents"},
		{"no object", Sample{Documents: []value.Value{value.Int(1)}}, Workload{}, nil, "not an object"},
		{"no property", Sample{Documents: []value.Value{parse(t, `{"a":[1]}`)}}, Workload{}, nil, "No property"},
		{"four levels", s, Workload{}, []string{"/a", "/b", "/c", "/d"}, "partition key"},
		{"a path without a slash", s, Workload{}, []string{"TenantId"}, "TenantId"},
		{"negative", s, Workload{WritesPerSecond: -1}, nil, "writesPerSecond"},
		{"a share of one", s, Workload{Largest: map[string]float64{"/TenantId": 1}}, nil, "largest"},
		{"a share of zero", s, Workload{Busiest: map[string]float64{"/TenantId": 0}}, nil, "busiest"},
		{"no values", s, Workload{Values: map[string]int64{"/TenantId": 0}}, nil, "values"},
		{"a query that is none", s, Workload{Queries: []Query{{Text: "SELEC"}}}, nil, "not valid"},
		{"a negative frequency", s, Workload{Queries: []Query{{Text: "SELECT * FROM c", PerSecond: -1}}}, nil, "perSecond"},
		{"a parameter with both", s, Workload{Queries: []Query{{Text: "SELECT * FROM c WHERE c.a = @a", Parameters: []Parameter{{Name: "@a", Path: "/a", Value: value.Int(1)}}}}}, nil, "a value and a path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var candidates [][]string
			if c.candidate != nil {
				candidates = [][]string{c.candidate}
			}
			_, err := Advise(t.Context(), c.sample, c.workload, candidates, Settings{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestSame returns the same advice for the same input.
func TestSame(t *testing.T) {
	a := advise(t, events(t, 200, 300), large(byTenant, ofSession))
	b := advise(t, events(t, 200, 300), large(byTenant, ofSession))
	if x, y := fmt.Sprintf("%+v", *a), fmt.Sprintf("%+v", *b); x != y {
		t.Errorf("%s\n%s", x, y)
	}
}
