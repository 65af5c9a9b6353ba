package table

import (
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// Described is one row of the result of DESCRIBE.
type Described struct {
	Keyspace, Kind, Name string // the names as a text has them
	Create               string // the statement; empty for lists of names
}

// Describe returns what DESCRIBE answers, but for DESCRIBE CLUSTER, which is about nodes.
// Lists have no statements. hidden are the keyspaces of the system that the schema has
// too: they are described only by name.
func (s *Schema) Describe(e *cql.Describe, inUse string, hidden func(keyspace string) bool) (rows []Described, list bool, err error) {
	d := &describer{schema: s, internals: e.Internals}
	name := e.Name
	switch e.Kind {
	case cql.DescribeSchema:
		for _, k := range s.keyspaces {
			if e.Full || !hidden(k.Name) {
				d.keyspace(k, false)
			}
		}
		return d.rows, false, nil
	case cql.DescribeKeyspaces:
		for _, k := range s.keyspaces {
			d.rows = append(d.rows, Described{Keyspace: cql.Quote(k.Name), Kind: "keyspace", Name: cql.Quote(k.Name)})
		}
		return d.rows, true, nil
	case cql.DescribeTables, cql.DescribeTypes, cql.DescribeFunctions, cql.DescribeAggregates:
		return d.list(e.Kind, inUse), true, nil
	case cql.DescribeKeyspace:
		if name.Name == "" {
			name.Name = inUse
		}
		if name.Name == "" {
			return nil, false, invalid("No keyspace specified and no current keyspace")
		}
		k := s.Keyspace(name.Name)
		if k == nil {
			return nil, false, invalid("'%s' not found in keyspaces", name.Name)
		}
		d.keyspace(k, e.Only)
		return d.rows, false, nil
	}
	if e.Kind == cql.DescribeAny && name.Keyspace == "" {
		if k := s.Keyspace(name.Name); k != nil {
			d.keyspace(k, false)
			return d.rows, false, nil
		}
	}
	if name.Keyspace == "" {
		name.Keyspace = inUse
	}
	if name.Keyspace == "" {
		if e.Kind == cql.DescribeAny {
			return nil, false, invalid("'%s' not found in keyspaces", name.Name)
		}
		return nil, false, invalid("No keyspace specified and no current keyspace")
	}
	k := s.Keyspace(name.Keyspace)
	if k == nil {
		return nil, false, invalid("'%s' not found in keyspaces", name.Keyspace)
	}
	return d.rows, false, d.element(e.Kind, k, name.Name)
}

type describer struct {
	schema    *Schema
	internals bool
	rows      []Described
}

func (d *describer) list(kind cql.DescribeKind, inUse string) (rows []Described) {
	for _, k := range d.schema.keyspaces {
		if inUse != "" && k.Name != inUse {
			continue
		}
		if kind == cql.DescribeTypes {
			for _, t := range k.Types {
				rows = append(rows, Described{Keyspace: cql.Quote(k.Name), Kind: "type", Name: cql.Quote(t.Name)})
			}
		}
		if kind == cql.DescribeTables {
			for _, t := range k.Tables {
				if t.View == nil {
					rows = append(rows, Described{Keyspace: cql.Quote(k.Name), Kind: "table", Name: cql.Quote(t.Name)})
				}
			}
		}
	}
	return rows
}

// element describes one table, view, index or type.
func (d *describer) element(kind cql.DescribeKind, k *Keyspace, name string) error {
	t := k.Table(name)
	indexed := k.indexed(name)
	switch kind {
	case cql.DescribeTable:
		if t == nil || t.View != nil {
			return invalid("Table '%s' not found in keyspace '%s'", name, k.Name)
		}
	case cql.DescribeView:
		if t == nil || t.View == nil {
			return invalid("Materialized view '%s' not found in '%s'", name, k.Name)
		}
	case cql.DescribeIndex:
		if indexed == nil {
			return invalid("Table for existing index '%s' not found in '%s'", name, k.Name)
		}
		t = nil
	case cql.DescribeType:
		if k.Type(name) == nil {
			return invalid("User defined type '%s' not found in '%s'", name, k.Name)
		}
		t = nil
	case cql.DescribeFunction:
		return invalid("User defined function '%s' not found in '%s'", name, k.Name)
	case cql.DescribeAggregate:
		return invalid("User defined aggregate '%s' not found in '%s'", name, k.Name)
	}
	switch {
	case t != nil:
		d.table(k, t)
	case kind == cql.DescribeType:
		d.userType(k, k.Type(name))
	case indexed != nil:
		for _, i := range indexed.Indexes {
			if i.Name == name {
				d.index(k, indexed, i)
			}
		}
	default: // As in Apache Cassandra, types are found by DESCRIBE TYPE only.
		return invalid("'%s' not found in keyspace '%s'", name, k.Name)
	}
	return nil
}

func (d *describer) add(k *Keyspace, kind, name, create string) {
	d.rows = append(d.rows, Described{Keyspace: cql.Quote(k.Name), Kind: kind, Name: cql.Quote(name), Create: create})
}

// keyspace describes a keyspace, and what is in it unless only is set: types before those
// that have them, then tables with their indexes and views.
func (d *describer) keyspace(k *Keyspace, only bool) {
	d.add(k, "keyspace", k.Name, "CREATE KEYSPACE "+cql.Quote(k.Name)+" WITH replication = "+mapText(replication(k))+"  AND durable_writes = "+strconv.FormatBool(k.DurableWrites)+";")
	if only {
		return
	}
	done := map[string]bool{}
	var visit func(t *row.Type)
	visit = func(t *row.Type) {
		if done[t.Name] {
			return
		}
		done[t.Name] = true
		for _, other := range k.Types {
			if other.Name != t.Name && names(t, other.Name) {
				visit(other)
			}
		}
		d.userType(k, t)
	}
	for _, t := range k.Types {
		visit(t)
	}
	for _, t := range k.Tables {
		if t.View != nil {
			continue
		}
		d.table(k, t)
		for _, v := range k.Tables {
			if v.View != nil && v.View.Base == t.Name {
				d.table(k, v)
			}
		}
	}
}

// replication returns the replication of a keyspace with the short name of its class.
func replication(k *Keyspace) map[string]string {
	short := maps.Clone(k.Replication)
	if class, ok := short["class"]; ok {
		short["class"] = class[strings.LastIndexByte(class, '.')+1:]
	}
	return short
}

// mapText returns a map as a literal, by key.
func mapText(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, cql.QuoteString(key)+": "+cql.QuoteString(m[key]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (d *describer) userType(k *Keyspace, t *row.Type) {
	fields := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = "    " + cql.Quote(f) + " " + t.Parts[i].String()
	}
	d.add(k, "type", t.Name, "CREATE TYPE "+cql.Quote(k.Name)+"."+cql.Quote(t.Name)+" (\n"+strings.Join(fields, ",\n")+"\n);")
}

func (d *describer) index(k *Keyspace, t *Table, i Index) {
	d.add(k, "index", i.Name, "CREATE INDEX "+cql.Quote(i.Name)+" ON "+cql.Quote(k.Name)+"."+cql.Quote(t.Name)+" ("+i.Target+");")
}

// table describes a table with its indexes, or a view.
func (d *describer) table(k *Keyspace, t *Table) {
	if t.View != nil {
		d.add(k, "materialized_view", t.Name, d.viewText(t))
		return
	}
	d.add(k, "table", t.Name, d.tableText(t))
	for _, i := range t.Indexes {
		d.index(k, t, i)
	}
}

// ordered returns the columns in the order of statements: those that are not multi-cell
// before the others.
func ordered(columns []*Column) []*Column {
	var simple, complex []*Column
	for _, c := range columns {
		if c.Type.Multicell() {
			complex = append(complex, c)
		} else {
			simple = append(simple, c)
		}
	}
	return append(simple, complex...)
}

func (d *describer) tableText(t *Table) string {
	var lines []string
	single := len(t.Partition) == 1 && len(t.Clustering) == 0
	for _, c := range slices.Concat(t.Partition, t.Clustering, ordered(t.Static), ordered(t.Regular)) {
		line := "    " + cql.Quote(c.Name) + " " + c.Type.String()
		if c.Kind == Static {
			line += " static"
		}
		if single && c.Kind == PartitionKey {
			line += " PRIMARY KEY"
		}
		lines = append(lines, line)
	}
	if !single {
		lines = append(lines, "    "+keyText(t))
	}
	return "CREATE TABLE " + cql.Quote(t.Keyspace) + "." + cql.Quote(t.Name) + " (\n" + strings.Join(lines, ",\n") + "\n) WITH " + d.optionsText(t)
}

func (d *describer) viewText(t *Table) string {
	columns := "*"
	if !t.View.AllColumns {
		var all []string
		for _, c := range t.all() {
			all = append(all, cql.Quote(c.Name))
		}
		columns = strings.Join(all, ", ")
	}
	return "CREATE MATERIALIZED VIEW " + cql.Quote(t.Keyspace) + "." + cql.Quote(t.Name) + " AS\n    SELECT " + columns +
		"\n    FROM " + cql.Quote(t.Keyspace) + "." + cql.Quote(t.View.Base) + "\n    WHERE " + t.View.Where +
		"\n    " + keyText(t) + "\n WITH " + d.optionsText(t)
}

// keyText returns the PRIMARY KEY clause.
func keyText(t *Table) string {
	names := func(columns []*Column) []string {
		var all []string
		for _, c := range columns {
			all = append(all, cql.Quote(c.Name))
		}
		return all
	}
	partition := strings.Join(names(t.Partition), ", ")
	if len(t.Partition) > 1 {
		partition = "(" + partition + ")"
	}
	return "PRIMARY KEY (" + strings.Join(append([]string{partition}, names(t.Clustering)...), ", ") + ")"
}

// optionsText returns what follows WITH.
func (d *describer) optionsText(t *Table) string {
	var all []string
	if d.internals {
		h := hex.EncodeToString(t.ID[:])
		all = append(all, "ID = "+h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:])
	}
	if len(t.Clustering) > 0 {
		var orders []string
		for _, c := range t.Clustering {
			direction := " ASC"
			if c.Descending {
				direction = " DESC"
			}
			orders = append(orders, cql.Quote(c.Name)+direction)
		}
		all = append(all, "CLUSTERING ORDER BY ("+strings.Join(orders, ", ")+")")
	}
	o := &t.Options
	number := func(f float64) string {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	all = append(all,
		"additional_write_policy = "+cql.QuoteString(o.AdditionalWritePolicy),
		"bloom_filter_fp_chance = "+number(o.BloomFilterFPChance),
		"caching = "+mapText(o.Caching),
		"cdc = "+strconv.FormatBool(o.CDC),
		"comment = "+cql.QuoteString(o.Comment),
		"compaction = "+mapText(o.Compaction),
		"compression = "+mapText(o.Compression),
		"memtable = "+cql.QuoteString(o.Memtable),
		"crc_check_chance = "+number(o.CRCCheckChance),
	)
	if t.View == nil {
		all = append(all, "default_time_to_live = "+strconv.Itoa(o.DefaultTTL))
	}
	all = append(all,
		"extensions = {}",
		"gc_grace_seconds = "+strconv.Itoa(o.GCGraceSeconds),
		"max_index_interval = "+strconv.Itoa(o.MaxIndexInterval),
		"memtable_flush_period_in_ms = "+strconv.Itoa(o.MemtableFlushPeriod),
		"min_index_interval = "+strconv.Itoa(o.MinIndexInterval),
		"read_repair = "+cql.QuoteString(o.ReadRepair),
		"speculative_retry = "+cql.QuoteString(o.SpeculativeRetry),
	)
	return strings.Join(all, "\n    AND ") + ";"
}
