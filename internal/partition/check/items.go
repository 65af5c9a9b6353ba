package check

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
)

// Items calls visit with all items of a partition of a table that can be read, in their
// order. The bytes are valid during the call.
func Items(ctx context.Context, snapshot *storage.Snapshot, visit func(key, item, body []byte)) (err error) {
	rows := snapshot.Iter(storage.FamilyDocument.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	const between = 1024 // rows between two looks at ctx
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; n%between == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil || !d.Item {
			continue // Watch reports it.
		}
		_, _, item, err := storage.DecodeDocumentKey(rows.Key(), d.EPKSize)
		if err != nil {
			continue
		}
		visit(d.Key, item, d.Body)
	}
	return rows.Err()
}
