package resolver

import (
	"fmt"
	"time"
)

// Period is the length of a time bucket.
type Period string

// The periods. All of them begin at midnight UTC; weeks begin on Monday.
const (
	Daily   Period = "day"
	Weekly  Period = "week"
	Monthly Period = "month"
	Yearly  Period = "year"
)

// Buckets places documents by time in one container per period, so that the
// current container can have more throughput than the older ones.
type Buckets struct {
	Period Period

	// Template is the target of every bucket. The bucket's label, such as
	// "2026-03", is appended to its name and its container.
	Template Target

	// Ahead is how many buckets exist after the current one.
	Ahead int

	// Keep is how many buckets before the current one stay as they are. Plan
	// lists older ones as ready for the archive. 0 keeps all.
	Keep int
}

// BucketsMax is the maximum number of buckets that one call makes.
const BucketsMax = TargetsMax

// Entries returns the buckets from the one that contains from to the one that
// contains until, plus Ahead more. They are entries for NewRangeFunc with
// time.Time.Compare. The error is an ErrConfig.
func (b Buckets) Entries(from, until time.Time) ([]RangeEntry[time.Time], error) {
	start, err := b.start(from)
	if err != nil {
		return nil, err
	}
	last, err := b.start(until)
	if err != nil {
		return nil, err
	}
	for range b.Ahead {
		last = b.next(last)
	}
	var entries []RangeEntry[time.Time]
	for ; !start.After(last); start = b.next(start) {
		if len(entries) == BucketsMax {
			return nil, fmt.Errorf("%w: more than %d buckets: choose a longer period or a shorter time", ErrConfig, BucketsMax)
		}
		entries = append(entries, RangeEntry[time.Time]{HalfOpen(start, b.next(start)), b.target(start)})
	}
	return entries, nil
}

// BucketPlan lists the buckets to create and to archive.
type BucketPlan struct {
	Create  []RangeEntry[time.Time] // missing buckets, from the oldest one to keep up to Ahead
	Archive []Target                // existing buckets older than the last Keep ones
}

// Plan compares the existing targets with the result of Entries for from and
// now. It ignores targets that are not buckets of this set. The error is an
// ErrConfig.
func (b Buckets) Plan(from, now time.Time, existing []Target) (BucketPlan, error) {
	entries, err := b.Entries(from, now)
	if err != nil {
		return BucketPlan{}, err
	}
	have := map[string]bool{}
	for _, t := range existing {
		have[t.Name] = true
	}
	var plan BucketPlan
	present := len(entries) - 1 - b.Ahead
	for i, e := range entries {
		switch old := b.Keep > 0 && i < present-b.Keep; {
		case old && have[e.Target.Name]:
			plan.Archive = append(plan.Archive, e.Target)
		case !old && !have[e.Target.Name]:
			plan.Create = append(plan.Create, e)
		}
	}
	return plan, nil
}

// start returns the beginning of the bucket that contains t.
func (b Buckets) start(t time.Time) (time.Time, error) {
	if b.Ahead < 0 || b.Keep < 0 || b.Ahead > BucketsMax {
		return t, fmt.Errorf("%w: %d buckets ahead and %d to keep", ErrConfig, b.Ahead, b.Keep)
	}
	year, month, day := t.UTC().Date()
	switch b.Period {
	case Daily:
	case Weekly:
		day -= (int(t.UTC().Weekday()) + 6) % 7
	case Monthly:
		day = 1
	case Yearly:
		month, day = time.January, 1
	default:
		return t, fmt.Errorf("%w: the period %q, want day, week, month or year", ErrConfig, b.Period)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), nil
}

func (b Buckets) next(start time.Time) time.Time {
	switch b.Period {
	case Weekly:
		return start.AddDate(0, 0, 7)
	case Monthly:
		return start.AddDate(0, 1, 0)
	case Yearly:
		return start.AddDate(1, 0, 0)
	}
	return start.AddDate(0, 0, 1)
}

// target returns the target of a bucket. The label of a week is the date of its
// Monday.
func (b Buckets) target(start time.Time) Target {
	layout := map[Period]string{Daily: time.DateOnly, Weekly: time.DateOnly, Monthly: "2006-01", Yearly: "2006"}[b.Period]
	t := b.Template
	t.Name += start.Format(layout)
	t.Container += start.Format(layout)
	return t
}
