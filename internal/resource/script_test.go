package resource

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// TestFunction parses definitions and checks the form that clients read: the RID
// of a function is a child of its container's, of type 6.
func TestFunction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, fault string }{
		{`{"id":"f","body":"function () {}","more":1}`, ""},
		{`{"body":"function () {}"}`, "'id; ' - are missing"},
		{`{"id":"f"}`, "'body; ' - are missing"},
		{`{"id":"f","body":1}`, "'body' is a number"},
		{`{"id":"a/b","body":""}`, "not allowed"},
		{`{"id":"` + strings.Repeat("x", NameCharsMax) + `","body":""}`, ""},
		{`{"id":"` + strings.Repeat("x", NameCharsMax+1) + `","body":""}`, "less than '256'"},
		{`[]`, "not a JSON object"},
	} {
		v, err := value.ParseString(c.text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseScript(Function, v)
		switch {
		case c.fault == "" && err != nil, c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%.40s: got %v, want %q", c.text, err, c.fault)
		case err == nil && f.Body != v.Get("body").Text():
			t.Errorf("%.40s: got body %q", c.text, f.Body)
		}
	}
	container := ContainerRID(DatabaseRID(7), 9)
	f := Script{ID: "f", RID: ScriptRID(Function, container, 1), ETag: `"e"`, TS: 5, Body: "x => x"}
	want := `{"body":"x => x","id":"f","_rid":"AAAAB4AAAAkBAAAAAAAAYA==","_ts":5,"_self":"dbs/AAAABw==/colls/AAAAB4AAAAk=/udfs/AAAAB4AAAAkBAAAAAAAAYA==/","_etag":"\"e\""}`
	if got := f.Value().JSON(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rid, err := ParseRID(f.RID.String())
	if err != nil || rid != f.RID || !rid.isChild(byte(Function)) || rid.IsDocument() || rid.Container() != container || rid.Number() != 1 {
		t.Errorf("got %q, %v", string(rid), err)
	}
}

// TestTrigger parses the additional members of triggers, and checks for which
// operations each runs.
func TestTrigger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ members, fires, fault string }{
		{`"triggerType":"Pre","triggerOperation":"All"`, "Create Replace Upsert Delete", ""},
		{`"triggerType":"Post","triggerOperation":"Create"`, "Create", ""},
		{`"triggerType":"Post","triggerOperation":"Update"`, "Replace", ""},
		{`"triggerType":"Pre","triggerOperation":"Replace"`, "Replace", ""},
		{`"triggerType":"Pre","triggerOperation":"Upsert"`, "Upsert", ""},
		{`"triggerType":"Pre","triggerOperation":"Delete"`, "Delete", ""},
		{`"triggerType":"pre","triggerOperation":"all"`, "Create Replace Upsert Delete", ""}, // JavaScript's TriggerType.Pre is "pre"
		{`"triggerType":"POST","triggerOperation":"update"`, "Replace", ""},
		{`"triggerType":"prior","triggerOperation":"All"`, "", "'triggerType' is not one of"},
		{`"triggerType":"Pre","triggerOperation":"Patch"`, "", "'triggerOperation' is not one of"},
		{`"triggerType":"Pre"`, "", "'triggerOperation; ' - are missing"},
		{`"triggerType":1,"triggerOperation":"All"`, "", "'triggerType' is a number"},
	} {
		v, err := value.ParseString(`{"id":"t","body":"x => x",` + c.members + `}`)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseScript(Trigger, v)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: got %v, want %q", c.members, err, c.fault)
			}
			continue
		}
		var fires []string
		for _, operation := range []string{"Create", "Replace", "Upsert", "Delete"} {
			if s.Fires(operation) {
				fires = append(fires, operation)
			}
		}
		if got := strings.Join(fires, " "); err != nil || got != c.fires {
			t.Errorf("%s: fires for %q, %v", c.members, got, err)
		}
	}
	container := ContainerRID(DatabaseRID(7), 9)
	for _, kind := range ScriptKinds {
		rid := ScriptRID(kind, container, 1)
		s := Script{RID: rid}
		word, known := ScriptKindOf(kind.Word())
		if got, ok := rid.ScriptKind(); !ok || got != kind || !known || word != kind || !strings.Contains(s.Self(), "/"+kind.Word()+"/") {
			t.Errorf("%s: %v, %s", kind, got, s.Self())
		}
	}
	if _, ok := DocumentRID(container, 1).ScriptKind(); ok {
		t.Error("a document is a script")
	}
}
