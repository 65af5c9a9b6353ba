package query

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

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
	names int          // how many of below are properties
	ends  int          // behind the last element among below; 0 without any
	index map[step]int // into below, once there are many; nil before

	// quoted is the name of a property as documents have it, if its bytes stand for
	// nothing but that name; see [locator.leap]. Otherwise it is nil.
	quoted []byte
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
	if s.IsIndex {
		b.ends = max(b.ends, s.Index+1)
	} else {
		b.names++
		b.below[len(b.below)-1].quoted = quoted(s.Name)
	}
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

// cell is what is known of one place in the current document.
type cell struct {
	text   []byte      // nil when nothing is there
	value  value.Value // when parsed; it shares the memory of text
	parsed bool
}

// locate notes where the places below b, the root, are in doc, and reports
// whether what it read was JSON. It stops behind the last place that is there.
// The cells are those of all slots, and empty. alike is of the documents before.
func (b *branch) locate(doc []byte, cells []cell, alike *shape) bool {
	l := locator{doc: doc, cells: cells, left: len(cells)}
	i := blanks(doc, 0)
	if i == len(doc) {
		return false
	}
	if b.slot >= 0 {
		cells[b.slot].text = doc[i:]
		l.left--
	}
	valid := l.left == 0
	if !valid {
		var done bool
		if done, valid = l.leap(b, i, alike); !done {
			valid = l.inside(b, i, alike) >= 0
		}
	}
	alike.begun = true
	return valid
}

// locator is a pass over a document. Its methods return the end of what they
// have read, -1 when that is no JSON, and any other number once left is zero:
// nobody needs an end then, since places that enclose others are found last.
type locator struct {
	doc   []byte
	cells []cell
	left  int // places that are not found yet
}

// shape is how the members of the documents before begin, so that those of the
// next one need not be taken apart when they begin alike: most documents of a
// container do. It saves a quarter of the time of a pass.
type shape struct {
	begun   bool // there was a document; the only one of a run is not noted
	members []shapeMember
	texts   []byte // quoted names with their colons, one behind the other

	spots [leapMax]int // where the values of the root's branches began in the last document; see [locator.leap]
	lost  int          // documents in a row in which they were not found so
}

type shapeMember struct {
	from, to int // in texts
	child    *branch
}

// The members that a shape holds at most, and the length of their texts.
const (
	shapeMax     = 64
	shapeTextMax = 64
)

// at returns the branch of member n, and how long its name and the colon are, if
// they begin doc; otherwise 0.
func (s *shape) at(n int, doc []byte) (child *branch, length int) {
	if n >= len(s.members) {
		return nil, 0
	}
	m := &s.members[n]
	if !bytes.HasPrefix(doc, s.texts[m.from:m.to]) {
		return nil, 0
	}
	return m.child, m.to - m.from
}

// note holds member n from now on, and forgets those behind it.
func (s *shape) note(n int, text []byte, child *branch) {
	if !s.begun || n > len(s.members) || n == shapeMax || len(text) > shapeTextMax {
		return
	}
	from := 0
	if n > 0 {
		from = s.members[n-1].to
	}
	s.texts = append(s.texts[:from], text...)
	s.members = append(s.members[:n], shapeMember{from: from, to: len(s.texts), child: child})
}

// How many names are looked for by a leap, how far around the place where the value
// began in the document before, and how often in vain until it is given up. After that
// every leapAgain-th document has it tried again.
const (
	leapMax    = 4
	leapBefore = 40
	leapWidth  = 64 // bytes; a search in so many is a few instructions
	leapTries  = 8
	leapAgain  = 256
)

// quoted returns a name in quotation marks if those bytes, in an object without a
// backslash up to there, are a name or a string and nothing else: the name has no
// escapes, and begins with what cannot stand behind the end of a string.
func quoted(name string) []byte {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return nil
		}
	}
	if name == "" || strings.IndexByte(",:]}", name[0]) >= 0 {
		return nil
	}
	return []byte(`"` + name + `"`)
}

// leap finds the members of the object at i for the branches below b by a search
// for their names, without a look at the members in front of them, and reports
// whether what it read was JSON. It is not done, with nothing noted, when it cannot be
// sure of all of them.
func (l *locator) leap(b *branch, i int, alike *shape) (done, valid bool) {
	if !alike.begun || len(b.below) > leapMax || b.ends > 0 || l.doc[i] != '{' {
		return false, false
	}
	if alike.lost >= leapTries && alike.lost%leapAgain != 0 {
		alike.lost++
		return false, false
	}
	var room [leapMax]int
	values := room[:len(b.below)]
	for n := range values {
		name := b.below[n].quoted
		if values[n] = find(l.doc, name, alike.spots[n]); values[n] < 0 {
			break
		}
		alike.spots[n] = values[n]
	}
	if slices.Min(values) < 0 || !direct(l.doc, i+1, values) {
		alike.lost++
		return false, false
	}
	alike.lost = 0
	for n := range values {
		if l.value(&b.below[n], values[n]) < 0 {
			return true, l.left == 0
		}
	}
	return true, true
}

// direct reports whether places in an object, from i on, are certain to lie in no
// array and in no other object. The bytes in front of them may have no escape: then
// every quotation mark begins or ends a string.
func direct(doc []byte, i int, places []int) bool {
	far := slices.Max(places)
	if bytes.IndexByte(doc[i:far], '\\') >= 0 {
		return false
	}
	for { // i is in no string
		head := doc[i:far]
		n := bytes.IndexByte(head, '{')
		if n >= 0 {
			head = head[:n]
		}
		if m := bytes.IndexByte(head, '['); m >= 0 {
			n, head = m, head[:m]
		}
		if n < 0 {
			return true
		}
		begin := i + n
		if bytes.Count(head, []byte{'"'})%2 == 1 { // It stands in a string.
			i = begin + bytes.IndexByte(doc[begin:], '"') + 1
			continue
		}
		i = skipNested(doc, begin+1, 1)
		if i < 0 || slices.ContainsFunc(places, func(p int) bool { return begin < p && p < i }) {
			return false
		}
	}
}

// find returns where the value behind a quoted name and a colon begins, near a place
// if it is there, -1 without one.
func find(doc, name []byte, near int) int {
	if name == nil {
		return -1
	}
	if from := max(0, near-leapBefore); from+leapWidth <= len(doc) {
		if n := bytes.Index(doc[from:from+leapWidth], name); n >= 0 {
			if at := behindColon(doc, from+n+len(name)); at >= 0 {
				return at
			}
		}
	}
	for i := 0; ; {
		n := bytes.Index(doc[i:], name)
		if n < 0 {
			return -1
		}
		i += n + len(name)
		if at := behindColon(doc, i); at >= 0 {
			return at
		}
	}
}

// behindColon returns where a value behind the colon at i begins, -1 without one.
func behindColon(doc []byte, i int) int {
	if i = blanks(doc, i); i == len(doc) || doc[i] != ':' {
		return -1
	}
	return blanks(doc, i+1)
}

// value reads the value at i, which is the place of b.
func (l *locator) value(b *branch, i int) int {
	end := l.inside(b, i, nil)
	if b.slot >= 0 && end >= 0 {
		l.cells[b.slot].text = l.doc[i:end]
		l.left--
	}
	return end
}

// inside reads the value at i for the places below b. alike is of the outermost
// value, nil for those inside.
func (l *locator) inside(b *branch, i int, alike *shape) int {
	if i < len(l.doc) {
		switch c := l.doc[i]; {
		case c == '{' && b.names > 0:
			return l.members(b, i, alike)
		case c == '[' && b.ends > 0:
			return l.elements(b, i)
		}
	}
	return skipValue(l.doc, i)
}

func (l *locator) members(b *branch, i int, alike *shape) int {
	doc, missing := l.doc, b.names
	i = blanks(doc, i+1)
	for n := 0; i < len(doc) && doc[i] == '"'; n++ {
		if missing == 0 {
			return skipNested(doc, i, 1)
		}
		var child *branch
		length := 0
		if alike != nil {
			child, length = alike.at(n, doc[i:])
		}
		if length == 0 {
			if child, length = b.name(doc[i:]); length == 0 {
				return -1
			}
			if alike != nil {
				alike.note(n, doc[i:i+length], child)
			}
		}
		i = blanks(doc, i+length)
		switch {
		case child != nil:
			missing--
			i = l.value(child, i)
		case i < len(doc) && doc[i] == '"':
			i = skipString(doc, i)
		default:
			i = skipValue(doc, i)
		}
		if i < 0 || l.left == 0 {
			return i
		}
		if i = blanks(doc, i); i < len(doc) && doc[i] == ',' {
			i = blanks(doc, i+1)
		}
	}
	if i >= len(doc) || doc[i] != '}' {
		return -1
	}
	return i + 1
}

// name returns the branch of the member that begins text, nil when nobody asks
// for it, and how long its name and the colon are, 0 when there are none.
func (b *branch) name(text []byte) (child *branch, length int) {
	end, plain := skipName(text, 0)
	if end < 0 {
		return nil, 0
	}
	colon := blanks(text, end)
	if colon == len(text) || text[colon] != ':' {
		return nil, 0
	}
	return b.member(text[:end], plain), colon + 1
}

// member returns the branch for a quoted name, nil when nobody asks for it. A
// plain one has no escapes.
func (b *branch) member(quoted []byte, plain bool) *branch {
	name := quoted[1 : len(quoted)-1]
	if !plain {
		v, err := value.Parse(quoted)
		if err != nil {
			return nil
		}
		name = []byte(v.Text())
	}
	if b.index != nil {
		if i, ok := b.index[step{Name: string(name)}]; ok {
			return &b.below[i]
		}
		return nil
	}
	for i := range b.below {
		if c := &b.below[i]; c.step.Name == string(name) && !c.step.IsIndex {
			return c
		}
	}
	return nil
}

func (l *locator) elements(b *branch, i int) int {
	doc := l.doc
	i = blanks(doc, i+1)
	for n := 0; i < len(doc) && doc[i] != ']'; n++ {
		if n == b.ends {
			return skipNested(doc, i, 1)
		}
		if c := b.child(step{Index: n, IsIndex: true}); c != nil {
			i = l.value(c, i)
		} else {
			i = skipValue(doc, i)
		}
		if i < 0 || l.left == 0 {
			return i
		}
		if i = blanks(doc, i); i < len(doc) && doc[i] == ',' {
			i = blanks(doc, i+1)
		}
	}
	if i >= len(doc) {
		return -1
	}
	return i + 1
}

// The functions below read JSON that was parsed when it was stored; only what
// would lead out of it is noticed.

// blanks returns the first position from i on that holds no white space.
func blanks(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// skipName returns the end of the name that begins at i, -1 without one, and
// whether it is plain: without escapes. Names are too short for skipString to
// gain by looking for one byte at a time.
func skipName(b []byte, i int) (end int, plain bool) {
	for j := i + 1; j < len(b); j++ {
		switch b[j] {
		case '"':
			return j + 1, true
		case '\\':
			return skipString(b, i), false
		}
	}
	return -1, false
}

// skipString returns the end of the string that begins at i, -1 without one.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		escapes := 0
		for b[i-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
	return -1
}

// skipValue returns the end of the value that begins at i, -1 without one.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i+1, 1)
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

// skipNested returns the end of the array or object that is depth levels above
// position i, -1 without one.
func skipNested(b []byte, i, depth int) int {
	for ; i < len(b); i++ {
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

func delimiter(c byte) bool { return c <= ' ' || c == ',' || c == '}' || c == ']' || c == ':' }
