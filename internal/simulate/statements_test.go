package simulate

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/resource"
)

// applied are the statements of the documentation that ask for a rule of the advisor. Each
// has its entry in the table of TestStatements.
var applied = []int{
	4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 20, 21, 24, 25, 26, 27, 28, 30, 32, 35, 36, 37,
	41, 42, 44, 46, 59, 61, 62, 105, 108, 109, 110, 111, 119, 120, 122,
}

// TestStatements has an entry for each statement that is a rule: advice in which the rule
// must speak, and where the rule does not always speak, advice in which it must be silent.
// S4, S5, S7 to S13, S15 to S17, S19 to S21, S24 to S28, S30, S32, S35 to S37, S41, S42,
// S44, S46, S59, S61, S62, S105, S108 to S111, S119, S120, S122.
func TestStatements(t *testing.T) {
	t.Parallel()
	levels := [][]string{{"/TenantId"}, {"/TenantId", "/UserId"}}
	many := events(t, 200, 3000) // two large tenants, and many small ones
	few := events(t, 200, 5)

	// A container in which two tenants outgrow a logical partition, and the same by user.
	grown := advise(t, many, Workload{Documents: 800_000_000, WritesPerSecond: 3000, ReadsPerSecond: 500, Throughput: 60_000, Queries: []Query{byTenant, byUser, ofSession}}, levels...)
	tenant, user := grown.of(t, "/TenantId"), grown.of(t, "/TenantId", "/UserId")
	proposal := &Report{Paths: []string{"the proposal"}, Findings: grown.Proposal}
	// A small one, of which one tenant has most of the work.
	small := advise(t, many, Workload{Documents: 200, ReadsPerSecond: 5}, levels...).of(t, "/TenantId", "/UserId")
	near := advise(t, many, Workload{Documents: 60_000_000}, levels...).of(t, "/TenantId")
	hot := advise(t, many, Workload{Documents: 1_000_000, Throughput: 60_000, WritesPerSecond: 100, Values: map[string]int64{"/UserId": 100_000}, Busiest: map[string]float64{"/UserId": 0.8}}, []string{"/UserId"}).of(t, "/UserId")
	// Five tenants on many physical partitions.
	five := advise(t, few, Workload{Documents: 1_000_000, Throughput: 150_000, WritesPerSecond: 1000, Values: map[string]int64{"/TenantId": 5}, LoadHours: 0.01}, levels[1])
	load := five.of(t, "/TenantId", "/UserId")
	reads := advise(t, few, Workload{Documents: 1_000_000, Throughput: 150_000, ReadsPerSecond: 1000, Values: map[string]int64{"/TenantId": 5}}, levels[1]).of(t, "/TenantId", "/UserId")
	writes := advise(t, few, Workload{Documents: 1_000_000, Throughput: 150_000, WritesPerSecond: 1000, Values: map[string]int64{"/TenantId": 5}}, levels[1]).of(t, "/TenantId", "/UserId")
	full := advise(t, few, Workload{Documents: 2_000_000_000, Values: map[string]int64{"/TenantId": 5, "/type": 3}}, []string{"/TenantId", "/type"})
	synthetic := &Report{Paths: []string{"the proposal"}, Findings: full.Proposal}
	pair := full.of(t, "/TenantId", "/type")
	table := resource.DefaultLimits()
	table = table.Of(table.OfTables())
	rowsOf := func(documents int64) *Report {
		a, err := Advise(t.Context(), many, Workload{Documents: documents, WritesPerSecond: 1}, [][]string{{"/TenantId"}}, Settings{Limits: table, Table: true})
		if err != nil {
			t.Fatal(err)
		}
		return &a.Candidates[0]
	}

	step := func(r *Report, rule string, words ...string) {
		t.Helper()
		if !slices.ContainsFunc(r.Steps, func(s string) bool {
			return strings.Contains(s, rule) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
		}) {
			t.Errorf("no step %s with %q in %q", rule, words, r.Steps)
		}
	}
	silent := func(r *Report, rule string) {
		t.Helper()
		for _, w := range []Weight{Bad, Warn, Good, Note} {
			r.wantNot(t, rule, w)
		}
	}

	shown := map[int]func(){
		4: func() { proposal.want(t, "S4", Good, "hierarchical key /TenantId, /UserId") },
		5: func() { user.want(t, "S5", Good, "/TenantId", "physical partitions") },
		7: func() {
			proposal.want(t, "S7", Good)
			if got := grown.Candidates[0].Paths; len(got) != 2 {
				t.Errorf("S7: %v is ranked first", got)
			}
		},
		8: func() { user.want(t, "S8", Good, "20 GB for each value of /UserId"); silent(tenant, "S8") },
		9: func() { near.want(t, "S9", Warn, "of the limit of 20 GB"); silent(small, "S9") },
		10: func() {
			if !slices.ContainsFunc(grown.TradeOffs, func(s string) bool {
				return strings.Contains(s, "S10") && strings.Contains(s, "/TenantId, about "+number(user.Levels[0].Values))
			}) {
				t.Errorf("S10: the trade-offs are %q", grown.TradeOffs)
			}
		},
		11: func() {
			load.want(t, "S11", Warn, "/TenantId", "5 values")
			user.want(t, "S11", Good, "/TenantId")
		},
		12: func() { load.want(t, "S12", Warn, "until it reaches 50 GB and splits"); silent(user, "S12") },
		13: func() { load.want(t, "S13", Warn, "6,000 of the 150,000 RU/s") },
		15: func() {
			load.want(t, "S15", Bad, "must take")
			reads.want(t, "S15", Note, "acceptable")
			reads.wantNot(t, "S15", Bad)
		},
		16: func() { load.want(t, "S16", Note, "25 physical partitions can take 250,000 RU/s") },
		17: func() { load.want(t, "S17", Bad, "have documents"); silent(user, "S17") },
		19: func() { user.want(t, "S19", Note, "storage", "work", "Gini") },
		20: func() { hot.want(t, "S20", Bad, "/UserId", "80 % of the work"); silent(near, "S20") },
		21: func() { user.want(t, "S21", Good, "single partition", "prefix"); silent(small, "S21") },
		24: func() { writes.want(t, "S24", Warn, "are writes"); silent(reads, "S24") },
		25: func() {
			load.want(t, "S25", Warn, "physical partitions (25)")
			user.want(t, "S25", Good, "thousands")
		},
		26: func() { tenant.want(t, "S26", Bad, "refused (403) from 20 GB"); silent(small, "S26") },
		27: func() { proposal.want(t, "S27", Good, "with further levels one value can pass 20 GB") },
		28: func() {
			user.want(t, "S28", Good)
			silent(tenant, "S28")
			if user.LargestBytes >= tenant.LargestBytes {
				t.Errorf("S28: the largest keys have %d and %d bytes", tenant.LargestBytes, user.LargestBytes)
			}
		},
		30: func() { synthetic.want(t, "S30", Warn, "synthetic key", "/TenantId"); silent(proposal, "S30") },
		32: func() {
			tenant.want(t, "S32", Bad, "refused (403)")
			proposal.want(t, "S32", Good, "/TenantId alone")
			silent(user, "S32")
		},
		35: func() { user.want(t, "S35", Warn, "the mean work"); load.want(t, "S35", Good, "about the same work") },
		36: func() { pair.want(t, "S36", Note, "as a further level"); silent(small, "S36") },
		37: func() { user.want(t, "S37", Note, "10x", "100x", "above 50 GB splits", "half") },
		41: func() { user.want(t, "S41", Good, "of the limit of 20 GB"); tenant.want(t, "S41", Bad) },
		42: func() { user.want(t, "S42", Good, `["t`, `-u`) }, // The key of both levels.
		44: func() { user.want(t, "S44", Good, "20 GB for each value of /UserId", "keys each today") },
		46: func() {
			user.want(t, "S46", Good, number(int64(user.Reach)*10_000)+" RU/s", "more than one")
			small.want(t, "S46", Note, "1 physical partition", "10,000 RU/s")
			silent(tenant, "S46")
			if user.Reach < 2 || user.Reach > user.Partitions {
				t.Errorf("S46: the greatest tenant is on %d of %d partitions", user.Reach, user.Partitions)
			}
		},
		59:  func() { pair.want(t, "S59", Note, "/id", "2,000,000,000 values") },
		61:  func() { pair.want(t, "S61", Note, "no key comes near the limit") },
		62:  func() { pair.want(t, "S62", Note); silent(small, "S62") },
		105: func() { load.want(t, "S105", Bad, "Only", "of 25 physical partitions"); silent(user, "S105") },
		108: func() { step(load, "S108", "less than 10,000 RU/s", "load about 5 GB") },
		109: func() { step(load, "S109", "raise the throughput to 150,000 RU/s", "evenly") },
		110: func() { step(load, "S110", "raise the throughput, load everything") },
		111: func() { step(load, "S111", "merge the physical partitions") },
		119: func() {
			rowsOf(10_000_000).want(t, "S119", Note, "100 MB", "Apache Cassandra", "20 GB")
			silent(rowsOf(1000), "S119")
			silent(tenant, "S119")
		},
		120: func() {
			rowsOf(10_000_000).want(t, "S120", Note, "above 30 GB splits")
			silent(tenant, "S120")
		},
		122: func() { proposal.want(t, "S122", Note, "3000 writes", "500 point reads", "RU/s") },
	}
	for _, n := range applied {
		show, ok := shown[n]
		if !ok {
			t.Errorf("S%d has no entry", n)
			continue
		}
		t.Run("S"+strconv.Itoa(n), func(*testing.T) { show() })
	}
	if len(shown) != len(applied) {
		t.Errorf("%d entries for %d statements", len(shown), len(applied))
	}
}

// TestTableRefused is S101: a table has no hierarchical key. Its queries are CQL.
func TestTableRefused(t *testing.T) {
	t.Parallel()
	s := events(t, 20, 5)
	for _, c := range []struct {
		workload   Workload
		candidates [][]string
		want       string
	}{
		{Workload{}, [][]string{{"/TenantId", "/UserId"}}, "no hierarchical key"},
		{Workload{Queries: []Query{byTenant}}, nil, "CQL"},
	} {
		if _, err := Advise(t.Context(), s, c.workload, c.candidates, Settings{Table: true}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	a, err := Advise(t.Context(), s, Workload{}, nil, Settings{Table: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Candidates {
		if len(r.Paths) != 1 {
			t.Errorf("%v is proposed for a table", r.Paths)
		}
	}
}
