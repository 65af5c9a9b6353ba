package resource

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// The steps and minimums of throughput, in RU/s.
const (
	ManualMin     = 400
	ManualStep    = 100
	AutoscaleMin  = 1_000
	AutoscaleStep = 1_000

	// PartitionMin is the minimum that one physical partition can be given
	// manually.
	PartitionMin = 100

	// BucketsMax is the maximum number of throughput buckets, and the highest id
	// of one.
	BucketsMax = 5

	// UpgradeMax is the highest percentage of an upgrade policy: it doubles the
	// maximum.
	UpgradeMax = 100

	// autoscaleFloor is the divisor of the maximum for the lowest value of
	// autoscale.
	autoscaleFloor = 10

	// autoscaleGigabyte is the autoscale maximum that a gigabyte of data
	// requires.
	autoscaleGigabyte = 10
)

// NewThroughput returns the throughput that a client asks for at creation:
// manual RU/s, an autoscale maximum with its upgrade policy, or neither, which
// means 400 RU/s manual. Both, or an invalid number, is status 400. The caller
// sets RIDs, ETag and times.
func (l Limits) NewThroughput(manual, autoscaleMax *int, upgrade Upgrade) (Throughput, error) {
	switch {
	case manual != nil && autoscaleMax != nil:
		return Throughput{}, status.BadRequest("Manual throughput and autoscale settings cannot be given together. Use one of them.")
	case autoscaleMax != nil:
		return Throughput{Max: *autoscaleMax, Highest: *autoscaleMax, Upgrade: upgrade}, l.validAutoscale(int64(*autoscaleMax))
	case manual != nil:
		return Throughput{Manual: *manual, Highest: *manual}, l.validManual(int64(*manual))
	}
	return Throughput{Manual: ManualMin, Highest: ManualMin}, nil
}

// Valid checks the throughput against the limits. The error is status 400.
func (l Limits) Valid(t Throughput) error {
	if t.IsAutoscale() {
		return l.validAutoscale(int64(t.Max))
	}
	return l.validManual(int64(t.Manual))
}

func (l Limits) validManual(n int64) error {
	if n < ManualMin || n > int64(l.ContainerRUs) || n%ManualStep != 0 {
		return invalidOffer(n, ManualMin, l.ContainerRUs, ManualStep)
	}
	return nil
}

func (l Limits) validAutoscale(n int64) error {
	if n < AutoscaleMin || n > int64(l.ContainerRUs) || n%AutoscaleStep != 0 {
		return invalidOffer(n, AutoscaleMin, l.ContainerRUs, AutoscaleStep)
	}
	return nil
}

// invalidOffer returns the error for a throughput that no offer can have.
func invalidOffer(given int64, lowest, highest, step int) error {
	return status.Service("The offer should have valid throughput values between %d and %d inclusive in increments of %d. The requested throughput is %d.", lowest, highest, step, given)
}

// IsAutoscale reports whether the throughput follows the load.
func (t Throughput) IsAutoscale() bool { return t.Max > 0 }

// Minimum returns the lowest value that [Throughput.Replace] may set, given the
// size of the owner's documents in [Limits.Gigabytes] and how many containers
// share it (0 or 1 for a container). It is the maximum of the floor of the mode,
// one RU/s per gigabyte (ten for autoscale), and a hundredth of the highest
// value ever (a tenth for autoscale). A shared database adds one RU step for
// each container above 25.
func (t Throughput) Minimum(gigabytes, containers int) int {
	const containersFree = 25
	extra := max(containers-containersFree, 0)
	if t.IsAutoscale() {
		lowest := max(AutoscaleMin, gigabytes*autoscaleGigabyte, t.Highest/10, AutoscaleMin+extra*AutoscaleStep)
		return ceilDiv(lowest, AutoscaleStep) * AutoscaleStep
	}
	lowest := max(ManualMin, gigabytes, t.Highest/100, ManualMin+extra*ManualStep)
	return ceilDiv(lowest, ManualStep) * ManualStep
}

// Fitting returns the throughput with its autoscale maximum raised until the
// stored data fits, as the service does: a maximum stores a tenth of its RU/s in
// [Limits.Gigabytes]. With an upgrade policy it rises by at least that
// percentage. It never rises above the limits, and manual throughput and
// throughput with Shares do not change.
func (t Throughput) Fitting(gigabytes int, limits Limits) Throughput {
	wanted := ceilDiv(gigabytes*autoscaleGigabyte, AutoscaleStep) * AutoscaleStep
	if wanted <= t.Max {
		return t
	}
	return t.raised(max(wanted, t.Upgraded(limits).Max), limits)
}

// Upgraded returns the throughput with its autoscale maximum raised by the
// percentage of its upgrade policy, in whole steps, up to the limits. It returns
// t unchanged without an enabled policy, and if Fitting would not raise it
// either.
func (t Throughput) Upgraded(limits Limits) Throughput {
	if t.Upgrade.Percent == 0 || t.Upgrade.Off {
		return t
	}
	return t.raised(ceilDiv(t.Max*(100+t.Upgrade.Percent), 100*AutoscaleStep)*AutoscaleStep, limits)
}

// raised raises an autoscale maximum.
func (t Throughput) raised(wanted int, limits Limits) Throughput {
	if !t.IsAutoscale() || len(t.Shares) > 0 {
		return t
	}
	t.Max = max(t.Max, min(wanted, limits.ContainerRUs/AutoscaleStep*AutoscaleStep))
	t.Highest = max(t.Highest, t.Max)
	return t
}

// Inherited returns the throughput after a split or merge of a container's
// partitions: the manual shares of the gone partitions are divided equally, in
// whole RU/s, over the made ones. It returns t and false if the gone partitions
// had no shares. It does not change t.
func (t Throughput) Inherited(container RID, gone, made []PartitionID) (Throughput, bool) {
	if !t.Owner.IsDatabase() {
		container = ""
	}
	inherited := 0
	rest := slices.DeleteFunc(slices.Clone(t.Shares), func(s Share) bool {
		dies := s.Container == container && slices.Contains(gone, s.ID)
		if dies {
			inherited += s.RUs
		}
		return dies
	})
	if len(rest) == len(t.Shares) {
		return t, false
	}
	for i, id := range made {
		part := ceilDiv(inherited, len(made)-i) // the first ones get the remainder
		inherited -= part
		rest = append(rest, Share{Container: container, ID: id, RUs: part})
	}
	slices.SortFunc(rest, CompareShares)
	t.Shares = rest
	return t, true
}

// CompareShares is the order of [Throughput.Shares].
func CompareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.ID, b.ID))
}

// Replace returns the throughput with the values of an offer that a client
// edited and sent back completely. The offer must name the same owner and mode;
// ToAutoscale and ToManual switch the mode. minimum is the lowest allowed value.
// The value of a throughput with Shares cannot change: their sum defines it.
// Errors are status 400.
func (t Throughput) Replace(body value.Value, minimum int, limits Limits) (Throughput, error) {
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
	if content.Get("offerIsRUPerMinuteThroughputEnabled").Bool() {
		return Throughput{}, status.Unsupported("Throughput per minute (content.offerIsRUPerMinuteThroughputEnabled)")
	}
	settings := content.Get("offerAutopilotSettings")
	if settings.Kind() == value.KindNull {
		settings = value.Undefined()
	}
	if settings.IsDefined() != t.IsAutoscale() {
		return Throughput{}, status.Because(status.CodeBadRequest, 0, status.OfferMode{})
	}
	changed := t
	var err error
	if changed.Buckets, err = t.replaceBuckets(content.Get("throughputBuckets")); err != nil {
		return Throughput{}, err
	}
	if t.IsAutoscale() {
		changed, err = changed.replaceMax(settings, limits)
	} else {
		changed, err = changed.replaceManual(content, limits)
	}
	if err != nil {
		return Throughput{}, err
	}
	if changed.Total() == t.Total() {
		return changed, nil
	}
	if len(t.Shares) > 0 {
		return Throughput{}, DividedByHand()
	}
	return changed.AtLeast(minimum)
}

// DividedByHand returns the error for a new value of a throughput with
// [Throughput.Shares].
func DividedByHand() error {
	return status.BadRequest("The throughput is divided over physical partitions by hand. Set the throughput policy to equal before the offer is changed.")
}

func (t Throughput) replaceManual(content value.Value, limits Limits) (Throughput, error) {
	n, ok := content.Get("offerThroughput").Int64()
	if !ok {
		return Throughput{}, status.BadRequest("The offer has no integer 'content.offerThroughput'.")
	}
	t.Manual = int(n)
	return t, limits.validManual(n)
}

// replaceBuckets parses the throughput buckets of an edited offer. If the member
// is missing they stay; null or an empty list removes them. A bucket of 100
// percent is also stored: it caps nothing, but clients read it back.
func (t Throughput) replaceBuckets(list value.Value) ([]Bucket, error) {
	switch list.Kind() {
	case value.KindUndefined:
		return t.Buckets, nil
	case value.KindNull:
		return nil, nil
	case value.KindArray:
	default:
		return nil, status.BadRequest("The property 'content.throughputBuckets' is %s. It must be an array.", nameOf(list.Kind()))
	}
	if list.Len() > 0 && t.Owner.IsDatabase() {
		return nil, status.BadRequest("The throughput of a database cannot have throughput buckets. Give the container a throughput of its own.")
	}
	var buckets []Bucket
	for _, item := range list.Items() {
		b, err := parseBucket(item)
		if err != nil {
			return nil, err
		}
		for _, other := range buckets {
			if other.ID == b.ID || other.Default && b.Default {
				return nil, status.BadRequest("The throughput bucket %d is given twice, or there are two default buckets.", b.ID)
			}
		}
		buckets = append(buckets, b)
	}
	slices.SortFunc(buckets, func(a, b Bucket) int { return a.ID - b.ID })
	return buckets, nil
}

func parseBucket(item value.Value) (Bucket, error) {
	id, isID := item.Get("id").Int64()
	if !isID || id < 1 || id > BucketsMax {
		return Bucket{}, status.BadRequest("The id %s of a throughput bucket is not one of 1 to %d.", clip(item.Get("id").String()), BucketsMax)
	}
	percent, isPercent := item.Get("maxThroughputPercentage").Int64()
	if !isPercent || percent < 1 || percent > 100 {
		return Bucket{}, status.BadRequest("The maxThroughputPercentage %s of throughput bucket %d is not one of 1 to 100.", clip(item.Get("maxThroughputPercentage").String()), id)
	}
	return Bucket{ID: int(id), Percent: int(percent), Default: item.Get("isDefaultBucket").Bool()}, nil
}

// ParseShares parses a list of physical partitions and their throughput, such as
// [{"id":"0","throughput":400}]. A missing throughput is 0. Errors are status
// 400.
func ParseShares(list value.Value) ([]Share, error) {
	switch list.Kind() {
	case value.KindUndefined, value.KindNull:
		return nil, nil
	case value.KindArray:
	default:
		return nil, status.BadRequest("The list of physical partitions is %s. It must be an array.", nameOf(list.Kind()))
	}
	shares := make([]Share, list.Len())
	for i, item := range list.Items() {
		s, err := ParseShareName(item.Get("id"))
		if err != nil {
			return nil, err
		}
		shares[i] = s
		given := item.Get("throughput")
		if isNull(given) {
			continue
		}
		n, ok := given.Int64()
		if !ok || n < 1 || n > math.MaxInt32 {
			return nil, status.BadRequest("The throughput %s of partition %s is not a positive whole number.", clip(given.String()), s.Name())
		}
		shares[i].RUs = int(n)
	}
	return shares, nil
}

// A physical partition of a container that shares its database's throughput has
// a name in the form of a GUID, as in the service, because ids are unique only
// within a container. It consists of the RID of the container, four zero bytes
// and the id.
const (
	guidBytes = containerBytes + 8
	guidText  = 2*guidBytes + 4
)

// Name returns the name by which clients know the partition of a share.
func (s Share) Name() string {
	if s.Container == "" {
		return s.ID.String()
	}
	raw := binary.BigEndian.AppendUint64([]byte(s.Container), uint64(s.ID))
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// ParseShareName parses the result of [Share.Name] into a share without RU/s.
// The error is status 400.
func ParseShareName(id value.Value) (Share, error) {
	if text := id.Text(); id.Kind() == value.KindString && len(text) == guidText {
		raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err == nil && len(raw) == guidBytes {
			s := Share{Container: RID(raw[:containerBytes]), ID: PartitionID(binary.BigEndian.Uint32(raw[guidBytes-4:]))}
			if strings.EqualFold(s.Name(), text) {
				return s, nil
			}
		}
	}
	n, err := ParsePartitionID(id)
	return Share{ID: n}, err
}

// ParsePartitionID parses the id of a physical partition, a string of digits.
// The error is status 400.
func ParsePartitionID(id value.Value) (PartitionID, error) {
	n, err := strconv.ParseUint(id.Text(), 10, 32)
	if id.Kind() != value.KindString || err != nil {
		return 0, status.BadRequest("The physical partition id %s is not a number in a string.", clip(id.String()))
	}
	return PartitionID(n), nil
}

func (t Throughput) replaceMax(settings value.Value, limits Limits) (Throughput, error) {
	var err error
	if t.Upgrade, err = ParseUpgrade(settings.Get("autoUpgradePolicy")); err != nil {
		return Throughput{}, err
	}
	n, ok := settings.Get("maxThroughput").Int64()
	if !ok {
		return Throughput{}, status.BadRequest("The offer has no integer 'content.offerAutopilotSettings.maxThroughput'.")
	}
	t.Max = int(n)
	return t, limits.validAutoscale(n)
}

// ParseUpgrade parses the upgrade policy of an autoscale maximum, such as
// {"throughputPolicy":{"isEnabled":true,"incrementPercent":10}}. Undefined and null
// mean no policy. Errors are status 400.
func ParseUpgrade(policy value.Value) (Upgrade, error) {
	rule, err := memberObject(policy, "autoUpgradePolicy", "throughputPolicy")
	if err != nil {
		return Upgrade{}, err
	}
	enabled, increment := rule.Get("isEnabled"), rule.Get("incrementPercent")
	if !isNull(enabled) && enabled.Kind() != value.KindBool {
		return Upgrade{}, status.BadRequest("The property 'isEnabled' of the upgrade policy is %s. It must be true or false.", nameOf(enabled.Kind()))
	}
	if isNull(increment) {
		return Upgrade{}, nil
	}
	percent, whole := increment.Int64()
	if !whole || percent < 0 || percent > UpgradeMax {
		return Upgrade{}, status.BadRequest("The incrementPercent %s of the upgrade policy is not one of 0 to %d.", clip(increment.String()), UpgradeMax)
	}
	return Upgrade{Percent: int(percent), Off: !isNull(enabled) && !enabled.Bool(), Zero: percent == 0}, nil
}

// memberObject returns a member of a value; name is the value's own name. Both
// must be objects or missing.
func memberObject(of value.Value, name, member string) (value.Value, error) {
	inner := of.Get(member)
	switch {
	case !isNull(of) && of.Kind() != value.KindObject:
		return inner, status.BadRequest("The property '%s' of the autoscale settings is %s. It must be an object.", name, nameOf(of.Kind()))
	case !isNull(inner) && inner.Kind() != value.KindObject:
		return inner, status.BadRequest("The property '%s' of the autoscale settings is %s. It must be an object.", member, nameOf(inner.Kind()))
	}
	return inner, nil
}

// AtLeast returns the throughput with its highest value updated, or status 400
// if it is below the minimum.
func (t Throughput) AtLeast(minimum int) (Throughput, error) {
	if t.Total() < minimum {
		return Throughput{}, status.Service("Requested throughput %d is less than required minimum throughput %d, which follows from the data stored and the highest throughput ever set.", t.Total(), minimum)
	}
	t.Highest = max(t.Highest, t.Total())
	return t, nil
}

// sameOffer rejects an edited offer with another identity. Missing members count
// as unchanged.
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

// ToAutoscale returns the throughput in autoscale mode with the maximum that the
// service chooses: the manual throughput or the lowest possible autoscale
// maximum, whichever is higher, in whole thousands. It does not change autoscale
// throughput. See [Throughput.Minimum] for the parameters.
func (t Throughput) ToAutoscale(gigabytes, containers int) Throughput {
	if t.IsAutoscale() {
		return t
	}
	manual := t.Manual
	t.Manual, t.Max = 0, AutoscaleMin
	lowest := max(manual, t.Minimum(gigabytes, containers))
	t.Max = ceilDiv(lowest, AutoscaleStep) * AutoscaleStep
	t.Highest = max(t.Highest, t.Max)
	return t
}

// ToManual returns the throughput in manual mode with the value of the autoscale
// maximum. It does not change manual throughput.
func (t Throughput) ToManual() Throughput {
	if t.IsAutoscale() {
		t.Manual, t.Max, t.Upgrade = t.Max, 0, Upgrade{}
	}
	return t
}

// Value returns the offer in the form that clients read. Its offerThroughput is
// the floor of autoscale.
func (t Throughput) Value() value.Value { return t.with() }

// Describe is Value with the RU/s of each physical partition; names are those of
// [Share.Name].
func (t Throughput) Describe(names []string, shares []float64) value.Value {
	infos := make([]value.Value, len(names))
	for i, name := range names {
		infos[i] = value.Object([]value.Member{
			{Name: "id", Value: value.String(name)},
			{Name: "throughput", Value: value.Number(shares[i])},
		})
	}
	return t.with(value.Member{Name: "physicalPartitionThroughputInfo", Value: value.Array(infos)})
}

// with is Value with further members in its content.
func (t Throughput) with(further ...value.Member) value.Value {
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
		settings := []value.Member{{Name: "maxThroughput", Value: value.Int(int64(t.Max))}}
		if t.Upgrade.Percent > 0 || t.Upgrade.Zero {
			settings = append(settings, t.Upgrade.member())
		}
		content = append(content, value.Member{Name: "offerAutopilotSettings", Value: value.Object(settings)})
	}
	if len(t.Buckets) > 0 {
		buckets := make([]value.Value, len(t.Buckets))
		for i, b := range t.Buckets {
			buckets[i] = b.value()
		}
		content = append(content, value.Member{Name: "throughputBuckets", Value: value.Array(buckets)})
	}
	content = append(content, further...)
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

func (u Upgrade) member() value.Member {
	policy := value.Object([]value.Member{
		{Name: "isEnabled", Value: value.Bool(!u.Off)},
		{Name: "incrementPercent", Value: value.Int(int64(u.Percent))},
	})
	return value.Member{Name: "autoUpgradePolicy", Value: value.Object([]value.Member{{Name: "throughputPolicy", Value: policy}})}
}

func (b Bucket) value() value.Value {
	members := []value.Member{
		{Name: "id", Value: value.Int(int64(b.ID))},
		{Name: "maxThroughputPercentage", Value: value.Int(int64(b.Percent))},
	}
	if b.Default {
		members = append(members, value.Member{Name: "isDefaultBucket", Value: value.Bool(true)})
	}
	return value.Object(members)
}
