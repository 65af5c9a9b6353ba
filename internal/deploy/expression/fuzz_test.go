package expression

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// FuzzEvaluate parses and evaluates any text: it must end within its budget and without a
// panic, and what is left for the deployment must parse again to the same text.
func FuzzEvaluate(f *testing.F) {
	data, err := os.ReadFile("testdata/arm-functions.json")
	if err != nil {
		f.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		f.Fatal(err)
	}
	for _, cases := range v.Cases {
		for _, c := range cases {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		env := testEnv()
		env.Budget = &Budget{1_000_000}
		e, err := Parse(text)
		if err != nil {
			return
		}
		value, err := Evaluate(e, env)
		if err != nil {
			return
		}
		if jsonc.Weight(value) > WeightMax {
			t.Fatalf("the weight of the value is %d", jsonc.Weight(value))
		}
		u, is := value.(*Unknown)
		if !is || strings.Contains(u.String(), "fail(") || strings.Contains(u.String(), "json(") {
			return
		}
		inside, _ := Is(u.String())
		if len(inside) > LengthMax {
			return
		}
		if again, err := Parse(inside); err != nil {
			t.Fatalf("%s: %v", inside, err)
		} else if printed := string(again.append(nil)); printed != inside {
			t.Fatalf("%s is printed as %s", inside, printed)
		}
	})
}

// TestBounds shows both sides of each limit of an expression.
func TestBounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("array(", n) + "1" + strings.Repeat(")", n) }
	if _, err := Parse(nested(DepthMax)); err != nil {
		t.Errorf("%d calls deep: %v", DepthMax, err)
	}
	if _, err := Parse(nested(DepthMax + 1)); err == nil {
		t.Errorf("%d calls deep: no error", DepthMax+1)
	}
	long := "'" + strings.Repeat("a", LengthMax-2) + "'"
	if _, err := Parse(long); err != nil {
		t.Errorf("%d characters: %v", LengthMax, err)
	}
	if _, err := Parse(long[:1] + long); err == nil {
		t.Errorf("%d characters: no error", LengthMax+1)
	}
	for _, text := range []string{
		// A value of 10,000 * 10,000 items, a text of 1,000,000 * 1,000,000 characters,
		// and a tree that is small in memory but has 2^40 leaves when written out.
		"map(range(0,10000),lambda('i',range(0,10000)))",
		"replace(padLeft('',1000000,'a'),'a',padLeft('',1000000,'b'))",
		"padLeft('',9223372036854775807)",
		"format('{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}{0,999999}',1)",
		"reduce(range(0,40),createArray(1),lambda('a','i',createArray(lambdaVariables('a'),lambdaVariables('a'))))",
		"reduce(range(0,10000),'',lambda('a','i',concat(lambdaVariables('a'),padLeft('',10000))))",
	} {
		if _, err := evaluate("["+text+"]", testEnv()); err == nil {
			t.Errorf("%.60s: no error", text)
		}
	}
}

// TestLater reduces expressions that need what exists, and resolves them afterwards.
func TestLater(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, reduced, value string }{
		{"[if(reference('acc').on, variables('v'), fail('no'))]", "[if(reference('ID', '2024-05-15').on, 'V', fail('no'))]", `"V"`},
		{"[if(reference('acc').off, div(1,0), 'else')]", "", `"else"`},
		{"[and(true(), reference('acc').on)]", "[and(reference('ID', '2024-05-15').on, true())]", "true"},
		{"[or(reference('acc').on, equals(1, div(1,0)))]", "", "true"},
		{"[coalesce(null(), reference('acc').none, variables('v'))]", "[coalesce(reference('ID', '2024-05-15').none, 'V')]", `"V"`},
		{
			"[map(reference('acc').list, lambda('i', concat(parameters('p'), lambdaVariables('i'))))]",
			"[map(reference('ID', '2024-05-15').list, lambda('i', concat('P', lambdaVariables('i'))))]", `["Px","Py"]`,
		},
		{"[createObject('a', reference('acc').list).a[1]]", "[createObject('a', reference('ID', '2024-05-15').list).a[1]]", `"y"`},
		{"[listKeys('acc', '2024-05-15').primaryMasterKey]", "[listKeys('ID', '2024-05-15').primaryMasterKey]", `"KEY"`},
		{"[length(createArray(1, 2))]", "2", "2"},
		{"[variables('arr')[reference('acc').one]]", "", "20"},
		{"[resourceGroup().properties.provisioningState]", "[resourceGroup().properties.provisioningState]", `"Succeeded"`},
		{"[reduce(reference('acc').list, '', lambda('a', 'b', concat(lambdaVariables('a'), lambdaVariables('b'))))]", "", `"xy"`},
		{"[toObject(reference('acc').list, lambda('i', lambdaVariables('i')))]", "", `{"x":"x","y":"y"}`},
		{"[filter(createArray('x', 'z'), lambda('i', contains(reference('acc').list, lambdaVariables('i'))))]", "", `["x"]`},
		{"[sort(createArray(2, 1), lambda('a', 'b', if(reference('acc').on, less(lambdaVariables('a'), lambdaVariables('b')), false())))]", "", `[1,2]`},
	} {
		value, err := evaluate(c.text, testEnv())
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		reduced := strings.ReplaceAll(strings.Trim(jsonc.Text(value), `"`), "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/acc", "ID")
		if c.reduced != "" && reduced != c.reduced {
			t.Errorf("%s\n got %s\nwant %s", c.text, reduced, c.reduced)
		}
		env := testEnv()
		env.Runtime, env.Parameter = existing{}, nil
		value, err = Resolve(value, env)
		if err != nil || jsonc.Text(value) != c.value {
			t.Errorf("%s\n got %s, %v\nwant %s", c.text, jsonc.Text(value), err, c.value)
		}
	}
}

// existing is what exists for TestLater.
type existing struct{}

func (existing) Reference(string, string, bool) (any, error) {
	return jsonc.NewObject("on", true, "off", false, "none", nil, "one", int64(1), "list", jsonc.NewArray("x", "y")), nil
}

func (existing) List(string, string, string, []any) (any, error) {
	return jsonc.NewObject("primaryMasterKey", "KEY"), nil
}
