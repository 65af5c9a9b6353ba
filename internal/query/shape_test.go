package query

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// TestShape returns queries without their values.
func TestShape(t *testing.T) {
	t.Parallel()
	params := []Param{{"@t", value.String("secret")}, {"@n", value.Int(3)}, {"name", value.String("UserId")}, {"@value1", value.Bool(true)}}
	for _, c := range []struct{ text, want string }{
		{
			`SELECT * FROM c WHERE c.TenantId = @t AND c.UserId = 'secret'`,
			`{"query":"SELECT * FROM c WHERE c.TenantId = @t AND c.UserId = @value2","parameters":[{"name":"@t","path":"/TenantId"},{"name":"@value2","path":"/UserId"}]}`,
		},
		{
			`SELECT TOP @n c.id FROM root AS c WHERE 'secret' = c["a"].b OR c.n > -5`,
			`{"query":"SELECT TOP @n c.id FROM root AS c WHERE @value2 = c[\"a\"].b OR c.n > @value3","parameters":[{"name":"@n","value":3},{"name":"@value2","path":"/a/b"},{"name":"@value3","path":"/n"}]}`,
		},
		{
			`SELECT * FROM c WHERE c.t IN ('secret', @t) AND c.n BETWEEN 1 AND @n AND c.x LIKE 'secret%'`,
			`{"query":"SELECT * FROM c WHERE c.t IN (@value2, @t) AND c.n BETWEEN @value3 AND @n AND c.x LIKE @value4","parameters":[{"name":"@value2","path":"/t"},{"name":"@t","path":"/t"},{"name":"@value3","path":"/n"},{"name":"@n","path":"/n"},{"name":"@value4","path":"/x"}]}`,
		},
		{
			`SELECT VALUE CONCAT("secret", "-") FROM c WHERE c[@name] = @t AND STARTSWITH(c.id, "secret", true) AND SUBSTRING(c.x, 0, 3) = @t ORDER BY c.n OFFSET 5 LIMIT @n`,
			`{"query":"SELECT VALUE CONCAT(@value2, @value3) FROM c WHERE c[@name] = @t AND STARTSWITH(c.id, @value4, true) AND SUBSTRING(c.x, 0, 3) = @t ORDER BY c.n OFFSET 5 LIMIT @n","parameters":[{"name":"@n","value":3},{"name":"@value2","value":""},{"name":"@value3","value":""},{"name":"@name","value":"UserId"},{"name":"@t","path":"/UserId"},{"name":"@value4","path":"/id"}]}`,
		},
		{
			`SELECT VALUE t FROM c JOIN t IN c.tags WHERE t = 'secret' AND EXISTS(SELECT VALUE x FROM x IN c.list WHERE x.a = @t)`,
			`{"query":"SELECT VALUE t FROM c JOIN t IN c.tags WHERE t = @value2 AND EXISTS(SELECT VALUE x FROM x IN c.list WHERE x.a = @t)","parameters":[{"name":"@value2","value":""},{"name":"@t","value":""}]}`,
		},
		{
			"SELECT *  -- for secret\r\nFROM c\n\tWHERE c.a = '--secret' -- secret",
			`{"query":"SELECT * FROM c WHERE c.a = @value2 ","parameters":[{"name":"@value2","path":"/a"}]}`,
		},
	} {
		got, err := ShapeOf(c.text, params)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(got); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want+"\n" {
			t.Errorf("%s:\n got %swant %s", c.text, b.String(), c.want)
		}
		if strings.Contains(b.String(), "secret") {
			t.Errorf("%s: a value is kept: %s", c.text, b.String())
		}
		if _, err := Compile(got.Text, paramsOf(got), nil, Options{}); err != nil {
			t.Errorf("%s: the shape %s does not compile: %v", c.text, got.Text, err)
		}
	}
	if _, err := ShapeOf("SELEC", nil); err == nil {
		t.Error("a text that is no query has a shape")
	}
}

func paramsOf(s Shape) (list []Param) {
	for _, p := range s.Parameters {
		v := p.Value
		if p.Path != "" {
			v = value.String("other")
		}
		list = append(list, Param{Name: p.Name, Value: v})
	}
	return list
}
