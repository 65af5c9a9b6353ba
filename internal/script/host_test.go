package script

import (
	"context"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// slow is a host whose operations last until their context ends. A read still
// returns its document, a query without a filter returns the error of the
// context, and a query with a filter calls it with one document after another as
// long as it may.
type slow struct{ recorder }

func (h *slow) Read(ctx context.Context, _ Target) (value.Value, error) {
	<-ctx.Done()
	return value.Object([]value.Member{{Name: "id", Value: value.String("1")}}), nil
}

func (h *slow) Query(ctx context.Context, q Query) (Page, error) {
	for q.Keep != nil {
		if _, err := q.Keep(value.Object(nil)); err != nil {
			return Page{}, err
		}
	}
	<-ctx.Done()
	return Page{}, status.New(status.CodeTooManyRequests, 0, "The query was ended.")
}

// TestSlowHost ends a run whose time passes in the host: the operation is told
// to end, and the script does not continue whatever the operation returns.
func TestSlowHost(t *testing.T) {
	t.Parallel()
	r := New(Limits{Time: 50 * time.Millisecond, AcceptTime: time.Hour})
	defer r.Close()
	const answer = "getContext().getResponse().setBody('went on')"
	for _, body := range []string{
		"function () { __.readDocument(__.getAltLink() + '/docs/1', () => " + answer + "); }",
		"function () { __.queryDocuments(__.getSelfLink(), 'SELECT VALUE COUNT(1) FROM c', () => " + answer + "); }",
		"function () { __.filter(() => false, () => " + answer + "); }",
		"async function () { await new Promise((done) => __.readDocuments(__.getSelfLink(), done)); " + answer + "; }",
	} {
		// Only a run that continues takes that long.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		result, err := compile(t, r, Procedure, body).Run(ctx, &slow{}, Request{})
		if status.CodeOf(err) != status.CodeRequestTimeout || ctx.Err() != nil {
			t.Errorf("%s: got %v, %v, want 408", body, result.Body, err)
		}
		cancel()
	}
}
