package table

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/table/cql"
)

// TestDefinitions carries out the statements of a file, one after another, and compares
// their answers with those of Apache Cassandra 4.1.10. After each of them the
// definitions of the schema are read back.
func TestDefinitions(t *testing.T) {
	s := &Schema{}
	id := byte(0)
	env := Environment{NewID: func() (u [16]byte) { id++; u[15] = id; return u }, Now: 1}
	datadriven.RunTest(t, "testdata/definitions.txt", func(t *testing.T, d *datadriven.TestData) string {
		p, err := cql.Parse(d.Input)
		if err != nil {
			return "2000 " + err.Error() + "\n"
		}
		if describe, ok := p.Statement.(*cql.Describe); ok {
			rows, _, err := s.Describe(describe, "ks", func(string) bool { return false })
			if err != nil {
				return answer(t, err)
			}
			var b strings.Builder
			for _, r := range rows {
				fmt.Fprintf(&b, "%s %s %s\n%s", r.Keyspace, r.Kind, r.Name, r.Create)
				if r.Create != "" {
					b.WriteByte('\n')
				}
			}
			return b.String()
		}
		change, err := s.Define(p.Statement, "ks", env)
		if err != nil {
			return answer(t, err)
		}
		s = change.Schema
		reread(t, s)
		return "ok\n"
	})
}

func answer(t *testing.T, err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v is a %T", err, err)
	}
	codes := map[Class]string{Invalid: "2200", Syntax: "2000", Config: "2300", Exists: "2400", Unauthorized: "2100"}
	return codes[e.Class] + " " + e.Text + "\n"
}

// reread checks that the definitions of a schema describe it.
func reread(t *testing.T, s *Schema) {
	t.Helper()
	var all []StoredKeyspace
	for _, k := range s.Keyspaces() {
		one := StoredKeyspace{Name: k.Name, Definition: k.Definition()}
		for _, table := range k.Tables {
			one.Tables = append(one.Tables, StoredTable{table.Name, table.Definition()})
		}
		all = append(all, one)
	}
	again, err := ReadSchema(all)
	if err != nil {
		t.Fatal(err)
	}
	everything := &cql.Describe{Kind: cql.DescribeSchema, Full: true, Internals: true}
	want, _, err := s.Describe(everything, "", func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := again.Describe(everything, "", func(string) bool { return false })
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the definitions are read as\n%v\nand not as\n%v (%v)", got, want, err)
	}
	for i, d := range all {
		k := again.Keyspaces()[i]
		if string(k.Definition()) != string(d.Definition) {
			t.Fatalf("%s becomes %s", d.Definition, k.Definition())
		}
		for j, table := range d.Tables {
			if got := k.Tables[j].Definition(); string(got) != string(table.Definition) {
				t.Fatalf("%s becomes %s", table.Definition, got)
			}
		}
	}
}

// TestReadSchemaRefuses reads definitions that no version wrote.
func TestReadSchemaRefuses(t *testing.T) {
	for name, d := range map[string]StoredKeyspace{
		"no JSON":          {Name: "ks", Definition: []byte(`{`)},
		"later version":    {Name: "ks", Definition: []byte(`{"version":2}`)},
		"a type in itself": {Name: "ks", Definition: []byte(`{"version":1,"types":[{"name":"a","fields":[{"name":"x","type":"frozen<a>"}]}]}`)},
		"an unknown type": {Name: "ks", Definition: []byte(`{"version":1}`), Tables: []StoredTable{
			{"t", []byte(`{"version":1,"id":"00000000000000000000000000000001","columns":[{"name":"k","type":"nothing","id":1}]}`)},
		}},
		"a short id": {Name: "ks", Definition: []byte(`{"version":1}`), Tables: []StoredTable{{"t", []byte(`{"version":1,"id":"00"}`)}}},
	} {
		if s, err := ReadSchema([]StoredKeyspace{d}); err == nil {
			t.Errorf("%s: %v", name, s)
		}
	}
}
