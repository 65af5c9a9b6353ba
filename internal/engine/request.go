package engine

import (
	"strings"

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

// path returns the resource that the link names, for the texts of errors.
func (l Link) path() status.Path {
	p := status.Path{Database: l.Database, Container: l.Container}
	if l.Document != "" {
		p.Kind, p.ID = "docs", l.Document
	}
	return p
}

// Owner names the parent of a resource: a database, a container, or a user.
// Unused parts are empty.
type Owner struct{ Database, Container, User string }

// Result is what every operation returns in addition to its body. When the
// operation fails, the fields known by then are set.
type Result struct {
	Charge     float64                // request units, rounded to two decimals
	Session    string                 // session token such as 0:-1#12; empty if no partition was asked
	Partitions []resource.PartitionID // physical partitions asked, in the order in which they were asked; ascending for queries and feeds
	LSN        resource.LSN           // of the state that the answer shows, in the last partition asked
	ETag       resource.ETag          // of the resource or range list in the answer
	ItemLSN    resource.LSN           // of the last write of the one document in the answer; 0 for other answers
	Size       PartitionSize          // of the one partition that answered for one document or a batch

	Owner    Owner        // names of the parent: the container of documents, the database of containers
	OwnerRID resource.RID // RID of the parent; empty for databases and offers
}

// PartitionSize is the size of the documents of a physical partition. Known is
// false for answers that do not have it, and for a caller that may not read
// statistics.
type PartitionSize struct {
	Known     bool
	Documents int64
	Bytes     int64 // user data
}

// Options are the settings that every request on documents may have.
type Options struct {
	Session     string // session token as received, possibly a list of tokens; empty: none
	Consistency string // requested level; empty: the account's
	SessionList bool   // the client reads a session token that is a list, so that an answer of several partitions has all their tokens
	IntendedRID string // RID of the container as the client knows it; another one is refused; empty: any

	LowPriority bool  // served after other requests when throughput is short
	Bucket      uint8 // throughput bucket 1 to 5; 0: none
}

// meter returns the meter of a request on documents.
func (o Options) meter(twice bool) throughput.Meter {
	return throughput.Meter{Spender: throughput.Spender{Low: o.LowPriority, Bucket: o.Bucket}, Twice: twice}
}

// CheckDirective checks an indexing directive: empty, Default, Include or Exclude in any
// case, or the numbers 0, 2 and 1 that the Python SDK sends for them. Directives have no
// effect, as in the service: every document is indexed as the policy says. The error is
// BadRequest.
func CheckDirective(text string) error {
	switch strings.ToLower(text) {
	case "", "default", "0", "include", "2", "exclude", "1":
		return nil
	}
	return status.BadRequest("The indexing directive %.64q is none of Default, Include and Exclude.", text)
}

// DocumentRequest is a request for one document. Create and Upsert ignore
// Link.Document; Read and Delete ignore Document and Size.
type DocumentRequest struct {
	Link        Link              // of the document: Link.Document is its id, or the text of its RID
	Key         *partitionkey.Key // as given with the request; nil: none
	Document    value.Value       // the new document, or the body of a PATCH request
	Size        int               // bytes of Document as received
	IfMatch     resource.ETag     // empty: no condition; "*": any version
	IfNoneMatch resource.ETag

	// The triggers of the container that run before and after a Create,
	// Replace, Upsert or Delete, in this order.
	PreTriggers, PostTriggers []string
	Options
}

// Document is the answer to an operation on one document. Result.ETag is the
// document's; it is kept when Read answers status.CodeNotModified.
type Document struct {
	Result
	Body    []byte // complete JSON with system properties; nil after Delete. The caller owns it
	Created bool   // true for Create, and for Upsert of a new document
}

// QueryRequest is a request for a page of rows: of a query, or for List of all
// documents.
//
// Key, Partition and Clip narrow the scope and may be combined. Without them
// the scope is the whole container.
type QueryRequest struct {
	Link         Link
	Text         string // ignored by List
	Params       []query.Param
	Key          *partitionkey.Key     // whole key, or a prefix when the key is hierarchical
	Partition    *resource.PartitionID // one physical partition; an unknown one is 410/1002
	Former       bool                  // Partition may be one that others have replaced: they answer for its range
	Clip         *partitionkey.Range   // part of the key space
	MaxItems     int                   // rows of a page at most; 0 or less: Limits.PageItems
	Continuation string                // from the previous page; empty: the first page
	Resume       *query.Resume         // where the rows of an ordered query begin; nil: at the first
	Cross        bool                  // the client allows more than one partition
	Full         bool                  // merge in the engine, whatever the configured mode
	Indexes      bool                  // fill in Feed.Indexes
	Explain      bool                  // answer with one row that describes how the page was made, instead of its rows
	Options
}

// Feed is a page of rows.
type Feed struct {
	Result
	Rows         [][]byte       // each is one JSON value
	Continuation string         // for the next page, ASCII, less than 1 KB; empty: this page is the last
	ParentRID    resource.RID   // of the resource that the rows belong to; empty for databases and offers
	Stats        query.Stats    // work of the query, summed over all partitions
	Indexes      query.IndexUse // the indexes that the plan uses, and those that would help; zero unless requested
	Former       bool           // the partitions that have replaced the one that the request names have answered
	Combined     bool           // rows are made of several documents: DISTINCT, GROUP BY, aggregates
}

// PlanRequest is a request for the plan by which a client runs a query.
type PlanRequest struct {
	Link     Link
	Text     string
	Params   []query.Param
	Key      *partitionkey.Key // whole key or prefix given with the query; nil: none
	Features string            // comma-separated features that the client can merge
	Options
}

// Plan is the client-visible plan.
type Plan struct {
	Result
	Body []byte // plan JSON; shared, and not to be changed
}

// ThroughputRequest is the throughput of a new database or container. If both
// are nil, a container gets the default and a database none.
type ThroughputRequest struct {
	Manual       *int // RU/s
	AutoscaleMax *int // RU/s

	Upgrade resource.Upgrade // of AutoscaleMax
}

// DatabaseRequest is a request for a database.
type DatabaseRequest struct {
	Link        Link              // of the database; zero for Create
	Body        value.Value       // Create only
	Throughput  ThroughputRequest // Create only
	IfMatch     resource.ETag     // Delete only
	IfNoneMatch resource.ETag     // Read only: answer status.CodeNotModified when it is current
}

// ContainerRequest is a request for a container, or for its partition key
// ranges.
type ContainerRequest struct {
	Link        Link              // of the container; for Create, of its database
	Body        value.Value       // Create and Replace
	IfMatch     resource.ETag     // Replace and Delete
	IfNoneMatch resource.ETag     // Read and Ranges: answer status.CodeNotModified when it is current
	Throughput  ThroughputRequest // Create only
	Partitions  int               // Create only: exact number of physical partitions; 0: as many as the throughput needs
	Usage       bool              // Read only: set Resource.Usage, for which every partition is asked
}

// OfferRequest is a request for a provisioned throughput.
type OfferRequest struct {
	Offer        string        // RID text
	Owner        Link          // Replace only: of the container or database whose offer it is, if Offer is empty
	Body         value.Value   // Replace only
	IfMatch      resource.ETag // Replace only
	IfNoneMatch  resource.ETag // Read only: answer status.CodeNotModified when it is current
	PartitionRUs bool          // the body of the answer has the share of each physical partition

	// Replace only: switch the mode, or divide the throughput again over
	// physical partitions. Without these, Body has the change.
	MigrateToAutoscale bool
	MigrateToManual    bool
	Redistribution     *Redistribution

	// Throughput, if not zero, is the new value, whose mode may be another one: Replace
	// only.
	Throughput ThroughputRequest
}

// Resource is the answer to an operation on a definition. Result.ETag is the
// resource's.
type Resource struct {
	Result
	Body []byte       // complete JSON; nil after Delete
	RID  resource.RID // of the resource

	IndexProgress int // containers: percent of the index transformation that is done; 100 if none is in progress
	Usage         *Usage
	Shared        bool // containers: the throughput is that of the database
	Scripts       int  // scripts: number of scripts of the kind that the container has

	MinThroughput     int  // offers: lowest RU/s that Replace accepts
	InstantThroughput int  // offers: highest RU/s that Replace accepts without a split
	MaxThroughput     int  // offers: highest RU/s that Replace accepts
	ReplacePending    bool // offers: partitions are being split to reach it

	Earlier []resource.EarlierThroughput // offers: values that it had before, oldest first; not to be changed
}

// Usage is the size of a container.
type Usage struct {
	Documents     int64
	DocumentBytes int64 // user data
	IndexBytes    int64 // bytes on disk in addition to user data: index, log and garbage
}

// PartitionStats are the size, state and load of one physical partition.
type PartitionStats struct {
	Partition     resource.Partition
	Change        string // in progress: "split" or "merge", empty for none
	Documents     int64
	DocumentBytes int64 // user data
	IndexBytes    int64 // bytes on disk in addition to user data
	LSN           resource.LSN
	Reads         int64 // calls since the partition was opened, as the next two
	Writes        int64
	Queries       int64
	Purging       int   // partition keys and prefixes whose deleted documents still count above
	Cleared       int64 // such documents removed since the partition was opened
	Load          Load  // request units spent
}
