// Package resource holds the nouns of the database: accounts, databases,
// containers, throughput, partitions and their names, as plain data with
// validation and no I/O.
//
// Learn [Container] first: it carries everything a request needs to know of a
// container, and [Container.KeyOf] extracts a document's partition key. Then
// the names: [RID] (what clients cache and sign), [ETag], [LSN] and
// [SessionToken]. Every limit of the system, with its default and its reason,
// is in limits.go.
//
// # Invariants
//
// A parsed resource is valid: whoever holds one need not check it again.
// A document's RID begins with its container's, and a container's with its
// database's.
//
// # On disk
//
// [Database], [Container], [Partition] and [Throughput] are kept as the JSON
// that encoding/json makes of them: RIDs as their text, bounds of ranges in
// hexadecimal.
//
// The package knows no protocol, no storage and no clock.
//
// Page: docs/architecture.md, "Floor 0: words".
package resource

import (
	"strconv"
	"time"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// LSN numbers the effects of one partition: it rises by one with each effect
// that changes documents. Zero is before the first.
type LSN uint64

// ETag names one version of a resource: quoted text, as it stands in the _etag
// property and the etag header.
type ETag string

// PartitionID names a physical partition inside its container, and is never
// used twice there. Its decimal text is the partition key range id that clients see.
type PartitionID uint32

// String returns the decimal text.
func (id PartitionID) String() string { return strconv.FormatUint(uint64(id), 10) }

// GroupID names a replica set. A single machine has group 1 alone.
type GroupID uint32

// Generation fences a partition's bounds: it rises with every change of bounds
// or of the sealed state.
type Generation uint64

// Timestamp is the time of a write in seconds since 1970, as _ts has it.
type Timestamp int64

// Account is what the account document tells clients.
type Account struct {
	ID          string      // never "localhost": clients treat it specially
	Region      string      // the one region's name
	Consistency Consistency // the default level of the account
}

// Database is a named set of containers.
type Database struct {
	ID   string    `json:"id"`
	RID  RID       `json:"rid"`
	ETag ETag      `json:"etag"`
	TS   Timestamp `json:"ts"`
}

// Container is a named set of documents with one partition key definition and
// one indexing policy. It is immutable: a change makes another Container.
type Container struct {
	ID           string                  `json:"id"`
	RID          RID                     `json:"rid"`
	ETag         ETag                    `json:"etag"`
	TS           Timestamp               `json:"ts"`
	PartitionKey partitionkey.Definition `json:"partitionKey"` // normalized: kind and version are set
	Indexing     IndexingPolicy          `json:"indexing"`

	// DefaultTTL is how many seconds after their last write documents expire
	// that do not say otherwise: 0 when documents do not expire at all, and -1
	// when only those do that ask for it.
	DefaultTTL int32 `json:"defaultTtl,omitzero"`

	// Retention is for how long every version of a document is kept for the change
	// feed of all versions; zero for not at all. Whole minutes.
	Retention time.Duration `json:"retention,omitzero"`

	// UniqueKeys are what no two documents of one partition key may share.
	UniqueKeys []UniqueKey `json:"uniqueKeys,omitzero"`

	// Settings holds the other members of the definition as clients read them
	// (conflictResolutionPolicy, vectorEmbeddingPolicy and the like), as an
	// object: what was given, and the defaults that the service shows. What the
	// database acts on is in the typed fields, here and in Indexing.
	Settings value.Value `json:"settings"`

	// Limits are those that the container has of its own. Clients do not see them.
	Limits OwnLimits `json:"limits,omitzero"`

	// keyPaths are the parsed paths of PartitionKey.
	keyPaths []value.Path
}

// Partition is one physical partition of a container: who owns which key range.
type Partition struct {
	ID         PartitionID        `json:"id"`
	Range      partitionkey.Range `json:"range"`
	Parents    []PartitionID      `json:"parents,omitempty"` // the whole line of ancestors, oldest first
	Group      GroupID            `json:"group"`
	Generation Generation         `json:"generation"`
	Ordinal    uint32             `json:"ordinal"` // 20 bits, unique in the container: the upper part of the document numbers that it hands out
	CreatedAt  Timestamp          `json:"createdAt"`
}

// Throughput is what a container or database is provisioned with. The wire
// calls it an offer.
type Throughput struct {
	RID      RID       `json:"rid"`               // of the offer: three bytes
	Owner    RID       `json:"owner"`             // the database, whose containers then share it, or the container
	Manual   int       `json:"manual,omitempty"`  // RU/s; zero when autoscale
	Max      int       `json:"max,omitempty"`     // autoscale maximum RU/s; zero when manual
	Highest  int       `json:"highest,omitempty"` // highest Total ever, which bounds how far it may fall
	ETag     ETag      `json:"etag"`
	TS       Timestamp `json:"ts"`
	Replaced Timestamp `json:"replaced"` // last change of the figure

	// Shares divides the total over physical partitions by hand: in the order of
	// containers and ids, and with the sum Total, less what dropped containers had.
	// Empty divides it evenly, or not at all when containers share it. Splits and
	// merges pass them on, see [Throughput.Inherited].
	Shares []Share `json:"shares,omitempty"`

	Upgrade Upgrade `json:"upgrade,omitzero"` // of an autoscale maximum

	Buckets   []Bucket  `json:"buckets,omitempty"`   // in the order of ids; none has an id twice
	BucketsAt Timestamp `json:"bucketsAt,omitempty"` // last change of them
}

// Upgrade is by how much an autoscale maximum rises by itself when it is too small.
// The zero value leaves it to what is stored.
type Upgrade struct {
	Percent int  `json:"percent,omitempty"` // 1 to UpgradeMax; zero for no policy
	Off     bool `json:"off,omitempty"`     // it is kept, and does nothing
}

// Share is what one physical partition is given of its container's throughput, or of
// that which containers share.
type Share struct {
	Container RID         `json:"container,omitempty"` // of a throughput that containers share; empty otherwise
	ID        PartitionID `json:"id"`
	RUs       int         `json:"rus"` // RU/s
}

// Bucket is a throughput bucket: a cap on the requests that name it.
type Bucket struct {
	ID      int  `json:"id"`                // 1 to BucketsMax
	Percent int  `json:"percent"`           // of the throughput, 1 to 100
	Default bool `json:"default,omitempty"` // requests that name no bucket are in this one
}

// Total returns the RU/s that sizes the container: the manual figure or the
// autoscale maximum.
func (t Throughput) Total() int {
	if t.Max > 0 {
		return t.Max
	}
	return t.Manual
}

// Consistency is a level of consistency, strongest first.
type Consistency uint8

// The five levels.
const (
	Strong Consistency = iota
	BoundedStaleness
	Session
	ConsistentPrefix
	Eventual
)
