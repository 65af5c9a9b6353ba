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
	metaPaths      = "paths"      // complete paths; not there while there are none
	metaPathsNext  = "paths.next" // those of a policy that is being built
	metaKept       = "kept"       // behind which LSNs the complete feed has everything; not there while it has nothing
	metaPurges     = "purges"     // which keys' documents are to be deleted; not there without any
	metaMerged     = "merged"     // since when LSN and time rise together; not there without a merge
	metaCatalog    = "catalog"    // version of the catalog that the partition was last changed under
)

var errMeta = errors.New("damaged meta row")

// metaVersion is the version of all of these rows.
const metaVersion = 1

// descriptor is the partition's own word on what it is. The map of the catalog
// may lag behind it.
type descriptor struct {
	Version   int                     `json:"version"`
	Container resource.RID            `json:"container"`
	Key       partitionkey.Definition `json:"partitionKey"`
	resource.Partition
}

func (d descriptor) append() ([]byte, error) { return json.Marshal(d) }

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

// state is what every effect counts on.
type state struct {
	lsn     resource.LSN
	counter uint64 // document numbers handed out: the next one is counter+1
	items   int64  // live documents
	bytes   int64  // of their complete JSON
	ts      int64  // the latest _ts; time never goes back in a partition

	// purged is the LSN of the effect that changed the marks of purges last, zero
	// while there are none. A release that knows no marks refuses a state with one:
	// it would show what is deleted.
	purged resource.LSN

	// excludes says that there may be documents with the directive Exclude. It stays
	// until the partition is empty.
	excludes bool
}

// A state has the first size unless purged is set, and the last when excludes is.
const (
	stateBytes         = 1 + 5*8
	stateBytesPurged   = stateBytes + 8
	stateBytesExcludes = stateBytesPurged + 1
)

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

// totals is the 'q' row: how much one logical partition holds.
type totals struct {
	bytes int64
	items int64
}

const totalsBytes = 1 + 2*8

func (t totals) append(dst []byte) []byte {
	dst = append(dst, metaVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.bytes))
	return binary.BigEndian.AppendUint64(dst, uint64(t.items))
}

func decodeTotals(row []byte) (totals, error) {
	if len(row) != totalsBytes || row[0] != metaVersion {
		return totals{}, fmt.Errorf("totals %x: %w", row, errMeta)
	}
	return totals{
		bytes: int64(binary.BigEndian.Uint64(row[1:])),
		items: int64(binary.BigEndian.Uint64(row[9:])),
	}, nil
}

// reader is what rows are read from.
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
