package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestSelectOfAdmin: the admin API reads rows of tables page by page, and changes none.
func TestSelectOfAdmin(t *testing.T) {
	t.Parallel()
	s := start(t, cassandra(Config{}))
	c := cqlClient(t, s, s.Key())
	mustCQL(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	mustCQL(t, c, "CREATE TABLE ks.t (k text, c int, v blob, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)")
	for _, v := range []string{"'a', 1, 0x01", "'a', 2, null", "'a', 3, 0x03", "'<b>', 1, 0x04"} {
		mustCQL(t, c, "INSERT INTO ks.t (k, c, v) VALUES ("+v+")")
	}
	type page struct {
		Rows          []json.RawMessage
		Continuation  string
		RequestCharge float64
		Partitions    string
	}
	ask := func(body string) (p page) {
		t.Helper()
		code, answer := askAdmin(t, s, "POST", "/cql", body)
		if err := json.Unmarshal([]byte(answer), &p); code != 200 || err != nil {
			t.Fatalf("%s: %d %s: %v", body, code, answer, err)
		}
		return p
	}
	joined := func(p page) string {
		var b strings.Builder
		for _, r := range p.Rows {
			b.Write(r)
		}
		return b.String()
	}

	first := ask(`{"query":"SELECT JSON c, v FROM t WHERE k = 'a'","keyspace":"ks","pageSize":2}`)
	if got, want := joined(first), `{"c":3,"v":"0x03"}{"c":2,"v":null}`; got != want || first.Continuation == "" || first.RequestCharge <= 0 || first.Partitions == "" {
		t.Errorf("the first page is %s, want %s: %+v", got, want, first)
	}
	second := ask(`{"query":"SELECT JSON c, v FROM t WHERE k = 'a'","keyspace":"ks","pageSize":2,"continuation":"` + first.Continuation + `"}`)
	if got, want := joined(second), `{"c":1,"v":"0x01"}`; got != want || second.Continuation != "" {
		t.Errorf("the second page is %s, want %s: %+v", got, want, second)
	}
	if got := joined(ask(`{"query":"DESCRIBE TABLE ks.t"}`)); !strings.Contains(got, `"create_statement":"CREATE TABLE ks.t`) {
		t.Errorf("DESCRIBE: %s", got)
	}
	if got := ask(`{"query":"SELECT JSON * FROM ks.t WHERE k = 'none'"}`); got.Rows == nil || len(got.Rows) != 0 {
		t.Errorf("no rows: %+v", got)
	}

	for body, want := range map[string]string{
		`{"query":"INSERT INTO ks.t (k, c) VALUES ('z', 1)"}`:       "Only SELECT JSON and DESCRIBE",
		`{"query":"TRUNCATE ks.t"}`:                                 "Only SELECT JSON and DESCRIBE",
		`{"query":"DROP TABLE ks.t"}`:                               "Only SELECT JSON and DESCRIBE",
		`{"query":"USE ks"}`:                                        "Only SELECT JSON and DESCRIBE",
		`{"query":"SELECT JSON * FROM ks.t WHERE k = ?"}`:           "with values in the text",
		`{"query":"SELECT * FROM ks.t"}`:                            "write SELECT JSON",
		`{"query":"SELECT JSON * FROM ks.none"}`:                    "does not exist",
		`{"query":"SELEC"}`:                                         "no viable alternative",
		`{"query":""}`:                                              "Give the statement",
		`{"query":1}`:                                               "must be a text",
		`{"text":"x"}`:                                              "is not known",
		`{"query":"x","pageSize":5001}`:                             "from 1 to 5000",
		`{"query":"x","pageSize":0}`:                                "from 1 to 5000",
		`{"query":"x","continuation":"*"}`:                          "must be a text",
		`{"query":"SELECT JSON * FROM ks.t","continuation":"AAAA"}`: "paging state",
	} {
		if code, answer := askAdmin(t, s, "POST", "/cql", body); code != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", body, code, answer, want)
		}
	}
	if rows := mustCQL(t, c, "SELECT k FROM ks.t"); len(rows) != 4 {
		t.Errorf("the table has %d rows, want 4", len(rows))
	}

	if code, answer := askAdmin(t, start(t, Config{}), "POST", "/cql", `{"query":"SELECT JSON * FROM ks.t"}`); code != http.StatusNotFound || !strings.Contains(answer, "--cql") {
		t.Errorf("without the Cassandra API: %d %s", code, answer)
	}
}
