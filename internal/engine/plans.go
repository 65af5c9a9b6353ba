package engine

import (
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
)

// plans caches the plans of the latest queries, since programs repeat the same
// few texts. The version of the container and of its functions is part of the
// key, so plans of older versions are not found.
//
// A text that comes once evicts only others of its kind: a plan that is asked for again
// moves to a list of its own, which holds most of the cache.
type plans struct {
	mu    sync.Mutex
	bytes int                      // of all plans, approximate
	byKey map[string]*list.Element // of *keptPlan
	fresh list.List                // used once, or not lately, the latest first
	used  list.List                // used again, the latest first

	usedBytes int // of the plans in used
}

type keptPlan struct {
	key  string
	plan *query.Plan
	size int  // in bytes, approximate
	used bool // it is in plans.used

	// body is the plan for clients, without a key in the request; nil before it is
	// first described. It never changes.
	body atomic.Pointer[[]byte]

	// quick is true if no partition took longer than quickTime for the last
	// page.
	quick atomic.Bool
}

const (
	plansMax   = 1000     // number of plans
	plansBytes = 32 << 20 // approximate bytes of all plans
	planMax    = 4 << 20  // bytes of one plan; larger ones are not cached
	// planKeyTimes is how many bytes count for each byte of a key: it has the
	// parameters as text, whose values take many times as much.
	planKeyTimes = 16

	planKeysMax = 16 << 10 // bytes of a key; plans with longer ones are not cached

	planBodyMax = 64 << 10 // bytes of the plan for clients; larger ones are not cached

	// The plans that were used again take at most this part of the cache, in fifths.
	usedFifths = 4
)

// get returns a cached plan.
func (p *plans) get(key []byte) (*keptPlan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[string(key)]
	if !ok {
		return nil, false
	}
	kept := e.Value.(*keptPlan)
	if kept.used {
		p.used.MoveToFront(e)
		return kept, true
	}
	p.fresh.Remove(e)
	kept.used = true
	p.usedBytes += kept.size
	p.byKey[kept.key] = p.used.PushFront(kept)
	for p.used.Len() > plansMax/5*usedFifths || p.usedBytes > plansBytes/5*usedFifths {
		last := p.used.Remove(p.used.Back()).(*keptPlan)
		last.used = false
		p.usedBytes -= last.size
		p.byKey[last.key] = p.fresh.PushFront(last)
	}
	return kept, true
}

// put caches a plan unless it is too large.
func (p *plans) put(key []byte, plan *query.Plan) {
	size := planKeyTimes*len(key) + plan.Size()
	if size > planMax {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.byKey[string(key)]; ok {
		return
	}
	p.evict(1, size)
	kept := &keptPlan{key: string(key), plan: plan, size: size}
	p.bytes += size
	p.byKey[kept.key] = p.fresh.PushFront(kept)
}

// evict makes room for a number of plans of a size: it removes the least recently used
// ones, those that were used once before the others.
func (p *plans) evict(number, size int) {
	for len(p.byKey) > 0 && (len(p.byKey)+number > plansMax || p.bytes+size > plansBytes) {
		from := &p.fresh
		if from.Len() == 0 {
			from = &p.used
		}
		last := from.Remove(from.Back()).(*keptPlan)
		delete(p.byKey, last.key)
		p.bytes -= last.size
		if last.used {
			p.usedBytes -= last.size
		}
	}
}

// describe caches the plan for clients of a cached plan, unless it is too large.
func (p *plans) describe(kept *keptPlan, body []byte) {
	if len(body) > planBodyMax {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[kept.key]
	if !ok || e.Value.(*keptPlan) != kept || !kept.body.CompareAndSwap(nil, &body) {
		return
	}
	kept.size += len(body)
	p.bytes += len(body)
	if kept.used {
		p.usedBytes += len(body)
	}
	p.evict(0, 0)
}

// planKey appends everything that a plan depends on. Texts have their length
// before them, so that different inputs have different keys.
func planKey(dst []byte, c *catalog.Container, text string, params []query.Param) []byte {
	dst = appendBytes(dst, string(c.RID))
	dst = appendBytes(dst, string(c.ETag))
	dst = binary.AppendUvarint(dst, c.Functions.Version)
	dst = appendBytes(dst, text)
	for _, p := range params {
		dst = appendBytes(dst, p.Name)
		before := len(dst)
		dst = p.Value.Append(append(dst, 0, 0, 0, 0)) // no bytes for undefined
		binary.BigEndian.PutUint32(dst[before:], uint32(len(dst)-before))
	}
	return dst
}

// planOf returns the plan of a query over the documents of a container,
// compiled or from the cache. kept is the entry of the cache, or nil if the
// plan was compiled. Some plans can only be described: see
// [query.Plan.Runnable].
func (e *Engine) planOf(c *catalog.Container, text string, params []query.Param) (plan *query.Plan, kept *keptPlan, err error) {
	key := planKey(make([]byte, 0, 512), c, text, params)
	if kept, ok := e.plans.get(key); ok {
		return kept.plan, kept, nil
	}
	ix, err := e.indexOf(c)
	if err != nil {
		return nil, nil, err
	}
	options := e.options()
	options.Computed, options.Functions = c.Indexing.Computed, e.functionsOf(c)
	plan, err = query.Prepare(text, params, ix, options)
	// With a custom clock, a plan contains the time.
	if err == nil && len(key) <= planKeysMax && !e.customClock {
		e.plans.put(key, plan)
	}
	return plan, nil, err
}
