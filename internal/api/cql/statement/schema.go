package statement

import (
	"fmt"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/materialize"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/table"
)

// schema is one version of the definitions. It is immutable.
type schema struct {
	catalog  uint64        // the version of the catalog that was read; later ones may have the same definitions
	user     *table.Schema // without the system keyspaces
	system   *table.System // with them
	keys     map[string]engine.Keyspace
	byTable  map[[2]string]engine.Table
	versions string // of all definitions
	viewed   map[resource.RID]*materialize.Viewed
}

// tableRef is a table for which a statement was compiled.
type tableRef struct {
	name    [2]string // keyspace and table
	version resource.ETag
}

// schema returns the definitions as the catalog has them now.
func (p *Processor) schema() (*schema, error) {
	if now := p.current.Load(); now != nil && now.catalog == p.config.Engine.SchemaVersion() {
		return now, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.current.Load()
	version, keyspaces := p.config.Engine.Keyspaces()
	if before != nil && before.catalog == version {
		return before, nil
	}
	next := &schema{catalog: version, keys: map[string]engine.Keyspace{}, byTable: map[[2]string]engine.Table{}}
	stored := make([]table.StoredKeyspace, 0, len(keyspaces))
	for _, k := range keyspaces {
		one := table.StoredKeyspace{Name: k.Name, Definition: k.Definition}
		next.versions += k.Name + string(k.Version)
		for _, t := range k.Tables {
			one.Tables = append(one.Tables, table.StoredTable{Name: t.Name, Definition: t.Definition})
			next.byTable[[2]string{k.Name, t.Name}] = t
			next.versions += "." + t.Name + string(t.Version)
		}
		next.keys[k.Name] = k
		stored = append(stored, one)
	}
	if before != nil && before.versions == next.versions {
		// The catalog has changed, for instance because a partition was split.
		next.user, next.system, next.viewed = before.user, before.system, before.viewed
	} else {
		var err error
		if next.user, err = table.ReadSchema(stored); err != nil {
			return nil, fmt.Errorf("read definitions of tables: %w", err)
		}
		next.system = table.NewSystem(next.user, p.config.Node)
		if err := next.project(); err != nil {
			return nil, fmt.Errorf("read definitions of views: %w", err)
		}
	}
	p.current.Store(next)
	return next, nil
}

// refs returns the references to tables that are no system tables.
func (s *schema) refs(tables []*table.Table) (refs []tableRef) {
	for _, t := range tables {
		name := [2]string{t.Keyspace, t.Name}
		if known, ok := s.byTable[name]; ok {
			refs = append(refs, tableRef{name, known.Version})
		}
	}
	return refs
}

// has says whether the tables are as they were when a statement was compiled.
func (s *schema) has(refs []tableRef) bool {
	for _, r := range refs {
		if now, ok := s.byTable[r.name]; !ok || now.Version != r.version {
			return false
		}
	}
	return true
}

// ridOf returns the container of a table.
func (s *schema) ridOf(t *table.Table) resource.RID {
	return s.byTable[[2]string{t.Keyspace, t.Name}].RID
}

// tableOf returns the table of a container, nil if there is none.
func (s *schema) tableOf(rid resource.RID) *table.Table {
	for name, t := range s.byTable {
		if t.RID == rid {
			return s.user.Keyspace(name[0]).Table(name[1])
		}
	}
	return nil
}
