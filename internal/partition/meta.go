package partition

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// The 'm' rows of a partition store.
const (
	metaDescriptor = "descriptor" // who owns which range; written by Initialize
	metaState      = "state"      // counters; written by every effect
	metaIndex      = "index"      // policy and rebuild; written by effects with LSN 0
	metaPaths      = "paths"      // complete paths; absent if there are none
	metaPathsNext  = "paths.next" // those of a policy whose index is being built
	metaKept       = "kept"       // the LSNs after which the complete feed has every change; absent while it has none
	metaPurges     = "purges"     // the keys whose documents are to be deleted; absent if there are none
	metaMerged     = "merged"     // from which LSN on time rises with the LSN; absent without a merge
	metaCatalog    = "catalog"    // version of the catalog at the last change of the partition
)

// errMeta is the error of a meta row that cannot be read.
var errMeta = errors.New("damaged meta row")

// metaVersion is the version of the format of these rows.
const metaVersion = 1

// descriptor identifies a partition in its own store. The catalog may be older.
type descriptor struct {
	Version   int                     `json:"version"`
	Container resource.RID            `json:"container"`
	Key       partitionkey.Definition `json:"partitionKey"`
	resource.Partition
}

// append returns the row of a descriptor.
func (d descriptor) append() ([]byte, error) { return json.Marshal(d) }

// decodeDescriptor decodes and validates a row of append.
func decodeDescriptor(row []byte) (descriptor, error) {
	var d descriptor
	if err := json.Unmarshal(row, &d); err != nil {
		return d, fmt.Errorf("descriptor: %w: %w", err, errMeta)
	}
	if d.Version != metaVersion {
		return d, fmt.Errorf("descriptor of version %d, which this release does not know: %w", d.Version, errMeta)
	}
	if err := d.Key.Validate(); err != nil || !d.Container.IsContainer() || d.Range.Empty() || d.Ordinal > resource.OrdinalMax {
		return d, fmt.Errorf("descriptor %s: %w", row, errMeta)
	}
	return d, nil
}

// state are the counters of a partition. Every effect that changes documents
// updates them.
type state struct {
	lsn     resource.LSN
	counter uint64 // of document numbers: the next one is counter+1
	items   int64  // live documents
	bytes   int64  // of their JSON without system properties
	ts      int64  // the latest _ts; time never goes back in a partition

	// purged is the LSN of the effect that last changed the marks of purges, zero
	// while there are none. A release that does not know marks refuses a state with
	// one, because it would show deleted documents.
	purged resource.LSN

	// excludes says that there may be documents with the directive Exclude. It stays
	// set until the partition is empty.
	excludes bool
}

// A state has the first size unless purged is set, and the last if excludes is.
const (
	stateBytes         = 1 + 5*8
	stateBytesPurged   = stateBytes + 8
	stateBytesExcludes = stateBytesPurged + 1
)

// append appends the row of a state.
func (s state) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.lsn))
	dst = binary.BigEndian.AppendUint64(dst, s.counter)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.items))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.bytes))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.ts))
	if s.purged == 0 && !s.excludes {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.purged))
	if s.excludes {
		dst = append(dst, 1)
	}
	return dst
}

// decodeState decodes a row of append.
func decodeState(row []byte) (state, error) {
	damaged := func() (state, error) { return state{}, fmt.Errorf("state %x: %w", row, errMeta) }
	if len(row) != stateBytes && len(row) != stateBytesPurged && len(row) != stateBytesExcludes || row[0] != metaVersion {
		return damaged()
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(row[1+8*i:]) }
	s := state{
		lsn:     resource.LSN(field(0)),
		counter: field(1),
		items:   int64(field(2)),
		bytes:   int64(field(3)),
		ts:      int64(field(4)),
	}
	if len(row) > stateBytes {
		s.purged, s.excludes = resource.LSN(field(5)), len(row) == stateBytesExcludes
		if s.purged == 0 && !s.excludes || s.excludes && row[stateBytesPurged] != 1 {
			return damaged()
		}
	}
	return s, nil
}

// totals are the counters of a logical partition, which its 'q' row holds.
type totals struct {
	bytes int64 // of JSON without system properties
	items int64
}

const totalsBytes = 1 + 2*8

// append appends the row of totals.
func (t totals) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.bytes))
	return binary.BigEndian.AppendUint64(dst, uint64(t.items))
}

// decodeTotals decodes a row of append.
func decodeTotals(row []byte) (totals, error) {
	if len(row) != totalsBytes || row[0] != metaVersion {
		return totals{}, fmt.Errorf("totals %x: %w", row, errMeta)
	}
	return totals{
		bytes: int64(binary.BigEndian.Uint64(row[1:])),
		items: int64(binary.BigEndian.Uint64(row[9:])),
	}, nil
}

// reader reads rows: a snapshot, for example.
type reader interface {
	Get(dst, key []byte) (value []byte, found bool, err error)
}

// readMeta reads the meta rows that every partition has.
func readMeta(r reader) (d descriptor, s state, x indexRow, err error) {
	row := func(name string) []byte {
		if err != nil {
			return nil
		}
		var found bool
		var value []byte
		value, found, err = r.Get(nil, storage.MetaKey(nil, name))
		if err == nil && !found {
			err = fmt.Errorf("row %s is missing: %w", name, errMeta)
		}
		return value
	}
	descriptorRow, stateRow, indexRow := row(metaDescriptor), row(metaState), row(metaIndex)
	if err != nil {
		return d, s, x, err
	}
	if d, err = decodeDescriptor(descriptorRow); err != nil {
		return d, s, x, err
	}
	if s, err = decodeState(stateRow); err != nil {
		return d, s, x, err
	}
	x, err = decodeIndexRow(indexRow)
	return d, s, x, err
}

// catalogBytes is the length of the row MetaCatalog: the version of the format and
// that of the catalog.
const catalogBytes = 1 + 8

// appendCatalog appends the row of a version of the catalog.
func appendCatalog(dst []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, metaVersion), version)
}

func decodeCatalog(row []byte) (version uint64, err error) {
	if len(row) != catalogBytes || row[0] != metaVersion {
		return 0, fmt.Errorf("catalog version %x: %w", row, errMeta)
	}
	return binary.BigEndian.Uint64(row[1:]), nil
}

// readCatalog reads the version of the catalog at the last change of the partition,
// zero if none is recorded.
func readCatalog(r reader) (version uint64, err error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaCatalog))
	if err != nil || !found {
		return 0, err
	}
	return decodeCatalog(row)
}

// merged says which LSNs do not order times: changes up to its LSN, whose times are
// at most its time, come from two partitions. After it time rises with the LSN. A
// partition without a merge among its ancestors has none.
type merged struct {
	lsn resource.LSN
	ts  int64 // seconds since 1970
}

const mergedBytes = 1 + 2*8

// append appends the row.
func (m merged) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.lsn))
	return binary.BigEndian.AppendUint64(dst, uint64(m.ts))
}

// readMerged reads the row, and returns the zero value if there is none.
func readMerged(r reader) (m merged, err error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaMerged))
	if err != nil || !found {
		return merged{}, err
	}
	if len(row) != mergedBytes || row[0] != metaVersion {
		return merged{}, fmt.Errorf("merged %x: %w", row, errMeta)
	}
	return merged{lsn: resource.LSN(binary.BigEndian.Uint64(row[1:])), ts: int64(binary.BigEndian.Uint64(row[9:]))}, nil
}
