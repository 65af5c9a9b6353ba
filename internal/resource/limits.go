package resource

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// The limits that are no settings: clients, the key encoding or the format on
// disk count on them.
const (
	// NameCharsMax is the length of the id of a database or container, in
	// characters.
	NameCharsMax = 255

	// ItemIDBytesMax is the length of the id of a document, in bytes of UTF-8.
	ItemIDBytesMax = 1023

	// IndexingPathsMax is how many paths an indexing policy may include, and
	// how many it may exclude.
	IndexingPathsMax = 1500

	// pathNamesMax is how many names a path of a policy may have. No document has
	// a place that is deeper.
	pathNamesMax = value.DepthMax

	// CompositePathsMax is how many paths the composite indexes of a container may
	// have together, each counted in every index, and CompositePropertiesMax how
	// many one of them, or a tuple path, may have.
	CompositePathsMax      = 100
	CompositePropertiesMax = 8
	compositePropertiesMin = 2 // one property is what included paths are for

	// TuplesMax is how many tuple paths an array may have. Each of them has a term
	// for each element, so they multiply the index of a large document as nothing
	// else does.
	TuplesMax = 8

	// TextPathsMax is how many paths a full-text policy may have, and
	// EmbeddingsMax how many a vector embedding policy, and so how many indexes
	// there are of the kind. The service names no limit.
	TextPathsMax  = 100
	EmbeddingsMax = 100

	// ComputedMax is how many computed properties a container may have.
	ComputedMax = 20

	// RetentionMax bounds for how long every version of a document is kept: the
	// longest time that the service can go back.
	RetentionMax = 30 * 24 * time.Hour

	// UniqueKeysMax is how many unique keys a container may have, and
	// UniqueKeyPathsMax how many paths each.
	UniqueKeysMax     = 10
	UniqueKeyPathsMax = 16

	// TTLMax is the longest time to live, in seconds.
	TTLMax = 1<<31 - 1

	// VectorDimensionsMax is how many dimensions a vector may have, and
	// FlatDimensionsMax how many in an index of type flat.
	VectorDimensionsMax = 4096
	FlatDimensionsMax   = 505

	// QuantizationBytesMax is the longest code of a vector that may be asked for,
	// in bytes; it is never longer than the vector has dimensions.
	QuantizationBytesMax = 512

	// What the service takes for indexingSearchListSize, and how many paths for
	// vectorIndexShardKey.
	searchListMin = 25
	searchListMax = 500
	shardPathsMax = 1

	// NumbersMax is how many documents a partition may number in its life: the
	// width of the counter in a document number.
	NumbersMax = 1 << counterBits
)

// Limits is every limit of the system that a server may set, as documented by
// the service unless the field says otherwise. Reaching one is a status, never
// a hang. Sizes are in bytes.
//
// The physical limits are settings so that splits, refusals and costs can be
// watched on a laptop at any scale, through the same code.
type Limits struct {
	DocumentBytes int // one document as stored JSON, system properties not counted: 413
	BodyBytes     int // one request body as received: 413
	ResponseBytes int // one page of rows; the first row is returned whatever its size
	ItemIDBytes   int // fixed: the id of a document
	NameChars     int // fixed: the id of a database or container
	KeyBytes      int // fixed: one string component of a partition key
	Depth         int // fixed: nested arrays and objects in a document

	PageItems int           // rows of a page when the client does not ask for a number
	PageTime  time.Duration // how long a page may be worked on before it ends where it is

	LogicalPartitionBytes  int64 // documents of one full partition key: 403/1014
	PhysicalPartitionBytes int64 // documents of one physical partition, above which it is split

	PartitionRUs  int // RU/s that one physical partition can be given
	ContainerRUs  int // RU/s that a container or database can be given: 400
	ManualDivisor int // RU/s per partition when a container starts with manual throughput above PartitionRUs

	MetadataRUs       int // RU/s for requests about databases, containers, their ranges and throughput: 429/3201; 0 for any number
	ThroughputChanges int // changes of provisioned throughput in five minutes: 429/3201; 0 for any number

	Databases        int // databases and containers together: 403/1005; 0 for any number
	SharedContainers int // containers that share the throughput of their database

	QueryTextBytes    int   // text of a query: 400
	QueryMemoryBytes  int64 // memory of one query for what it has to hold: groups, distinct rows, ranked rows: 400
	ContinuationBytes int   // a continuation token, below which ours always are; a longer one is not ours

	WriteQueue int // writes waiting for one partition: 429 beyond
	OpenStores int // partition stores open at once; lowered to what the descriptor limit allows

	ClockSkew      time.Duration // how far a signature's date may be from now; 0 for any
	SessionWait    time.Duration // how long a read waits for a partition that is behind its session token: 404/1002; 0 for not at all
	RequestTimeout time.Duration // a request that takes longer ends with 408
}

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		DocumentBytes: 2 << 20, // 2 MB items
		BodyBytes:     2 << 20, // 2,097,152 bytes as received
		ResponseBytes: 4 << 20, // 4 MB answers
		ItemIDBytes:   ItemIDBytesMax,
		NameChars:     NameCharsMax,
		KeyBytes:      partitionkey.ComponentBytesMax,
		Depth:         value.DepthMax,

		PageItems: 1000,            // what the service sends when it is free to choose
		PageTime:  5 * time.Second, // the service's budget of one execution

		LogicalPartitionBytes:  20 << 30,
		PhysicalPartitionBytes: 50 << 30,

		PartitionRUs:  10_000,
		ContainerRUs:  1_000_000,
		ManualDivisor: 6_000, // the service's sizing of large loads: 150,000 RU/s start on 25 partitions

		MetadataRUs:       0, // the service has 240: tests that make many containers would wait for it
		ThroughputChanges: 0, // the service has 25

		Databases:        0, // the service has 500; on one's own machine nothing asks for a number
		SharedContainers: 25,

		QueryTextBytes:    512 << 10,
		QueryMemoryBytes:  64 << 20, // two dozen such queries at once fit into a small machine
		ContinuationBytes: 1 << 10,  // clients ask for tokens below 1 KB

		WriteQueue: 1_024, // a longer queue would only let clients time out in it
		OpenStores: 4_096, // half a gigabyte of idle stores

		ClockSkew:      15 * time.Minute,
		SessionWait:    50 * time.Millisecond, // a replica that is further behind is slower than asking another
		RequestTimeout: 65 * time.Second,      // clients give up after 60 s
	}
}

// LaptopLimits returns limits at which seconds of load show what takes hours in
// the service: a physical partition is full at 10 MB, a logical one at 4 MB, and
// RU/s are a tenth, but for the least that an offer may have.
func LaptopLimits() Limits {
	l := DefaultLimits()
	l.LogicalPartitionBytes = 4 << 20 // a 5,120th, like the next
	l.PhysicalPartitionBytes = 10 << 20
	l.PartitionRUs = 1_000
	l.ContainerRUs = 100_000
	l.ManualDivisor = 600
	return l
}

// Validate reports everything that is wrong with the limits at once: a limit
// that is not positive, a fixed one that is changed, and pairs that contradict
// each other. ClockSkew, SessionWait, Databases, MetadataRUs and
// ThroughputChanges alone may be zero.
func (l Limits) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	d := DefaultLimits()
	for _, fixed := range []struct {
		name      string
		got, want int
	}{
		{"ItemIDBytes", l.ItemIDBytes, d.ItemIDBytes},
		{"NameChars", l.NameChars, d.NameChars},
		{"KeyBytes", l.KeyBytes, d.KeyBytes},
		{"Depth", l.Depth, d.Depth},
	} {
		if fixed.got != fixed.want {
			fault("limit %s is fixed at %d, not %d", fixed.name, fixed.want, fixed.got)
		}
	}
	for _, positive := range []struct {
		name string
		got  int64
	}{
		{"DocumentBytes", int64(l.DocumentBytes)},
		{"BodyBytes", int64(l.BodyBytes)},
		{"ResponseBytes", int64(l.ResponseBytes)},
		{"PageItems", int64(l.PageItems)},
		{"PageTime", int64(l.PageTime)},
		{"LogicalPartitionBytes", l.LogicalPartitionBytes},
		{"PhysicalPartitionBytes", l.PhysicalPartitionBytes},
		{"PartitionRUs", int64(l.PartitionRUs)},
		{"ManualDivisor", int64(l.ManualDivisor)},
		{"SharedContainers", int64(l.SharedContainers)},
		{"QueryTextBytes", int64(l.QueryTextBytes)},
		{"QueryMemoryBytes", l.QueryMemoryBytes},
		{"ContinuationBytes", int64(l.ContinuationBytes)},
		{"WriteQueue", int64(l.WriteQueue)},
		{"OpenStores", int64(l.OpenStores)},
		{"RequestTimeout", int64(l.RequestTimeout)},
	} {
		if positive.got <= 0 {
			fault("limit %s must be positive, not %d", positive.name, positive.got)
		}
	}
	if l.ContainerRUs < AutoscaleMin {
		fault("limit ContainerRUs must be at least %d, not %d", AutoscaleMin, l.ContainerRUs)
	}
	for _, bound := range []struct {
		name string
		got  int
	}{
		{"Databases", l.Databases},
		{"MetadataRUs", l.MetadataRUs},
		{"ThroughputChanges", l.ThroughputChanges},
	} {
		if bound.got < 0 {
			fault("limit %s must not be negative, not %d", bound.name, bound.got)
		}
	}
	if l.ClockSkew < 0 {
		fault("limit ClockSkew must not be negative, not %v", l.ClockSkew)
	}
	if l.SessionWait < 0 || l.SessionWait >= l.RequestTimeout {
		fault("limit SessionWait must be at least 0 and below RequestTimeout (%v), not %v", l.RequestTimeout, l.SessionWait)
	}
	if l.DocumentBytes > l.BodyBytes {
		fault("limit DocumentBytes (%d) must not exceed BodyBytes (%d)", l.DocumentBytes, l.BodyBytes)
	}
	return errors.Join(faults...)
}

// PartitionsFor returns how many physical partitions a fresh container starts
// with under that throughput: one up to PartitionRUs; above it as many as
// PartitionRUs each suffice for autoscale or a shared database, and as
// ManualDivisor each suffice for manual throughput, which leaves room to grow
// without a split.
func (l Limits) PartitionsFor(t Throughput) int {
	total := t.Total()
	switch {
	case total <= l.PartitionRUs:
		return 1
	case t.Max > 0 || t.Owner.IsDatabase():
		return ceilDiv(total, l.PartitionRUs)
	}
	return ceilDiv(total, min(l.ManualDivisor, l.PartitionRUs))
}

// Gigabytes returns for how many gigabytes a size counts where throughput follows
// from the data stored, in whole ones. A gigabyte there is a fiftieth of what a
// physical partition holds, which is one by default: limits that are scaled down
// scale these rules with them.
func (l Limits) Gigabytes(bytes int64) int {
	full, rest := bytes/l.PhysicalPartitionBytes, bytes%l.PhysicalPartitionBytes
	if full > math.MaxInt32/partitionGigabytes {
		return math.MaxInt32
	}
	return int(full*partitionGigabytes + (rest*partitionGigabytes+l.PhysicalPartitionBytes-1)/l.PhysicalPartitionBytes)
}

// Stores returns how many bytes an autoscale maximum stores before it is raised:
// those of a tenth of it in gigabytes.
func (l Limits) Stores(t Throughput) int64 {
	gigabytes := int64(t.Max / autoscaleGigabyte)
	full, rest := gigabytes/partitionGigabytes, gigabytes%partitionGigabytes
	if full > math.MaxInt64/2/l.PhysicalPartitionBytes {
		return math.MaxInt64
	}
	return full*l.PhysicalPartitionBytes + rest*l.PhysicalPartitionBytes/partitionGigabytes
}

// partitionGigabytes is what a physical partition of the service holds.
const partitionGigabytes = 50

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// OwnLimits are the limits that one container has in place of the server's. A
// field of zero leaves the server's in force. Sizes are in bytes.
type OwnLimits struct {
	LogicalPartitionBytes  int64 `json:"logicalPartitionBytes,omitzero"`
	PhysicalPartitionBytes int64 `json:"partitionBytes,omitzero"`
	PartitionRUs           int   `json:"partitionRUs,omitzero"`
	ContainerRUs           int   `json:"containerRUs,omitzero"`

	// SplitDelay holds each split of its partitions before it begins; nil leaves
	// it to the server, since zero is a delay as well.
	SplitDelay *time.Duration `json:"splitDelay,omitempty"`
}

// What limits of one container may be. The lowest sizes hold a document of some
// kilobytes; the highest are beyond any disk.
const (
	OwnBytesMin      = 16 << 10
	OwnBytesMax      = 1 << 50
	OwnRUsMax        = 100_000_000
	OwnSplitDelayMax = 7 * 24 * time.Hour
)

// Of returns the limits that hold for a container which has own ones.
func (l Limits) Of(own OwnLimits) Limits {
	if own.LogicalPartitionBytes != 0 {
		l.LogicalPartitionBytes = own.LogicalPartitionBytes
	}
	if own.PhysicalPartitionBytes != 0 {
		l.PhysicalPartitionBytes = own.PhysicalPartitionBytes
	}
	if own.PartitionRUs != 0 {
		l.PartitionRUs = own.PartitionRUs
	}
	if own.ContainerRUs != 0 {
		l.ContainerRUs = own.ContainerRUs
	}
	return l
}

// Equal reports whether both say the same.
func (o OwnLimits) Equal(other OwnLimits) bool {
	a, b := o.SplitDelay, other.SplitDelay
	o.SplitDelay, other.SplitDelay = nil, nil
	return o == other && (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// Validate reports the first thing that is wrong with own limits beside those of
// the server; the error is status 400.
func (o OwnLimits) Validate(server Limits) error {
	for _, size := range []struct {
		name string
		got  int64
	}{
		{"logicalPartitionBytes", o.LogicalPartitionBytes},
		{"partitionBytes", o.PhysicalPartitionBytes},
	} {
		if size.got != 0 && (size.got < OwnBytesMin || size.got > OwnBytesMax) {
			return status.BadRequest("The limit %s of %d is not valid. Use %d to %d bytes.", size.name, size.got, OwnBytesMin, OwnBytesMax)
		}
	}
	for _, rate := range []struct {
		name     string
		got, min int
	}{
		{"partitionRUs", o.PartitionRUs, PartitionMin},
		{"containerRUs", o.ContainerRUs, AutoscaleMin},
	} {
		if rate.got != 0 && (rate.got < rate.min || rate.got > OwnRUsMax) {
			return status.BadRequest("The limit %s of %d is not valid. Use %d to %d RU/s.", rate.name, rate.got, rate.min, OwnRUsMax)
		}
	}
	if all := server.Of(o); all.PartitionRUs > all.ContainerRUs {
		return status.BadRequest("The limit partitionRUs of %d must not exceed containerRUs of %d.", all.PartitionRUs, all.ContainerRUs)
	}
	if d := o.SplitDelay; d != nil && (*d < 0 || *d > OwnSplitDelayMax) {
		return status.BadRequest("The limit splitDelay of %s is not valid. Use 0s to %s.", *d, OwnSplitDelayMax)
	}
	return nil
}
