package deploy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

const testSchema = `"$schema":"https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#","contentVersion":"1.0.0.0"`

// good is a template with most constructs.
const good = `{ // A comment.
  ` + testSchema + `,
  "parameters": {
    "account": {"type": "string", "defaultValue": "acc", "minLength": 3},
    "levels": {"type": "array", "defaultValue": ["/TenantId", "/UserId", "/SessionId"], "maxLength": 3},
    "throughput": {"type": "int", "defaultValue": 400, "allowedValues": [400, 800]}
  },
  "functions": [{"namespace": "my", "members": {"name": {"parameters": [{"name": "a", "type": "string"}], "output": {"type": "string", "value": "[toLower(parameters('a'))]"}}}}],
  "variables": {"copy": [{"name": "names", "count": 2, "input": "[format('c{0}', copyIndex('names'))]"}], "database": "[concat(parameters('account'), '/shop')]"},
  "resources": [
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2024-05-15", "name": "[variables('database')]",
     "properties": {"resource": {"id": "shop"}, "options": {"throughput": "[parameters('throughput')]"}}},
    {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers", "apiVersion": "2024-05-15", "name": "[format('{0}/{1}', variables('database'), variables('names')[copyIndex()])]",
     "copy": {"name": "containers", "count": "[length(variables('names'))]"}, "dependsOn": ["[variables('database')]"], "condition": true,
     "properties": {"resource": {"id": "[variables('names')[copyIndex()]]", "partitionKey": {"paths": "[parameters('levels')]", "kind": "MultiHash", "version": 2}}}},
    {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inner", "dependsOn": ["containers"],
     "properties": {"mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"a": {"value": "[my.name('ACC')]"}},
      "template": {` + testSchema + `, "parameters": {"a": {"type": "string"}}, "resources": [
        {"type": "Microsoft.DocumentDB/databaseAccounts/sqlDatabases", "apiVersion": "2024-05-15", "name": "[concat(parameters('a'), '/other')]", "properties": {"resource": {"id": "other"}}}],
       "outputs": {"o": {"type": "string", "value": "[parameters('a')]"}}}}}
  ],
  "outputs": {"endpoint": {"type": "string", "value": "[reference(resourceId('Microsoft.DocumentDB/databaseAccounts', 'acc')).documentEndpoint]"},
    "inner": {"type": "string", "value": "[reference('inner').outputs.o.value]"}}
}`

func expandText(text string) (*Deployment, error) {
	return Expand(Request{Template: Source{Name: "main.json", Text: text}, Scope: testScope})
}

// TestGood expands the template that the next tests break.
func TestGood(t *testing.T) {
	t.Parallel()
	d, err := expandText(good)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range d.Resources {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "acc/shop acc/shop/c0 acc/shop/c1 acc/other" {
		t.Errorf("the order is %s", got)
	}
	if d.Outputs[1].Value != "acc" {
		t.Errorf("output %v", d.Outputs[1].Value)
	}
}

// jsonToken is a token of a JSON text, or a word of a comment.
var jsonToken = regexp.MustCompile(`"[^"]*"|[{}\[\]:,]|[^\s"{}\[\]:,]+`)

// TestBrokenAtEachToken breaks a good template at each of its tokens, by cutting the text or
// the token, and by writing something before it or in its place: nothing panics, and each
// refusal has a place inside the text.
func TestBrokenAtEachToken(t *testing.T) {
	t.Parallel()
	lines := strings.Count(good, "\n") + 1
	count, refused := 0, 0
	for _, token := range jsonToken.FindAllStringIndex(good, -1) {
		i, end := token[0], token[1]
		for _, broken := range []string{
			good[:i], good[:i] + "?" + good[i:], good[:i] + good[i+1:], good[:i] + "null, " + good[i:],
			good[:i] + good[end:], good[:i] + `"x"` + good[end:], good[:i] + "7" + good[end:], good[:i] + "null" + good[end:],
			good[:i] + "[]" + good[end:], good[:i] + "{}" + good[end:], good[:i] + `"[a(]"` + good[end:], good[:i] + "}" + good[end:], good[:end] + good[i:],
		} {
			count++
			_, err := expandText(broken)
			if err == nil {
				continue // Such as another name of a member that may be missing.
			}
			refused++
			line, column := 0, 0
			if parse, is := errors.AsType[*jsonc.Error](err); is {
				line, column = parse.Line, parse.Column
			} else if e, is := errors.AsType[*Error](err); is {
				line, column = e.Line, e.Column
			}
			if line < 1 || line > lines || column < 1 {
				t.Fatalf("broken at byte %d (%.40q): %v has the place %d, %d", i, broken[max(i-10, 0):], err, line, column)
			}
		}
	}
	t.Logf("%d broken templates, %d refused", count, refused)
	if refused < count*3/4 {
		t.Errorf("%d of %d were refused: too few to believe", refused, count)
	}
}

// templateOf returns a template of these members.
func templateOf(members string) string { return "{" + testSchema + "," + members + "}" }

// databases returns resources of a loop.
func databases(count int) string {
	return fmt.Sprintf(`"resources":[{"type":"Microsoft.DocumentDB/databaseAccounts/sqlDatabases","apiVersion":"2024-05-15","name":"[concat('acc/d',copyIndex())]","copy":{"name":"l","count":%d},"properties":{}}]`, count)
}

// declared returns n members with a value.
func declared(n int, value string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%d":%s`, i, value)
	}
	return "{" + strings.Join(list, ",") + "}"
}

// nested returns a template with others inside it.
func nested(depth int) string {
	text := templateOf(`"resources":[]`)
	for i := range depth {
		text = templateOf(fmt.Sprintf(`"resources":[{"type":"Microsoft.Resources/deployments","apiVersion":"2022-09-01","name":"n%d","properties":{"mode":"Incremental","template":%s}}]`, i, text))
	}
	return text
}

// TestBounds shows both sides of each limit of a template.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		good, bad string
		message   string
	}{
		{"loop", templateOf(databases(800)), templateOf(databases(801)), "invalid copy count of: '801'"},
		{"resources", templateOf(databases(800)), strings.Replace(templateOf(databases(800)), `"resources":[`, `"resources":[{"type":"Microsoft.DocumentDB/databaseAccounts","apiVersion":"2024-05-15","name":"acc"},`, 1), "Limit: '800' and actual: '801'"},
		{"parameters", templateOf(`"resources":[],"parameters":` + declared(256, `{"type":"int","defaultValue":1}`)), templateOf(`"resources":[],"parameters":` + declared(257, `{"type":"int","defaultValue":1}`)), "template parameters limit exceeded"},
		{"variables", templateOf(`"resources":[],"variables":` + declared(512, `1`)), templateOf(`"resources":[],"variables":` + declared(513, `1`)), "template variables limit exceeded"},
		{"outputs", templateOf(`"resources":[],"outputs":` + declared(64, `{"type":"int","value":1}`)), templateOf(`"resources":[],"outputs":` + declared(65, `{"type":"int","value":1}`)), "template outputs limit exceeded"},
		{"nesting", nested(NestedMax), nested(NestedMax + 1), "nested more than 20 deep"},
	} {
		if _, err := expandText(c.good); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if _, err := expandText(c.bad); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s above the limit: %v, want %q", c.name, err, c.message)
		}
	}
	// 2^60 items when written out.
	var doubled strings.Builder
	doubled.WriteString(`"v0":[1]`)
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&doubled, `,"v%d":"[createArray(variables('v%d'),variables('v%d'))]"`, i, i-1, i-1)
	}
	if _, err := expandText(templateOf(`"resources":[],"variables":{` + doubled.String() + `}`)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("values that double: %v", err)
	}
}

// TestOrder shows what decides the order, and how circles are refused.
func TestOrder(t *testing.T) {
	t.Parallel()
	resource := func(name, needs string) string {
		kind := "Microsoft.DocumentDB/databaseAccounts" + []string{"", "/sqlDatabases", "/sqlDatabases/containers"}[strings.Count(name, "/")]
		return fmt.Sprintf(`{"type":%q,"apiVersion":"2024-05-15","name":%q,"properties":{"x":"%s"},"dependsOn":[%s]}`, kind, name, needs, "")
	}
	with := func(name, needs string) string {
		return strings.Replace(resource(name, ""), `"dependsOn":[]`, `"dependsOn":[`+needs+`]`, 1)
	}
	for _, c := range []struct{ name, resources, want string }{
		{"owners come first", resource("a/d/c", "") + "," + resource("a/d", "") + "," + resource("a", ""), "a a/d a/d/c"},
		{"by name and by id", with("a/d", `"a/e"`) + "," + with("a/e", `"[resourceId('Microsoft.DocumentDB/databaseAccounts/sqlDatabases','a','f')]"`) + "," + resource("a/f", ""), "a/f a/e a/d"},
		{"an owner that needs what it owns", with("a", `"a/d"`) + "," + resource("a/d", ""), "a/d a"},
		{"by reference", resource("a/d", "[reference('a/e').x]") + "," + resource("a/e", ""), "a/e a/d"},
		{"a circle", with("a/d", `"a/e"`) + "," + with("a/e", `"a/d"`), "Circular dependency detected on resource: '/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/a/sqlDatabases/d'. Please see https://aka.ms/arm-syntax-resources for usage details."},
		{"a circle of references", resource("a/d", "[reference('a/e').x]") + "," + resource("a/e", "[reference('a/d').x]"), "Circular dependency detected"},
		{"needs what is not there", with("a/d", `"a/e"`), "The resource 'a/e' is not defined in the template."},
		{"twice", resource("a/d", "") + "," + resource("A/D", ""), "is defined multiple times in a template"},
	} {
		d, err := expandText(templateOf(`"resources":[` + c.resources + `]`))
		var names []string
		if err == nil {
			for _, r := range d.Resources {
				names = append(names, r.Name)
			}
		} else {
			names = []string{err.Error()}
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestParameters shows how values of a file and of the command line become parameters.
func TestParameters(t *testing.T) {
	t.Parallel()
	text := templateOf(`"resources":[],"parameters":{"s":{"type":"string","defaultValue":"d"},"n":{"type":"int","defaultValue":1,"maxValue":9},"o":{"type":"object","defaultValue":{}},"k":{"type":"secureString","defaultValue":""}},
		"outputs":{"all":{"type":"string","value":"[format('{0} {1} {2}', parameters('s'), parameters('n'), parameters('o'))]"},"key":{"type":"secureString","value":"[parameters('k')]"}}`)
	for _, c := range []struct {
		file   string
		values map[string]string
		want   string
	}{
		{"", nil, "d 1 {}"},
		{`{"$schema":"x","contentVersion":"1.0.0.0","parameters":{"s":{"value":"f"},"N":{"value":2}}}`, nil, "f 2 {}"},
		{`{"s":{"value":"f"}, /* bare */ "n":{"value":2}}`, map[string]string{"s": "12", "O": `{"a":[1]}`}, "12 2 {'a':[1]}"},
		{"", map[string]string{"n": "x"}, "The value of the parameter 'n' is not JSON: line 1, column 1: 'x' is not expected here; a value is"},
		{"", map[string]string{"n": "10"}, "Value should be less than or equal to '9'."},
		{"", map[string]string{"x": "1"}, "The following parameters were supplied, but do not correspond to any parameters defined in the template: 'x'."},
		{`{"s":{"reference":{}}}`, nil, "refers to a key vault"},
		{`{"s":`, nil, "the text ends where a value is expected"},
		{`{"s":{"value":5}}`, nil, "Expected a value of type 'String, Uri', but received a value of type 'Integer'."},
	} {
		d, err := Expand(Request{Template: Source{Text: text}, Parameters: []Source{{Text: c.file}}, Values: c.values, Scope: testScope})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = d.Outputs[0].Value.(string)
			if !d.Outputs[1].Secure {
				t.Error("the output of a secure string is not secure")
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %v:\n got %s\nwant %s", c.file, c.values, got, c.want)
		}
	}
}

// TestLoopInArgument: a parameter of a nested template may be made by a loop, as the compiler of
// Bicep writes a loop in the parameters of a module.
func TestLoopInArgument(t *testing.T) {
	t.Parallel()
	const loop = `"copy":[{"name":"value","count":"[length(variables('l'))]","input":"[format('c{0}', variables('l')[copyIndex('value')])]"}]`
	for _, c := range []struct{ argument, want string }{
		{loop, "c7,c8"},
		{strings.Replace(loop, "length(variables('l'))", "sub(1, 1)", 1), ""},
		{strings.Replace(loop, "length(variables('l'))", "800", 1), "array index '2' is out of bounds"},
		{strings.Replace(loop, "length(variables('l'))", "801", 1), "has an invalid copy count of: '801'"},
		{strings.Replace(loop, `"name":"value",`, "", 1), "needs a name, a count and an input"},
		{strings.Replace(loop, `"name":"value"`, `"name":"other"`, 1), "is not valid"},
	} {
		d, err := expandText(templateOf(`"variables":{"l":[7,8]},"resources":[{"type":"Microsoft.Resources/deployments","apiVersion":"2022-09-01","name":"inner",
			"properties":{"mode":"Incremental","expressionEvaluationOptions":{"scope":"inner"},"parameters":{"names":{` + c.argument + `}},
			"template":{` + testSchema + `,"parameters":{"names":{"type":"array"}},"resources":[],"outputs":{"o":{"type":"string","value":"[join(parameters('names'), ',')]"}}}}}],
			"outputs":{"o":{"type":"string","value":"[reference('inner').outputs.o.value]"}}`))
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.argument, err, c.want)
			}
			continue
		}
		if got := d.Outputs[0].Value; got != c.want {
			t.Errorf("%s: %v, want %s", c.argument, got, c.want)
		}
	}
}

// FuzzExpand expands any text: it ends, does not panic, and errors are of the two kinds.
func FuzzExpand(f *testing.F) {
	f.Add(good)
	f.Add(nested(2))
	f.Add(templateOf(databases(3)))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := expandText(text)
		if err != nil {
			_, ours := errors.AsType[*Error](err)
			_, syntax := errors.AsType[*jsonc.Error](err)
			if !ours && !syntax {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		for i, r := range d.Resources {
			for _, need := range r.Needs {
				if need >= i {
					t.Fatalf("%s comes before what it needs", r.ID)
				}
			}
		}
	})
}
