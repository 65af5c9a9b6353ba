package expression

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// vectors are expressions with what the vendor's engine answered.
type vectors struct {
	Cases map[string][]struct {
		Text     string          `json:"e"`
		Result   json.RawMessage `json:"r"`
		Error    *string         `json:"error"`
		Deferred *string         `json:"deferred"`
	}
}

// account is the one resource of the template in which the vectors stood.
type account struct{}

func (account) Find(name string) (*Resource, error) {
	const id = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/acc"
	if name == "acc" || name == id {
		return &Resource{ID: id, Type: "Microsoft.DocumentDB/databaseAccounts", Name: "acc", APIVersion: "2024-05-15"}, nil
	}
	return nil, nil
}

func (account) Use(*Resource) {}

func (account) Loop(string) ([]*Resource, error) { return nil, nil }

// testEnv is the context of the vectors.
func testEnv() *Env {
	variables := jsonc.NewObject("v", "V", "v2", "V2", "arr", jsonc.NewArray(int64(10), int64(20)),
		"obj", jsonc.NewObject("one", jsonc.NewObject("two", int64(2))))
	return &Env{
		Scope: Scope{
			SubscriptionID: "11111111-1111-1111-1111-111111111111", TenantID: "22222222-2222-2222-2222-222222222222",
			ResourceGroup: "rg", Location: "westus", Deployment: "main",
			Template: jsonc.NewObject("contentVersion", "1.0.0.0"),
		},
		Parameter: func(name string) (any, bool, error) { return "P", strings.EqualFold(name, "p"), nil },
		Variable: func(name string) (any, bool, error) {
			value, found := variables.Get(name)
			return value, found, nil
		},
		Resources: account{},
		Place:     AllowReference,
		Budget:    &Budget{BudgetMax},
	}
}

// evaluate evaluates a string of a template.
func evaluate(text string, env *Env) (any, error) {
	inside, is := Is(text)
	if !is {
		return inside, nil
	}
	e, err := Parse(inside)
	if err != nil {
		return nil, err
	}
	return Evaluate(e, env)
}

// TestVectors evaluates all expressions of the vectors: values, messages of errors, and
// what is left for the deployment must be those of the vendor's engine.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/arm-functions.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	total := 0
	for group, cases := range v.Cases {
		t.Run(group, func(t *testing.T) {
			for _, c := range cases {
				got, err := evaluate("["+c.Text+"]", testEnv())
				switch {
				case c.Error != nil:
					// Some messages are cut before a quotation mark and a full stop.
					if err == nil {
						t.Errorf("%s\n got %s\nwant error %s", c.Text, jsonc.Text(got), *c.Error)
					} else if text := err.Error(); text != *c.Error && !strings.HasPrefix(text, *c.Error+"'.") {
						t.Errorf("%s\n got error %s\nwant error %s", c.Text, err, *c.Error)
					}
				case err != nil:
					t.Errorf("%s\n got error %s\nwant %s", c.Text, err, c.Result)
				case c.Deferred != nil:
					if u, is := got.(*Unknown); !is || u.String() != *c.Deferred {
						t.Errorf("%s\n got %s\nwant %s", c.Text, jsonc.Text(got), *c.Deferred)
					}
				default:
					want, err := jsonc.Parse(string(c.Result))
					if err != nil {
						t.Fatal(err)
					}
					// The file was written by a program that sorts names that are numbers.
					same := jsonc.Text(got) == jsonc.Text(want.Plain()) ||
						strings.HasPrefix(jsonc.Text(want.Plain()), `{"0":`) && jsonc.Equal(got, want.Plain())
					if !same {
						t.Errorf("%s\n got %s\nwant %s", c.Text, jsonc.Text(got), jsonc.Text(want.Plain()))
					}
				}
			}
		})
		total += len(cases)
	}
	if total != 890 {
		t.Errorf("the file has %d cases, want 890", total)
	}
}
