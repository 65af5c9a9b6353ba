package value

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Locator finds the values at a set of paths in stored JSON. One pass over the bytes
// finds all of them, up to the last one, and parses none. Add paths first; after that
// a Locator is immutable and may be used by many goroutines.
//
// The JSON must have been written by [Value.Append] or checked by [Parse]: Locate does
// not validate it. The zero value is ready to use.
type Locator struct {
	root  branch
	slots int
}

// Add adds a path and returns its slot, which is the same for equal paths. Slots
// count from 0.
func (l *Locator) Add(path Path) (slot int) { return l.root.add(path, &l.slots) }

// Len returns the number of slots.
func (l *Locator) Len() int { return l.slots }

// Located is the value at one path of a document. Locate sets Text; Value and Parsed
// are the caller's, to parse it at most once.
type Located struct {
	Text   []byte // a part of the document; nil if the path does not exist
	Value  Value
	Parsed bool
}

// Locate stores the text of each path in found, by slot, and reports whether the JSON
// that it read is well formed. found has Len elements, which are zero. layout belongs
// to the caller and carries the layout of one document to the next.
func (l *Locator) Locate(doc []byte, found []Located, layout *Layout) bool {
	p := pass{doc: doc, found: found, left: len(found)}
	i := blanks(doc, 0)
	if i == len(doc) {
		return false
	}
	b := &l.root
	if b.wanted > 0 {
		found[b.wanted-1].Text = doc[i:]
		p.left--
	}
	valid := p.left == 0
	if !valid {
		var done bool
		if done, valid = p.search(b, i, layout); !done {
			valid = p.inside(b, i, layout) >= 0
		}
	}
	layout.begun = true
	return valid
}

// branch is a step of one or more paths. The branches of a Locator form a tree.
type branch struct {
	step   Step
	wanted int // 1 + the slot of the path that ends here; 0 if none does
	below  []branch
	names  int          // number of properties in below
	ends   int          // 1 + the largest index of an element in below; 0 if there is none
	index  map[Step]int // into below, if it is long; nil otherwise

	// quoted is the name of the property in quotation marks if those bytes can denote
	// only that name; see [quoted]. Otherwise it is nil.
	quoted []byte
}

// indexedMin is the number of branches from which a map is faster than a loop. A
// query can name tens of thousands of paths.
const indexedMin = 16

// child returns the branch of a step below b, or nil.
func (b *branch) child(s Step) *branch {
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

// grow adds a branch for a step that b does not have yet.
func (b *branch) grow(s Step) *branch {
	b.below = append(b.below, branch{step: s})
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
		b.index = make(map[Step]int, 2*indexedMin)
		for i := range b.below {
			b.index[b.below[i].step] = i
		}
	}
	return &b.below[len(b.below)-1]
}

// add returns the slot of a path below b. A new path gets the next free slot.
func (b *branch) add(path Path, slots *int) int {
	if len(path) == 0 {
		if b.wanted == 0 {
			*slots++
			b.wanted = *slots
		}
		return b.wanted - 1
	}
	below := b.child(path[0])
	if below == nil {
		below = b.grow(path[0])
	}
	return below.add(path[1:], slots)
}

// pass is one pass over a document. Its methods return the offset after the value
// that they read, or -1 if that is not JSON. Once left is zero, the offset is
// meaningless: the pass ends, because a value is found before the value that
// contains it.
type pass struct {
	doc   []byte
	found []Located
	left  int // paths not found yet
}

// Layout remembers the names at the beginning of the previous documents. Most
// documents of a container have the same names in the same order; for those a pass
// compares bytes instead of parsing names, which saves a quarter of its time. The
// zero value is ready to use. One goroutine uses it, with one Locator.
type Layout struct {
	begun   bool // a document was read; a run over one document records nothing
	members []layoutMember
	texts   []byte // quoted names with their colons, concatenated

	// spots are the offsets of the values of the root's branches in the previous
	// document; see [pass.search].
	spots [searchMax]int
	lost  int // number of consecutive documents in which the search failed
}

type layoutMember struct {
	from, to int // in texts
	child    *branch
}

// The maximum number of members in a Layout, and the maximum length of a text.
const (
	layoutMax     = 64
	layoutTextMax = 64
)

// at returns the branch of member n and the length of its name and colon, if doc
// begins with them. Otherwise the length is 0.
func (s *Layout) at(n int, doc []byte) (child *branch, length int) {
	if n >= len(s.members) {
		return nil, 0
	}
	m := &s.members[n]
	if !bytes.HasPrefix(doc, s.texts[m.from:m.to]) {
		return nil, 0
	}
	return m.child, m.to - m.from
}

// note records member n and removes the members after it.
func (s *Layout) note(n int, text []byte, child *branch) {
	if !s.begun || n > len(s.members) || n == layoutMax || len(text) > layoutTextMax {
		return
	}
	from := 0
	if n > 0 {
		from = s.members[n-1].to
	}
	s.texts = append(s.texts[:from], text...)
	s.members = append(s.members[:n], layoutMember{from: from, to: len(s.texts), child: child})
}

// Parameters of [pass.search].
const (
	searchMax    = 4   // maximum number of names
	searchBefore = 40  // bytes before the previous offset at which a search begins
	searchWidth  = 64  // bytes that the first search covers; a few instructions
	searchTries  = 8   // failures in a row after which the search is disabled
	searchAgain  = 256 // number of documents after which it is tried again
)

// quoted returns a name in quotation marks, if these bytes can only be a name or a
// string in an object that has no backslash before them. That holds if the name needs
// no escapes and does not begin with a character that can follow the end of a string.
// Otherwise it returns nil.
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

// search finds the members of the object at i for the branches below b by their names
// and skips the members before them. valid reports whether the JSON that it read is
// well formed. If it cannot find all members with certainty, done is false and nothing
// is recorded.
func (p *pass) search(b *branch, i int, layout *Layout) (done, valid bool) {
	if !layout.begun || len(b.below) > searchMax || b.ends > 0 || p.doc[i] != '{' {
		return false, false
	}
	if layout.lost >= searchTries && layout.lost%searchAgain != 0 {
		layout.lost++
		return false, false
	}
	var room [searchMax]int
	values := room[:len(b.below)]
	for n := range values {
		name := b.below[n].quoted
		if values[n] = find(p.doc, name, layout.spots[n]); values[n] < 0 {
			break
		}
		layout.spots[n] = values[n]
	}
	if slices.Min(values) < 0 || !direct(p.doc, i+1, values) {
		layout.lost++
		return false, false
	}
	layout.lost = 0
	for n := range values {
		if p.value(&b.below[n], values[n]) < 0 {
			return true, p.left == 0
		}
	}
	return true, true
}

// direct reports whether all offsets, which lie in an object whose members begin at i,
// are certainly not inside an array or an inner object. If the bytes before them have
// an escape, it returns false: without one, every quotation mark begins or ends a
// string.
func direct(doc []byte, i int, offsets []int) bool {
	far := slices.Max(offsets)
	if bytes.IndexByte(doc[i:far], '\\') >= 0 {
		return false
	}
	for { // i is outside strings
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
		if bytes.Count(head, []byte{'"'})%2 == 1 { // The bracket is in a string.
			i = begin + bytes.IndexByte(doc[begin:], '"') + 1
			continue
		}
		i = skipNested(doc, begin+1, 1)
		if i < 0 || slices.ContainsFunc(offsets, func(p int) bool { return begin < p && p < i }) {
			return false
		}
	}
}

// find returns the offset of the value after a quoted name and a colon, or -1. It
// looks near an offset first.
func find(doc, name []byte, near int) int {
	if name == nil {
		return -1
	}
	if from := max(0, near-searchBefore); from+searchWidth <= len(doc) {
		if n := bytes.Index(doc[from:from+searchWidth], name); n >= 0 {
			if at := afterColon(doc, from+n+len(name)); at >= 0 {
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
		if at := afterColon(doc, i); at >= 0 {
			return at
		}
	}
}

// afterColon returns the offset of the value after the colon at i, or -1 if there is
// no colon.
func afterColon(doc []byte, i int) int {
	if i = blanks(doc, i); i == len(doc) || doc[i] != ':' {
		return -1
	}
	return blanks(doc, i+1)
}

// value reads the value at i, which is at the path of b.
func (p *pass) value(b *branch, i int) int {
	end := p.inside(b, i, nil)
	if b.wanted > 0 && end >= 0 {
		p.found[b.wanted-1].Text = p.doc[i:end]
		p.left--
	}
	return end
}

// inside reads the value at i for the branches below b. layout is nil unless the value
// is the document.
func (p *pass) inside(b *branch, i int, layout *Layout) int {
	if i < len(p.doc) {
		switch c := p.doc[i]; {
		case c == '{' && b.names > 0:
			return p.members(b, i, layout)
		case c == '[' && b.ends > 0:
			return p.elements(b, i)
		}
	}
	return skipValue(p.doc, i)
}

func (p *pass) members(b *branch, i int, layout *Layout) int {
	doc, missing := p.doc, b.names
	i = blanks(doc, i+1)
	for n := 0; i < len(doc) && doc[i] == '"'; n++ {
		if missing == 0 {
			return skipNested(doc, i, 1)
		}
		var child *branch
		length := 0
		if layout != nil {
			child, length = layout.at(n, doc[i:])
		}
		if length == 0 {
			if child, length = b.name(doc[i:]); length == 0 {
				return -1
			}
			if layout != nil {
				layout.note(n, doc[i:i+length], child)
			}
		}
		i = blanks(doc, i+length)
		switch {
		case child != nil:
			missing--
			i = p.value(child, i)
		case i < len(doc) && doc[i] == '"':
			i = skipString(doc, i)
		default:
			i = skipValue(doc, i)
		}
		if i < 0 || p.left == 0 {
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

// name returns the branch of the member at the beginning of text, nil if no path
// wants it, and the length of its name and colon, 0 if there are none.
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

// member returns the branch for a quoted name, or nil if no path wants it. plain
// says that the name has no escapes.
func (b *branch) member(quoted []byte, plain bool) *branch {
	name := quoted[1 : len(quoted)-1]
	if !plain {
		v, err := Parse(quoted)
		if err != nil {
			return nil
		}
		name = []byte(v.Text())
	}
	if b.index != nil {
		if i, ok := b.index[Step{Name: string(name)}]; ok {
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

func (p *pass) elements(b *branch, i int) int {
	doc := p.doc
	i = blanks(doc, i+1)
	for n := 0; i < len(doc) && doc[i] != ']'; n++ {
		if n == b.ends {
			return skipNested(doc, i, 1)
		}
		if c := b.child(Step{Index: n, IsIndex: true}); c != nil {
			i = p.value(c, i)
		} else {
			i = skipValue(doc, i)
		}
		if i < 0 || p.left == 0 {
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

// The functions below read JSON that is well formed. They detect only errors that
// would lead them past its end.

// blanks returns the first offset from i that holds no white space.
func blanks(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// skipName returns the end of the name that begins at i, or -1, and whether it has no
// escapes. Names are too short for the search in skipString to be faster.
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

// skipString returns the end of the string that begins at i, or -1.
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

// skipValue returns the end of the value that begins at i, or -1.
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

// skipNested returns the end of the array or object that is depth levels above offset
// i, or -1.
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
