package transfercmd

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/value"
)

// record is a document of a file.
type record struct {
	document value.Value
	line     int // where it begins, from 1
}

// recordReader reads the documents of a file one after another. After a *recordError,
// which concerns one document, the next call continues with the next document. io.EOF
// and every other error end the reading. It keeps one document in memory.
type recordReader interface {
	next() (record, error)
}

// recordError is a document that cannot be read.
type recordError struct {
	line  int
	cause error
}

func (e *recordError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.cause) }

func (e *recordError) Unwrap() error { return e.cause }

// recordBytesMax is the maximum length of the text of one document: six times the
// largest document, because escapes can make it that long.
const recordBytesMax = 12 << 20

var errLongRecord = fmt.Errorf("the document is longer than %d MB", recordBytesMax>>20)

// newRecordReader returns a reader for a format. It skips a byte order mark.
func newRecordReader(format string, in io.Reader, inferTypes bool) (recordReader, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if mark, err := buffered.Peek(len(rows.ByteOrderMark)); err == nil && string(mark) == rows.ByteOrderMark {
		_, _ = buffered.Discard(len(mark)) // They are in the buffer.
	}
	switch format {
	case formatLines:
		return &lineReader{in: buffered}, nil
	case formatArray:
		return &arrayReader{in: buffered, line: 1}, nil
	}
	return newCSVReader(buffered, inferTypes)
}

// parseDocument reads the JSON of one document.
func parseDocument(text []byte) (value.Value, error) {
	document, err := value.Parse(bytes.Clone(text)) // The document outlives the buffer.
	if err != nil {
		return document, err
	}
	if document.Kind() != value.KindObject {
		return document, fmt.Errorf("a document must be a JSON object, not %s", rows.Article(document.Kind()))
	}
	return document, nil
}

// lineReader reads JSON lines. It skips blank lines.
type lineReader struct {
	in   *bufio.Reader
	line int
	text []byte
}

func (r *lineReader) next() (record, error) {
	for {
		r.line++
		long, err := r.read()
		if err != nil {
			return record{}, err
		}
		if long {
			return record{}, &recordError{r.line, errLongRecord}
		}
		if len(bytes.TrimSpace(r.text)) == 0 {
			continue
		}
		document, err := parseDocument(r.text)
		if err != nil {
			return record{}, &recordError{r.line, err}
		}
		return record{document, r.line}, nil
	}
}

// read reads a line into text. It skips the rest of a line that is too long.
func (r *lineReader) read() (long bool, err error) {
	r.text = r.text[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		if long = long || len(r.text)+len(part) > recordBytesMax; !long {
			r.text = append(r.text, part...)
		}
		switch {
		case err == nil:
			return long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(r.text) > 0 || long):
			return long, nil // The last line has no newline; the next call returns io.EOF.
		default:
			return false, err
		}
	}
}

// arrayReader reads the elements of a JSON array, or documents that follow each other
// without an array. It finds the end of each document before it parses it.
type arrayReader struct {
	in    *bufio.Reader
	line  int
	text  []byte
	begun bool
	array bool // the documents are in brackets
	many  bool // an element has been read
	ended bool // the closing bracket has been read
}

func (r *arrayReader) next() (record, error) {
	c, err := r.skipSpace()
	if !r.begun && err == nil {
		r.begun = true
		if c == '[' {
			r.array = true
			c, err = r.skipSpace()
		}
	}
	if err == nil && r.array && !r.ended {
		c, err = r.separator(c)
	}
	switch {
	case errors.Is(err, io.EOF) && r.array && !r.ended:
		return record{}, fmt.Errorf("line %d: the array is not closed: the file is truncated", r.line)
	case err != nil:
		return record{}, err
	case r.ended:
		return record{}, fmt.Errorf("line %d: there is text after the end of the array", r.line)
	}
	return r.element(c)
}

// separator reads the text between two elements, which begins with c, and returns the
// first byte of the next one. After the closing bracket it returns the first byte after
// the array, or io.EOF.
func (r *arrayReader) separator(c byte) (byte, error) {
	if c == ']' {
		r.ended = true
		return r.skipSpace()
	}
	if !r.many {
		return c, nil
	}
	if c != ',' {
		return 0, fmt.Errorf("line %d: expected a comma or the end of the array, not %q", r.line, c)
	}
	return r.skipSpace()
}

// skipSpace returns the first byte that is not white space.
func (r *arrayReader) skipSpace() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case '\n':
			r.line++
		case ' ', '\t', '\r':
		default:
			return c, nil
		}
	}
}

// element reads an element that begins with c. An element that is not an object ends
// the reading, because its end is not known.
func (r *arrayReader) element(c byte) (record, error) {
	line := r.line
	if c != '{' {
		return record{}, fmt.Errorf("line %d: a document must begin with '{', not %q", line, c)
	}
	r.many = true
	long, err := r.object()
	switch {
	case errors.Is(err, io.EOF):
		return record{}, fmt.Errorf("line %d: the document is not closed: the file is truncated", line)
	case err != nil:
		return record{}, err
	case long:
		return record{}, &recordError{line, errLongRecord}
	}
	document, err := parseDocument(r.text)
	if err != nil {
		return record{}, &recordError{line, err}
	}
	return record{document, line}, nil
}

// object reads up to the bracket that closes the object.
func (r *arrayReader) object() (long bool, err error) {
	r.text = append(r.text[:0], '{')
	quoted, escaped := false, false
	for depth := 1; depth > 0; {
		c, err := r.in.ReadByte()
		if err != nil {
			return long, err
		}
		if long = long || len(r.text) >= recordBytesMax; !long {
			r.text = append(r.text, c)
		}
		if c == '\n' {
			r.line++
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return long, nil
}

// csvReader reads CSV whose first line names the columns.
type csvReader struct {
	in      *csv.Reader
	limited *rationed
	header  []string
	columns [][]string // the path of each
	infer   bool
}

func newCSVReader(in io.Reader, infer bool) (*csvReader, error) {
	limited := &rationed{in: in, left: recordBytesMax}
	r := &csvReader{in: csv.NewReader(limited), limited: limited, infer: infer}
	r.in.FieldsPerRecord = -1 // A line with another number of cells is an error of that line.
	header, err := r.in.Read()
	if errors.Is(err, io.EOF) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the line of columns: %w", err)
	}
	seen := map[string]bool{}
	for _, column := range header {
		if !utf8.ValidString(column) {
			return nil, fmt.Errorf("line 1: column %q is not UTF-8", column)
		}
		if seen[column] {
			return nil, fmt.Errorf("line 1: column %q appears twice", column)
		}
		seen[column] = true
		names, err := rows.ParseColumn(column)
		if err != nil {
			return nil, fmt.Errorf("line 1: %w", err)
		}
		r.header, r.columns = append(r.header, column), append(r.columns, names)
	}
	return r, nil
}

func (r *csvReader) next() (record, error) {
	r.limited.left = recordBytesMax
	cells, err := r.in.Read()
	if err != nil {
		var malformed *csv.ParseError
		if errors.As(err, &malformed) && !errors.Is(err, errLongRecord) {
			return record{}, &recordError{malformed.StartLine, malformed.Err}
		}
		return record{}, err
	}
	line, _ := r.in.FieldPos(0)
	if len(cells) != len(r.columns) {
		return record{}, &recordError{line, fmt.Errorf("it has %s, and there are %s", console.Counted(int64(len(cells)), "cell"), console.Counted(int64(len(r.columns)), "column"))}
	}
	var object tree
	for i, cell := range cells {
		if cell == "" {
			continue // The document does not have the property.
		}
		if !utf8.ValidString(cell) {
			return record{}, &recordError{line, fmt.Errorf("the cell of column %d is not UTF-8", i+1)}
		}
		v := value.String(cell)
		if r.infer {
			v = rows.InferCell(r.header[i], cell)
		}
		if err := object.put(r.columns[i], v); err != nil {
			return record{}, &recordError{line, fmt.Errorf("the property of column %d %w", i+1, err)}
		}
	}
	if len(object.names) == 0 {
		return record{}, &recordError{line, errors.New("all cells are empty")}
	}
	return record{object.value(), line}, nil
}

// rationed returns an error if more is read than one record may have: with an unclosed
// quote, the whole file would be read into memory.
type rationed struct {
	in   io.Reader
	left int
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRecord
	}
	n, err := r.in.Read(p)
	r.left -= n
	return n, err
}
