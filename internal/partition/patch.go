package partition

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// conditionTime is the default value of Config.ConditionTime. A condition takes
// microseconds, unless it iterates over arrays of a document.
const conditionTime = 250 * time.Millisecond

// allowance is the time that the conditions of a request have used of
// Config.ConditionTime.
type allowance struct {
	spent time.Duration
	over  bool // no further condition is evaluated
}

// spend adds the time since a moment on the clock of the partition.
func (t *allowance) spend(p *Partition, since time.Duration) {
	t.spent += p.elapsed() - since
	t.over = t.over || t.spent > p.config.ConditionTime
}

// tooSlow is the error of a patch whose request has used its allowance.
func (p *Partition) tooSlow() *status.Error {
	return status.BadRequest("The conditions of the patches take too long: at most %v for all of a request. Ask less of the arrays of the document.", p.config.ConditionTime)
}

// guessPatch patches the version that will probably be replaced, so that the writer
// need not. A refusal is kept for that version, and the writer returns it if the
// version is still current. The error is that of a condition that takes too long, or
// longer than ctx: such a patch does not reach the writer.
func (op *operation) guessPatch(ctx context.Context, p *Partition, r *request, d *layout.Document, doc value.Value) *status.Error {
	err := p.patchDocument(ctx, op, d, doc, &r.allowance)
	if err == nil {
		return nil
	}
	op.row = nil
	refused := status.From(err)
	if op.ask.Condition != nil && r.allowance.over {
		return refused
	}
	op.before.refused = refused
	return nil
}

// patch makes the next version from the current one, unless guessPatch has done so.
func (tx *transaction) patch(op *operation, before *layout.Document, x *layout.Indexing) error {
	if op.before.found && op.before.version == before.Version {
		if op.before.refused != nil {
			return op.before.refused
		}
		if op.row != nil {
			return nil
		}
	}
	op.row, op.indexing = nil, x
	if op.ask.Condition != nil && tx.allowance.over {
		return tx.p.tooSlow()
	}
	begun := tx.p.elapsed()
	doc, err := value.Parse(before.Body)
	if err != nil {
		return fmt.Errorf("partition %v: %w: %w", tx.p.config.Ref, layout.ErrDocument, err)
	}
	if op.ask.Condition != nil {
		tx.allowance.spend(tx.p, begun)
	}
	return tx.p.patchDocument(context.Background(), op, before, doc, &tx.allowance)
}

// patchDocument evaluates the condition and makes the row of the patched document. doc
// is the value of the document.
func (p *Partition) patchDocument(ctx context.Context, op *operation, d *layout.Document, doc value.Value, t *allowance) error {
	if op.ask.Condition != nil {
		if err := p.condition(ctx, op.ask.Condition, d, t); err != nil {
			return err
		}
	}
	after, err := op.ask.Changes.Apply(doc)
	if err != nil {
		return err
	}
	return p.encode(op, d.EPKSize, d.Key, after, nil)
}

// condition returns nil if a document satisfies a condition.
func (p *Partition) condition(ctx context.Context, plan *query.Plan, d *layout.Document, t *allowance) error {
	if t.over {
		return p.tooSlow()
	}
	limited, cancel := context.WithTimeout(ctx, p.config.ConditionTime-t.spent)
	defer cancel()
	begun := p.elapsed()
	page, err := plan.Run(limited, alone(p.own.Render.Complete(d)), query.Budget{MaxItems: 1})
	t.spend(p, begun)
	cut := err != nil && limited.Err() != nil
	switch t.over = t.over || cut; {
	case cut && ctx.Err() != nil:
		return timedOut(ctx, "The write was not begun in time and has had no effect.")
	case t.over:
		return p.tooSlow()
	case err != nil:
		return err
	case len(page.Rows) == 0:
		return status.PreconditionFailed()
	}
	return nil
}

// routed reports whether a patch changes a path of the partition key, and which.
func (p *Partition) routed(changes *patch.Patch) (path string, yes bool) {
	for _, text := range p.own.Key.Paths {
		own, err := value.ParsePath(text)
		if err == nil {
			if path, yes = changes.Touches(own); yes {
				return path, true
			}
		}
	}
	return "", false
}

// alone is a source of one document, given as its complete JSON.
type alone []byte

// Candidates implements [query.Source].
func (a alone) Candidates(context.Context, query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		yield(query.Candidate{Number: 1, Body: a}, nil)
	}
}
