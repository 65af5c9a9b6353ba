package script

import (
	"context"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// slow is a host whose operations do not end before their context. Then a read has
// its document all the same, as one that was nearly there, and a query without a
// filter tells that it was ended; one with a filter asks it about a document after
// the other for as long as it may.
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

// TestSlowHost ends a run whose time goes by in the host: an operation is told to
// end then, and whatever it answers the script does not go on.
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
		// Only a run that goes on is still there when this is over.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		result, err := compile(t, r, Procedure, body).Run(ctx, &slow{}, Request{})
		if status.CodeOf(err) != status.CodeRequestTimeout || ctx.Err() != nil {
			t.Errorf("%s: got %v, %v, want 408", body, result.Body, err)
		}
		cancel()
	}
}
