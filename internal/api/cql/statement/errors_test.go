package statement

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// errorsOf41 is how many errors of Apache Cassandra 4.1 this page lists: those that the
// reference of the Cassandra API has in its section about errors.
const errorsOf41 = 154

// errorCases has a statement for each error, with the code and the text of the answer.
// Where Decan quotes another part of a statement, the text is a prefix.
var errorCases = []struct {
	number    int
	code      uint32
	text      string
	statement string
}{
	// Syntax.
	{1, 0x2000, "line 1:0 no viable alternative at input 'SELEC' ([SELEC]...)", "SELEC k FROM t"},
	{2, 0x2000, "line 1:9 no viable alternative at input 'x' (SELECT [k] x)", "SELECT k x"},
	{3, 0x2000, "line 1:19 mismatched input 'x' expecting EOF (... k FROM t; ; [x])", "SELECT k FROM t; ; x"},
	{4, 0x2200, "Unable to make int from '99999999999999999999'", "SELECT k FROM t LIMIT 99999999999999999999"},
	{5, 0x2000, "Bind variables cannot be used for table names", "SELECT * FROM ?"},
	{6, 0x2000, "Bind variables cannot be used for keyspace names", "USE ?"},
	{7, 0x2000, "Bind variables cannot be used for index names", "CREATE INDEX ? ON t (v)"},
	{8, 0x2000, "Bind variables cannot be used for role names", "CREATE ROLE ?"},
	{9, 0x2000, "Multiple incompatible setting of column v", "UPDATE t SET v = 1, v = 2 WHERE k = 1 AND c = 1 AND d = 1"},
	{10, 0x2000, "Unknown property 'x'", "CREATE TABLE x (k int PRIMARY KEY) WITH x = 1"},
	{11, 0x2000, "Multiple definition for property 'comment'", "CREATE TABLE x (k int PRIMARY KEY) WITH comment = 'a' AND comment = 'b'"},
	{12, 0x2000, "Invalid value for property 'compaction'. It should be a map.", "CREATE TABLE x (k int PRIMARY KEY) WITH compaction = 'x'"},
	{13, 0x2000, "frozen<> is only allowed on collections, tuples, and user-defined types (got int)", "CREATE TABLE x (k int PRIMARY KEY, f frozen<int>)"},
	{14, 0x2000, "Invalid (reserved) user type name byte", "CREATE TYPE byte (a int)"},
	{15, 0x2000, "line 1:15 no viable alternative at input ')' (INSERT INTO t ([)]...)", "INSERT INTO t () VALUES ()"},
	{16, 0x2000, "line 1:51 no viable alternative at input '1.5' (...1, 1) USING TTL [1.5])", "INSERT INTO t (k, c, d) VALUES (1, 1, 1) USING TTL 1.5"},
	{17, 0x2000, "line 1:51 no viable alternative at input 'null' (...1, 1) USING TTL [null])", "INSERT INTO t (k, c, d) VALUES (1, 1, 1) USING TTL null"},
	{18, 0x2000, "line 1:51 no viable alternative at input 'x' (...1, 1) USING TTL [']...)", "INSERT INTO t (k, c, d) VALUES (1, 1, 1) USING TTL 'x'"},
	{19, 0x2000, "line 1:20 mismatched input 'TTL' expecting K_TIMESTAMP (DELETE FROM t USING [TTL]...)", "DELETE FROM t USING TTL 5 WHERE k = 1"},
	{20, 0x2000, "line 0:-1 mismatched input '<EOF>' expecting K_WHERE", "DELETE FROM t"},
	{21, 0x2000, "line 1:51 mismatched input 'ALLOW' expecting EOF", "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND d = 1 ALLOW FILTERING"},
	{22, 0x2000, "line 1:44 mismatched input 'EXISTS' expecting K_NOT (..., 1, 1) IF [EXISTS])", "INSERT INTO t (k, c, d) VALUES (1, 1, 1) IF EXISTS"},
	{23, 0x2000, "line 1:61 no viable alternative at input 'AND' (...AND d = 1 IF [EXISTS] AND...)", "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND d = 1 IF EXISTS AND v = 1"},
	{24, 0x2000, "line 1:25 no viable alternative at input '=' (... FROM t WHERE k =[=]...)", "SELECT k FROM t WHERE k == 1"},
	{25, 0x2000, "line 1:28 no viable alternative at input 'OR' (...t WHERE k = 1 [OR]...)", "SELECT k FROM t WHERE k = 1 OR k = 2"},
	{26, 0x2000, "line 1:17 mismatched input 'SELECT' expecting EOF (SELECT k FROM t; [SELECT]...)", "SELECT k FROM t; SELECT k FROM t"},
	{27, 0x2000, "line 1:6 mismatched input 'LOGGED' expecting K_BATCH (BEGIN [LOGGED]...)", "BEGIN LOGGED BATCH INSERT INTO t (k, c, d) VALUES (1, 1, 1) APPLY BATCH"},
	{28, 0x2000, "line 1:24 no viable alternative at input '.' (SELECT k FROM t WHERE [fu]....)", "SELECT k FROM t WHERE fu.f = 1"},
	{29, 0x2000, "line 1:13 no viable alternative at input '1' (CREATE TABLE [1]...)", "CREATE TABLE 1t (k int PRIMARY KEY)"},
	{30, 0x2000, "line 1:13 no viable alternative at character '_'", "CREATE TABLE _t (k int PRIMARY KEY)"},
	{31, 0x2000, `line 1:7 no viable alternative at input '""' (SELECT [""]...)`, `SELECT "" FROM t`},
	{32, 0x2000, `Failed parsing statement: [ALTER TABLE t DROP i USING TIMESTAMP 99999999999999999999] reason: NumberFormatException For input string: "99999999999999999999"`, "ALTER TABLE t DROP i USING TIMESTAMP 99999999999999999999"},

	// Writes.
	{33, 0x2200, "Unmatched column names/values", "INSERT INTO t (k, c, d, v) VALUES (1, 1, 1)"},
	{34, 0x2200, "The column names contains duplicates", "INSERT INTO t (k, c, d, v, v) VALUES (1, 1, 1, 1, 1)"},
	{35, 0x2200, "Some partition key parts are missing: k", "INSERT INTO t (c, d) VALUES (1, 1)"},
	{36, 0x2200, "Some clustering keys are missing: c, d", "INSERT INTO t (k, v) VALUES (1, 1)"},
	{37, 0x2200, "Non PRIMARY KEY columns found in where clause: v ", "DELETE FROM t WHERE k = 1 AND v = 1"},
	{38, 0x2200, "PRIMARY KEY part k found in SET part", "UPDATE t SET k = 1 WHERE k = 1 AND c = 1 AND d = 1"},
	{39, 0x2200, "Invalid identifier k for deletion (should not be a PRIMARY KEY part)", "DELETE k FROM t WHERE k = 1 AND c = 1 AND d = 1"},
	{40, 0x2200, "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for UPDATE statements", "UPDATE t SET v = 1 WHERE k > 1 AND c = 1 AND d = 1"},
	{41, 0x2200, "The token function cannot be used in WHERE clauses for UPDATE statements", "UPDATE t SET v = 1 WHERE token(k) = 1 AND c = 1 AND d = 1"},
	{42, 0x2200, "Range deletions are not supported for specific columns", "DELETE v FROM t WHERE k = 1 AND c = 1 AND d > 1"},
	{43, 0x2200, "Invalid restrictions on clustering columns since the DELETE statement modifies only static columns", "DELETE s FROM t WHERE k = 1 AND c = 1"},
	{44, 0x2200, "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns", "UPDATE t SET s = 1 WHERE k = 1 AND c = 1"},

	// WHERE.
	{45, 0x2200, "a cannot be restricted by more than one relation if it includes an Equal", "SELECT * FROM p WHERE a = 1 AND a = 2 AND b = 1"},
	{46, 0x2200, "c cannot be restricted by more than one relation if it includes an Equal", "SELECT * FROM t WHERE k = 1 AND c = 1 AND c > 1"},
	{47, 0x2200, "c cannot be restricted by more than one relation if it includes an Equal", "SELECT * FROM t WHERE k = 1 AND (c) = (1) AND c > 1"},
	{48, 0x2200, "More than one restriction was found for the start bound on c", "SELECT * FROM t WHERE k = 1 AND c > 1 AND c >= 2"},
	{49, 0x2200, "Unsupported null value for column v", "SELECT * FROM o WHERE v = null"},
	{50, 0x2200, "Unsupported null value for column v", "SELECT * FROM t WHERE k = 1 AND v = null ALLOW FILTERING"},
	{51, 0x2200, "Unsupported null map key for column m", "SELECT * FROM t WHERE m[null] = 1 ALLOW FILTERING"},
	{52, 0x2200, "Unsupported restriction: a IS NOT NULL", "SELECT * FROM p WHERE a IS NOT NULL"},
	{53, 0x2200, "LIKE restriction is only supported on properly indexed columns. w LIKE 'x%' is not valid.", "SELECT * FROM t WHERE w LIKE 'x%'"},
	{54, 0x2200, "Cannot use CONTAINS on non-collection column v", "SELECT * FROM t WHERE v CONTAINS 1"},
	{55, 0x2200, "Cannot use CONTAINS KEY on non-map column c", "SELECT * FROM t WHERE c CONTAINS KEY 1"},
	{56, 0x2200, "Column st cannot be used as a map", "SELECT * FROM t WHERE st[1] = 1"},
	{57, 0x2200, "Only EQ relations are supported on map entries", "SELECT * FROM t WHERE m['a'] > 1"},
	{58, 0x2200, "Indexes on list entries (l[index] = value) are not currently supported.", "SELECT * FROM t WHERE l[1] = 1"},
	{59, 0x2200, "Collection column 'l' (list<int>) cannot be restricted by a '=' relation", "SELECT * FROM t WHERE k = 1 AND l = [1] ALLOW FILTERING"},
	{60, 0x2200, "Non-frozen UDT column 'u' (ad) cannot be restricted by any relation", "SELECT * FROM t WHERE k = 1 AND u = {street: 'a'} ALLOW FILTERING"},
	{61, 0x2200, "Slice restrictions are not supported on duration columns", "SELECT * FROM t WHERE k = 1 AND du > 1h ALLOW FILTERING"},
	{62, 0x2200, "Map-entry equality predicates on frozen map column e are not supported", "SELECT * FROM t WHERE e['a'] = 1 ALLOW FILTERING"},
	{63, 0x2200, `Column "c" cannot be restricted by both an equality and an inequality relation`, "SELECT * FROM t WHERE k = 1 AND c > 1 AND c = 1"},
	{64, 0x2200, "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering", "SELECT * FROM cc WHERE k = 1 AND f CONTAINS 1"},

	// Tuples.
	{65, 0x2200, "Multi-column relations can only be applied to clustering columns but was applied to: k", "SELECT * FROM t WHERE (k) = (1)"},
	{66, 0x2200, "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: (d, c) = (1, 1)", "SELECT * FROM t WHERE k = 1 AND (d, c) = (1, 1)"},
	{67, 0x2200, `Column "c" appeared twice in a relation: (c, c) = (1, 1)`, "SELECT * FROM t WHERE k = 1 AND (c, c) = (1, 1)"},
	{68, 0x2200, "Expected 2 elements in value tuple, but got 3: (1, 1, 1)", "SELECT * FROM t WHERE k = 1 AND (c, d) = (1, 1, 1)"},
	{69, 0x2200, "Invalid null value for column d", "SELECT * FROM t WHERE k = 1 AND (c, d) = (1, null)"},
	{70, 0x2200, "LIMIT must be strictly positive", "SELECT * FROM t LIMIT 0"},

	// Selection.
	{71, 0x2200, "y of type frozen<ty> has no field x", "SELECT y.x FROM t"},
	{72, 0x2200, "Invalid field selection: i of type int is not a user type", "SELECT i.x FROM t"},
	{73, 0x2200, "Unknown function 'x'", "SELECT x(i) FROM t"},
	{74, 0x2200, "UDT column u does not have a field named foo", "UPDATE t SET u.foo = 1 WHERE k = 1 AND c = 1 AND d = 1"},
	{75, 0x2200, "Unknown field 'x' in value of user defined type ad", "UPDATE t SET fu = {x: 1} WHERE k = 1 AND c = 1 AND d = 1"},

	// CREATE TABLE.
	{76, 0x2200, "No PRIMARY KEY specifed for table 'a' (exactly one required)", "CREATE TABLE a (k int, v int)"},
	{77, 0x2200, "Multiple PRIMARY KEY specified for table 'a' (exactly one required)", "CREATE TABLE a (k int PRIMARY KEY, v int, PRIMARY KEY (k))"},
	{78, 0x2200, "Duplicate column 'k' declaration for table 'a'", "CREATE TABLE a (k int PRIMARY KEY, k int)"},
	{79, 0x2200, "Duplicate column 'k' in PRIMARY KEY clause for table 'a'", "CREATE TABLE a (k int, PRIMARY KEY (k, k))"},
	{80, 0x2200, "Unknown column 'x' referenced in PRIMARY KEY for table 'a'", "CREATE TABLE a (k int, PRIMARY KEY (x))"},
	{81, 0x2200, "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'k'", "CREATE TABLE a (k list<int> PRIMARY KEY)"},
	{82, 0x2200, `Invalid non-frozen user-defined type "ks.ad" for PRIMARY KEY column 'k'`, "CREATE TABLE a (k ad PRIMARY KEY)"},
	{83, 0x2200, "counter type is not supported for PRIMARY KEY column 'k'", "CREATE TABLE a (k counter PRIMARY KEY)"},
	{84, 0x2200, "duration type is not supported for PRIMARY KEY column 'k'", "CREATE TABLE a (k duration PRIMARY KEY)"},
	{85, 0x2200, "Static column 'k' cannot be part of the PRIMARY KEY", "CREATE TABLE a (k int static, c int, PRIMARY KEY (k, c))"},
	{86, 0x2200, "Unknown type ks.x", "CREATE TABLE a (k int PRIMARY KEY, v x)"},
	{87, 0x2200, "Cannot mix counter and non counter columns in the same table", "CREATE TABLE a (k int PRIMARY KEY, v int, n counter)"},
	{88, 0x2200, "Counters are not allowed inside collections: set<counter>", "CREATE TABLE a (k int PRIMARY KEY, v set<counter>)"},
	{89, 0x2200, "Counters are not allowed inside tuples", "CREATE TABLE a (k int PRIMARY KEY, v tuple<counter>)"},
	{90, 0x2200, "Durations are not allowed as map keys: map<duration, int>", "CREATE TABLE a (k int PRIMARY KEY, v map<duration, int>)"},
	{91, 0x2200, "Durations are not allowed inside sets: set<duration>", "CREATE TABLE a (k int PRIMARY KEY, v set<duration>)"},
	{92, 0x2200, "Non-frozen UDTs are not allowed inside collections: list<ty>", "CREATE TABLE a (k int PRIMARY KEY, v list<ty>)"},
	{93, 0x2200, "Non-frozen UDTs with nested non-frozen collections are not supported", "CREATE TABLE a (k int PRIMARY KEY, v deep)"},
	{94, 0x2200, "Statement on keyspace ks cannot refer to a user type in keyspace other; user types can only be used in the keyspace they are defined in", "CREATE TABLE a (k int PRIMARY KEY, v other.ty)"},
	{95, 0x2200, "Only clustering key columns can be defined in CLUSTERING ORDER directive: [v] are not clustering columns", "CREATE TABLE a (k int, c int, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (v ASC)"},
	{96, 0x2200, "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns (c1 must appear before c2)", "CREATE TABLE a (k int, c1 int, c2 int, PRIMARY KEY (k, c1, c2)) WITH CLUSTERING ORDER BY (c2 ASC, c1 ASC)"},
	{97, 0x2200, "Duplicate column 'c1' in CLUSTERING ORDER BY clause for table 'a'", "CREATE TABLE a (k int, c1 int, PRIMARY KEY (k, c1)) WITH CLUSTERING ORDER BY (c1 ASC, c1 DESC)"},
	{98, 0x2300, `ks.a-b: Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got "a-b")`, `CREATE TABLE "a-b" (k int PRIMARY KEY)`},
	{99, 0x2200, "Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got 'a-b')", `CREATE KEYSPACE "a-b" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`},

	// Options.
	{100, 0x2300, "gc_grace_seconds must be greater than or equal to 0 (got -1)", "ALTER TABLE o WITH gc_grace_seconds = -1"},
	{101, 0x2300, "default_time_to_live must be less than or equal to 630720000 (got 630720001)", "ALTER TABLE o WITH default_time_to_live = 630720001"},
	{102, 0x2300, "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got 2.0)", "ALTER TABLE o WITH bloom_filter_fp_chance = 2.0"},
	{103, 0x2300, "min_index_interval must be greater than or equal to 1 (got 0)", "ALTER TABLE o WITH min_index_interval = 0"},
	{104, 0x2300, "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got 5.0)", "ALTER TABLE o WITH crc_check_chance = 5.0"},
	{105, 0x2300, "Invalid value 'SOME' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed", "ALTER TABLE o WITH caching = {'keys': 'SOME'}"},
	{106, 0x2300, "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.X'", "ALTER TABLE o WITH compaction = {'class': 'X'}"},
	{107, 0x2300, "Missing sub-option 'class' for the 'compaction' option", "ALTER TABLE o WITH compaction = {'x': 'X'}"},
	{108, 0x2300, "Could not create Compression for type org.apache.cassandra.io.compress.X", "ALTER TABLE o WITH compression = {'class': 'X'}"},
	{109, 0x2300, "Invalid value bogus for option 'speculative_retry'", "ALTER TABLE o WITH speculative_retry = 'bogus'"},
	{110, 0x2300, "Cannot alter table id.", "ALTER TABLE o WITH id = '00000000-0000-0000-0000-000000000000'"},

	// ALTER TABLE.
	{111, 0x2200, "Column with name 'a' already exists", "ALTER TABLE p ADD a int"},
	{112, 0x2200, "Column x was not found in table 'ks.t'", "ALTER TABLE t DROP x"},
	{113, 0x2200, "Cannot drop PRIMARY KEY column k", "ALTER TABLE t DROP k"},
	{114, 0x2200, "Cannot rename non PRIMARY KEY column v", "ALTER TABLE t RENAME v TO v2"},
	{115, 0x2200, "Cannot rename column k to c in table 'ks.t'; another column with that name already exists", "ALTER TABLE t RENAME k TO c"},
	{116, 0x2200, "Cannot re-add previously dropped column 'v' of type text, incompatible with previous type int", "ALTER TABLE gone ADD v text"},
	{117, 0x2200, "Cannot re-add previously dropped column 'st' of kind REGULAR, incompatible with previous kind STATIC", "ALTER TABLE gone ADD st int"},
	{118, 0x2200, "Cannot re-add previously dropped column 'v' of kind STATIC, incompatible with previous kind REGULAR", "ALTER TABLE gone ADD v int static"},
	{119, 0x2200, "Altering column types is no longer supported", "ALTER TABLE t ALTER v TYPE text"},
	{120, 0x2300, `ks.t: Cannot have a counter column ("cc") in a non counter table`, "ALTER TABLE t ADD cc counter"},
	{121, 0x2200, "Cannot drop column v because it has dependent secondary indexes (iv)", "ALTER TABLE o DROP v"},
	{122, 0x2200, "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.", "ALTER TABLE t DROP COMPACT STORAGE"},

	// Types.
	{123, 0x2200, "Duplicate field name 'a' in type 'x'", "CREATE TYPE x (a int, a int)"},
	{124, 0x2200, "A user type cannot contain counters", "CREATE TYPE x (a counter)"},
	{125, 0x2200, "A user type cannot contain non-frozen UDTs", "CREATE TYPE x (a ty)"},
	{126, 0x2200, "Cannot add field zip to type ks.ad: a field with name zip already exists", "ALTER TYPE ad ADD zip int"},
	{127, 0x2200, "Unkown field x in user type ks.ad", "ALTER TYPE ad RENAME x TO y"},
	{128, 0x2200, "Cannot add new field s of type frozen<ks.ad> to user type ks.ad as it would create a circular reference", "ALTER TYPE ad ADD s frozen<ad>"},
	{129, 0x2200, "Type ks.x doesn't exist", "ALTER TYPE x ADD a int"},
	{130, 0x2200, "Type 'ks.x' doesn't exist", "DROP TYPE x"},
	{131, 0x2200, "Cannot drop user type 'ks.ty' as it is still used by tables t, uses", "DROP TYPE ty"},
	{132, 0x2200, "Altering field types is no longer supported", "ALTER TYPE ad ALTER zip TYPE text"},

	// Indexes.
	{133, 0x2200, "Index other is a duplicate of existing index iv", "CREATE INDEX other ON o (v)"},
	{134, 0x2200, "Cannot create secondary index on the only partition key column k", "CREATE INDEX ON o (k)"},
	{135, 0x2200, "Secondary indexes are not supported on duration columns", "CREATE INDEX ON t (du)"},
	{136, 0x2200, "Secondary indexes on counter tables aren't supported", "CREATE INDEX ON n (n)"},
	{137, 0x2200, "Cannot create index on keys of column l with non-map type", "CREATE INDEX ON t (keys(l))"},
	{138, 0x2200, "full() indexes can only be created on frozen collections", "CREATE INDEX ON t (full(l))"},
	{139, 0x2200, "Cannot create values() index on frozen column fl. Frozen collections are immutable and must be fully indexed by using the 'full(fl)' modifier", "CREATE INDEX ON t (values(fl))"},
	{140, 0x2200, "Cannot create keys() index on v. Non-collection columns only support simple indexes", "CREATE INDEX ON t (keys(v))"},
	{141, 0x2200, "Only CUSTOM indexes support multiple columns", "CREATE INDEX ON t (v, w)"},
	{142, 0x2200, "CUSTOM index requires specifiying the index class", "CREATE CUSTOM INDEX ON t (v)"},
	{143, 0x2300, "Illegal index name Quoted Idx", `CREATE INDEX "Quoted Idx" ON t (v)`},
	{144, 0x2200, "Index 'ks.x' doesn't exist'", "DROP INDEX x"},

	// Views.
	{145, 0x2200, "Cannot directly modify a materialized view", "INSERT INTO mv (v, id) VALUES (1, 1)"},
	{146, 0x2200, "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.", "DROP TABLE mv"},
	{147, 0x2200, "Cannot drop a table when materialized views still depend on it (ks)", "DROP TABLE base"},
	{148, 0x2200, "Primary key columns id must be restricted with 'IS NOT NULL' or otherwise", "CREATE MATERIALIZED VIEW x AS SELECT * FROM base WHERE v IS NOT NULL PRIMARY KEY (v, id)"},
	{149, 0x2200, "Cannot create materialized view 'x' without primary key columns id from base table 'base'", "CREATE MATERIALIZED VIEW x AS SELECT * FROM base WHERE v IS NOT NULL PRIMARY KEY (v)"},
	{150, 0x2200, "Materialized view 'ks.x' doesn't exist", "DROP MATERIALIZED VIEW x"},

	// Functions and triggers.
	{151, 0x2200, "Function 'ks.x' doesn't exist", "DROP FUNCTION x"},
	{152, 0x2200, "Aggregate 'ks.x' doesn't exist", "DROP AGGREGATE x"},
	{153, 0x2200, "Trigger 'x' on 'ks.t' doesn't exist", "DROP TRIGGER x ON t"},

	// Not in a group: a value that no index can have. A batch that is too large has a record
	// above 16 MB, which no request of the usual size reaches: TestErrorsOfLoggedBatches has its text.
	{154, 0x2200, "Index expression values may not be larger than 64K", "SELECT * FROM ix WHERE w = '" + strings.Repeat("x", 65_536) + "'"},
}

// TestErrorsOfCassandra provokes each error of the list, on a connection that stays, and
// checks that nothing was done. With DECAN_CASSANDRA it compares the answers as well.
func TestErrorsOfCassandra(t *testing.T) {
	t.Parallel()
	nodes := map[string]*node{}
	if n := cassandraNode(t); n != nil {
		nodes["Apache Cassandra"] = n
	}
	w := newWorld(t)
	w.now = time.Time{}
	w.started.Do(w.Start)
	nodes["Decan"] = serveNode(t, w)
	cases := map[int]bool{}
	for _, c := range errorCases {
		if cases[c.number] {
			t.Errorf("entry %d has two cases", c.number)
		}
		cases[c.number] = true
	}
	for n := 1; n <= errorsOf41; n++ {
		if !cases[n] {
			t.Errorf("entry %d has no case", n)
		}
	}
	if len(cases) != errorsOf41 {
		t.Errorf("%d cases of %d entries", len(cases), errorsOf41)
	}
	for name, n := range nodes {
		for _, text := range errorSchema {
			if strings.Contains(text, "DROP KEYSPACE") && os.Getenv("DECAN_CASSANDRA") == "" {
				continue
			}
			if answer := n.run(request{text: text, keyspace: keyspaceOf(text)}); strings.Contains(answer, "error ") {
				t.Fatalf("%s: %s: %s", name, text, answer)
			}
		}
		before := stateOfErrors(n)
		for _, c := range errorCases {
			if name != "Decan" && strings.Contains(c.text, "Enable in cassandra.yaml") {
				continue // The node of the comparison has it enabled.
			}
			answer := n.run(request{text: c.statement, keyspace: "ks"})
			if want := fmt.Sprintf("error %04x: %s", c.code, c.text); !strings.HasPrefix(answer, want) || c.code != 0x2000 && answer != want+"\n" {
				t.Errorf("%s: entry %d: %s\n  got  %s  want %s", name, c.number, c.statement, answer, want)
			}
		}
		if after := stateOfErrors(n); after != before {
			t.Errorf("%s: a statement with an error has changed something: %s\nbefore: %s", name, after, before)
		}
	}
}

// keyspaceOf returns the keyspace in which a definition runs: none for those of keyspaces.
func keyspaceOf(text string) string {
	if strings.Contains(text, " KEYSPACE ") {
		return ""
	}
	return "ks"
}

// stateOfErrors returns the rows and the schema that the statements could change.
func stateOfErrors(n *node) string {
	var all strings.Builder
	for _, text := range []string{
		"SELECT * FROM t", "SELECT * FROM o", "SELECT * FROM n", "SELECT * FROM base", "SELECT * FROM mv",
		"SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name IN ('ks', 'other', 'a-b')",
		"SELECT table_name, column_name, kind, type FROM system_schema.columns WHERE keyspace_name = 'ks'",
		"SELECT table_name, index_name FROM system_schema.indexes WHERE keyspace_name = 'ks'",
		"SELECT type_name, field_names FROM system_schema.types WHERE keyspace_name = 'ks'",
		"SELECT table_name, comment, gc_grace_seconds, default_time_to_live, caching, compaction, compression FROM system_schema.tables WHERE keyspace_name = 'ks'",
	} {
		all.WriteString(n.run(request{text: text, keyspace: "ks"}))
	}
	return all.String()
}

var errorSchema = []string{
	"DROP KEYSPACE IF EXISTS ks",
	"DROP KEYSPACE IF EXISTS other",
	"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	"CREATE TYPE other.ty (f int)",
	"CREATE TYPE ad (street text, zip int)",
	"CREATE TYPE ty (f int)",
	"CREATE TYPE deep (l list<int>)",
	"CREATE TABLE t (k int, c int, d int, s int static, v int, w text, i int, st set<int>, m map<text, int>, l list<int>, u ad, fu frozen<ad>, y frozen<ty>, e frozen<map<text, int>>, fl frozen<list<int>>, du duration, big text, PRIMARY KEY (k, c, d))",
	"CREATE TABLE p (a int, b int, c int, PRIMARY KEY ((a, b), c))",
	"CREATE TABLE n (k int PRIMARY KEY, n counter)",
	"CREATE TABLE o (k int PRIMARY KEY, v int, s int)",
	"CREATE INDEX iv ON o (v)",
	"CREATE TABLE base (id int PRIMARY KEY, v int)",
	"CREATE MATERIALIZED VIEW mv AS SELECT * FROM base WHERE id IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, id)",
	"CREATE TABLE gone (k int, c int, v int, st int static, PRIMARY KEY (k, c))",
	"ALTER TABLE gone DROP v",
	"ALTER TABLE gone DROP st",
	"CREATE TABLE uses (k int PRIMARY KEY, y frozen<ty>)",
	"CREATE TABLE cc (k int, f frozen<list<int>>, PRIMARY KEY (k, f))",
	"CREATE TABLE ix (k int PRIMARY KEY, w text)",
	"CREATE INDEX ON ix (w)",
	"INSERT INTO t (k, c, d, v) VALUES (1, 1, 1, 1)",
	"INSERT INTO o (k, v) VALUES (1, 1)",
	"UPDATE n SET n = n + 5 WHERE k = 1",
	"INSERT INTO base (id, v) VALUES (1, 1)",
}
