package table

import (
	"testing"

	"github.com/decandb/decan/internal/table/cql"
)

// TestRefused knows what the service refuses, and that it refuses nothing else.
func TestRefused(t *testing.T) {
	s := &Schema{}
	define := func(text string) {
		t.Helper()
		p, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		n := byte(0)
		c, err := s.Define(p.Statement, "ks", Environment{NewID: func() [16]byte { n++; return [16]byte{n} }})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s = c.Schema
	}
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE t (k int, c int, s int STATIC, v int, d decimal, n varint, f frozen<list<int>>, l list<int>, PRIMARY KEY (k, c))",
		"CREATE TABLE b (k int, c int, v int, PRIMARY KEY (k, c))",
		"CREATE MATERIALIZED VIEW m AS SELECT * FROM b WHERE c IS NOT NULL AND k IS NOT NULL PRIMARY KEY (c, k)",
	} {
		define(text)
	}
	const view = " AS SELECT * FROM b WHERE c IS NOT NULL AND k IS NOT NULL PRIMARY KEY (c, k)"
	for _, test := range [][2]string{
		{"SELECT DISTINCT k FROM t", "DISTINCT is not supported"},
		{"SELECT k, toJson(v) FROM t", "The function tojson is not supported"},
		{"INSERT INTO t (k, c, v) VALUES (1, 1, fromJson('1'))", "The function fromjson is not supported"},
		{"SELECT * FROM t WHERE token(k) > token(100)", "token() of constants is not supported"},
		{"SELECT * FROM t WHERE token(k) > 100", ""},
		{"SELECT token(k) FROM t", ""},
		{"SELECT CAST(CAST(v AS text) AS int) FROM t", "A cast of a cast is not supported"},
		{"SELECT CAST(v AS text) FROM t", ""},
		{"SELECT max(c) FROM t", "An aggregate of a clustering column is not supported"},
		{"SELECT max(v), count(*) FROM t", ""},
		{"SELECT max(v) FROM m", "An aggregate over a materialized view is not supported"},
		{"BEGIN BATCH INSERT INTO b (k, c) VALUES (1, 1); APPLY BATCH", "LOGGED batch is not supported"},
		{"BEGIN UNLOGGED BATCH INSERT INTO b (k, c) VALUES (1, 1); APPLY BATCH", ""},
		{"BEGIN UNLOGGED BATCH INSERT INTO b (k, c, v) VALUES (1, 1, fromJson('1')); APPLY BATCH", "The function fromjson is not supported"},
		{"DELETE FROM t WHERE k = 1 AND c = 1 IF v = 1", "Conditional delete of an entire row is not supported"},
		{"DELETE v FROM t WHERE k = 1 AND c = 1 IF v = 1", ""},
		{"UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF s = 1", "Conditions and assignments containing combination of Static and Regular columns are not supported."},
		{"UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1", ""},
		{"UPDATE t SET s = 1, v = 1 WHERE k = 1 AND c = 1", ""},
		{"CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy'} AND durable_writes = false", "durable_writes = false is not supported"},
		{"CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy'}", ""},
		{"ALTER KEYSPACE ks WITH durable_writes = true", "ALTER KEYSPACE of anything but throughput is not supported"},
		{"ALTER KEYSPACE ks WITH cosmosdb_provisioned_throughput = 400", ""},
		{"CREATE TABLE x (k int PRIMARY KEY) WITH gc_grace_seconds = 5", "A gc_grace_seconds other than 0 is not supported"},
		{"CREATE TABLE x (k int PRIMARY KEY) WITH gc_grace_seconds = 0", ""},
		{"ALTER TABLE t WITH gc_grace_seconds = 5", "A gc_grace_seconds other than 0 is not supported"},
		{"ALTER TYPE x ADD y int", "ALTER TYPE is not supported"},
		{"CREATE CUSTOM INDEX ON t (v) USING 'x'", "CREATE CUSTOM INDEX is not supported"},
		{"CREATE INDEX ON t (s)", "An index on a static column is not supported"},
		{"CREATE INDEX ON t (d)", "An index on a column of type decimal is not supported"},
		{"CREATE INDEX ON t (n)", "An index on a column of type varint is not supported"},
		{"CREATE INDEX ON t (FULL(f))", "An index on a frozen collection is not supported"},
		{"CREATE INDEX ON t (l)", ""},
		{"CREATE INDEX ON nope (l)", ""},
		{"CREATE MATERIALIZED VIEW x AS SELECT k, c, v FROM t WHERE c IS NOT NULL AND k IS NOT NULL PRIMARY KEY (c, k)", "A materialized view of a table with static columns is not supported"},
		{"CREATE MATERIALIZED VIEW x" + view, ""},
		{"CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'x'", "CREATE FUNCTION is not supported"},
		{"CREATE AGGREGATE a (int) SFUNC f STYPE int", "CREATE AGGREGATE is not supported"},
		{"CREATE TRIGGER x ON t USING 'y'", "CREATE TRIGGER is not supported"},
		{"DROP TABLE t", ""},
		{"TRUNCATE t", ""},
	} {
		text, want := test[0], test[1]
		p, err := cql.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if err := s.Refused(p.Statement, "ks"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, not %q", text, got, want)
		}
	}
	for _, name := range []string{"m2", "m3", "m4", "m5"} {
		define("CREATE MATERIALIZED VIEW " + name + view)
	}
	p, err := cql.Parse("CREATE MATERIALIZED VIEW m6" + view)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Refused(p.Statement, "ks"); err == nil || err.Error() != "More than 5 materialized views of a table are not supported" {
		t.Errorf("a sixth view: %v", err)
	}
}
