package partition

import (
	"errors"
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestLargestDocument writes and deletes a document of two megabytes with twenty
// thousand terms.
func TestLargestDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	if raceDetector {
		w.limits.DocumentBytes /= 8
		if err := errors.Join(w.close(), w.open()); err != nil {
			t.Fatal(err)
		}
	}
	limit := w.limits.DocumentBytes
	var items []value.Value
	for size := 100; size < limit-200; size += 103 {
		items = append(items, value.String(fmt.Sprintf("%0100d", len(items))))
	}
	doc := value.Object([]value.Member{{Name: "id", Value: value.String("large")}, {Name: "a", Value: value.String("x")}, {Name: "list", Value: value.Array(items)}})
	if _, err := w.write(Create, doc, nil); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() || report.Terms != int64(len(items))+4 {
		t.Errorf("%d terms, want %d; %q", report.Terms, len(items)+4, report.Problems)
	}
	if _, err := w.write(Replace, doc.With("list", value.Array(items[1:])), nil); err != nil {
		t.Fatal(err)
	}
	found, err := w.read(w.container.Load().KeyOf(doc), "large", nil)
	if err != nil || len(found.Body) < limit*9/10 {
		t.Errorf("read %d bytes: %v", len(found.Body), err)
	}
	if _, err := w.write(Delete, doc, func(request *Write) { request.ID = "large" }); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() || report.Terms != 0 {
		t.Errorf("%d terms are left; %q", report.Terms, report.Problems)
	}
	large := doc.With("text", value.String(string(make([]byte, limit))))
	if _, err := w.write(Create, large, nil); status.CodeOf(err) != status.CodeTooLarge {
		t.Errorf("got %v, want 413", err)
	}
}
