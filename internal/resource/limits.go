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

// The limits that cannot be configured: clients, the key encoding or the format
// on disk depend on them.
const (
	// NameCharsMax is the maximum length of the id of a database or container,
	// in characters.
	NameCharsMax = 255

	// ItemIDBytesMax is the maximum length of the id of a document, in bytes of
	// UTF-8.
	ItemIDBytesMax = 1023

	// IndexingPathsMax is the maximum number of included paths of an indexing
	// policy, and of excluded paths.
	IndexingPathsMax = 1500

	// pathNamesMax is the maximum number of names in a path of a policy.
	// Documents are not nested deeper.
	pathNamesMax = value.DepthMax

	// CompositePathsMax is the maximum number of paths in all composite indexes
	// of a container together. CompositePropertiesMax is the maximum number of
	// properties in one composite index, or in a tuple path.
	CompositePathsMax      = 100
	CompositePropertiesMax = 8
	compositePropertiesMin = 2 // included paths index a single property

	// TuplesMax is the maximum number of tuple paths of an array. Each tuple
	// adds a term for each element, which multiplies the index of a large
	// document more than anything else does.
	TuplesMax = 8

	// TextPathsMax is the maximum number of paths of a full-text policy,
	// EmbeddingsMax that of a vector embedding policy. They also bound the
	// number of indexes of these kinds. The service documents no limit.
	TextPathsMax  = 100
	EmbeddingsMax = 100

	// ComputedMax is the maximum number of computed properties of a container.
	ComputedMax = 20

	// RetentionMax is the longest time for which every version of a document is
	// kept: the longest time that the service can go back.
	RetentionMax = 30 * 24 * time.Hour

	// UniqueKeysMax is the maximum number of unique keys of a container,
	// UniqueKeyPathsMax the maximum number of paths of each.
	UniqueKeysMax     = 10
	UniqueKeyPathsMax = 16

	// TTLMax is the longest time to live, in seconds.
	TTLMax = 1<<31 - 1

	// VectorDimensionsMax is the maximum number of dimensions of a vector,
	// FlatDimensionsMax that in an index of type flat.
	VectorDimensionsMax = 4096
	FlatDimensionsMax   = 505

	// QuantizationBytesMax is the longest code of a vector that can be
	// requested, in bytes. A code is never longer than the number of dimensions.
	QuantizationBytesMax = 512

	// The range that the service accepts for indexingSearchListSize, and the
	// number of paths for vectorIndexShardKey.
	searchListMin = 25
	searchListMax = 500
	shardPathsMax = 1

	// NumbersMax is how many documents a partition can number during its life:
	// the counter in a document number has that many values.
	NumbersMax = 1 << counterBits
)

// Limits holds every limit that a server can configure. The defaults are those
// documented by the service unless the field says otherwise. A request that
// reaches a limit gets a status; it never hangs. Sizes are in bytes.
//
// The physical limits are configurable so that splits, refusals and costs can be
// observed on a laptop at any scale with the same code.
type Limits struct {
	DocumentBytes int // one stored document as JSON, without system properties: 413
	BodyBytes     int // one request body as received: 413
	ResponseBytes int // one page of rows; the first row is returned whatever its size
	ItemIDBytes   int // fixed: the id of a document
	NameChars     int // fixed: the id of a database or container
	KeyBytes      int // fixed: one string component of a partition key
	Depth         int // fixed: nested arrays and objects in a document

	PageItems int           // rows per page if the client does not ask for a number
	PageTime  time.Duration // how long a page may take before it ends early

	LogicalPartitionBytes  int64 // documents of one full partition key: 403/1014
	PhysicalPartitionBytes int64 // documents of one physical partition; a larger one is split

	PartitionRUs  int // maximum RU/s of one physical partition
	ContainerRUs  int // maximum RU/s of a container or database: 400
	ManualDivisor int // RU/s per partition of a container that is created with manual throughput above PartitionRUs

	MetadataRUs       int // RU/s for requests about databases, containers, their ranges and throughput: 429/3201; 0 means no limit
	ThroughputChanges int // changes of provisioned throughput in five minutes: 429/3201; 0 means no limit

	Databases        int // databases plus containers: 403/1005; 0 means no limit
	SharedContainers int // containers that share the throughput of their database

	QueryTextBytes    int           // text of a query: 400
	QueryMemoryBytes  int64         // memory of all queries together for groups, distinct rows and ranked rows: 429; 400 when one alone needs more
	QueryTime         time.Duration // processor time of one request for a page of a query: 400 beyond
	LongQuery         time.Duration // a request for a page of a query is listed as running when it takes longer
	QueryQueue        int           // queries that wait for a processor: 429 beyond
	ContinuationBytes int           // a continuation token; Decan's own are always shorter, and longer ones are refused

	WriteQueue int // writes waiting for one partition: 429 beyond
	OpenStores int // partition stores open at once; lowered to what the descriptor limit allows

	ClockSkew      time.Duration // how far the date of a signature may be from the current time; 0 means no limit
	SessionWait    time.Duration // how long a read waits for a partition that has not reached its session token: 404/1002; 0 disables the wait
	RequestTimeout time.Duration // a request that takes longer ends with 408
}

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		DocumentBytes: 2 << 20, // 2 MB items
		BodyBytes:     2 << 20, // 2,097,152 bytes as received
		ResponseBytes: 4 << 20, // 4 MB responses
		ItemIDBytes:   ItemIDBytesMax,
		NameChars:     NameCharsMax,
		KeyBytes:      partitionkey.ComponentBytesMax,
		Depth:         value.DepthMax,

		PageItems: 1000,            // what the service sends if it may choose
		PageTime:  5 * time.Second, // the service's budget of one execution

		LogicalPartitionBytes:  20 << 30,
		PhysicalPartitionBytes: 50 << 30,

		PartitionRUs:  10_000,
		ContainerRUs:  1_000_000,
		ManualDivisor: 6_000, // the service's sizing of large loads: 150,000 RU/s start on 25 partitions

		MetadataRUs:       0, // the service has 240, but tests that create many containers would be throttled
		ThroughputChanges: 0, // the service has 25

		Databases:        0, // the service has 500; a self-hosted server needs no limit
		SharedContainers: 25,

		QueryTextBytes:    512 << 10,
		QueryMemoryBytes:  64 << 20,    // few queries group or rank many rows, and a small machine has this much memory
		QueryTime:         time.Minute, // clients time out after that, on any number of processors
		LongQuery:         time.Second, // users notice a longer time
		QueryQueue:        256,         // each waits on a connection; in a longer queue clients would time out
		ContinuationBytes: 1 << 10,     // clients ask for tokens below 1 KB

		WriteQueue: 1_024, // in a longer queue clients would time out
		OpenStores: 4_096, // half a gigabyte of idle stores

		ClockSkew:      15 * time.Minute,
		SessionWait:    50 * time.Millisecond, // asking another replica is faster than a longer wait
		RequestTimeout: 65 * time.Second,      // clients give up after 60 s
	}
}

// LaptopLimits returns limits at which seconds of load show effects that take hours in
// the service: a physical partition is full at 10 MB, a logical one at 4 MB, and RU/s
// are a tenth, except the minimum of an offer.
func LaptopLimits() Limits {
	l := DefaultLimits()
	l.LogicalPartitionBytes = 4 << 20 // 1/5,120 of the default, like the next one
	l.PhysicalPartitionBytes = 10 << 20
	l.PartitionRUs = 1_000
	l.ContainerRUs = 100_000
	l.ManualDivisor = 600
	return l
}

// Validate reports all errors of the limits together: a limit that is not
// positive, a fixed limit that is changed, and limits that contradict each
// other. Only ClockSkew, SessionWait, Databases, MetadataRUs and
// ThroughputChanges may be zero.
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
		{"QueryTime", int64(l.QueryTime)},
		{"LongQuery", int64(l.LongQuery)},
		{"QueryQueue", int64(l.QueryQueue)},
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

// PartitionsFor returns the number of physical partitions of a new container
// with that throughput: one up to PartitionRUs. Above it, autoscale and shared
// databases get one partition per PartitionRUs, and manual throughput one per
// ManualDivisor, which leaves room to grow without a split.
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

// Gigabytes returns the size in whole gigabytes, rounded up, for the rules that
// derive throughput from the stored data. A gigabyte there is a fiftieth of the
// size of a physical partition, which is a real gigabyte by default: if the
// limits are scaled down, these rules scale with them.
func (l Limits) Gigabytes(bytes int64) int {
	full, rest := bytes/l.PhysicalPartitionBytes, bytes%l.PhysicalPartitionBytes
	if full > math.MaxInt32/partitionGigabytes {
		return math.MaxInt32
	}
	return int(full*partitionGigabytes + (rest*partitionGigabytes+l.PhysicalPartitionBytes-1)/l.PhysicalPartitionBytes)
}

// Stores returns how many bytes an autoscale maximum can store before it must
// rise: a tenth of it in gigabytes.
func (l Limits) Stores(t Throughput) int64 {
	gigabytes := int64(t.Max / autoscaleGigabyte)
	full, rest := gigabytes/partitionGigabytes, gigabytes%partitionGigabytes
	if full > math.MaxInt64/2/l.PhysicalPartitionBytes {
		return math.MaxInt64
	}
	return full*l.PhysicalPartitionBytes + rest*l.PhysicalPartitionBytes/partitionGigabytes
}

// partitionGigabytes is the size of a physical partition of the service in
// gigabytes.
const partitionGigabytes = 50

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// tableGigabytes is the size of a physical partition of a table in the service, in
// gigabytes.
const tableGigabytes = 30

// OfTables returns the own limits of a new table: its physical partitions are smaller
// than those of a container of documents, in the proportion of the service (S120, S194).
func (l Limits) OfTables() OwnLimits {
	return OwnLimits{PhysicalPartitionBytes: max(OwnBytesMin, l.PhysicalPartitionBytes/partitionGigabytes*tableGigabytes)}
}

// OwnLimits are the limits of one container that replace those of the server. A
// zero field keeps the server's limit. Sizes are in bytes.
type OwnLimits struct {
	LogicalPartitionBytes  int64 `json:"logicalPartitionBytes,omitzero"`
	PhysicalPartitionBytes int64 `json:"partitionBytes,omitzero"`
	PartitionRUs           int   `json:"partitionRUs,omitzero"`
	ContainerRUs           int   `json:"containerRUs,omitzero"`

	// SplitDelay delays each split of the container's partitions. Nil keeps the
	// server's delay, because zero is a valid delay.
	SplitDelay *time.Duration `json:"splitDelay,omitempty"`
}

// The range of a container's own limits. The lowest sizes hold a document of
// some kilobytes; the highest exceed any disk.
const (
	OwnBytesMin      = 16 << 10
	OwnBytesMax      = 1 << 50
	OwnRUsMax        = 100_000_000
	OwnSplitDelayMax = 7 * 24 * time.Hour
)

// Of returns the limits of a container with its own limits.
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

// Equal reports whether both have the same limits.
func (o OwnLimits) Equal(other OwnLimits) bool {
	a, b := o.SplitDelay, other.SplitDelay
	o.SplitDelay, other.SplitDelay = nil, nil
	return o == other && (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// Validate returns the first error of a container's own limits together with
// those of the server, as status 400.
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
