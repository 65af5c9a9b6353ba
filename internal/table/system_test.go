package table

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/table/cql"
)

var testNode = Node{
	Cluster: "decan", DataCenter: "Local", Rack: "rack1", Release: "4.1.10", CQL: "3.4.6", Protocol: "5",
	Host: [16]byte{1, 2, 3}, Address: netip.MustParseAddrPort("127.0.0.1:10350"), Tokens: []int64{-1, 9223372036854775807}, Generation: 7,
}

// ask runs a SELECT on a system table and returns the names of its columns, and its rows.
func (y *System) ask(t *testing.T, text string) (names, rows string) {
	t.Helper()
	parsed, err := cql.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s := parsed.Statement.(*cql.Select)
	of, err := y.Table(s.From, "")
	if err != nil {
		return "", "error: " + err.Error()
	}
	q, err := newTerms(parsed, y.UserType).compileSelect(of, s)
	if err != nil {
		return "", "error: " + err.Error()
	}
	page, err := q.run(context.Background(), y.Rows(of), &binding{moment: testMoment}, &PageOptions{Now: testNow})
	if err != nil {
		return "", "error: " + err.Error()
	}
	var all []string
	for _, c := range q.resultColumns() {
		all = append(all, c.Name)
	}
	return strings.Join(all, " "), printRows(q.resultColumns(), &page)
}

// defined returns a schema that statements have made.
func defined(t *testing.T, statements ...string) *Schema {
	t.Helper()
	s := &Schema{}
	n := byte(0)
	for _, text := range statements {
		parsed, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		change, err := s.Define(parsed.Statement, "uprofile", Environment{NewID: func() [16]byte { n++; return [16]byte{0: n} }, Now: 1})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s = change.Schema
	}
	return s
}

// TestSystemTables asks what drivers ask when they connect, of the tables of the user's
// documents (S134: id is both the record's identifier and the partition key).
func TestSystemTables(t *testing.T) {
	t.Parallel()
	s := defined(t,
		"CREATE KEYSPACE uprofile WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE uprofile.user (id UUID PRIMARY KEY, user text, message text)",
		"CREATE TYPE uprofile.addr (street text, zip int)",
		"CREATE TABLE uprofile.places (firstname text, lastname text, id int, s text static, a frozen<addr>, l list<int>, PRIMARY KEY ((firstname, lastname), id)) WITH CLUSTERING ORDER BY (id DESC)",
		"CREATE TABLE uprofile.counts (k int PRIMARY KEY, n counter)",
		"CREATE INDEX ON uprofile.user (message)",
	)
	y := NewSystem(s, testNode)
	for _, c := range []struct{ ask, want string }{
		{
			"SELECT key, cluster_name, data_center, rack, release_version, rpc_address, rpc_port, tokens, partitioner FROM system.local WHERE key='local'",
			"'local' | 'decan' | 'Local' | 'rack1' | '4.1.10' | '127.0.0.1' | 10350 | {'-1', '9223372036854775807'} | 'org.apache.cassandra.dht.Murmur3Partitioner'\n",
		},
		{"SELECT * FROM system.peers", ""},
		{"SELECT * FROM system.peers_v2", ""},
		{"SELECT keyspace_name, durable_writes, replication FROM system_schema.keyspaces WHERE keyspace_name = 'uprofile'", "'uprofile' | true | {'class': 'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '1'}\n"},
		{"SELECT table_name, flags, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name IN ('uprofile')", "'counts' | {'compound', 'counter'} | 864000\n'places' | {'compound'} | 864000\n'user' | {'compound'} | 864000\n"},
		{
			"SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns WHERE keyspace_name = 'uprofile' AND table_name = 'user'",
			"'id' | 'partition_key' | 0 | 'none' | 'uuid'\n'message' | 'regular' | -1 | 'none' | 'text'\n'user' | 'regular' | -1 | 'none' | 'text'\n",
		},
		{
			"SELECT column_name, kind, position, clustering_order, type FROM system_schema.columns WHERE keyspace_name = 'uprofile' AND table_name = 'places'",
			"'a' | 'regular' | -1 | 'none' | 'frozen<addr>'\n'firstname' | 'partition_key' | 0 | 'none' | 'text'\n'id' | 'clustering' | 0 | 'desc' | 'int'\n'l' | 'regular' | -1 | 'none' | 'list<int>'\n'lastname' | 'partition_key' | 1 | 'none' | 'text'\n's' | 'static' | -1 | 'none' | 'text'\n",
		},
		{"SELECT index_name, kind, options FROM system_schema.indexes WHERE keyspace_name = 'uprofile'", "'user_message_idx' | 'COMPOSITES' | {'target': 'message'}\n"},
		{"SELECT type_name, field_names, field_types FROM system_schema.types", "'addr' | ['street', 'zip'] | ['text', 'int']\n"},
		{"SELECT keyspace_name FROM system_virtual_schema.keyspaces", "'system_virtual_schema'\n'system_cosmos'\n'system_views'\n"},
		{"SELECT table_name FROM system_virtual_schema.tables WHERE keyspace_name = 'system_virtual_schema'", "'columns'\n'keyspaces'\n'tables'\n"},
		{"SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'system' AND table_name = 'local'", "20\n"},
		{"SELECT durable_writes, strategy_class FROM system.schema_keyspaces WHERE keyspace_name = 'x'", "error: table schema_keyspaces does not exist"},
		{"SELECT * FROM system_schema.scylla_tables", "error: table scylla_tables does not exist"},
		{"SELECT * FROM system_schema.triggers", ""},
		{"SELECT range_start, range_end, partitions_count, mean_partition_size FROM system.size_estimates WHERE keyspace_name = 'uprofile' AND table_name = 'user'", ""},
	} {
		if _, rows := y.ask(t, c.ask); rows != c.want {
			t.Errorf("%s:\n%swant\n%s", c.ask, rows, c.want)
		}
	}
	names, rows := y.ask(t, "SELECT * FROM system.local")
	if want := "key bootstrapped broadcast_address broadcast_port cluster_name"; !strings.HasPrefix(names, want) || strings.Count(rows, "\n") != 1 {
		t.Errorf("columns %s, rows %q", names, rows)
	}
	var described []string
	_, rows = y.ask(t, "SELECT keyspace_name FROM system_schema.keyspaces")
	for line := range strings.Lines(rows) {
		described = append(described, strings.Trim(line, "'\n"))
	}
	slices.Sort(described)
	if want := []string{"system", "system_auth", "system_distributed", "system_schema", "system_traces", "uprofile"}; !slices.Equal(described, want) {
		t.Errorf("system_schema.keyspaces has %q, want %q", described, want)
	}
}

// TestSystemTables311: a node that presents itself as 3.11 has the tables and columns of
// that release.
func TestSystemTables311(t *testing.T) {
	t.Parallel()
	old := testNode
	old.Release, old.CQL, old.Protocol = "3.11.19", "3.4.4", "4"
	y := NewSystem(defined(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE ks.t (k int PRIMARY KEY)"), old)
	for _, c := range []struct{ ask, want string }{
		{"SELECT release_version, cql_version, native_protocol_version, thrift_version FROM system.local", "'3.11.19' | '3.4.4' | '4' | '20.1.0'\n"},
		{"SELECT rpc_port FROM system.local", "error: Undefined column name rpc_port in table system.local"},
		{"SELECT * FROM system.peers_v2", "error: table peers_v2 does not exist"},
		{"SELECT peer FROM system.peers", ""},
		{"SELECT * FROM system_virtual_schema.keyspaces", "error: keyspace system_virtual_schema does not exist"},
		{"SELECT speculative_retry, read_repair_chance FROM system_schema.tables WHERE keyspace_name = 'ks'", "'99PERCENTILE' | 0.0\n"},
		{"SELECT additional_write_policy FROM system_schema.tables", "error: Undefined column name additional_write_policy in table system_schema.tables"},
		{"SELECT read_repair FROM system_schema.views", "error: Undefined column name read_repair in table system_schema.views"},
		{"SELECT count(*) FROM system_schema.columns WHERE keyspace_name = 'system' AND table_name = 'local'", "18\n"},
	} {
		if _, rows := y.ask(t, c.ask); rows != c.want {
			t.Errorf("%s:\n%swant\n%s", c.ask, rows, c.want)
		}
	}
}

// TestSchemaVersion checks that the version of two schemas is the same if, and only if,
// they are.
func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	first := "CREATE KEYSPACE uprofile WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	second := "CREATE TABLE uprofile.user (id UUID PRIMARY KEY, user text)"
	version := func(statements ...string) [16]byte { return NewSystem(defined(t, statements...), testNode).Version() }
	if again := version(first, second); version(first, second) != again {
		t.Error("two equal schemas have different versions")
	}
	seen := map[[16]byte]string{}
	for _, statements := range [][]string{
		{},
		{first},
		{first, second},
		{first, second, "ALTER TABLE uprofile.user ADD message text"},
		{first, second, "CREATE INDEX ON uprofile.user (user)"},
		{first, second, "ALTER TABLE uprofile.user WITH comment = 'x'"},
		{first, second, "CREATE TYPE uprofile.t (a int)"},
	} {
		v, text := version(statements...), strings.Join(statements, "; ")
		if other, ok := seen[v]; ok {
			t.Errorf("%q and %q have one version", text, other)
		}
		seen[v] = text
	}
}
