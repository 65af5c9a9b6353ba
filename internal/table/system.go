package table

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/partitionkey"
)

// Node is what the system tables tell about the node and its cluster.
type Node struct {
	Cluster    string
	DataCenter string
	Rack       string
	Release    string // of Cassandra: 4.1.10, or one of 3.11, with its system tables
	CQL        string // version of the language
	Protocol   string // highest version of the native protocol
	Host       [16]byte
	Address    netip.AddrPort // where clients connect
	Tokens     []int64        // of the ranges that the node has: the last token of each
	Generation int32          // rises with each start
}

// SystemNames are the keyspaces of the system. Three of them have no rows in
// system_schema: system_virtual_schema describes them.
func SystemNames() []string { return slices.Clone(systemKeyspaces) }

// virtualKeyspaces are described by system_virtual_schema only. 3.11 has no such schema.
var virtualKeyspaces = []string{"system_cosmos", "system_views", "system_virtual_schema"}

// systemTables are the tables of the system keyspaces, each with its columns. A column
// with a number in parentheses belongs to the key: (1) to the partition key, (2) is a
// clustering column. The columns and types are those of Apache Cassandra 4.1, with the
// two columns read_repair_chance of 3.11, which drivers ask for. system_cosmos is of Azure
// Cosmos DB.
const systemTables = `
system.local key text (1), bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, cql_version text, data_center text, gossip_generation int, host_id uuid, listen_address inet, listen_port int, native_protocol_version text, partitioner text, rack text, release_version text, rpc_address inet, rpc_port int, schema_version uuid, tokens set<text>, truncated_at map<uuid, blob>
system.peers peer inet (1), data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, rpc_address inet, schema_version uuid, tokens set<text>
system.peers_v2 peer inet (1), peer_port int (2), data_center text, host_id uuid, native_address inet, native_port int, preferred_ip inet, preferred_port int, rack text, release_version text, schema_version uuid, tokens set<text>
system.size_estimates keyspace_name text (1), table_name text (2), range_start text (2), range_end text (2), mean_partition_size bigint, partitions_count bigint
system.IndexInfo table_name text (1), index_name text (2), value blob
system.view_builds_in_progress keyspace_name text (1), view_name text (2), start_token text (2), end_token text (2), keys_built bigint, last_token text
system.views_builds_in_progress keyspace_name text (1), view_name text (2), generation_number int, last_token text
system.built_views keyspace_name text (1), view_name text (2), status_replicated boolean
system_schema.keyspaces keyspace_name text (1), durable_writes boolean, replication frozen<map<text, text>>
system_schema.tables keyspace_name text (1), table_name text (2), additional_write_policy text, bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, flags frozen<set<text>>, gc_grace_seconds int, id uuid, max_index_interval int, memtable text, memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, speculative_retry text
system_schema.columns keyspace_name text (1), table_name text (2), column_name text (2), clustering_order text, column_name_bytes blob, kind text, position int, type text
system_schema.dropped_columns keyspace_name text (1), table_name text (2), column_name text (2), dropped_time timestamp, kind text, type text
system_schema.indexes keyspace_name text (1), table_name text (2), index_name text (2), kind text, options frozen<map<text, text>>
system_schema.types keyspace_name text (1), type_name text (2), field_names frozen<list<text>>, field_types frozen<list<text>>
system_schema.views keyspace_name text (1), view_name text (2), additional_write_policy text, base_table_id uuid, base_table_name text, bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, gc_grace_seconds int, id uuid, include_all_columns boolean, max_index_interval int, memtable text, memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, speculative_retry text, where_clause text
system_schema.functions keyspace_name text (1), function_name text (2), argument_types frozen<list<text>> (2), argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, return_type text
system_schema.aggregates keyspace_name text (1), aggregate_name text (2), argument_types frozen<list<text>> (2), final_func text, initcond text, return_type text, state_func text, state_type text
system_schema.triggers keyspace_name text (1), table_name text (2), trigger_name text (2), options frozen<map<text, text>>
system_cosmos.feedranges keyspace_name text (1), table_name text (2), range text (2)
system_auth.roles role text (1), can_login boolean, is_superuser boolean, member_of set<text>, salted_hash text
system_distributed.view_build_status keyspace_name text (1), view_name text (1), host_id uuid (2), status text
system_traces.sessions session_id uuid (1), client inet, command text, coordinator inet, coordinator_port int, duration int, parameters map<text, text>, request text, started_at timestamp
system_traces.events session_id uuid (1), event_id timeuuid (2), activity text, source inet, source_elapsed int, source_port int, thread text
system_virtual_schema.keyspaces keyspace_name text (1)
system_virtual_schema.tables keyspace_name text (1), table_name text (2), comment text
system_virtual_schema.columns keyspace_name text (1), table_name text (2), column_name text (2), clustering_order text, column_name_bytes blob, kind text, position int, type text
`

// notIn311 are the keyspaces, tables and columns of systemTables that 3.11 does not have.
// Columns without a table are those of every table.
var notIn311 = []string{
	"system_views", "system_virtual_schema", "system.peers_v2", "system.view_builds_in_progress",
	"system.local.broadcast_port", "system.local.listen_port", "system.local.rpc_port",
	"system.IndexInfo.value", "additional_write_policy", "memtable", "read_repair", "coordinator_port", "source_port",
}

// notIn41 are the tables of systemTables that only 3.11 has.
var notIn41 = []string{"system.views_builds_in_progress"}

// onlyIn311 are columns that only 3.11 has.
var onlyIn311 = map[string]string{"system.local": "thrift_version text"}

var (
	systemSchema41  = sync.OnceValue(func() []*Keyspace { return systemSchema(false) })
	systemSchema311 = sync.OnceValue(func() []*Keyspace { return systemSchema(true) })
)

// old reports whether the node presents itself as 3.11.
func (n Node) old() bool { return strings.HasPrefix(n.Release, "3.") }

// systemSchema returns the system keyspaces with their tables, those of 3.11 if old.
func systemSchema(old bool) []*Keyspace {
	missing := func(name string) bool { return old && slices.Contains(notIn311, name) }
	byName := map[string]*Keyspace{}
	for _, name := range systemKeyspaces {
		if missing(name) {
			continue
		}
		byName[name] = &Keyspace{Name: name, DurableWrites: true, Replication: map[string]string{"class": "org.apache.cassandra.locator.LocalStrategy"}}
	}
	for line := range strings.Lines(strings.TrimSpace(systemTables)) {
		full, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		keyspace, name, _ := strings.Cut(full, ".")
		if missing(keyspace) || missing(full) || !old && slices.Contains(notIn41, full) {
			continue
		}
		columns := slices.DeleteFunc(splitColumns(rest), func(definition string) bool {
			column, _, _ := strings.Cut(definition, " ")
			return missing(column) || missing(full+"."+column)
		})
		if more := onlyIn311[full]; old && more != "" {
			columns = append(columns, more)
		}
		t := systemTable(keyspace, name, columns)
		byName[keyspace].Tables = append(byName[keyspace].Tables, t)
	}
	all := make([]*Keyspace, 0, len(byName))
	for _, k := range byName {
		slices.SortFunc(k.Tables, func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *Keyspace) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// splitColumns divides a list at the commas outside of angle brackets.
func splitColumns(text string) (columns []string) {
	depth, start := 0, 0
	for i, c := range text {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ',' && depth == 0:
			columns = append(columns, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(columns, strings.TrimSpace(text[start:]))
}

// systemTable makes a table from its columns. It panics if systemTables is wrong.
func systemTable(keyspace, name string, definitions []string) *Table {
	var columns []*Column
	positions := map[ColumnKind]int{}
	for i, text := range definitions {
		column, text, _ := strings.Cut(text, " ")
		c := &Column{Name: column, Kind: Regular, ID: uint32(i)}
		if rest, ok := strings.CutSuffix(text, " (1)"); ok {
			c.Kind, text = PartitionKey, rest
		} else if rest, ok := strings.CutSuffix(text, " (2)"); ok {
			c.Kind, text = Clustering, rest
		}
		var err error
		if c.Type, err = row.ParseType(text, nil); err != nil {
			panic("system table " + keyspace + "." + name + ": " + err.Error())
		}
		if c.Kind != Regular {
			c.Position = positions[c.Kind]
			positions[c.Kind]++
		}
		columns = append(columns, c)
	}
	t := NewTable(keyspace, name, columns)
	t.Options = DefaultOptions()
	t.ID = md5.Sum([]byte(keyspace + "." + name)) // The same in every process, as in Cassandra.
	return t
}

// System is the system keyspaces of a node for one schema: their tables, and the rows of
// those that tell about the node and the schema. It is immutable.
type System struct {
	*Schema // the schema with the system keyspaces
	version [16]byte
	rows    map[*Table]*Rows
	old     bool     // as 3.11
	host    [16]byte // of the node
	address netip.AddrPort
}

// NewSystem returns the system keyspaces for a schema and a node.
func NewSystem(s *Schema, n Node) *System {
	system := systemSchema41()
	if n.old() {
		system = systemSchema311()
	}
	all := &Schema{keyspaces: slices.Concat(s.keyspaces, system)}
	slices.SortFunc(all.keyspaces, func(a, b *Keyspace) int { return strings.Compare(a.Name, b.Name) })
	y := &System{Schema: all, rows: map[*Table]*Rows{}, old: n.old(), host: n.Host, address: n.Address}
	for _, k := range system {
		for _, t := range k.Tables {
			y.rows[t] = &Rows{table: t, items: map[string][]rowItem{}}
		}
	}
	y.describe()
	y.version = y.digest()
	y.local(n)
	for _, rows := range y.rows {
		rows.sort()
	}
	return y
}

// Version returns the version of the schema that nodes compare: two schemas have the
// same one if, and only if, they are equal.
func (y *System) Version() [16]byte { return y.version }

// Rows returns the rows of a system table, nil for another table.
func (y *System) Rows(t *Table) *Rows { return y.rows[t] }

// IndexInfo is the table system."IndexInfo" of the indexes that are complete.
func (y *System) IndexInfo() *Table { return y.Keyspace("system").Table("IndexInfo") }

// Built returns the rows of system."IndexInfo", which has the keyspaces in a column named
// table_name. complete reports whether an index has all rows of its table.
func (y *System) Built(complete func(t *Table, definition string) bool) *Rows {
	rows := &Rows{table: y.IndexInfo(), items: map[string][]rowItem{}}
	for _, k := range y.keyspaces {
		for _, t := range k.Tables {
			for _, i := range t.Indexes {
				if complete(t, i.Terms) {
					rows.add(map[string][]byte{"table_name": []byte(t.Keyspace), "index_name": []byte(i.Name)})
				}
			}
		}
	}
	rows.sort()
	return rows
}

// table returns the rows of a system table.
func (y *System) table(keyspace, name string) *Rows {
	return y.rows[y.Keyspace(keyspace).Table(name)]
}

// digest returns a version that depends on the rows of system_schema.
func (y *System) digest() (version [16]byte) {
	h := md5.New()
	for _, t := range y.Keyspace("system_schema").Tables {
		rows := y.rows[t]
		rows.sort()
		for _, key := range rows.keys {
			h.Write(binary.AppendUvarint(nil, uint64(len(key))))
			h.Write([]byte(key))
			for _, i := range rows.items[key] {
				h.Write(binary.AppendUvarint(nil, uint64(len(i.item))))
				h.Write([]byte(i.item))
				h.Write(binary.AppendUvarint(nil, uint64(len(i.body))))
				h.Write(i.body)
			}
		}
	}
	copy(version[:], h.Sum(nil))
	version[6], version[8] = version[6]&0x0F|0x30, version[8]&0x3F|0x80 // a uuid made of a name
	return version
}

// local fills in system.local.
func (y *System) local(n Node) {
	var tokens [][]byte
	for _, t := range n.Tokens {
		tokens = append(tokens, []byte(strconv.FormatInt(t, 10)))
	}
	address, port := n.Address.Addr().AsSlice(), row.Int(int32(n.Address.Port()))
	y.table("system", "local").add(map[string][]byte{
		"key": []byte("local"), "bootstrapped": []byte("COMPLETED"), "broadcast_address": address, "broadcast_port": port,
		"cluster_name": []byte(n.Cluster), "cql_version": []byte(n.CQL), "data_center": []byte(n.DataCenter), "gossip_generation": row.Int(n.Generation),
		"host_id": n.Host[:], "listen_address": address, "listen_port": port, "native_protocol_version": []byte(n.Protocol),
		"partitioner": []byte("org.apache.cassandra.dht.Murmur3Partitioner"), "rack": []byte(n.Rack), "release_version": []byte(n.Release),
		"rpc_address": address, "rpc_port": port, "thrift_version": []byte("20.1.0"), "schema_version": y.version[:], "tokens": row.Pack(len(tokens), tokens),
	})
}

// describe fills in system_schema and system_virtual_schema.
func (y *System) describe() {
	for _, k := range y.keyspaces {
		name := []byte(k.Name)
		if slices.Contains(virtualKeyspaces, k.Name) && !y.old {
			y.table("system_virtual_schema", "keyspaces").add(map[string][]byte{"keyspace_name": name})
			for _, t := range k.Tables {
				y.table("system_virtual_schema", "tables").add(map[string][]byte{"keyspace_name": name, "table_name": []byte(t.Name), "comment": []byte(t.Options.Comment)})
				y.columns("system_virtual_schema", t)
			}
			continue
		}
		replication := k.Replication
		y.table("system_schema", "keyspaces").add(map[string][]byte{"keyspace_name": name, "durable_writes": row.Boolean(k.DurableWrites), "replication": textMap(replication)})
		for _, t := range k.Types {
			var types [][]byte
			for _, p := range t.Parts {
				types = append(types, []byte(p.String()))
			}
			y.table("system_schema", "types").add(map[string][]byte{
				"keyspace_name": name, "type_name": []byte(t.Name), "field_names": texts(t.Fields), "field_types": row.Pack(len(types), types),
			})
		}
		for _, t := range k.Tables {
			y.describeTable(t)
		}
	}
}

// describeTable adds a table or view with its columns and indexes.
func (y *System) describeTable(t *Table) {
	o := &t.Options
	name := map[string][]byte{"keyspace_name": []byte(t.Keyspace)}
	values := map[string][]byte{
		"additional_write_policy": []byte(o.AdditionalWritePolicy), "bloom_filter_fp_chance": row.Double(o.BloomFilterFPChance),
		"caching": textMap(o.Caching), "comment": []byte(o.Comment), "compaction": textMap(o.Compaction), "compression": textMap(o.Compression),
		"crc_check_chance": row.Double(o.CRCCheckChance), "dclocal_read_repair_chance": row.Double(0), "default_time_to_live": row.Int(int32(o.DefaultTTL)),
		"extensions": row.Pack(0, nil), "gc_grace_seconds": row.Int(int32(o.GCGraceSeconds)), "id": t.ID[:], "max_index_interval": row.Int(int32(o.MaxIndexInterval)),
		"memtable_flush_period_in_ms": row.Int(int32(o.MemtableFlushPeriod)), "min_index_interval": row.Int(int32(o.MinIndexInterval)),
		"read_repair": []byte(o.ReadRepair), "read_repair_chance": row.Double(0), "speculative_retry": []byte(o.SpeculativeRetry),
	}
	if y.old && o.SpeculativeRetry == "99p" {
		values["speculative_retry"] = []byte("99PERCENTILE")
	}
	if o.CDC {
		values["cdc"] = row.Boolean(true)
	}
	if o.Memtable != "default" {
		values["memtable"] = []byte(o.Memtable)
	}
	for k, v := range name {
		values[k] = v
	}
	if v := t.View; v != nil {
		values["view_name"], values["base_table_id"], values["base_table_name"] = []byte(t.Name), v.BaseID[:], []byte(v.Base)
		values["include_all_columns"], values["where_clause"] = row.Boolean(v.AllColumns), []byte(v.Where)
		y.table("system_schema", "views").add(values)
	} else {
		flags := []string{"compound"}
		if t.Counter() {
			flags = []string{"compound", "counter"}
		}
		values["table_name"], values["flags"] = []byte(t.Name), texts(flags)
		y.table("system_schema", "tables").add(values)
	}
	y.columns("system_schema", t)
	for _, i := range t.Indexes {
		kind, options := "COMPOSITES", map[string]string{"target": i.Target}
		if i.Class != "" {
			kind = "CUSTOM"
			options["class_name"] = i.Class
			for k, v := range i.Options {
				options[k] = v
			}
		}
		y.table("system_schema", "indexes").add(map[string][]byte{
			"keyspace_name": []byte(t.Keyspace), "table_name": []byte(t.Name), "index_name": []byte(i.Name), "kind": []byte(kind), "options": textMap(options),
		})
	}
	for _, d := range t.Dropped {
		kind := "regular"
		if d.Static {
			kind = "static"
		}
		y.table("system_schema", "dropped_columns").add(map[string][]byte{
			"keyspace_name": []byte(t.Keyspace), "table_name": []byte(t.Name), "column_name": []byte(d.Name),
			"dropped_time": row.BigInt(d.Time / 1000), "kind": []byte(kind), "type": []byte(d.Type.String()),
		})
	}
}

// columns adds the columns of a table.
func (y *System) columns(keyspace string, t *Table) {
	for _, c := range t.all() {
		kind, order, position := [...]string{"partition_key", "clustering", "static", "regular"}[c.Kind], "none", -1
		switch c.Kind {
		case PartitionKey:
			position = c.Position
		case Clustering:
			if position, order = c.Position, "asc"; c.Descending {
				order = "desc"
			}
		case Static, Regular:
		}
		y.table(keyspace, "columns").add(map[string][]byte{
			"keyspace_name": []byte(t.Keyspace), "table_name": []byte(t.Name), "column_name": []byte(c.Name), "clustering_order": []byte(order),
			"column_name_bytes": []byte(c.Name), "kind": []byte(kind), "position": row.Int(int32(position)), "type": []byte(c.Type.String()),
		})
	}
}

// texts returns a list or set of texts.
func texts(all []string) []byte {
	parts := make([][]byte, len(all))
	for i, text := range all {
		parts[i] = []byte(text)
	}
	return row.Pack(len(parts), parts)
}

// textMap returns a map of texts.
func textMap(m map[string]string) []byte {
	var parts [][]byte
	for k, v := range m {
		parts = append(parts, []byte(k), []byte(v))
	}
	return row.MapOf(native(row.KindText), native(row.KindText)).Normalize(row.Pack(len(m), parts))
}

// Rows are the rows of a table that is in memory. They implement [Source].
type Rows struct {
	table *Table
	keys  []string // routing keys in the order of their tokens
	items map[string][]rowItem
}

// rowItem is an item in memory.
type rowItem struct {
	item string
	body []byte
}

// add adds a row from the values of its columns; columns without one are null.
func (r *Rows) add(values map[string][]byte) {
	t := r.table
	key := make([][]byte, len(t.Partition))
	for i, c := range t.Partition {
		key[i] = values[c.Name]
	}
	routing, err := row.RoutingKey(key...)
	if err != nil {
		return // The names of keyspaces are short.
	}
	columns, clustering := make([]row.KeyColumn, len(t.Clustering)), make([][]byte, len(t.Clustering))
	for i, c := range t.Clustering {
		columns[i], clustering[i] = c.key(), values[c.Name]
	}
	m := row.Mutation{Marker: true, Timestamp: 1, Sequence: 1}
	for _, c := range t.Regular {
		if v := values[c.Name]; v != nil {
			m.Ops = append(m.Ops, row.SetColumn(c.ID, c.Type, c.Type.Normalize(v)))
		}
	}
	made, err := row.Apply(&row.Row{}, row.Snapshot{}, m)
	if err != nil {
		return
	}
	k := string(routing)
	if r.items[k] == nil {
		r.keys = append(r.keys, k)
	}
	r.items[k] = append(r.items[k], rowItem{RowItems + string(row.EncodeKey(columns, clustering)), made.Append(nil)})
}

// sort puts the rows in order.
func (r *Rows) sort() {
	slices.SortFunc(r.keys, compareKeys)
	for _, items := range r.items {
		slices.SortFunc(items, func(a, b rowItem) int { return strings.Compare(a.item, b.item) })
	}
}

// Key implements [Source].
func (r *Rows) Key(_ context.Context, key string, list []ItemSlice, visit func(item, body []byte) (more bool, err error)) error {
	for _, s := range list {
		items := r.items[key]
		for n := range items {
			i := items[n]
			if s.Reverse {
				i = items[len(items)-1-n]
			}
			if i.item < s.From || s.To != "" && i.item >= s.To {
				continue
			}
			if more, err := visit([]byte(i.item), bytes.Clone(i.body)); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// Tokens implements [Source].
func (r *Rows) Tokens(_ context.Context, least, greatest int64, after string, visit func(key, item, body []byte) (more bool, err error)) error {
	for _, key := range r.keys {
		token := partitionkey.Token([]byte(key))
		if token < least || token > greatest || after != "" && compareKeys(key, after) <= 0 {
			continue
		}
		for _, i := range r.items[key] {
			if more, err := visit([]byte(key), []byte(i.item), bytes.Clone(i.body)); err != nil || !more {
				return err
			}
		}
	}
	return nil
}
