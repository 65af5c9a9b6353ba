package simulate

import (
	"fmt"
	"strings"
)

// Weight says how much a finding matters.
type Weight string

// The weights.
const (
	Bad  Weight = "bad"  // requests will be refused, or the target is missed
	Warn Weight = "warn" // it costs more, or it will become bad
	Good Weight = "good"
	Note Weight = "note"
)

// Finding is one statement of the documentation applied to a candidate.
type Finding struct {
	Rule   string `json:"rule"` // the statements, as in "S11 S25"
	Weight Weight `json:"weight"`
	Text   string `json:"text"`
}

// The thresholds of the rules that the documentation does not give as numbers.
const (
	nearlyFull = 0.5       // share of the limit of a logical partition from which it is near (S9: "often reaches")
	hotShare   = 0.5       // share of the work of one first-level value that makes a high cardinality useless (S20)
	uneven     = 5.0       // the greatest value of the first level against the mean (S35)
	advisedMax = 100 << 20 // bytes of a partition that Apache Cassandra advises (S119)
	mostReads  = 0.2       // share of writes below which a workload is read mostly (S15, S21)
)

// judge applies the rules to a report.
func (x *simulation) judge(r *Report) {
	say := func(rule string, w Weight, format string, args ...any) {
		r.Findings = append(r.Findings, Finding{Rule: rule, Weight: w, Text: fmt.Sprintf(format, args...)})
	}
	x.judgeValues(r, say)
	x.judgeStorage(r, say)
	x.judgeWork(r, say)
	x.judgeQueries(r, say)
	r.grade.cost, r.grade.levels, r.grade.largest = r.Needed*max(1, r.Hottest), len(r.Paths), r.LargestBytes
	r.Steps = x.steps(r)
}

type sayer = func(rule string, w Weight, format string, args ...any)

// low reports whether a level has too few values: not thousands, or not more than there
// are physical partitions (S25).
func low(l Level, partitions int) bool {
	return l.Values < manyValues || l.Values <= int64(partitions)
}

// judgeValues applies S11 to S14, S17, S25.
func (x *simulation) judgeValues(r *Report, say sayer) {
	for i, l := range r.Levels {
		if l.Missing > 0 {
			say("S90", Note, "%s is missing in %s of the documents, which share the value undefined.", l.Path, percent(l.Missing))
		}
		if !low(l, r.Partitions) {
			say("S11 S25", Good, "Level %d, %s, has about %s values: thousands, and more than there are physical partitions (%d).", i+1, l.Path, number(l.Values), r.Partitions)
			continue
		}
		why := fmt.Sprintf("fewer than %s", number(manyValues))
		if l.Values <= int64(r.Partitions) {
			why = fmt.Sprintf("no more than there are physical partitions (%d)", r.Partitions)
		}
		say("S11 S25", Warn, "Level %d, %s, has about %s: %s.", i+1, l.Path, plural(int(l.Values), "value"), why)
	}
	first := r.Levels[0]
	if !low(first, r.Partitions) {
		return
	}
	each := float64(r.Throughput) / float64(r.Partitions)
	say("S12 S13 S14", Warn, "All documents of one %s are on one physical partition until it reaches %s and splits in two. Until then one value can use %s of the %s RU/s.",
		first.Path, size(x.Limits.PhysicalPartitionBytes), number(int64(each)), number(int64(r.Throughput)))
	if r.Active < r.Partitions {
		say("S17 S105", Bad, "Only %d of %s have documents: the others serve nothing, and their share of the throughput is lost.", r.Active, plural(r.Partitions, "physical partition"))
	}
}

// judgeStorage applies S5, S8, S9, S26, S28, S29, S32, S36, S37, S41 to S46, S59 to S62,
// S119, S120.
func (x *simulation) judgeStorage(r *Report, say sayer) {
	limit := x.Limits.LogicalPartitionBytes
	key := strings.Join(r.Paths, ", ")
	used := float64(r.LargestBytes) / float64(limit)
	switch {
	case used > 1:
		r.grade.full = true
		say("S26 S32 S41", Bad, "The logical partition of %s would hold %s. Writes to it are refused (403) from %s.", r.LargestKey, size(r.LargestBytes), size(limit))
	case used > nearlyFull:
		r.grade.soon = true
		say("S9", Warn, "The logical partition of %s would hold %s, %s of the limit of %s.", r.LargestKey, size(r.LargestBytes), percent(used), size(limit))
	default:
		say("S41 S42", Good, "The largest logical partition, %s, would hold %s, %s of the limit of %s.", r.LargestKey, size(r.LargestBytes), percent(used), size(limit))
	}
	for _, stage := range r.Growth {
		if stage.Refused {
			r.grade.soon = true
			say("S9 S26", Warn, "At %gx the data the largest logical partition would hold %s: writes to it are refused.", stage.Factor, size(stage.LargestBytes))
			break
		}
	}
	if len(r.Levels) > 1 {
		first, second := r.Levels[0], r.Levels[1]
		each := max(1, float64(r.Keys)/float64(max(1, first.Values)))
		say("S8 S28 S44", Good, "One %s can hold %s for each value of %s: about %s each today, so %s.", first.Path, size(limit), second.Path, plural(int(each+0.5), "key"), size(int64(min(each*float64(limit), 1<<62))))
	}
	x.judgeSplits(r, say)
	if x.Table && r.LargestBytes > advisedMax {
		say("S119", Note, "The largest logical partition has more than the %s that Apache Cassandra advises; the limit here is %s.", size(advisedMax), size(limit))
	}
	if x.Table || !r.grade.full && !r.grade.soon {
		return
	}
	finest := x.finest()
	if len(r.Paths) < 3 && finest != "" && !strings.Contains(key, finest) {
		say("S36 S59 S60 S61 S62", Note, "With %s as a further level, which has about %s values, no key comes near the limit.", finest, number(x.propertyAt(finest).Values))
	}
}

// judgeSplits says on how many physical partitions the data is, now and later.
func (x *simulation) judgeSplits(r *Report, say sayer) {
	if len(r.Levels) > 1 && r.Reach > 0 {
		w, more := Note, ""
		if r.Reach > 1 {
			w, more = Good, ", more than one physical partition gives"
		}
		say("S5 S46", w, "The greatest value of %s is on %s and can use up to %s RU/s%s.",
			r.Levels[0].Path, plural(r.Reach, "physical partition"), number(int64(r.Reach)*int64(x.Limits.PartitionRUs)), more)
	}
	if len(r.Growth) == 0 {
		return
	}
	var later []string
	for _, stage := range r.Growth {
		later = append(later, fmt.Sprintf("%s at %gx the data", number(int64(stage.Partitions)), stage.Factor))
	}
	rule := "S37"
	if x.Table {
		rule = "S37 S120"
	}
	say(rule, Note, "%s now, %s: one above %s splits, with about half of its data on each side.",
		plural(r.Partitions, "physical partition"), strings.Join(later, ", "), size(x.Limits.PhysicalPartitionBytes))
}

// judgeWork applies S13, S15, S16, S19, S20, S24, S35.
func (x *simulation) judgeWork(r *Report, say sayer) {
	say("S19", Note, "Logical partitions: the largest has %.1f times the mean storage (Gini %.2f) and the busiest %.1f times the mean work (%.2f). Physical partitions: %.1f (%.2f) and %.1f (%.2f).",
		r.LogicalStorage.MaxToMean, r.LogicalStorage.Gini, r.LogicalWork.MaxToMean, r.LogicalWork.Gini,
		r.PhysicalStorage.MaxToMean, r.PhysicalStorage.Gini, r.PhysicalWork.MaxToMean, r.PhysicalWork.Gini)
	first := r.Levels[0]
	if busiest := x.busiest(first.Path); busiest > hotShare && !low(first, r.Partitions) {
		say("S20", Bad, "%s has many values, but one of them has %s of the work, so one or a few physical partitions do it.", first.Path, percent(busiest))
	}
	switch {
	case first.Values < 2:
	case r.Tenants.MaxToMean > uneven:
		say("S35", Warn, "The busiest %s has %.0f times the mean work: hierarchical keys suit values with about the same workload.", first.Path, r.Tenants.MaxToMean)
	default:
		say("S35", Good, "The values of %s have about the same work: the busiest has %.1f times the mean.", first.Path, r.Tenants.MaxToMean)
	}
	if r.Hottest > 1 {
		say("S13 S20", Bad, "The busiest physical partition would need %s of its share of %s RU/s: requests are refused with 429.", percent(r.Hottest), number(int64(float64(r.Throughput)/float64(r.Partitions))))
	}
	writes := x.workload.WritesPerSecond * x.writeCharge
	heavy := writes > mostReads*r.Needed && writes > 0
	say("S16", Note, "%s can take %s RU/s of writes in theory; the distribution of the keys allows %s, so loading all documents takes %s.",
		plural(r.Partitions, "physical partition"), number(int64(r.IngestMost)), number(int64(r.Ingest)), hours(r.LoadHours))
	switch {
	case x.workload.LoadHours > 0 && r.LoadHours > x.workload.LoadHours:
		r.grade.narrow = true
		say("S12 S15 S24", Bad, "The load must take %s at most.", hours(x.workload.LoadHours))
	case low(first, r.Partitions) && heavy:
		r.grade.narrow = r.Partitions > 1
		say("S24", Warn, "%s of the request units are writes: a first level with many values spreads them.", percent(writes/r.Needed))
	case low(first, r.Partitions) && x.workload.LoadHours == 0 && !heavy:
		say("S15", Note, "Few values at the first level are acceptable if the data is loaded once and then mostly read.")
	}
}

// judgeQueries applies S6, S21, S33, S34, S39, S47 to S52.
func (x *simulation) judgeQueries(r *Report, say sayer) {
	var runs float64
	share := map[Route]float64{}
	for _, q := range r.Queries {
		runs += q.PerSecond
		share[q.Route] += q.PerSecond
	}
	if runs == 0 {
		return
	}
	r.grade.single = share[SinglePartition] / runs
	w := Good
	if share[FanOut]/runs > 0.2 {
		w = Warn
	}
	say("S6 S21 S47 S48 S49 S50", w, "%s of the queries ask a single partition, %s only the partitions of a prefix, %s all partitions. A query asks %.1f of %d in the mean.",
		percent(share[SinglePartition]/runs), percent(share[Targeted]/runs), percent(share[FanOut]/runs), r.Asked, r.Partitions)
}

// busiest returns the share of the work that the busiest value at a path has.
func (x *simulation) busiest(path string) float64 {
	key, err := keyAt([]string{path})
	if err != nil {
		return 0
	}
	most := 0.0
	for _, share := range x.count(key).work {
		most = max(most, share)
	}
	return most
}

// steps returns what to do: the remedies of S106 to S113 where the keys are uneven.
func (x *simulation) steps(r *Report) []string {
	if !r.grade.full && !r.grade.narrow && r.Hottest <= 1 && r.Active == r.Partitions {
		return nil
	}
	var steps []string
	if r.grade.full {
		return []string{"Choose another key (S106): make a container with it and copy the data, with decan copy."}
	}
	steps = append(steps, "First see whether another key of this list suits better (S106): make a container with it and copy the data, with decan copy.")
	if low(r.Levels[0], r.Partitions) {
		load := int64(float64(x.Limits.PhysicalPartitionBytes) / 10)
		steps = append(steps,
			fmt.Sprintf("To keep this key, either create the container with less than %s RU/s, load about %s, raise the throughput to %s RU/s and load the rest: the splits then divide the stored data evenly (S107, S108, S109).", number(int64(x.Limits.PartitionRUs)), size(load), number(int64(r.Throughput))),
			"Or raise the throughput, load everything, merge the physical partitions and lower the throughput again: decan merge --lower-throughput (S110, S111, S112).")
	}
	if r.Hottest > 1 {
		steps = append(steps, "Give the busy physical partitions a larger share of the throughput: decan partitions shows them, and throughput can be redistributed (S113).")
	}
	return steps
}
