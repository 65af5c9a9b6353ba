package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// testScope is the context of the vectors.
var testScope = expression.Scope{
	SubscriptionID: "11111111-1111-1111-1111-111111111111", TenantID: "22222222-2222-2222-2222-222222222222",
	ResourceGroup: "rg", Location: "westus", Deployment: "main",
}

// TestVectors expands the templates of the vectors: resources, outputs and messages must
// be those of the vendor's engine.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/arm-templates.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Name      string
			Template  json.RawMessage
			Resources json.RawMessage
			Outputs   json.RawMessage
			Error     string
			Refused   []string `json:"refusedByTheCompiler"`
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Cases) != 74 {
		t.Errorf("the file has %d cases, want 74", len(vectors.Cases))
	}
	for _, c := range vectors.Cases {
		t.Run(c.Name, func(t *testing.T) {
			root, err := jsonc.Parse(string(c.Template))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Expand(Request{Template: Source{Text: jsonc.Text(root.Plain())}, Scope: testScope})
			switch {
			case c.Refused != nil:
				if err == nil {
					t.Fatal("no error")
				}
				if e := new(Error); !errors.As(err, &e) || e.Line == 0 {
					t.Errorf("%v has no place", err)
				}
				return
			case c.Error != "":
				// Some messages are cut before a quotation mark and a full stop.
				if err == nil || err.Error() != c.Error && !strings.HasPrefix(err.Error(), c.Error+"'.") {
					t.Fatalf("\n got error %v\nwant error %s", err, c.Error)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			got := make([]any, len(d.Resources))
			for i, r := range d.Resources {
				got[i] = r.Body
			}
			compareSets(t, "resource", got, plain(t, c.Resources))
			outputs := jsonc.NewObject()
			for _, o := range d.Outputs {
				outputs.Set(o.Name, o.Value)
			}
			want := plain(t, c.Outputs)
			if want == nil {
				want = jsonc.NewObject()
			}
			if shown := shown(outputs); !jsonc.Equal(shown, want) {
				t.Errorf("outputs\n got %s\nwant %s", jsonc.Text(shown), jsonc.Text(want))
			}
		})
	}
}

func plain(t *testing.T, text []byte) any {
	t.Helper()
	if text == nil {
		return nil
	}
	node, err := jsonc.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return node.Plain()
}

// shown returns a value in which unknown values are their texts.
func shown(v any) any {
	node, err := jsonc.Parse(jsonc.Text(v))
	if err != nil {
		panic(err)
	}
	return node.Plain()
}

// compareSets compares resources in any order: that of the vectors is not an order of
// deployment.
func compareSets(t *testing.T, what string, got []any, want any) {
	t.Helper()
	list := want.(*jsonc.Array)
	if len(got) != list.Len() {
		t.Errorf("%d %ss, want %d", len(got), what, list.Len())
	}
next:
	for _, w := range list.Items() {
		for _, g := range got {
			if jsonc.Equal(shown(g), w) {
				continue next
			}
		}
		t.Errorf("no %s is %s", what, jsonc.Text(w))
		for _, g := range got {
			t.Logf("there is %s", jsonc.Text(g))
		}
	}
}
