package engine

import (
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Link names a resource. Each segment is a name or the text of a RID: names are
// tried first. Unused segments are empty.
type Link struct {
	Database  string
	Container string
	Document  string
}

// path returns what the link names, for refusals.
func (l Link) path() status.Path {
	p := status.Path{Database: l.Database, Container: l.Container}
	if l.Document != "" {
		p.Kind, p.ID = "docs", l.Document
	}
	return p
}

// Owner names the resource that another one is in: a database, a container, or a
// user. Unused parts are empty.
type Owner struct{ Database, Container, User string }

// Result is what every operation returns beside its body. It is filled in as
// far as known when the operation fails, too.
type Result struct {
	Charge     float64                // request units, rounded to two decimals
	Session    string                 // session token such as 0:-1#12, empty when no partition took part
	Partitions []resource.PartitionID // physical partitions that were asked, in the order of asking
	LSN        resource.LSN           // that the answer reflects; of the last partition asked
	ETag       resource.ETag          // of the one resource or range list in the answer

	Owner    Owner        // by names: the container of documents, the database of containers
	OwnerRID resource.RID // of the same; empty for databases and offers
}

// Options are what every request on documents may carry.
type Options struct {
	Session     string // session token as received, possibly a list; empty: none
	Consistency string // level asked for; empty: the account's
	IntendedRID string // container RID that the client remembers; empty: none

	LowPriority bool  // gives way to other requests when throughput is short
	Bucket      uint8 // throughput bucket 1 to 5; 0: none is named
}

// meter returns the meter of a request on documents.
func (o Options) meter(twice bool) throughput.Meter {
	return throughput.Meter{Spender: throughput.Spender{Low: o.LowPriority, Bucket: o.Bucket}, Twice: twice}
}

// ParseDirective reads an indexing directive: Default, Include or Exclude in any
// case, and nothing as Default. The error is BadRequest.
func ParseDirective(text string) (partition.Directive, error) {
	return partition.ParseDirective(text)
}

// DocumentRequest asks for one document. Create and Upsert use Link's container
// and Document; Replace uses all; Read and Delete use neither Document nor Size.
type DocumentRequest struct {
	Link        Link              // Link.Document is the id, or the RID as text
	Key         *partitionkey.Key // as given with the request; nil: none was given
	Document    value.Value       // the document as the client wrote it
	Size        int               // bytes of the document as received
	IfMatch     resource.ETag     // empty: no condition; "*": any version
	IfNoneMatch resource.ETag
	Directive   partition.Directive // whether the document is indexed; not used by Read and Delete

	// The triggers of the container that run with a Create, Replace, Upsert or
	// Delete, in their order: those in front of the write, and those behind it.
	PreTriggers, PostTriggers []string
	Options
}

// Document is the answer to an operation on one document. Result.ETag is the
// document's; it is kept when Read answers status.CodeNotModified.
type Document struct {
	Result
	Body    []byte // complete JSON with system properties; nil after Delete. The caller may keep it
	Created bool   // Create always, Upsert when the document was new
}

// QueryRequest asks for a page of rows: of a query, or of all documents when
// List is called.
//
// Key, Partition and Clip narrow the scope and may be combined; with none the
// whole container is asked.
type QueryRequest struct {
	Link         Link
	Text         string // not used by List
	Params       []query.Param
	Key          *partitionkey.Key     // whole key, or a prefix when the key is hierarchical
	Partition    *resource.PartitionID // one physical partition; an unknown one is 410/1002
	Clip         *partitionkey.Range   // part of the key space
	MaxItems     int                   // rows of a page; 0: the default; negative: as many as fit
	Continuation string                // from the page before; empty: the first page
	Cross        bool                  // the client allows more than one partition
	Full         bool                  // merge here, whatever the configured mode
	Indexes      bool                  // fill in Feed.Indexes
	Explain      bool                  // answer with one row that says how the page was made, instead of its rows
	Options
}

// Feed is a page of rows.
type Feed struct {
	Result
	Rows         [][]byte       // each one JSON value
	Continuation string         // for the next page, ASCII below 1 KB; empty: this is the last
	ParentRID    resource.RID   // whose feed this is; empty for databases and offers
	Stats        query.Stats    // what the query did, over all partitions
	Indexes      query.IndexUse // which indexes the plan uses, and which would help; zero unless asked for
}

// PlanRequest asks how a client has to run a query.
type PlanRequest struct {
	Link     Link
	Text     string
	Params   []query.Param
	Key      *partitionkey.Key // whole key or prefix given beside the query; nil: none
	Features string            // comma-separated features that the client can merge
	Options
}

// Plan is the client-visible plan.
type Plan struct {
	Result
	Body []byte // plan JSON
}

// ThroughputRequest is what a client asks for when it creates something. Both
// nil: the default for a container, none for a database.
type ThroughputRequest struct {
	Manual       *int // RU/s
	AutoscaleMax *int // RU/s

	Upgrade resource.Upgrade // of AutoscaleMax
}

// DatabaseRequest asks for a database.
type DatabaseRequest struct {
	Link        Link              // of the database; zero for Create
	Body        value.Value       // Create only
	Throughput  ThroughputRequest // Create only
	IfMatch     resource.ETag     // Delete only
	IfNoneMatch resource.ETag     // Read only: answer status.CodeNotModified when it is current
}

// ContainerRequest asks for a container, or for its partition key ranges.
type ContainerRequest struct {
	Link        Link              // of the container; for Create of its database
	Body        value.Value       // Create and Replace
	IfMatch     resource.ETag     // Replace and Delete
	IfNoneMatch resource.ETag     // Read and Ranges: answer status.CodeNotModified when it is current
	Throughput  ThroughputRequest // Create only
	Partitions  int               // Create only: exact number of physical partitions; 0: as the throughput asks
	Usage       bool              // Read only: fill in Resource.Usage, which asks every partition
}

// OfferRequest asks for a provisioned throughput.
type OfferRequest struct {
	Offer        string        // RID text
	Body         value.Value   // Replace only
	IfMatch      resource.ETag // Replace only
	IfNoneMatch  resource.ETag // Read only: answer status.CodeNotModified when it is current
	PartitionRUs bool          // the answer's body tells what each physical partition is given

	// Replace only: switch the mode, or divide the throughput anew over physical
	// partitions; with neither, the change is the one of Body.
	MigrateToAutoscale bool
	MigrateToManual    bool
	Redistribution     *Redistribution
}

// Resource is the answer to an operation on a definition. Result.ETag is the
// resource's.
type Resource struct {
	Result
	Body []byte       // complete JSON; nil after Delete
	RID  resource.RID // of the resource itself

	IndexProgress int // containers: percent of the index transformation, 100 when none is under way
	Usage         *Usage

	MinThroughput     int  // offers: lowest RU/s that Replace accepts
	InstantThroughput int  // offers: highest RU/s that need no split
	MaxThroughput     int  // offers: highest RU/s that Replace accepts
	ReplacePending    bool // offers: partitions are being split for it
}

// Usage is how much a container holds.
type Usage struct {
	Documents     int64
	DocumentBytes int64 // user data
	IndexBytes    int64 // what the stores take on disk beyond that: index, log and garbage
}

// PartitionStats is how one physical partition is doing.
type PartitionStats struct {
	Partition     resource.Partition
	Change        string // that it is in the middle of: "split" or "merge", empty for none
	Documents     int64
	DocumentBytes int64 // user data
	IndexBytes    int64 // what the store takes on disk beyond that
	LSN           resource.LSN
	Reads         int64 // calls since the partition was opened
	Writes        int64
	Queries       int64
	Purging       int   // partition keys, and prefixes, whose deleted documents still count in the figures above
	Cleared       int64 // such documents that are gone since the partition was opened
	Load          Load  // what requests have spent
}
