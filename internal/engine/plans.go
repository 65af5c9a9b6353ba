package engine

import (
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
)

// plans keeps the plans of the queries asked last, since programs ask the same
// few texts again and again. A plan belongs to one version of a container and of
// its functions, which are in the key, so a change finds none of the old ones.
type plans struct {
	mu    sync.Mutex
	bytes int                      // of all, about
	byKey map[string]*list.Element // of *keptPlan
	order list.List                // the one asked last in front
}

type keptPlan struct {
	key  string
	plan *query.Plan
	size int // in bytes, about

	// quick says that the last page took each partition it asked no time worth
	// another goroutine.
	quick atomic.Bool
}

const (
	plansMax   = 1000     // plans kept
	plansBytes = 32 << 20 // that they take all together, about
	planMax    = 4 << 20  // that a plan takes that is kept
	// planKeyTimes is what a byte of a key takes: the parameters are in it, which
	// are values of many times their text.
	planKeyTimes = 16

	planKeysMax = 16 << 10 // bytes of text and parameters of a plan that is kept
)

// get returns a plan that was kept.
func (p *plans) get(key []byte) (*keptPlan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[string(key)]
	if !ok {
		return nil, false
	}
	p.order.MoveToFront(e)
	return e.Value.(*keptPlan), true
}

// put keeps a plan in place of those that nobody asked for the longest, unless it
// is too large.
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
	for p.order.Len() >= plansMax || p.bytes+size > plansBytes {
		last := p.order.Remove(p.order.Back()).(*keptPlan)
		delete(p.byKey, last.key)
		p.bytes -= last.size
	}
	kept := &keptPlan{key: string(key), plan: plan, size: size}
	p.bytes += size
	p.byKey[kept.key] = p.order.PushFront(kept)
}

// planKey appends what a plan depends on. Lengths stand in front of what has
// any, so that no two sets of inputs have one key.
func planKey(dst []byte, c *catalog.Container, text string, params []query.Param) []byte {
	dst = appendBytes(dst, string(c.RID))
	dst = appendBytes(dst, string(c.ETag))
	dst = binary.AppendUvarint(dst, c.Functions.Version)
	dst = appendBytes(dst, text)
	for _, p := range params {
		dst = appendBytes(dst, p.Name)
		before := len(dst)
		dst = p.Value.Append(append(dst, 0, 0, 0, 0)) // nothing for undefined
		binary.BigEndian.PutUint32(dst[before:], uint32(len(dst)-before))
	}
	return dst
}

// planOf compiles a query over the documents of a container, or takes the plan
// from the last time, which kept then is; else it is nil.
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
	plan, err = query.Compile(text, params, ix, options)
	// A plan has the time in it when the clock is not the machine's.
	if err == nil && len(key) <= planKeysMax && !e.otherClock {
		e.plans.put(key, plan)
	}
	return plan, nil, err
}
