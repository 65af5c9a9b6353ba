package engine

import (
	"context"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// KeyRequest is a request on all documents of a partition key.
type KeyRequest struct {
	Link Link              // of the container
	Key  *partitionkey.Key // whole, or with Config.PrefixDeletes the first levels of a hierarchical one; nil is refused
	Options
}

// DeleteByKey deletes all documents of a partition key, or of a prefix of a
// hierarchical one if Config.PrefixDeletes is set; otherwise a prefix is 400/1001. When it returns, no request sees them any more, and later
// writes to the key are not affected; the rows of many documents are removed in the
// background, see [PartitionStats]. A prefix may span several physical partitions.
// They are asked one after another in range order, and an error does not undo those
// before it. A request without a key is 400.
func (e *Engine) DeleteByKey(ctx context.Context, caller auth.Caller, req KeyRequest) (Result, error) {
	p := purge{engine: e, caller: caller, req: &req, meter: req.meter(false)}
	err := p.run(ctx)
	p.out.Charge = p.meter.Charge()
	p.out.Session = p.seen.token(req.SessionList)
	return p.out, fail(err)
}

// purge is the state of a running [Engine.DeleteByKey].
type purge struct {
	engine *Engine
	caller auth.Caller
	req    *KeyRequest
	meter  throughput.Meter
	seen   seen
	out    Result

	// done is the end of the part of the key space that is done.
	done partitionkey.EPK
}

func (p *purge) run(ctx context.Context) error {
	e := p.engine
	if err := e.allowDocuments(p.caller, auth.Delete, p.req.Link, &p.req.Options); err != nil {
		return err
	}
	return e.onContainer(ctx, p.req.Link, p.req.IntendedRID, &p.out, func(container *catalog.Container) (more bool, err error) {
		return true, p.try(ctx, container)
	})
}

// try asks the remaining partitions, according to one version of the container.
func (p *purge) try(ctx context.Context, container *catalog.Container) error {
	key, extent, err := p.extent(container)
	if err != nil {
		return err
	}
	if _, err := p.engine.reading(p.req.Options); err != nil {
		return err
	}
	if extent.Min.Compare(p.done) < 0 {
		extent.Min = p.done
	}
	for _, t := range tasks(container, []partitionkey.Range{extent}) {
		if err := p.ask(ctx, container, t, key); err != nil {
			return err
		}
		p.done = t.clip.Max
	}
	return nil
}

// extent returns the key that the request names, and the range of its
// documents.
func (p *purge) extent(container *catalog.Container) (key partitionkey.Key, extent partitionkey.Range, err error) {
	if p.req.Key == nil {
		_, err = pointKey(container, nil)
		return key, extent, err
	}
	key = given(container.PartitionKey, *p.req.Key)
	if levels := container.PartitionKey.Levels(); !p.engine.prefixDeletes && key.Len() < levels {
		return key, extent, status.Because(status.CodeBadRequest, status.SubPartitionKeyMismatch, status.PrefixDelete{Values: key.Len(), Levels: levels})
	}
	if key.Len() == 0 {
		return key, extent, status.BadRequest("The partition key is empty. Name at least its first level to delete the documents under it.")
	}
	if err := container.PartitionKey.Check(key, false); err != nil {
		return key, extent, keyError(err)
	}
	if err := allowKey(p.caller, container, key); err != nil {
		return key, extent, err
	}
	extent, err = container.PartitionKey.Prefix(key)
	return key, extent, keyError(err)
}

// ask sends the deletion to one partition.
func (p *purge) ask(ctx context.Context, container *catalog.Container, t task, key partitionkey.Key) error {
	replica, release, err := p.engine.node.Replica(ctx, container, t.partition.ID)
	if err != nil {
		return err
	}
	defer release()
	p.engine.visit(&p.out, t.partition.ID)
	purged, err := replica.Purge(ctx, partition.Purge{Generation: t.partition.Generation, Key: key, Range: t.asked, Meter: &p.meter})
	p.seen.reached(t.partition.ID, purged.LSN)
	p.out.LSN = shownLSN(purged.LSN)
	return err
}
