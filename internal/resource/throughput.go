package resource

import (
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// The figures of throughput, in RU/s.
const (
	ManualMin     = 400
	ManualStep    = 100
	AutoscaleMin  = 1_000
	AutoscaleStep = 1_000

	// autoscaleFloor is which part of the maximum autoscale never falls below.
	autoscaleFloor = 10
)

// NewThroughput returns the throughput that a client asks for at creation:
// manual RU/s, an autoscale maximum, or neither, which is 400 RU/s manual.
// Asking for both, or for a figure that cannot be had, is status 400. RIDs,
// ETag and times are left to the caller.
func NewThroughput(manual, autoscaleMax *int) (Throughput, error) {
	switch {
	case manual != nil && autoscaleMax != nil:
		return Throughput{}, status.BadRequest("Manual throughput and autoscale settings cannot be given together. Use one of them.")
	case autoscaleMax != nil:
		return Throughput{Max: *autoscaleMax, Highest: *autoscaleMax}, validAutoscale(int64(*autoscaleMax))
	case manual != nil:
		return Throughput{Manual: *manual, Highest: *manual}, validManual(int64(*manual))
	}
	return Throughput{Manual: ManualMin, Highest: ManualMin}, nil
}

func validManual(n int64) error {
	if n < ManualMin || n > ThroughputMax || n%ManualStep != 0 {
		return status.BadRequest("The offer throughput %d is not valid. Use %d to %d RU/s in steps of %d.", n, ManualMin, ThroughputMax, ManualStep)
	}
	return nil
}

func validAutoscale(n int64) error {
	if n < AutoscaleMin || n > ThroughputMax || n%AutoscaleStep != 0 {
		return status.BadRequest("The autoscale maximum throughput %d is not valid. Use %d to %d RU/s in steps of %d.", n, AutoscaleMin, ThroughputMax, AutoscaleStep)
	}
	return nil
}

// IsAutoscale reports whether the throughput follows the load.
func (t Throughput) IsAutoscale() bool { return t.Max > 0 }

// Minimum returns the lowest figure that [Throughput.Replace] may set, given
// the size of the owner's documents and how many containers share it (0 or 1
// for a container): the floor of the mode, an RU/s per gigabyte (ten for
// autoscale), and a hundredth of the highest figure ever (a tenth for
// autoscale). A shared database adds an RU step for each container above 25.
func (t Throughput) Minimum(sizeBytes int64, containers int) int {
	const containersFree = 25
	gigabytes := int((sizeBytes + 1<<30 - 1) >> 30)
	extra := max(containers-containersFree, 0)
	if t.IsAutoscale() {
		lowest := max(AutoscaleMin, gigabytes*10, t.Highest/10, AutoscaleMin+extra*AutoscaleStep)
		return ceilDiv(lowest, AutoscaleStep) * AutoscaleStep
	}
	lowest := max(ManualMin, gigabytes, t.Highest/100, ManualMin+extra*ManualStep)
	return ceilDiv(lowest, ManualStep) * ManualStep
}

// Replace returns the throughput with the figures of an offer that a client
// edited and sent back whole. The offer must name the same owner and mode:
// switching the mode is ToAutoscale and ToManual. minimum is the lowest figure
// allowed. Errors are status 400.
func (t Throughput) Replace(body value.Value, minimum int) (Throughput, error) {
	if body.Kind() != value.KindObject {
		return Throughput{}, status.BadRequest("The body of the request is not a JSON object.")
	}
	if err := t.sameOffer(body); err != nil {
		return Throughput{}, err
	}
	content := body.Get("content")
	if content.Kind() != value.KindObject {
		return Throughput{}, status.BadRequest("The offer has no object 'content'.")
	}
	if buckets := content.Get("throughputBuckets"); !isNothing(buckets) {
		return Throughput{}, status.Unsupported("A throughput bucket (content.throughputBuckets)")
	}
	if content.Get("offerIsRUPerMinuteThroughputEnabled").Bool() {
		return Throughput{}, status.Unsupported("Throughput per minute (content.offerIsRUPerMinuteThroughputEnabled)")
	}
	settings := content.Get("offerAutopilotSettings")
	if settings.Kind() == value.KindNull {
		settings = value.Undefined()
	}
	if settings.IsDefined() != t.IsAutoscale() {
		return Throughput{}, status.BadRequest("An offer cannot be switched between manual and autoscale throughput by editing it. Send the migration header with the request.")
	}
	if t.IsAutoscale() {
		return t.replaceMax(settings, minimum)
	}
	n, ok := content.Get("offerThroughput").Int64()
	if !ok {
		return Throughput{}, status.BadRequest("The offer has no integer 'content.offerThroughput'.")
	}
	if err := validManual(n); err != nil {
		return Throughput{}, err
	}
	t.Manual = int(n)
	return t.atLeast(minimum)
}

func (t Throughput) replaceMax(settings value.Value, minimum int) (Throughput, error) {
	increment := settings.Get("autoUpgradePolicy").Get("throughputPolicy").Get("incrementPercent")
	if !isNothing(increment) {
		return Throughput{}, status.Unsupported("An autoscale upgrade policy (content.offerAutopilotSettings.autoUpgradePolicy)")
	}
	n, ok := settings.Get("maxThroughput").Int64()
	if !ok {
		return Throughput{}, status.BadRequest("The offer has no integer 'content.offerAutopilotSettings.maxThroughput'.")
	}
	if err := validAutoscale(n); err != nil {
		return Throughput{}, err
	}
	t.Max = int(n)
	return t.atLeast(minimum)
}

func (t Throughput) atLeast(minimum int) (Throughput, error) {
	if t.Total() < minimum {
		return Throughput{}, status.BadRequest("The offer throughput %d is below the minimum of %d RU/s, which follows from the data stored and the highest throughput ever set.", t.Total(), minimum)
	}
	t.Highest = max(t.Highest, t.Total())
	return t, nil
}

// sameOffer refuses an edited offer that is another one. What is missing
// counts as unchanged.
func (t Throughput) sameOffer(body value.Value) error {
	for _, fixed := range []struct{ name, want string }{
		{"id", t.RID.String()},
		{"_rid", t.RID.String()},
		{"resource", t.Owner.self()},
		{"offerResourceId", t.Owner.String()},
	} {
		if got := body.Get(fixed.name); got.IsDefined() && got.Kind() != value.KindNull && got.Text() != fixed.want {
			return status.BadRequest("The property '%s' of an offer cannot be changed: it is '%s'.", fixed.name, fixed.want)
		}
	}
	return nil
}

// ToAutoscale returns the throughput in autoscale mode, with the maximum that
// the service chooses: the manual figure, a tenth of the highest ever, or ten
// RU/s per gigabyte, whichever is most, in whole thousands. It does nothing to
// autoscale.
func (t Throughput) ToAutoscale(sizeBytes int64) Throughput {
	if t.IsAutoscale() {
		return t
	}
	gigabytes := int((sizeBytes + 1<<30 - 1) >> 30)
	lowest := max(AutoscaleMin, t.Manual, t.Highest/10, gigabytes*10)
	t.Manual, t.Max = 0, ceilDiv(lowest, AutoscaleStep)*AutoscaleStep
	t.Highest = max(t.Highest, t.Max)
	return t
}

// ToManual returns the throughput in manual mode, with the autoscale maximum as
// its figure. It does nothing to manual throughput.
func (t Throughput) ToManual() Throughput {
	if t.IsAutoscale() {
		t.Manual, t.Max = t.Max, 0
	}
	return t
}

// Value returns the offer as clients read it. Autoscale shows its floor as
// offerThroughput.
func (t Throughput) Value() value.Value {
	now := t.Manual
	if t.IsAutoscale() {
		now = t.Max / autoscaleFloor
	}
	content := []value.Member{
		{Name: "offerThroughput", Value: value.Int(int64(now))},
		{Name: "offerIsRUPerMinuteThroughputEnabled", Value: value.Bool(false)},
		{Name: "offerMinimumThroughputParameters", Value: value.Object([]value.Member{
			{Name: "maxThroughputEverProvisioned", Value: value.Int(int64(t.Highest))},
		})},
		{Name: "offerLastReplaceTimestamp", Value: value.Int(int64(t.Replaced))},
	}
	if t.IsAutoscale() {
		content = append(content, value.Member{Name: "offerAutopilotSettings", Value: value.Object([]value.Member{
			{Name: "maxThroughput", Value: value.Int(int64(t.Max))},
		})})
	}
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(t.RID.String())},
		{Name: "_rid", Value: value.String(t.RID.String())},
		{Name: "_self", Value: value.String(t.RID.self())},
		{Name: "_etag", Value: value.String(string(t.ETag))},
		{Name: "_ts", Value: value.Int(int64(t.TS))},
		{Name: "resource", Value: value.String(t.Owner.self())},
		{Name: "offerResourceId", Value: value.String(t.Owner.String())},
		{Name: "offerType", Value: value.String("Invalid")},
		{Name: "offerVersion", Value: value.String("V2")},
		{Name: "content", Value: value.Object(content)},
	})
}
