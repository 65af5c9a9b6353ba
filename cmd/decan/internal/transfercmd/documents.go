package transfercmd

import (
	"errors"
	"io"
	"iter"

	"github.com/decandb/decan/internal/value"
)

// Documents yields the documents of a file: JSON lines, a JSON array or CSV, as import
// reads them. The format is jsonl, json or csv, or empty for the one that the name of the
// file implies. An error is the last that it yields; a document that cannot be read is
// one, with its line.
func Documents(format, name string, in io.Reader) iter.Seq2[value.Value, error] {
	return func(yield func(value.Value, error) bool) {
		format, err := formatOf(format, name)
		if err != nil {
			yield(value.Undefined(), err)
			return
		}
		records, err := newRecordReader(format, in, true)
		if err != nil {
			yield(value.Undefined(), err)
			return
		}
		for {
			record, err := records.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(record.document, err) || err != nil {
				return
			}
		}
	}
}
