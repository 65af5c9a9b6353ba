package frame

import (
	"encoding/binary"
	"io"
	"sync"
)

// Writer encodes envelopes for a connection. Add gathers them, and Flush sends what was
// gathered with one write. It is not safe for concurrent use.
type Writer struct {
	to          io.Writer
	compression Compression
	segmented   bool
	buffer      *[]byte // gathered; nil if nothing is
	open        int     // where the segment begins to which envelopes are added; -1 for none
}

// NewWriter returns a writer to a connection.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w, open: -1} }

// SetCompression compresses the bodies of versions 3 and 4 from now on.
func (w *Writer) SetCompression(c Compression) { w.compression = c }

// StartSegments writes segments from now on, as version 5 has them after STARTUP. Nothing
// may be gathered.
func (w *Writer) StartSegments(c Compression) { w.segmented, w.compression = true, c }

// buffers has buffers of writers, so that a connection that waits has none.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, bufferSize)) }}

const (
	bufferSize = 4 << 10
	bufferKept = 1 << 20 // larger buffers are left to the garbage collector
)

func keep(pool *sync.Pool, b *[]byte) {
	if cap(*b) <= bufferKept {
		pool.Put(b)
	}
}

// Len returns the number of gathered bytes.
func (w *Writer) Len() int {
	if w.buffer == nil {
		return 0
	}
	return len(*w.buffer)
}

// Add gathers a frame. The error says which part does not fit into its length field;
// nothing is added then.
func (w *Writer) Add(f *Frame) error {
	if w.buffer == nil {
		w.buffer = buffers.Get().(*[]byte)
		*w.buffer = (*w.buffer)[:0]
	}
	if w.segmented {
		return w.addToSegment(f)
	}
	start := len(*w.buffer)
	b, err := f.Append(*w.buffer)
	*w.buffer = b
	if err != nil || w.compression == NoCompression || f.Message.Opcode() == OpStartup {
		return err
	}
	w.compress(start + HeaderSize)
	return nil
}

// compress replaces the last body, which begins at start, if it becomes shorter.
func (w *Writer) compress(start int) {
	spare := buffers.Get().(*[]byte)
	defer keep(&buffers, spare)
	var shorter bool
	*spare, shorter = appendCompressed(w.compression, (*spare)[:0], (*w.buffer)[start:], true)
	if !shorter {
		return
	}
	b := append((*w.buffer)[:start], *spare...)
	b[start-HeaderSize+1] |= byte(FlagCompressed)
	binary.BigEndian.PutUint32(b[start-4:], uint32(len(*spare)))
	*w.buffer = b
}

// addToSegment adds a frame to the open segment if it fits, otherwise to segments of
// its own.
func (w *Writer) addToSegment(f *Frame) error {
	fresh := w.open < 0
	if fresh {
		w.begin()
	}
	start := len(*w.buffer)
	b, err := f.Append(*w.buffer)
	*w.buffer = b
	payload := w.open + w.headerSize()
	switch {
	case err != nil && fresh:
		w.drop()
		return err
	case err != nil || len(b)-payload <= SegmentMax:
		return err
	}
	spare := buffers.Get().(*[]byte)
	defer keep(&buffers, spare)
	*spare = append((*spare)[:0], b[start:]...)
	*w.buffer = b[:start]
	if fresh {
		w.drop()
	} else {
		w.seal(true)
	}
	if len(*spare) <= SegmentMax {
		w.begin()
		*w.buffer = append(*w.buffer, *spare...)
		return nil
	}
	for rest := *spare; len(rest) > 0; {
		n := min(len(rest), SegmentMax)
		w.begin()
		*w.buffer = append(*w.buffer, rest[:n]...)
		w.seal(false)
		rest = rest[n:]
	}
	return nil
}

func (w *Writer) headerSize() int { return headerBytes(w.compression) + checksum24 }

// begin opens a segment.
func (w *Writer) begin() {
	w.open = len(*w.buffer)
	var header [segmentHeader]byte
	*w.buffer = append(*w.buffer, header[:w.headerSize()]...)
}

// drop removes the open segment, which is empty.
func (w *Writer) drop() {
	*w.buffer = (*w.buffer)[:w.open]
	w.open = -1
}

// seal ends the open segment.
func (w *Writer) seal(contained bool) {
	b, start := *w.buffer, w.open+w.headerSize()
	header := segment{length: len(b) - start, contained: contained}
	if w.compression == LZ4 {
		spare := buffers.Get().(*[]byte)
		var shorter bool
		*spare, shorter = appendCompressed(LZ4, (*spare)[:0], b[start:], false)
		if shorter {
			header.plain, header.length = header.length, len(*spare)
			b = append(b[:start], *spare...)
		}
		keep(&buffers, spare)
	}
	header.put(b[w.open:], w.compression)
	*w.buffer = binary.LittleEndian.AppendUint32(b, checksumPayload(b[start:]))
	w.open = -1
}

// Gathered is what a writer has gathered. It is sent or dropped once.
type Gathered struct{ buffer *[]byte }

// Take removes everything that was gathered from the writer, so that more can be
// gathered while it is sent. The caller keeps the order.
func (w *Writer) Take() Gathered {
	if w.buffer == nil {
		return Gathered{}
	}
	if w.open >= 0 {
		w.seal(true)
	}
	taken := Gathered{w.buffer}
	w.buffer = nil
	return taken
}

// Len returns the number of bytes.
func (g Gathered) Len() int {
	if g.buffer == nil {
		return 0
	}
	return len(*g.buffer)
}

// Send sends the bytes with one write.
func (g Gathered) Send(to io.Writer) error {
	if g.buffer == nil {
		return nil
	}
	var err error
	if len(*g.buffer) > 0 {
		_, err = to.Write(*g.buffer)
	}
	keep(&buffers, g.buffer)
	return err
}

// Flush sends everything that was gathered with one write.
func (w *Writer) Flush() error { return w.Take().Send(w.to) }

// Write gathers a frame and sends it, for clients and tests.
func (w *Writer) Write(f *Frame) error {
	if err := w.Add(f); err != nil {
		return err
	}
	return w.Flush()
}
