package layout

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
	MetaDescriptor = "descriptor" // who owns which range; written by Initialize
	MetaState      = "state"      // counters; written by every effect
	MetaIndex      = "index"      // policy and rebuild; written by effects with LSN 0
	MetaPaths      = "paths"      // complete paths; absent if there are none
	MetaPathsNext  = "paths.next" // those of a policy whose index is being built
	MetaKept       = "kept"       // the LSNs after which the complete feed has every change; absent while it has none
	MetaPurges     = "purges"     // the keys whose documents are to be deleted; absent if there are none
	MetaMerged     = "merged"     // from which LSN on time rises with the LSN; absent without a merge
	MetaCatalog    = "catalog"    // version of the catalog at the last change of the partition
)

// ErrMeta is the error of a meta row that cannot be read.
var ErrMeta = errors.New("damaged meta row")

// MetaVersion is the version of the format of these rows.
const MetaVersion = 1

// Descriptor identifies a partition in its own store. The catalog may be older.
type Descriptor struct {
	Version   int                     `json:"version"`
	Container resource.RID            `json:"container"`
	Key       partitionkey.Definition `json:"partitionKey"`
	resource.Partition
}

// Append returns the row of a descriptor.
func (d Descriptor) Append() ([]byte, error) { return json.Marshal(d) }

// DecodeDescriptor decodes and validates a row of Append.
func DecodeDescriptor(row []byte) (Descriptor, error) {
	var d Descriptor
	if err := json.Unmarshal(row, &d); err != nil {
		return d, fmt.Errorf("descriptor: %w: %w", err, ErrMeta)
	}
	if d.Version != MetaVersion {
		return d, fmt.Errorf("descriptor of version %d, which this release does not know: %w", d.Version, ErrMeta)
	}
	if err := d.Key.Validate(); err != nil || !d.Container.IsContainer() || d.Range.Empty() || d.Ordinal > resource.OrdinalMax {
		return d, fmt.Errorf("descriptor %s: %w", row, ErrMeta)
	}
	return d, nil
}

// State are the counters of a partition. Every effect that changes documents
// updates them.
type State struct {
	LSN     resource.LSN
	Counter uint64 // of document numbers: the next one is counter+1
	Items   int64  // live documents
	Bytes   int64  // of their JSON without system properties
	TS      int64  // the latest _ts; time never goes back in a partition

	// purged is the LSN of the effect that last changed the marks of purges, zero
	// while there are none. A release that does not know marks refuses a state with
	// one, because it would show deleted documents.
	Purged resource.LSN

	// excludes says that there may be documents with the directive Exclude, which an
	// earlier version wrote. It stays set until the partition is empty.
	Excludes bool
}

// A state has the first size unless purged is set, and the last if excludes is.
const (
	stateBytes         = 1 + 5*8
	stateBytesPurged   = stateBytes + 8
	stateBytesExcludes = stateBytesPurged + 1
)

// Append appends the row of a state.
func (s State) Append(dst []byte) []byte {
	dst = append(dst, MetaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.LSN))
	dst = binary.BigEndian.AppendUint64(dst, s.Counter)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.Items))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.Bytes))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.TS))
	if s.Purged == 0 && !s.Excludes {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.Purged))
	if s.Excludes {
		dst = append(dst, 1)
	}
	return dst
}

// DecodeState decodes a row of Append.
func DecodeState(row []byte) (State, error) {
	damaged := func() (State, error) { return State{}, fmt.Errorf("state %x: %w", row, ErrMeta) }
	if len(row) != stateBytes && len(row) != stateBytesPurged && len(row) != stateBytesExcludes || row[0] != MetaVersion {
		return damaged()
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(row[1+8*i:]) }
	s := State{
		LSN:     resource.LSN(field(0)),
		Counter: field(1),
		Items:   int64(field(2)),
		Bytes:   int64(field(3)),
		TS:      int64(field(4)),
	}
	if len(row) > stateBytes {
		s.Purged, s.Excludes = resource.LSN(field(5)), len(row) == stateBytesExcludes
		if s.Purged == 0 && !s.Excludes || s.Excludes && row[stateBytesPurged] != 1 {
			return damaged()
		}
	}
	return s, nil
}

// Totals are the counters of a logical partition, which its 'q' row holds.
type Totals struct {
	Bytes int64 // of JSON without system properties
	Items int64
}

const totalsBytes = 1 + 2*8

// Append appends the row of totals.
func (t Totals) Append(dst []byte) []byte {
	dst = append(dst, MetaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Bytes))
	return binary.BigEndian.AppendUint64(dst, uint64(t.Items))
}

// DecodeTotals decodes a row of Append.
func DecodeTotals(row []byte) (Totals, error) {
	if len(row) != totalsBytes || row[0] != MetaVersion {
		return Totals{}, fmt.Errorf("totals %x: %w", row, ErrMeta)
	}
	return Totals{
		Bytes: int64(binary.BigEndian.Uint64(row[1:])),
		Items: int64(binary.BigEndian.Uint64(row[9:])),
	}, nil
}

// Getter reads rows: a snapshot, for example.
type Getter interface {
	Get(dst, key []byte) (value []byte, found bool, err error)
}

// ReadMeta reads the meta rows that every partition has.
func ReadMeta(r Getter) (d Descriptor, s State, x IndexRow, err error) {
	row := func(name string) []byte {
		if err != nil {
			return nil
		}
		var found bool
		var value []byte
		value, found, err = r.Get(nil, storage.MetaKey(nil, name))
		if err == nil && !found {
			err = fmt.Errorf("row %s is missing: %w", name, ErrMeta)
		}
		return value
	}
	descriptorRow, stateRow, indexRow := row(MetaDescriptor), row(MetaState), row(MetaIndex)
	if err != nil {
		return d, s, x, err
	}
	if d, err = DecodeDescriptor(descriptorRow); err != nil {
		return d, s, x, err
	}
	if s, err = DecodeState(stateRow); err != nil {
		return d, s, x, err
	}
	x, err = DecodeIndexRow(indexRow)
	return d, s, x, err
}

// catalogBytes is the length of the row MetaCatalog: the version of the format and
// that of the catalog.
const catalogBytes = 1 + 8

// AppendCatalog appends the row of a version of the catalog.
func AppendCatalog(dst []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, MetaVersion), version)
}

func decodeCatalog(row []byte) (version uint64, err error) {
	if len(row) != catalogBytes || row[0] != MetaVersion {
		return 0, fmt.Errorf("catalog version %x: %w", row, ErrMeta)
	}
	return binary.BigEndian.Uint64(row[1:]), nil
}

// ReadCatalog reads the version of the catalog at the last change of the partition,
// zero if none is recorded.
func ReadCatalog(r Getter) (version uint64, err error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, MetaCatalog))
	if err != nil || !found {
		return 0, err
	}
	return decodeCatalog(row)
}

// MergeMark says which LSNs do not order times: changes up to its LSN, whose times are
// at most its time, come from two partitions. After it time rises with the LSN. A
// partition without a merge among its ancestors has none.
type MergeMark struct {
	LSN resource.LSN
	TS  int64 // seconds since 1970
}

const mergedBytes = 1 + 2*8

// Append appends the row.
func (m MergeMark) Append(dst []byte) []byte {
	dst = append(dst, MetaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.LSN))
	return binary.BigEndian.AppendUint64(dst, uint64(m.TS))
}

// ReadMergeMark reads the row, and returns the zero value if there is none.
func ReadMergeMark(r Getter) (m MergeMark, err error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, MetaMerged))
	if err != nil || !found {
		return MergeMark{}, err
	}
	if len(row) != mergedBytes || row[0] != MetaVersion {
		return MergeMark{}, fmt.Errorf("merged %x: %w", row, ErrMeta)
	}
	return MergeMark{LSN: resource.LSN(binary.BigEndian.Uint64(row[1:])), TS: int64(binary.BigEndian.Uint64(row[9:]))}, nil
}
