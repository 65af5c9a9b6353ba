// Package resource defines the nouns of the database: accounts, databases,
// containers, throughput, partitions and their names, as plain data with
// validation and no I/O.
//
// Begin with [Container]: it has everything that a request needs to know about a
// container, and [Container.KeyOf] extracts a document's partition key. Then
// read the names: [RID] (which clients cache and sign), [ETag], [LSN] and
// [SessionToken]. limits.go has every limit of the system with its default and
// its reason.
//
// # Invariants
//
// A parsed resource is valid and need not be checked again. A document's RID
// begins with its container's RID, which begins with its database's.
//
// # On disk
//
// [Database], [Container], [Partition] and [Throughput] are stored as the JSON
// of encoding/json: RIDs as text, bounds of ranges in hexadecimal.
//
// The package knows no protocol, no storage and no clock.
//
// Page: docs/architecture.md, "Floor 0: words".
package resource

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// LSN is the number of an effect in its partition. It increases by one with each
// effect that changes documents. Zero is before the first.
type LSN uint64

// ETag identifies one version of a resource. It is the quoted text of the _etag
// property and the etag header.
type ETag string

// PartitionID identifies a physical partition in its container. It is never
// reused there. Its decimal text is the partition key range id that clients see.
type PartitionID uint32

// String returns the decimal text.
func (id PartitionID) String() string { return strconv.FormatUint(uint64(id), 10) }

// GroupID identifies a replica set. A single machine has only group 1.
type GroupID uint32

// Generation fences a partition's bounds: it increases with every change of the
// bounds or of the sealed state.
type Generation uint64

// Timestamp is the time of a write in seconds since 1970, as in _ts.
type Timestamp int64

// Account is the content of the account document.
type Account struct {
	ID          string      // never "localhost", which clients treat specially
	Region      string      // the one region's name
	Consistency Consistency // the default level of the account
}

// Database is a named set of containers.
type Database struct {
	ID   string    `json:"id"`
	RID  RID       `json:"rid"`
	ETag ETag      `json:"etag"`
	TS   Timestamp `json:"ts"`

	// Keyspace is the definition of a keyspace of the Cassandra API, as package table
	// writes it. Empty for a database of documents.
	Keyspace json.RawMessage `json:"keyspace,omitempty"`
}

// SystemDatabase is the name of the database with the server's own tables. No client can
// give or use that name.
const SystemDatabase = "/system"

// IsSystem reports whether the database has the server's own tables.
func (d *Database) IsSystem() bool { return d.ID == SystemDatabase }

// Container is a named set of documents with one partition key definition and
// one indexing policy. It is immutable: a change makes a new Container.
type Container struct {
	ID           string                  `json:"id"`
	RID          RID                     `json:"rid"`
	ETag         ETag                    `json:"etag"`
	TS           Timestamp               `json:"ts"`
	PartitionKey partitionkey.Definition `json:"partitionKey"` // normalized: kind and version are set
	Indexing     IndexingPolicy          `json:"indexing"`

	// DefaultTTL is the number of seconds after its last write at which a
	// document without its own time to live expires. 0 means that no document
	// expires, -1 that only documents with their own time to live expire.
	DefaultTTL int32 `json:"defaultTtl,omitzero"`

	// Retention is how long every version of a document is kept for the change
	// feed of all versions, in whole minutes. Zero keeps no old versions.
	Retention time.Duration `json:"retention,omitzero"`

	// ReplacedImages requests the version before a replace in the change feed of
	// all versions. That before a deletion is always in it.
	ReplacedImages bool `json:"replacedImages,omitzero"`

	// UniqueKeys are the values that no two documents of one partition key may
	// share.
	UniqueKeys []UniqueKey `json:"uniqueKeys,omitzero"`

	// Settings holds the other members of the definition in the form that
	// clients read (conflictResolutionPolicy, vectorEmbeddingPolicy and others):
	// an object with what was given and the defaults that the service returns.
	// The database uses only the typed fields, here and in Indexing.
	Settings value.Value `json:"settings"`

	// Limits are the container's own limits. Clients do not see them.
	Limits OwnLimits `json:"limits,omitzero"`

	// Table is the definition of a table of the Cassandra API, as package table writes
	// it. Empty for a container of documents.
	Table json.RawMessage `json:"table,omitempty"`

	// keyPaths are the parsed paths of PartitionKey.
	keyPaths []value.Path
}

// Partition is one physical partition of a container, with its key range and its
// replica set.
type Partition struct {
	ID         PartitionID        `json:"id"`
	Range      partitionkey.Range `json:"range"`
	Parents    []PartitionID      `json:"parents,omitempty"` // all ancestors, oldest first
	Group      GroupID            `json:"group"`
	Generation Generation         `json:"generation"`
	Ordinal    uint32             `json:"ordinal"` // 20 bits, unique in the container: the upper part of the document numbers that the partition assigns
	CreatedAt  Timestamp          `json:"createdAt"`
}

// Throughput is the provisioned throughput of a container or database. The wire
// protocol calls it an offer.
type Throughput struct {
	RID      RID       `json:"rid"`               // of the offer: three bytes
	Owner    RID       `json:"owner"`             // the container, or the database whose containers share it
	Manual   int       `json:"manual,omitempty"`  // RU/s; zero when autoscale
	Max      int       `json:"max,omitempty"`     // autoscale maximum RU/s; zero when manual
	Highest  int       `json:"highest,omitempty"` // highest Total ever, which limits how far it may be lowered
	ETag     ETag      `json:"etag"`
	TS       Timestamp `json:"ts"`
	Replaced Timestamp `json:"replaced"` // last change of Manual or Max

	// Shares divides the total over physical partitions manually, in the order
	// of containers and ids. The sum is Total minus what dropped containers had.
	// If it is empty, the total is divided evenly, or not at all if containers
	// share it. Splits and merges pass shares on, see [Throughput.Inherited].
	Shares []Share `json:"shares,omitempty"`

	Upgrade Upgrade `json:"upgrade,omitzero"` // of an autoscale maximum

	Buckets   []Bucket  `json:"buckets,omitempty"`   // sorted by id; ids are unique
	BucketsAt Timestamp `json:"bucketsAt,omitempty"` // last change of Buckets

	Earlier []EarlierThroughput `json:"earlier,omitempty"` // the last EarlierMax values before this one, oldest first
}

// EarlierMax is the number of earlier values that a throughput keeps.
const EarlierMax = 20

// EarlierThroughput is a value that a throughput had.
type EarlierThroughput struct {
	Manual int       `json:"manual,omitempty"` // RU/s; zero when autoscale
	Max    int       `json:"max,omitempty"`    // autoscale maximum RU/s; zero when manual
	TS     Timestamp `json:"ts"`               // since then
}

// Upgrade says by how much an autoscale maximum rises by itself when it is too
// low. The zero value lets it follow the stored data only.
type Upgrade struct {
	Percent int  `json:"percent,omitempty"` // up to UpgradeMax
	Off     bool `json:"off,omitempty"`     // the policy is kept but disabled
	Zero    bool `json:"zero,omitempty"`    // there is a policy, of zero percent, which clients read back
}

// Share is the part of a throughput that one physical partition has.
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

// Total returns the RU/s by which the container is sized: the manual throughput
// or the autoscale maximum.
func (t Throughput) Total() int {
	if t.Max > 0 {
		return t.Max
	}
	return t.Manual
}

// Consistency is a consistency level, strongest first.
type Consistency uint8

// The five levels.
const (
	Strong Consistency = iota
	BoundedStaleness
	Session
	ConsistentPrefix
	Eventual
)
