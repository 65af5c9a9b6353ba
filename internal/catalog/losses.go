package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// lossRow is the kind of the rows of accepted losses; the version that recorded the loss
// follows, in sixteen hexadecimal digits.
const lossRow = "loss/"

// lossesMax is the number of losses on record. Older ones are removed.
const lossesMax = 64

// Loss is one decision of an operator to continue without the lost data.
type Loss struct {
	Version uint64             `json:"version"` // the version that recorded it
	TS      resource.Timestamp `json:"ts"`
	Lost    []string           `json:"lost"` // one sentence each
}

// RecordLoss records an accepted loss. It keeps the newest lossesMax.
type RecordLoss []string

func (r RecordLoss) apply(d *draft) error {
	loss := Loss{Version: d.view.version, TS: d.now, Lost: r}
	text, err := json.Marshal(loss)
	if err != nil {
		return err
	}
	d.rows = append(d.rows, row{key: lossKey(loss.Version), value: text})
	d.view.losses = append(slices.Clone(d.view.losses), loss)
	for len(d.view.losses) > lossesMax {
		d.rows = append(d.rows, row{key: lossKey(d.view.losses[0].Version)})
		d.view.losses = d.view.losses[1:]
	}
	return nil
}

func lossKey(version uint64) []byte {
	return storage.MetaKey(nil, fmt.Sprintf("%s%016x", lossRow, version))
}

// Losses returns the accepted losses, oldest first.
func (v *View) Losses() []Loss { return slices.Clone(v.losses) }

// loadLoss adds a stored row to the view. Rows come in the order of versions.
func (v *View) loadLoss(stored Loss) error {
	v.losses = append(v.losses, stored)
	return nil
}
