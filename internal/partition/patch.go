package partition

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// conditionTime is how long the writer works on the condition of a patch, while
// all others wait. A condition takes microseconds unless it counts through the
// arrays of a document.
const conditionTime = 250 * time.Millisecond

// guessPatch patches the version that will probably be the current one, so that
// the writer need not. Whatever is wrong the writer finds out, about the version
// that counts.
func (op *operation) guessPatch(ctx context.Context, p *Partition, d *document, doc value.Value) {
	if err := p.patchDocument(ctx, op, d, doc); err != nil {
		op.row = nil
	}
}

// patch makes the next version out of the current one.
func (p *Partition) patch(op *operation, before *document, x *indexing) error {
	if op.row != nil && op.before.version == before.version {
		return nil
	}
	op.row, op.indexing = nil, x
	doc, err := value.Parse(before.body)
	if err != nil {
		return fmt.Errorf("partition %v: %w: %w", p.config.Ref, errDocument, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTime)
	defer cancel()
	return p.patchDocument(ctx, op, before, doc)
}

// patchDocument evaluates the condition and makes the row of a patched document.
// doc is the value of the document.
func (p *Partition) patchDocument(ctx context.Context, op *operation, d *document, doc value.Value) error {
	if op.ask.Condition != nil {
		page, err := op.ask.Condition.Run(ctx, alone(p.render.complete(d)), query.Budget{MaxItems: 1})
		switch {
		case err != nil && ctx.Err() != nil:
			return status.BadRequest("The condition of the patch takes too long. Ask less of the arrays of the document.")
		case err != nil:
			return err
		case len(page.Rows) == 0:
			return status.PreconditionFailed()
		}
	}
	after, err := op.ask.Changes.Apply(doc)
	if err != nil {
		return err
	}
	return p.encode(op, d.epkSize, d.key, after)
}

// routed reports whether a patch touches a path of the partition key, and which.
func (p *Partition) routed(changes *patch.Patch) (path string, yes bool) {
	for _, text := range p.descriptor.Key.Paths {
		own, err := value.ParsePath(text)
		if err == nil {
			if path, yes = changes.Touches(own); yes {
				return path, true
			}
		}
	}
	return "", false
}

// alone is the source of one document: its complete JSON.
type alone []byte

// Candidates implements [query.Source].
func (a alone) Candidates(context.Context, query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		yield(query.Candidate{Number: 1, Body: a}, nil)
	}
}
