package statement

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/internal/table/cql"
)

// defines returns what a caller needs for a statement that changes definitions.
func (now *schema) defines(s cql.Statement, keyspace string) (permission, on string) {
	permission = "ALTER"
	switch s := s.(type) {
	case *cql.CreateIndex:
		return permission, onTable(s.Table, keyspace)
	case *cql.DropIndex:
		if t := now.user.Indexed(s.Index, keyspace); t != nil {
			return permission, onTable(cql.Name{Keyspace: t.Keyspace, Name: t.Name}, "")
		}
	}
	switch s.(type) {
	case *cql.CreateKeyspace, *cql.CreateTable, *cql.CreateType, *cql.CreateView:
		permission = "CREATE"
	case *cql.DropKeyspace, *cql.DropTable, *cql.DropType, *cql.DropView:
		permission = "DROP"
	}
	if keyspace == "" {
		return permission, "<all keyspaces>"
	}
	return permission, "<keyspace " + keyspace + ">"
}

// onTable names a table in an error about permissions.
func onTable(n cql.Name, inUse string) string {
	return "<table " + cmp.Or(n.Keyspace, inUse) + "." + n.Name + ">"
}

// attemptsMax is how often a definition is tried again because another one came first.
const attemptsMax = 8

// define carries out a statement that changes definitions.
func (p *Processor) define(ctx context.Context, session *door.Session, s cql.Statement, r *door.Request) (*door.Result, error) {
	s, err := withThroughput(s, r.Payload)
	if err != nil {
		return nil, err
	}
	wait := p.retries()
	for attempt := 1; ; attempt++ {
		now, err := p.schema()
		if err != nil {
			return nil, err
		}
		c, err := now.user.Define(s, r.Keyspace, table.Environment{NewID: randomUUID, Now: p.config.Now().UnixMicro()})
		if err != nil {
			return nil, err
		}
		if c.Kind == table.Unchanged {
			return &door.Result{}, nil
		}
		var res engine.Resource
		err = wait.retry(ctx, func() error {
			res, err = p.commit(ctx, session, now, &c)
			return err
		})
		switch status.CodeOf(err) {
		case status.CodeConflict, status.CodePreconditionFailed, status.CodeNotFound:
			if attempt < attemptsMax {
				continue // Another statement came first.
			}
		}
		if err != nil {
			return nil, err
		}
		if _, creates := s.(*cql.CreateView); creates || len(now.viewed) > 0 {
			p.views.Defined()
		}
		return &door.Result{Charge: res.Charge, Changes: changesOf(now, &c)}, nil
	}
}

// changesOf returns the changes that clients are told, the one of the statement last.
func changesOf(before *schema, c *table.Change) (all []frame.SchemaChange) {
	if c.Target == frame.TargetKeyspace && c.Kind == table.Dropped {
		for _, t := range before.user.Keyspace(c.Keyspace).Tables {
			all = append(all, frame.SchemaChange{Change: frame.Dropped, Target: frame.TargetTable, Keyspace: c.Keyspace, Name: t.Name})
		}
	}
	for _, t := range changedViews(before, c) {
		all = append(all, frame.SchemaChange{Change: frame.Updated, Target: frame.TargetTable, Keyspace: c.Keyspace, Name: t.Name})
	}
	return append(all, frame.SchemaChange{Change: string(c.Kind), Target: c.Target, Keyspace: c.Keyspace, Name: c.Name})
}

// changedViews returns the views of a table that ALTER TABLE changes.
func changedViews(before *schema, c *table.Change) (views []*table.Table) {
	if c.Target != frame.TargetTable || c.Kind != table.Updated {
		return nil
	}
	for _, t := range c.Schema.Keyspace(c.Keyspace).Tables {
		if t.View != nil && t.View.Base == c.Name && !bytes.Equal(t.Definition(), before.byTable[[2]string{c.Keyspace, t.Name}].Definition) {
			views = append(views, t)
		}
	}
	return views
}

// commit makes a change in the catalog. NotFound, Conflict and PreconditionFailed say
// that another change came first.
func (p *Processor) commit(ctx context.Context, session *door.Session, now *schema, c *table.Change) (engine.Resource, error) {
	e, caller := p.config.Engine, session.Caller
	k := c.Schema.Keyspace(c.Keyspace)
	if c.Target != frame.TargetTable {
		req := engine.KeyspaceRequest{Name: c.Keyspace, Version: now.keys[c.Keyspace].Version}
		if k == nil {
			return e.DropKeyspace(ctx, caller, req)
		}
		asked := throughputOf(k.Throughput, k.Autoscale)
		if req.Definition = k.Definition(); c.Kind == table.Created && c.Target == frame.TargetKeyspace {
			req.Throughput = asked
			res, err := e.CreateKeyspace(ctx, caller, req)
			return res, aboutThroughput(asked, err)
		}
		if done, res, err := p.changeThroughput(ctx, session, engine.Link{Database: c.Keyspace}, asked, bytes.Equal(req.Definition, now.keys[c.Keyspace].Definition)); done {
			return res, err
		}
		return e.ReplaceKeyspace(ctx, caller, req)
	}
	req := engine.TableRequest{Keyspace: c.Keyspace, Name: c.Name, Version: now.byTable[[2]string{c.Keyspace, c.Name}].Version}
	t := k.Table(c.Name)
	if t == nil {
		return e.DropTable(ctx, caller, req)
	}
	req.Definition, req.Indexes = t.Definition(), t.RowIndexes()
	asked := throughputOf(t.Options.Throughput, t.Options.Autoscale)
	if c.Kind != table.Created {
		same := bytes.Equal(req.Definition, now.byTable[[2]string{c.Keyspace, c.Name}].Definition)
		if done, res, err := p.changeThroughput(ctx, session, engine.Link{Database: c.Keyspace, Container: c.Name}, asked, same); done {
			return res, err
		}
		if views := changedViews(now, c); len(views) > 0 {
			all := []engine.TableRequest{req}
			for _, v := range views {
				all = append(all, engine.TableRequest{Keyspace: c.Keyspace, Name: v.Name, Definition: v.Definition(), Version: now.byTable[[2]string{c.Keyspace, v.Name}].Version})
			}
			return e.ReplaceTables(ctx, caller, all)
		}
		return e.ReplaceTable(ctx, caller, req)
	}
	for _, column := range t.Partition {
		req.Columns = append(req.Columns, column.Name)
	}
	req.Throughput = asked
	res, err := e.CreateTable(ctx, caller, req)
	return res, aboutThroughput(asked, err)
}

// prepareTruncate checks the table of TRUNCATE.
func (p *Processor) prepareTruncate(now *schema, parsed cql.Parsed, e *cql.Truncate, keyspace string) (*door.Statement, error) {
	t, err := now.system.Table(e.Table, keyspace)
	if err != nil {
		return nil, err
	}
	return &door.Statement{Kind: door.Write, Permission: "MODIFY", On: "<table " + t.Keyspace + "." + t.Name + ">", Plan: &plan{parsed: parsed}}, nil
}

// truncate removes the rows of a table.
func (p *Processor) truncate(ctx context.Context, session *door.Session, now *schema, e *cql.Truncate, r *door.Request) (*door.Result, error) {
	t, err := now.system.Table(e.Table, r.Keyspace)
	if err != nil {
		return nil, err
	}
	if now.ridOf(t) == "" {
		return nil, &table.Error{Class: table.Unauthorized, Text: t.Keyspace + " keyspace is not user-modifiable."}
	}
	if t.View != nil {
		return nil, &table.Error{Text: "Cannot TRUNCATE materialized view directly; must truncate base table instead"}
	}
	views := now.viewsOf(t)
	res, err := p.config.Engine.TruncateTable(ctx, session.Caller, engine.TableRequest{Keyspace: t.Keyspace, Name: t.Name, Views: views})
	if len(views) > 0 {
		p.views.Defined()
	}
	return &door.Result{Charge: res.Charge}, err
}

// describedColumns returns the columns of the result of DESCRIBE.
func describedColumns(e *cql.Describe) frame.Columns {
	names := []string{"keyspace_name", "type", "name", "create_statement"}
	switch e.Kind {
	case cql.DescribeCluster:
		names = []string{"cluster", "partitioner", "snitch"}
	case cql.DescribeKeyspaces, cql.DescribeTables, cql.DescribeTypes, cql.DescribeFunctions, cql.DescribeAggregates:
		names = names[:3]
	}
	list := make([]frame.Column, len(names))
	for i, name := range names {
		list[i] = frame.Column{Keyspace: "system", Table: "describe", Name: name, Type: frame.Simple(frame.TypeVarchar)}
	}
	return frame.NewColumns(list)
}

// describe runs DESCRIBE.
func (p *Processor) describe(now *schema, e *cql.Describe, r *door.Request) (*door.Result, error) {
	columns := describedColumns(e)
	rows := &door.Rows{Columns: columns}
	cell := func(text string) {
		rows.Cells = append(binary.BigEndian.AppendUint32(rows.Cells, uint32(len(text))), text...)
	}
	if e.Kind == cql.DescribeCluster {
		cell(p.config.Node.Cluster)
		cell("org.apache.cassandra.dht.Murmur3Partitioner")
		cell("org.apache.cassandra.locator.SimpleSnitch")
		rows.Count = 1
		return &door.Result{Rows: rows}, nil
	}
	described, _, err := now.system.Describe(e, r.Keyspace, func(keyspace string) bool { return slices.Contains(table.SystemNames(), keyspace) })
	if err != nil {
		return nil, err
	}
	for _, d := range described {
		for i, text := range []string{d.Keyspace, d.Kind, d.Name, d.Create} {
			if i < columns.Len() {
				cell(text)
			}
		}
	}
	rows.Count = len(described)
	return &door.Result{Rows: rows}, nil
}
