package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Keyspace is a keyspace of the Cassandra API: a database with tables.
type Keyspace struct {
	Name       string
	RID        resource.RID
	Definition json.RawMessage // as package table writes it; not to be changed
	Version    resource.ETag   // of the definition
	Tables     []Table         // in the order of their creation
}

// Table is a table, or a materialized view, of a keyspace.
type Table struct {
	Name       string
	RID        resource.RID
	Definition json.RawMessage // as package table writes it; not to be changed
	Version    resource.ETag   // of the definition
}

// SchemaVersion returns the version of the definitions that [Engine.Keyspaces] returns,
// or of later ones. It rises with every change of the catalog.
func (e *Engine) SchemaVersion() uint64 { return e.catalog.View().Version() }

// Keyspaces returns the definitions of all keyspaces and tables, in the order of their
// creation, and their version. Every caller may read them.
func (e *Engine) Keyspaces() (version uint64, all []Keyspace) {
	view := e.catalog.View()
	for _, d := range view.Databases() {
		if len(d.Keyspace) == 0 {
			continue
		}
		k := Keyspace{Name: d.ID, RID: d.RID, Definition: d.Keyspace, Version: d.ETag}
		for _, c := range view.Containers(d.RID) {
			if c.IsTable() {
				k.Tables = append(k.Tables, Table{Name: c.ID, RID: c.RID, Definition: c.Table, Version: c.ETag})
			}
		}
		all = append(all, k)
	}
	return view.Version(), all
}

// KeyspaceRequest is a request for a keyspace.
type KeyspaceRequest struct {
	Name       string
	Definition json.RawMessage   // Create and Replace
	Throughput ThroughputRequest // Create only: shared by the tables; zero: none
	Version    resource.ETag     // Replace only: the version that the change was made from
}

// CreateKeyspace creates a keyspace. The error is 409 if a database has its name.
func (e *Engine) CreateKeyspace(ctx context.Context, caller auth.Caller, req KeyspaceRequest) (Resource, error) {
	return e.define(caller, auth.Create, Link{}, func(*Resource) error {
		change := catalog.CreateDatabase{Database: resource.Database{ID: req.Name, Keyspace: req.Definition}}
		if req.Throughput != (ThroughputRequest{}) {
			t, err := e.newThroughput(req.Throughput)
			if err != nil {
				return err
			}
			change.Throughput = &t
		}
		if err := e.roomForOne(e.catalog.View()); err != nil {
			return err
		}
		_, err := e.catalog.Commit(ctx, change)
		return err
	})
}

// ReplaceKeyspace changes the definition of a keyspace. The error is 404 if there is
// none, and 412 if it has another version.
func (e *Engine) ReplaceKeyspace(ctx context.Context, caller auth.Caller, req KeyspaceRequest) (Resource, error) {
	return e.define(caller, auth.Create, Link{}, func(*Resource) error {
		d, err := e.keyspace(req.Name)
		if err != nil {
			return err
		}
		d.Keyspace = req.Definition
		_, err = e.catalog.Commit(ctx, catalog.ReplaceDatabase{Database: d, Expect: req.Version})
		return err
	})
}

// DropKeyspace removes a keyspace with its tables. The error is 404 if there is none.
func (e *Engine) DropKeyspace(ctx context.Context, caller auth.Caller, req KeyspaceRequest) (Resource, error) {
	return e.define(caller, auth.Delete, Link{Database: req.Name}, func(*Resource) error {
		d, err := e.keyspace(req.Name)
		if err != nil {
			return err
		}
		if _, err := e.catalog.Commit(ctx, catalog.DeleteDatabase{RID: d.RID}); err != nil {
			return err
		}
		e.node.DropDatabase(d.RID)
		e.logger.Info("keyspace dropped", "database", d.RID)
		return nil
	})
}

// keyspace finds a keyspace by name.
func (e *Engine) keyspace(name string) (resource.Database, error) {
	d, ok := e.catalog.View().Database(name)
	if !ok || len(d.Keyspace) == 0 {
		return resource.Database{}, status.NotFound()
	}
	return d, nil
}

// TableRequest is a request for a table.
type TableRequest struct {
	Keyspace, Name string
	Columns        []string          // Create only: of the partition key, in order
	Definition     json.RawMessage   // Create and Replace
	Indexes        []string          // Replace only: the definitions of its secondary indexes, as package row writes them
	Throughput     ThroughputRequest // Create only; zero: as for a container
	Version        resource.ETag     // Replace only: the version that the change was made from
	Views          []string          // Truncate only: names of its materialized views
}

func (r *TableRequest) link() Link { return Link{Database: r.Keyspace, Container: r.Name} }

// CreateTable creates a table with its physical partitions, as [Engine.CreateContainer]
// does. The error is 404 without its keyspace, and 409 if its name is taken.
func (e *Engine) CreateTable(ctx context.Context, caller auth.Caller, req TableRequest) (Resource, error) {
	return e.define(caller, auth.Create, Link{Database: req.Keyspace}, func(out *Resource) error {
		view := e.catalog.View()
		d, err := e.keyspace(req.Keyspace)
		if err != nil {
			return err
		}
		c, err := resource.NewTable(req.Name, req.Columns, req.Definition)
		if err != nil {
			return err
		}
		c.Limits = e.limits.OfTables()
		if _, taken := view.Container(d.ID, c.ID); taken {
			return status.Conflict()
		}
		if err := e.roomForOne(view); err != nil {
			return err
		}
		own, sizing, err := e.throughputFor(view, d, req.Throughput)
		if err != nil {
			return err
		}
		c.RID = e.catalog.ReserveContainer(d.RID)
		return e.build(ctx, catalog.CreateContainer{
			Container:  c,
			Partitions: e.tile(c.PartitionKey, e.limits.PartitionsFor(sizing)),
			Throughput: own,
		}, out)
	})
}

// ReplaceTable changes the definition of a table. Secondary indexes that it gets or loses
// are built or removed in the background. The error is 404 if there is none, and 412 if it
// has another version.
func (e *Engine) ReplaceTable(ctx context.Context, caller auth.Caller, req TableRequest) (Resource, error) {
	return e.define(caller, auth.Replace, req.link(), func(*Resource) error {
		c, err := e.table(req.link())
		if err != nil {
			return err
		}
		changed := c.Container
		changed.Table, changed.Indexing.Rows = req.Definition, req.Indexes
		view, err := e.catalog.Commit(ctx, catalog.ReplaceContainer{Container: changed, Expect: req.Version})
		if err != nil || changed.Indexing.Equal(c.Indexing) {
			return err
		}
		if fresh, ok := view.ContainerByRID(c.RID); ok {
			e.node.Reindex(fresh)
		}
		return nil
	})
}

// HasIndex reports whether a secondary index with a definition has all rows of a table. It
// opens the partitions of the table.
func (e *Engine) HasIndex(ctx context.Context, table resource.RID, definition string) bool {
	c, ok := e.catalog.View().ContainerByRID(table)
	return ok && e.node.HasRowIndex(ctx, c, definition)
}

// DropTable removes a table with its rows. The error is 404 if there is none.
func (e *Engine) DropTable(ctx context.Context, caller auth.Caller, req TableRequest) (Resource, error) {
	return e.define(caller, auth.Delete, req.link(), func(*Resource) error {
		c, err := e.table(req.link())
		if err != nil {
			return err
		}
		if _, err := e.catalog.Commit(ctx, catalog.DeleteContainer{RID: c.RID}); err != nil {
			return err
		}
		e.node.DropContainer(c.RID)
		e.logger.Info("table dropped", "container", c.RID)
		return nil
	})
}

// table finds a table by name.
func (e *Engine) table(link Link) (*catalog.Container, error) {
	c, ok := e.catalog.View().Container(link.Database, link.Container)
	if !ok || !c.IsTable() {
		return nil, status.NotFound()
	}
	return c, nil
}

// ItemsResult is the result of an operation on items of a table.
type ItemsResult struct {
	Charge     float64                // request units, rounded to two decimals
	Partitions []resource.PartitionID // physical partitions asked, in the order in which they were asked

	// Largest is the key of a change that left the most bytes, and its size. Size is zero
	// if nothing was changed.
	Largest string
	Size    int64
}

// WriteItemsRequest is a change of items of one partition key of a table.
type WriteItemsRequest struct {
	Table  resource.RID
	Key    string // routing key
	Change partition.Change
}

// WriteItems carries out a change as one effect. Its errors are those of the change, and
// 404 if the table does not exist any more. The change may be evaluated again with the
// partition to which its key has moved; then nothing came of the earlier evaluation.
func (e *Engine) WriteItems(ctx context.Context, caller auth.Caller, req WriteItemsRequest) (ItemsResult, error) {
	e.turns.point()
	var meter throughput.Meter
	var out Result
	var size int64
	err := e.onTable(ctx, caller, auth.Upsert, req.Table, &out, func(c *catalog.Container) error {
		key := partitionkey.NewKey(partitionkey.Bytes(req.Key))
		if err := c.PartitionKey.Check(key, true); err != nil {
			return keyError(err)
		}
		w := partition.WriteItems{Key: key, EPK: c.PartitionKey.Hash(key), Change: req.Change, Meter: &meter, Size: &size}
		p := c.Ranges.Locate(w.EPK).Value
		w.Generation = p.Generation
		replica, release, err := e.node.Replica(ctx, c, p.ID)
		if err != nil {
			return err
		}
		defer release()
		e.visit(&out, p.ID)
		_, err = replica.WriteItems(ctx, w)
		return err
	})
	return ItemsResult{Charge: meter.Charge(), Partitions: out.Partitions, Largest: req.Key, Size: size}, fail(err)
}

// Add adds the charge and the partitions of another part of the same statement.
func (r *ItemsResult) Add(part ItemsResult) {
	r.Charge += part.Charge
	if part.Size > r.Size {
		r.Largest, r.Size = part.Largest, part.Size
	}
	for _, id := range part.Partitions {
		if !slices.Contains(r.Partitions, id) {
			r.Partitions = append(r.Partitions, id)
		}
	}
}

// writersMax is the number of partition keys of one statement that are written at the
// same time.
const writersMax = 16

// WriteAllItems carries out changes of different partition keys, several at the same time.
// Each is an effect of its own, and its error is at its index.
func (e *Engine) WriteAllItems(ctx context.Context, caller auth.Caller, all []WriteItemsRequest) (total ItemsResult, errs []error) {
	results, errs := make([]ItemsResult, len(all)), make([]error, len(all))
	workers(len(all), writersMax, func(i int) {
		results[i], errs[i] = e.WriteItems(ctx, caller, all[i])
	})
	for i := range results {
		total.Add(results[i])
	}
	return total, errs
}

// ReadItemsRequest is a visit of items of a table.
type ReadItemsRequest struct {
	Table resource.RID

	// Key is a routing key, and Slices the parts of it to visit, one after another. An
	// empty Key asks for all keys of Range, in the order of their tokens.
	Key    string
	Slices []partition.Slice
	Range  partitionkey.Range

	// After, if not empty, is the position of the item after which a visit of Range
	// begins: Item.Position of an earlier visit, possibly of another partition.
	// AfterKey, if not empty, is a routing key after whose items it begins instead.
	After    []byte
	AfterKey string

	Lookup *partition.Lookup // limits the visit; nil for no limit

	// Marked limits a visit of Range to marked items, in no order; see partition.Items. An
	// item may be visited more than once.
	Marked bool

	// Level is the consistency level that the read is charged for. What is read is
	// always the latest state.
	Level resource.Consistency

	// Visit is called with each item until it returns false. If the partition moves
	// during a visit of a key, the visit begins again, which Restart announces; it must
	// not be nil if Slices is not empty.
	Visit   func(*partition.Item) (more bool, err error)
	Restart func()
}

// ReadItems visits items. Those of one physical partition are of one state of it.
// Errors are those of Visit, and 404 if the table does not exist any more.
func (e *Engine) ReadItems(ctx context.Context, caller auth.Caller, req ReadItemsRequest) (ItemsResult, error) {
	if len(req.Slices) == 1 {
		e.turns.point()
	}
	v := itemVisit{engine: e, req: req, meter: throughput.Meter{Twice: req.Level.DoublesReads()}, after: slices.Clone(req.After)}
	if req.AfterKey != "" {
		v.after = partition.AfterKey(req.AfterKey)
	}
	err := e.onTable(ctx, caller, auth.Read, req.Table, &v.out, func(c *catalog.Container) error {
		if v.req.Key != "" {
			return v.ofKey(ctx, c)
		}
		return v.ofRange(ctx, c)
	})
	return ItemsResult{Charge: throughput.AtLevel(v.meter.Charge(), req.Level), Partitions: v.out.Partitions}, fail(err)
}

// itemVisit is one call of [Engine.ReadItems].
type itemVisit struct {
	engine *Engine
	req    ReadItemsRequest
	meter  throughput.Meter
	out    Result
	asked  partition.ReadItems // of a key

	after   []byte // position of the last item that was visited
	stopped bool   // Visit has returned false
	tries   int
}

func (v *itemVisit) ofKey(ctx context.Context, c *catalog.Container) error {
	key := partitionkey.NewKey(partitionkey.Bytes(v.req.Key))
	if err := c.PartitionKey.Check(key, true); err != nil {
		return keyError(err)
	}
	if v.tries++; v.tries > 1 {
		v.req.Restart()
	}
	v.asked = partition.ReadItems{Key: key, EPK: c.PartitionKey.Hash(key), Slices: v.req.Slices, Lookup: v.req.Lookup, Meter: &v.meter, Visit: v.req.Visit}
	return v.ask(ctx, c, c.Ranges.Locate(v.asked.EPK).Value, &v.asked)
}

// ofRange visits the partitions of a range in their order. Those of a look-up are read
// ahead: most of them find few items or none, and the time is that of asking.
func (v *itemVisit) ofRange(ctx context.Context, c *catalog.Container) error {
	rest := v.req.Range
	if len(v.after) > 0 {
		at, err := partition.EPKOf(v.after)
		if err != nil {
			return status.BadRequest("The position is not valid.")
		}
		if rest.Min.Compare(at) < 0 {
			rest.Min = at
		}
	}
	list := tasks(c, []partitionkey.Range{rest})
	for at, width := 0, 1; at < len(list); {
		some := list[at:min(at+width, len(list))]
		read := v.ofTask
		if len(some) > 1 {
			read = v.ahead
		}
		if err := read(ctx, c, some); err != nil || v.stopped {
			return err
		}
		at += len(some)
		if v.req.Lookup != nil {
			// A reader of few rows does not pay for partitions that it does not need.
			width = min(2*width, aheadMax)
		}
	}
	return nil
}

// ofTask visits the first of some partitions.
func (v *itemVisit) ofTask(ctx context.Context, c *catalog.Container, some []task) error {
	r := v.asking(&some[0], &v.meter)
	r.Visit = v.pass
	return v.ask(ctx, c, some[0].partition, r)
}

// asking returns the request to a partition, without its Visit.
func (v *itemVisit) asking(t *task, meter *throughput.Meter) *partition.ReadItems {
	return &partition.ReadItems{Range: t.clip, After: v.after, Lookup: v.req.Lookup, Marked: v.req.Marked, Meter: meter, Resumed: len(v.after) > 0}
}

// pass passes an item to the caller.
func (v *itemVisit) pass(i *partition.Item) (bool, error) {
	if !v.req.Marked {
		v.after = append(v.after[:0], i.Position...)
	}
	more, err := v.req.Visit(i)
	v.stopped = !more
	return more, err
}

// ask visits items of one partition.
func (v *itemVisit) ask(ctx context.Context, c *catalog.Container, p resource.Partition, r *partition.ReadItems) error {
	v.engine.visit(&v.out, p.ID)
	return v.read(ctx, c, p, r)
}

// read is ask without a note of the partition. Several goroutines may call it.
func (v *itemVisit) read(ctx context.Context, c *catalog.Container, p resource.Partition, r *partition.ReadItems) error {
	r.Generation = p.Generation
	replica, release, err := v.engine.node.Replica(ctx, c, p.ID)
	if err != nil {
		return err
	}
	defer release()
	_, err = replica.ReadItems(ctx, r)
	return err
}

// onTable calls try with a table, and again with a newer version of it while try fails
// because a partition has moved. Only callers with an account key may read and write
// tables.
func (e *Engine) onTable(ctx context.Context, caller auth.Caller, action auth.Action, rid resource.RID, result *Result, try func(*catalog.Container) error) error {
	for attempt := 0; ; attempt++ {
		c, ok := e.catalog.View().ContainerByRID(rid)
		if !ok || !c.IsTable() {
			return status.OwnerNotFound()
		}
		result.OwnerRID, result.Owner = c.RID, Owner{Database: c.Database.ID, Container: c.ID}
		link := Link{Database: c.Database.ID, Container: c.ID}
		if err := e.allow(caller, auth.Access{Action: action, On: auth.Document}, link); err != nil {
			return err
		}
		if caller.Grant() != nil {
			return forbidden("A resource token does not open tables.")
		}
		err := try(c)
		if err == nil || !e.moved(ctx, err, attempt, c) {
			return err
		}
	}
}
