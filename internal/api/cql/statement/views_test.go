package statement

import (
	"testing"
	"time"
)

// waitForViews waits until all materialized views are built.
func (w *world) waitForViews(t testing.TB) {
	t.Helper()
	w.started.Do(w.Start)
	for deadline := time.Now().Add(time.Minute); ; {
		built, _, err := w.execute("", "SELECT view_name FROM system.built_views", 0)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := w.execute("", "SELECT view_name FROM system_schema.views", 0)
		if err != nil {
			t.Fatal(err)
		}
		if built.Rows.Count == all.Rows.Count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d views are built", built.Rows.Count, all.Rows.Count)
		}
		time.Sleep(time.Millisecond)
	}
}
