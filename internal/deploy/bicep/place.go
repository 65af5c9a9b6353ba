package bicep

import (
	"bytes"
	"sort"
	"unicode/utf16"
	"unicode/utf8"
)

// Compiled is JSON that a Bicep file was compiled to.
type Compiled struct {
	JSON []byte

	root   *file
	places []placed // in the order of start; ranges contain each other or are apart
	lines  []int    // where each line of JSON begins, once Place was called
}

// placed is a range of bytes of JSON that comes from one place.
type placed struct {
	start, end int
	from       origin
}

// Place returns the place that a place of the JSON was compiled from: the file, with a path
// below the folder that was given to the compiler, and the line and the column in it. If
// nothing smaller is known, it is the beginning of the compiled file. Lines and columns
// count from 1, and a column is a UTF-16 unit. It is not safe for concurrent use.
func (c *Compiled) Place(line, column int) (file string, fromLine, fromColumn int) {
	offset := c.offset(line, column)
	// The innermost range that has the place: the last one that begins before it, or one
	// of those around that.
	for i := sort.Search(len(c.places), func(i int) bool { return c.places[i].start > offset }) - 1; i >= 0; i-- {
		if p := c.places[i]; offset < p.end {
			fromLine, fromColumn = p.from.file.place(p.from.offset)
			return p.from.file.path, fromLine, fromColumn
		}
	}
	return c.root.path, 1, 1
}

// offset returns the byte at a line and a column.
func (c *Compiled) offset(line, column int) int {
	if c.lines == nil {
		c.lines = []int{0}
		for i, b := range c.JSON {
			if b == '\n' {
				c.lines = append(c.lines, i+1)
			}
		}
	}
	if line < 1 || line > len(c.lines) {
		return 0
	}
	at := c.lines[line-1]
	text := c.JSON[at:]
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	for ; column > 1 && len(text) > 0; column-- {
		r, size := utf8.DecodeRune(text)
		column -= utf16.RuneLen(r) - 1
		at, text = at+size, text[size:]
	}
	return at
}
