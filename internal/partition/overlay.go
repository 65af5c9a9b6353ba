package partition

import (
	"slices"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// overlay has the rows of effects that are proposed and not applied. No snapshot has
// them, but the next evaluation must see them. It belongs to the writer.
type overlay struct {
	documents map[string]pendingDocument // by document key
	logical   map[string]pendingTotals   // by 'q' key
	uniques   map[string]pendingHolder   // by 'u' key
	flights   []*flight                  // in the order they were proposed
	bytes     int                        // of their rows
}

// pendingDocument is the latest proposed version of a document.
type pendingDocument struct {
	row    []byte // nil if the document is deleted
	flight *flight
}

// pendingTotals are the totals of a logical partition after a proposed effect.
type pendingTotals struct {
	layout.Totals
	flight *flight
}

// pendingHolder is the document that has values of a unique key after a proposed
// effect, zero for none.
type pendingHolder struct {
	number uint64
	flight *flight
}

// flight is a proposed effect.
type flight struct {
	lsn      resource.LSN // zero for a step of an index rebuild
	proposal *replication.Proposal
	batch    *storage.Batch // owns the rows of the effect

	// The keys of its entries in the overlay.
	documents []string
	logical   string
	uniques   []holding
	room      [2]string // memory for the documents of most effects
}

func newOverlay() overlay {
	return overlay{documents: map[string]pendingDocument{}, logical: map[string]pendingTotals{}, uniques: map[string]pendingHolder{}}
}

// landed reports whether the effect has its result.
func (f *flight) landed() bool {
	select {
	case <-f.proposal.Done():
		return true
	default:
		return false
	}
}

// add appends an effect that has been proposed.
func (o *overlay) add(f *flight) {
	o.flights = append(o.flights, f)
	o.bytes += f.batch.Len()
}

// put enters the version of a document after an effect. A nil row is no document.
func (o *overlay) put(f *flight, key string, row []byte) {
	if f.documents == nil {
		f.documents = f.room[:0]
	}
	f.documents = append(f.documents, key)
	o.documents[key] = pendingDocument{row: row, flight: f}
}

// hold enters the documents that have values of unique keys after an effect.
func (o *overlay) hold(f *flight, all []holding) {
	f.uniques = slices.Clone(all)
	for _, h := range f.uniques {
		o.uniques[h.key] = pendingHolder{number: h.number, flight: f}
	}
}

// full reports whether no further effect may be proposed now.
func (o *overlay) full() bool {
	return len(o.flights) >= flightsMax || len(o.flights) > 0 && o.bytes >= flightsBytesMax
}

// settle removes the oldest effect, which has been applied, with its entries that no
// later effect has replaced.
func (o *overlay) settle() {
	f := o.flights[0]
	for _, key := range f.documents {
		if o.documents[key].flight == f {
			delete(o.documents, key)
		}
	}
	if o.logical[f.logical].flight == f {
		delete(o.logical, f.logical)
	}
	for _, h := range f.uniques {
		if o.uniques[h.key].flight == f {
			delete(o.uniques, h.key)
		}
	}
	o.bytes -= f.batch.Len()
	f.close()
	if o.flights = o.flights[1:]; len(o.flights) == 0 {
		o.flights = nil // Free the array, whose beginning is unused.
	}
}

// close frees the memory of the rows. They are not used after the effect has its
// result.
func (f *flight) close() {
	// The batch is memory only, so closing it cannot fail.
	_ = f.batch.Close()
}

// clear removes everything. All flights must have landed.
func (o *overlay) clear() {
	for _, f := range o.flights {
		f.close()
	}
	o.flights, o.bytes = nil, 0
	clear(o.documents)
	clear(o.logical)
	clear(o.uniques)
}
