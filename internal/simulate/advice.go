package simulate

import (
	"fmt"
	"strings"
)

// Advice is the comparison of candidates.
type Advice struct {
	Sampled     int     `json:"sampled"`   // documents of the sample
	Documents   int64   `json:"documents"` // of the container
	Bytes       int64   `json:"bytes"`
	WriteCharge float64 `json:"writeCharge"` // RU of the mean insert
	ReadCharge  float64 `json:"readCharge"`  // RU of the mean point read

	Properties []Property `json:"properties"`
	Candidates []Report   `json:"candidates"` // best first

	// Proposal says which key to take and why.
	Proposal []Finding `json:"proposal"`
	// TradeOffs says what the proposal costs (S10).
	TradeOffs []string `json:"tradeOffs"`
}

// conclude writes the proposal.
func (x *simulation) conclude(a *Advice) {
	best := &a.Candidates[0]
	say := func(rule string, w Weight, format string, args ...any) {
		a.Proposal = append(a.Proposal, Finding{Rule: rule, Weight: w, Text: fmt.Sprintf(format, args...)})
	}
	key := strings.Join(best.Paths, ", ")
	if len(best.Paths) > 1 {
		say("S4 S7", Good, "Take the hierarchical key %s.", key)
	} else {
		say("S4", Good, "Take the key %s.", key)
	}
	if best.Needed > 0 {
		say("S122", Note, "%g writes of %.2f RU and %g point reads of %.2f RU per second, and the queries, need %s RU/s.",
			x.workload.WritesPerSecond, x.writeCharge, x.workload.ReadsPerSecond, x.readCharge, number(int64(best.Needed+0.5)))
	}
	first := best.Levels[0]
	single := x.singleLevel(a, first.Path)
	if len(best.Paths) > 1 && single > float64(x.Limits.LogicalPartitionBytes)*nearlyFull {
		say("S5 S8 S9 S27 S32", Good, "%s alone would have a logical partition of %s; with further levels one value can pass %s.", first.Path, size(int64(single)), size(x.Limits.LogicalPartitionBytes))
	}
	if !x.Table && low(first, best.Partitions) && (best.grade.full || single > float64(x.Limits.LogicalPartitionBytes)) {
		x.synthetic(say, best)
	}
	a.TradeOffs = x.tradeOffs(best)
}

// synthetic proposes a key that the application joins, for few values at the first level
// and more data than one logical partition can have (S30).
func (x *simulation) synthetic(say sayer, best *Report) {
	finest := x.finest()
	first := best.Levels[0].Path
	if finest == "" || finest == first {
		return
	}
	say("S30", Warn, "%s has few values and much data for each, so a synthetic key spreads the writes better: a property that joins %s and %s, or %s and a number from a small range.", first, first, finest, first)
	say("S34", Note, "A synthetic key is work for the application, and queries by %s alone ask all partitions unless they list every joined value.", first)
}

// singleLevel returns the size of the largest logical partition under a key of one path.
func (x *simulation) singleLevel(a *Advice, path string) float64 {
	for _, r := range a.Candidates {
		if len(r.Paths) == 1 && r.Paths[0] == path {
			return float64(r.LargestBytes)
		}
	}
	key, err := keyAt([]string{path})
	if err != nil {
		return 0
	}
	return x.count(key).largest * x.bytes
}

// tradeOffs says what depends on the number of values at the first level (S10).
func (x *simulation) tradeOffs(r *Report) []string {
	first := r.Levels[0]
	list := []string{
		fmt.Sprintf("The gain depends on the workload and on the values of %s, about %s of them: data of one value stays together until its physical partition splits (S10, S14).", first.Path, number(first.Values)),
	}
	if len(r.Paths) > 1 {
		list = append(list,
			fmt.Sprintf("Point reads, writes and patches need all of %s; a query needs %s, or it asks all partitions (S50, S52, S84).", strings.Join(r.Paths, ", "), first.Path),
			"A split by size takes hours in the service, in which a large value has no more than one physical partition (S18).")
	}
	for _, q := range r.Queries {
		if q.Route == FanOut {
			list = append(list, fmt.Sprintf("This query asks all partitions, %.2f RU each time: %s", q.Charge, shorten(q.Query)))
		}
	}
	return list
}
