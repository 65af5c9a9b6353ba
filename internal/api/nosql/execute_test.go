package nosql_test

import (
	"net/http"
	"net/http/httptest"
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

// FuzzExecute sends any body and any list of triggers: arguments arrive as they
// were sent, and whatever is no array is 400.
func FuzzExecute(f *testing.F) {
	for _, body := range []string{``, `[]`, `[null]`, `[1,"two",{"three":[3]},-0.5e-7]`, `{}`, `"x"`, `[`, `[1]x`, `["\ud83d\ude00"]`, "\x80", `[{"a":1,"a":2}]`, strings.Repeat("[", 300)} {
		f.Add(body, "a,b")
	}
	f.Add("[]", ",,%zz, %41,é")
	w := newWorld(f, settings{})
	f.Cleanup(w.close)
	for _, made := range []struct{ path, kind, link, body string }{
		{"/dbs", "dbs", "", `{"id":"d"}`},
		{"/dbs/d/colls", "colls", "dbs/d", `{"id":"c","partitionKey":{"paths":["/pk"]}}`},
		{"/dbs/d/colls/c/sprocs", "sprocs", "dbs/d/colls/c", `{"id":"echo","body":"function (...all) { getContext().getResponse().setBody(all); }"}`},
	} {
		if answer := w.send("POST", made.path, made.kind, made.link, made.body); answer.Code != http.StatusCreated {
			f.Fatalf("%s: %d %s", made.path, answer.Code, answer.Body)
		}
	}
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
		// No such trigger exists, so a list is empty, or wrong.
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
