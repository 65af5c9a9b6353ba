package query

import (
	"bytes"

	"github.com/decandb/decan/internal/value"
)

// step leads from a value to one inside it: to a property, or to an element.
type step = value.Step

// branch is one place in documents that a query looks at, and the places below
// it. The branches of a plan form a tree, so that one pass over the bytes of a
// document finds all of them.
type branch struct {
	step  step
	slot  int // -1 when only places below are wanted
	below []branch
	index map[step]int // into below, once there are many; nil before
}

// indexedMin is the number of branches below one from which a map finds one of
// them faster than a look at each. A text can name tens of thousands.
const indexedMin = 16

// child returns the branch of a step below b, nil when there is none.
func (b *branch) child(s step) *branch {
	if b.index != nil {
		if i, ok := b.index[s]; ok {
			return &b.below[i]
		}
		return nil
	}
	for i := range b.below {
		if b.below[i].step == s {
			return &b.below[i]
		}
	}
	return nil
}

// grow adds the branch of a step that b does not have.
func (b *branch) grow(s step) *branch {
	b.below = append(b.below, branch{step: s, slot: -1})
	switch last := len(b.below) - 1; {
	case b.index != nil:
		b.index[s] = last
	case last+1 == indexedMin:
		b.index = make(map[step]int, 2*indexedMin)
		for i := range b.below {
			b.index[b.below[i].step] = i
		}
	}
	return &b.below[len(b.below)-1]
}

// add returns the slot of the path below b, giving it the next free one when
// the query has not asked for it before.
func (b *branch) add(path []step, slots *int) int {
	if len(path) == 0 {
		if b.slot < 0 {
			b.slot = *slots
			*slots++
		}
		return b.slot
	}
	below := b.child(path[0])
	if below == nil {
		below = b.grow(path[0])
	}
	return below.add(path[1:], slots)
}

// locate notes where the places below b are in raw, the text of the value at b.
// It reads no further than it has to, and reports whether what it read was JSON.
func (b *branch) locate(raw []byte, found [][]byte) bool {
	if b.slot >= 0 {
		found[b.slot] = raw
	}
	if len(b.below) == 0 || len(raw) == 0 {
		return len(raw) > 0
	}
	switch raw[0] {
	case '{':
		return b.members(raw, found)
	case '[':
		return b.elements(raw, found)
	}
	return true
}

func (b *branch) members(raw []byte, found [][]byte) bool {
	missing := 0
	for i := range b.below {
		if !b.below[i].step.IsIndex {
			missing++
		}
	}
	i := blanks(raw, 1)
	for missing > 0 && i < len(raw) && raw[i] == '"' {
		end := skipString(raw, i)
		if end < 0 {
			return false
		}
		child := b.member(raw[i:end])
		if i = blanks(raw, end); i >= len(raw) || raw[i] != ':' {
			return false
		}
		i = blanks(raw, i+1)
		if end = skipValue(raw, i); end < 0 {
			return false
		}
		if child != nil {
			missing--
			if !child.locate(raw[i:end], found) {
				return false
			}
		}
		if i = blanks(raw, end); i < len(raw) && raw[i] == ',' {
			i = blanks(raw, i+1)
		}
	}
	return missing == 0 || i < len(raw) && raw[i] == '}'
}

// member returns the branch for a quoted name, nil when nobody asks for it.
func (b *branch) member(quoted []byte) *branch {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		v, err := value.Parse(quoted)
		if err != nil {
			return nil
		}
		name = []byte(v.Text())
	}
	if b.index != nil {
		return b.child(step{Name: string(name)})
	}
	for i := range b.below {
		if c := &b.below[i]; !c.step.IsIndex && c.step.Name == string(name) {
			return c
		}
	}
	return nil
}

func (b *branch) elements(raw []byte, found [][]byte) bool {
	last := -1
	for i := range b.below {
		if s := b.below[i].step; s.IsIndex {
			last = max(last, s.Index)
		}
	}
	i := blanks(raw, 1)
	for n := 0; n <= last && i < len(raw) && raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if end < 0 {
			return false
		}
		if c := b.child(step{Index: n, IsIndex: true}); c != nil && !c.locate(raw[i:end], found) {
			return false
		}
		if i = blanks(raw, end); i < len(raw) && raw[i] == ',' {
			i = blanks(raw, i+1)
		}
	}
	return true
}

// blanks returns the first position from i on that holds no white space.
func blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i, -1 without one.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
	return -1
}

// skipValue returns the end of the value that begins at i, -1 without one. The
// text is JSON that was parsed when it was stored; only what would lead out of
// it is noticed.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && !delimiter(b[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func delimiter(c byte) bool {
	switch c {
	case ',', '}', ']', ':', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}
