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

// conditionTime is the default of Config.ConditionTime. A condition takes
// microseconds unless it counts through the arrays of a document.
const conditionTime = 250 * time.Millisecond

// patience is what the conditions of a request have taken of Config.ConditionTime.
type patience struct {
	spent time.Duration
	over  bool // no further condition is looked at
}

// spend counts what has gone by since then on the clock of the partition.
func (t *patience) spend(p *Partition, since time.Duration) {
	t.spent += p.elapsed() - since
	t.over = t.over || t.spent > p.config.ConditionTime
}

// tooSlow refuses a patch because the patience of its request is over.
func (p *Partition) tooSlow() *status.Error {
	return status.BadRequest("The conditions of the patches take too long: at most %v for all of a request. Ask less of the arrays of the document.", p.config.ConditionTime)
}

// guessPatch patches the version that will probably be the current one, so that
// the writer need not. What is wrong is so for that version, and the writer says
// so if it is the one that counts. The error is a condition that takes too long, or
// longer than ctx: it never comes to the writer.
func (op *operation) guessPatch(ctx context.Context, p *Partition, r *request, d *document, doc value.Value) *status.Error {
	err := p.patchDocument(ctx, op, d, doc, &r.patience)
	if err == nil {
		return nil
	}
	op.row = nil
	refused := status.From(err)
	if op.ask.Condition != nil && r.patience.over {
		return refused
	}
	op.before.refused = refused
	return nil
}

// patch makes the next version out of the current one.
func (tx *transaction) patch(op *operation, before *document, x *indexing) error {
	if op.before.found && op.before.version == before.version {
		if op.before.refused != nil {
			return op.before.refused
		}
		if op.row != nil {
			return nil
		}
	}
	op.row, op.indexing = nil, x
	if op.ask.Condition != nil && tx.patience.over {
		return tx.p.tooSlow()
	}
	begun := tx.p.elapsed()
	doc, err := value.Parse(before.body)
	if err != nil {
		return fmt.Errorf("partition %v: %w: %w", tx.p.config.Ref, errDocument, err)
	}
	if op.ask.Condition != nil {
		tx.patience.spend(tx.p, begun)
	}
	return tx.p.patchDocument(context.Background(), op, before, doc, &tx.patience)
}

// patchDocument evaluates the condition and makes the row of a patched document.
// doc is the value of the document.
func (p *Partition) patchDocument(ctx context.Context, op *operation, d *document, doc value.Value, t *patience) error {
	if op.ask.Condition != nil {
		if err := p.condition(ctx, op.ask.Condition, d, t); err != nil {
			return err
		}
	}
	after, err := op.ask.Changes.Apply(doc)
	if err != nil {
		return err
	}
	return p.encode(op, d.epkSize, d.key, after, nil)
}

// condition returns nil when a document fulfils a condition.
func (p *Partition) condition(ctx context.Context, plan *query.Plan, d *document, t *patience) error {
	if t.over {
		return p.tooSlow()
	}
	limited, cancel := context.WithTimeout(ctx, p.config.ConditionTime-t.spent)
	defer cancel()
	begun := p.elapsed()
	page, err := plan.Run(limited, alone(p.render.complete(d)), query.Budget{MaxItems: 1})
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
