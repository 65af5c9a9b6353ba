package resource

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// TestFunction reads definitions, and writes what clients know: the RID of a
// function is a child of its container's, of type 6.
func TestFunction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, fault string }{
		{`{"id":"f","body":"function () {}","more":1}`, ""},
		{`{"body":"function () {}"}`, "'id' is missing"},
		{`{"id":"f"}`, "'body' is missing"},
		{`{"id":"f","body":1}`, "'body' is a number"},
		{`{"id":"a/b","body":""}`, "not allowed"},
		{`{"id":"` + strings.Repeat("x", NameCharsMax) + `","body":""}`, ""},
		{`{"id":"` + strings.Repeat("x", NameCharsMax+1) + `","body":""}`, "At most 255"},
		{`[]`, "not a JSON object"},
	} {
		v, err := value.ParseString(c.text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseFunction(v)
		switch {
		case c.fault == "" && err != nil, c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%.40s: got %v, want %q", c.text, err, c.fault)
		case err == nil && f.Body != v.Get("body").Text():
			t.Errorf("%.40s: got body %q", c.text, f.Body)
		}
	}
	container := ContainerRID(DatabaseRID(7), 9)
	f := Function{ID: "f", RID: FunctionRID(container, 1), ETag: `"e"`, TS: 5, Body: "x => x"}
	want := `{"body":"x => x","id":"f","_rid":"AAAAB4AAAAkBAAAAAAAAYA==","_ts":5,"_self":"dbs/AAAABw==/colls/AAAAB4AAAAk=/udfs/AAAAB4AAAAkBAAAAAAAAYA==/","_etag":"\"e\""}`
	if got := f.Value().JSON(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rid, err := ParseRID(f.RID.String())
	if err != nil || rid != f.RID || !rid.IsFunction() || rid.IsDocument() || rid.Container() != container || rid.Number() != 1 {
		t.Errorf("got %q, %v", string(rid), err)
	}
}
