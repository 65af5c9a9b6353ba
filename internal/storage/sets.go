package storage

import "errors"

// block is a mutable set of 16-bit numbers: the working memory of a cursor that
// combines others.
type block struct {
	dense bool
	array []uint16
	words [chunkWords]uint64

	// scratch holds the decoded words of another set.
	scratch [chunkWords]uint64
}

// view returns the set for reading.
func (b *block) view() view {
	if b.dense {
		return view{dense: true, words: &b.words}
	}
	return view{count: len(b.array), array: b.array}
}

// fill makes the set equal to v.
func (b *block) fill(v *view) {
	b.dense = v.dense
	if v.dense {
		if words := v.bitmap(&b.words); words != &b.words {
			b.words = *words
		}
		return
	}
	b.array = b.array[:0]
	for i := range v.count {
		b.array = append(b.array, v.at(i))
	}
}

// or adds the numbers of v. The set becomes a bitmap.
func (b *block) or(v *view) {
	if !b.dense {
		clear(b.words[:])
		for _, x := range b.array {
			b.words[x>>6] |= 1 << (x & 63)
		}
		b.dense = true
	}
	if v.dense {
		for i, w := range v.bitmap(&b.scratch) {
			b.words[i] |= w
		}
		return
	}
	for i := range v.count {
		x := v.at(i)
		b.words[x>>6] |= 1 << (x & 63)
	}
}

// and removes the numbers that are not in v.
func (b *block) and(v *view) {
	switch {
	case b.dense && v.dense:
		for i, w := range v.bitmap(&b.scratch) {
			b.words[i] &= w
		}
	case b.dense:
		b.array = b.array[:0]
		for i := range v.count {
			if x := v.at(i); b.words[x>>6]&(1<<(x&63)) != 0 {
				b.array = append(b.array, x)
			}
		}
		b.dense = false
	default:
		b.keep(v, true)
	}
}

// andNot removes the numbers that are in v.
func (b *block) andNot(v *view) {
	switch {
	case b.dense && v.dense:
		for i, w := range v.bitmap(&b.scratch) {
			b.words[i] &^= w
		}
	case b.dense:
		for i := range v.count {
			x := v.at(i)
			b.words[x>>6] &^= 1 << (x & 63)
		}
	default:
		b.keep(v, false)
	}
}

// keep keeps the numbers of an array that are in v or, if members is false, those that
// are not.
func (b *block) keep(v *view, members bool) {
	kept := b.array[:0]
	place := 0
	for _, x := range b.array {
		var has bool
		if v.dense {
			has = v.has(x)
		} else {
			place = v.find(place, x)
			has = place < v.count && v.at(place) == x
		}
		if has == members {
			kept = append(kept, x)
		}
	}
	b.array = kept
}

// intersectCursor moves to the chunks that all sets have.
type intersectCursor struct {
	args []cursor
	out  block
	// views of the current chunk, once it is loaded
	views []view
}

func (c *intersectCursor) seek(chunk uint64, d direction) (uint64, bool, error) {
	for {
		// The set that moved furthest decides, and all sets seek again.
		target := chunk
		for _, arg := range c.args {
			at, ok, err := arg.seek(target, d)
			if err != nil || !ok {
				return 0, false, err
			}
			target = at
		}
		if target == chunk {
			return chunk, true, nil
		}
		chunk = target
	}
}

func (c *intersectCursor) load() (view, error) {
	c.views = c.views[:0]
	least := 0
	for i, arg := range c.args {
		v, err := arg.load()
		if err != nil {
			return view{}, err
		}
		c.views = append(c.views, v)
		if sparser(&v, &c.views[least]) {
			least = i
		}
	}
	c.out.fill(&c.views[least])
	for i := range c.views {
		if i == least {
			continue
		}
		if !c.out.dense && len(c.out.array) == 0 {
			break
		}
		c.out.and(&c.views[i])
	}
	return c.out.view(), nil
}

// sparser reports whether an intersection should begin with a rather than b.
func sparser(a, b *view) bool {
	if a.dense != b.dense {
		return b.dense
	}
	return !a.dense && a.count < b.count
}

func (c *intersectCursor) close() error { return closeAll(c.args) }

// unionCursor reads the chunks of all sets in order.
type unionCursor struct {
	args []cursor
	ats  []uint64
	live []bool // the argument may have more
	at   uint64
	out  block
}

func newUnionCursor(args []cursor) *unionCursor {
	c := &unionCursor{args: args, ats: make([]uint64, len(args)), live: make([]bool, len(args))}
	for i := range c.live {
		c.live[i] = true
	}
	return c
}

func (c *unionCursor) seek(chunk uint64, d direction) (first uint64, found bool, err error) {
	for i, arg := range c.args {
		if !c.live[i] {
			continue
		}
		c.ats[i], c.live[i], err = arg.seek(chunk, d)
		if err != nil {
			return 0, false, err
		}
		if c.live[i] && (!found || d.before(c.ats[i], first)) {
			first, found = c.ats[i], true
		}
	}
	c.at = first
	return first, found, nil
}

func (c *unionCursor) load() (view, error) {
	var first view
	have := 0
	for i, arg := range c.args {
		if !c.live[i] || c.ats[i] != c.at {
			continue
		}
		v, err := arg.load()
		if err != nil {
			return view{}, err
		}
		switch have++; have {
		case 1:
			first = v
		case 2:
			c.out.fill(&first)
			c.out.or(&v)
		default:
			c.out.or(&v)
		}
	}
	if have <= 1 {
		return first, nil
	}
	return c.out.view(), nil
}

func (c *unionCursor) close() error { return closeAll(c.args) }

// differenceCursor reads the chunks of from.
type differenceCursor struct {
	from, less cursor
	at         uint64
	dir        direction
	out        block
}

func (c *differenceCursor) seek(chunk uint64, d direction) (at uint64, ok bool, err error) {
	c.dir = d
	c.at, ok, err = c.from.seek(chunk, d)
	return c.at, ok, err
}

func (c *differenceCursor) load() (view, error) {
	v, err := c.from.load()
	if err != nil {
		return view{}, err
	}
	at, ok, err := c.less.seek(c.at, c.dir)
	if err != nil || !ok || at != c.at {
		return v, err
	}
	c.out.fill(&v)
	less, err := c.less.load()
	if err != nil {
		return view{}, err
	}
	c.out.andNot(&less)
	return c.out.view(), nil
}

func (c *differenceCursor) close() error { return closeAll([]cursor{c.from, c.less}) }

func closeAll(args []cursor) error {
	var errs []error
	for _, arg := range args {
		errs = append(errs, arg.close())
	}
	return errors.Join(errs...)
}
