package nosql_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/value"
)

// send sends one signed request to a world.
func (w *world) send(method, path, kind, link, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	date := now().UTC().Format(http.TimeFormat)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", auth.Sign(testKey, method, kind, link, date))
	r.Header.Set("x-ms-version", "2020-07-15")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	return answer
}

// newProcedureWorld is a world with a stored procedure in dbs/d/colls/c.
func newProcedureWorld(t testing.TB, procedure string) *world {
	t.Helper()
	w := newWorld(t, settings{})
	t.Cleanup(w.close)
	for _, made := range []struct{ path, kind, link, body string }{
		{"/dbs", "dbs", "", `{"id":"d"}`},
		{"/dbs/d/colls", "colls", "dbs/d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`},
		{"/dbs/d/colls/c/sprocs", "sprocs", "dbs/d/colls/c", procedure},
	} {
		if answer := w.send("POST", made.path, made.kind, made.link, made.body); answer.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", made.path, answer.Code, answer.Body)
		}
	}
	return w
}

// TestScriptLogFitsHeaders logs as much as clients accept, where one header has
// 8,190 bytes and all have 16 KB, and more than that, which is refused with 400
// before anything is written.
func TestScriptLogFitsHeaders(t *testing.T) {
	t.Parallel()
	w := newProcedureWorld(t, `{"id":"log","body":"function (id, text) { __.createDocument(__.getSelfLink(), { id, pk: 'p' }); console.log(text); }"}`)
	const most = 8000
	for i, c := range []struct {
		text string
		code int
	}{
		{strings.Repeat("x", most), http.StatusOK},
		{strings.Repeat("é", most/len("%C3%A9")) + "xx", http.StatusOK},
		{strings.Repeat("x", most+1), http.StatusBadRequest},
		{strings.Repeat("é", most/len("%C3%A9")) + "xxx", http.StatusBadRequest},
	} {
		answer := w.send("POST", "/dbs/d/colls/c/sprocs/log", "sprocs", "dbs/d/colls/c/sprocs/log", fmt.Sprintf(`["%d",%q]`, i, c.text),
			"x-ms-documentdb-partitionkey", `["p"]`, "x-ms-documentdb-script-enable-logging", "true")
		if answer.Code != c.code {
			t.Fatalf("%d: %d %s", i, answer.Code, answer.Body)
		}
		header := func(name string) string { return strings.Join(answer.Header()[name], "") } // in lower case, as it was set
		stored := w.send("GET", fmt.Sprintf("/dbs/d/colls/c/docs/%d", i), "docs", fmt.Sprintf("dbs/d/colls/c/docs/%d", i), "", "x-ms-documentdb-partitionkey", `["p"]`)
		if c.code != http.StatusOK {
			if stored.Code != http.StatusNotFound || header("x-ms-substatus") != "413" {
				t.Errorf("%d: refused with %s, and the document is %d", i, header("x-ms-substatus"), stored.Code)
			}
			continue
		}
		if text, err := url.PathUnescape(header("x-ms-documentdb-script-log-results")); err != nil || text != c.text || stored.Code != http.StatusOK {
			t.Errorf("%d: %d bytes of log, %v, and the document is %d", i, len(text), err, stored.Code)
		}
		var head strings.Builder
		if err := answer.Header().Write(&head); err != nil || head.Len() >= 16<<10 {
			t.Errorf("%d: %d bytes of headers, %v", i, head.Len(), err)
		}
	}
}

// FuzzExecute sends any body and any list of triggers: arguments arrive
// unchanged, and a body that is not an array is 400.
func FuzzExecute(f *testing.F) {
	for _, body := range []string{``, `[]`, `[null]`, `[1,"two",{"three":[3]},-0.5e-7]`, `{}`, `"x"`, `[`, `[1]x`, `["\ud83d\ude00"]`, "\x80", `[{"a":1,"a":2}]`, strings.Repeat("[", 300)} {
		f.Add(body, "a,b")
	}
	f.Add("[]", ",,%zz, %41,é")
	w := newProcedureWorld(f, `{"id":"echo","body":"function (...all) { getContext().getResponse().setBody(all); }"}`)
	f.Fuzz(func(t *testing.T, body, triggers string) {
		answer := w.send("POST", "/dbs/d/colls/c/sprocs/echo", "sprocs", "dbs/d/colls/c/sprocs/echo", body, "x-ms-documentdb-partitionkey", `["p"]`)
		sent, err := value.ParseString(body)
		switch {
		case body != "" && (err != nil || sent.Kind() != value.KindArray):
			if answer.Code != http.StatusBadRequest {
				t.Errorf("%q: %d %s", body, answer.Code, answer.Body)
			}
		case answer.Code != http.StatusOK:
			t.Errorf("%q: %d %s", body, answer.Code, answer.Body)
		default:
			got, err := value.Parse(answer.Body.Bytes())
			if err != nil || got.Kind() != value.KindArray || got.Len() != sent.Len() {
				t.Errorf("%q: %s", body, answer.Body)
			}
		}
		// No such trigger exists, so the list is either empty or an error.
		answer = w.send("POST", "/dbs/d/colls/c/docs", "docs", "dbs/d/colls/c", `{"id":"x","pk":"p"}`,
			"x-ms-documentdb-partitionkey", `["p"]`, "x-ms-documentdb-is-upsert", "true", "x-ms-documentdb-pre-trigger-include", triggers)
		want := http.StatusCreated
		for name := range strings.SplitSeq(triggers, ",") {
			if strings.TrimSpace(name) != "" {
				want = http.StatusBadRequest
			}
		}
		if answer.Code != want && (want != http.StatusCreated || answer.Code != http.StatusOK) {
			t.Errorf("%q: %d %s", triggers, answer.Code, answer.Body)
		}
	})
}
