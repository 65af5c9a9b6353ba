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
	for i := range b.below {
		if b.below[i].step == path[0] {
			return b.below[i].add(path[1:], slots)
		}
	}
	b.below = append(b.below, branch{step: path[0], slot: -1})
	return b.below[len(b.below)-1].add(path[1:], slots)
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
		for j := range b.below {
			if c := &b.below[j]; c.step.IsIndex && c.step.Index == n && !c.locate(raw[i:end], found) {
				return false
			}
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
