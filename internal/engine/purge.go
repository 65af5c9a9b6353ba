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

// KeyRequest asks for something to be done to all documents of a partition key.
type KeyRequest struct {
	Link Link              // of the container
	Key  *partitionkey.Key // whole, or the first levels of a hierarchical one; nil: none was given
	Options
}

// DeleteByKey deletes all documents of a partition key, or of a prefix of a
// hierarchical one. When it returns nobody sees them any more, and what is written
// under the key from then on stays; many are deleted in the background, which
// [PartitionStats] tell. A prefix may have several physical partitions: each is one
// step, in the order of their ranges, and an error leaves those done that were.
// Without a key it is 400.
func (e *Engine) DeleteByKey(ctx context.Context, caller auth.Caller, req KeyRequest) (Result, error) {
	p := purge{engine: e, caller: caller, req: &req, meter: req.meter(false)}
	err := p.run(ctx)
	p.out.Charge = p.meter.Charge()
	p.out.Session = p.seen.token()
	return p.out, fail(err)
}

// purge is a deletion by key on its way.
type purge struct {
	engine *Engine
	caller auth.Caller
	req    *KeyRequest
	meter  throughput.Meter
	seen   seen
	out    Result

	// done is where the part of the key space ends that has been asked.
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

// try asks the partitions behind those that have been asked, by one version of the
// container.
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

// extent returns the key that the request names, and where its documents are.
func (p *purge) extent(container *catalog.Container) (key partitionkey.Key, extent partitionkey.Range, err error) {
	if p.req.Key == nil {
		_, err = pointKey(container, nil)
		return key, extent, err
	}
	key = given(container.PartitionKey, *p.req.Key)
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

// ask has one partition delete its part.
func (p *purge) ask(ctx context.Context, container *catalog.Container, t task, key partitionkey.Key) error {
	replica, release, err := p.engine.node.Replica(ctx, container, t.partition.ID)
	if err != nil {
		return err
	}
	defer release()
	p.engine.visit(&p.out, t.partition.ID)
	purged, err := replica.Purge(ctx, partition.Purge{Generation: t.partition.Generation, Key: key, Range: t.asked, Meter: &p.meter})
	p.seen.reached(t.partition.ID, purged.LSN)
	p.out.LSN = purged.LSN
	return err
}
