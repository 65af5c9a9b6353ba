package catalog

import (
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// PutLimits sets the limits of a container: 404 if it does not exist, 412 if its
// current limits are not Expected. Its etag does not change, because clients do
// not see limits.
type PutLimits struct {
	RID      resource.RID
	Limits   resource.OwnLimits
	Expected resource.OwnLimits // those that the change was made from
}

func (c PutLimits) apply(d *draft) error {
	old, ok := d.view.containers[c.RID]
	if !ok {
		return status.NotFound()
	}
	if !old.Limits.Equal(c.Expected) {
		return status.PreconditionFailed()
	}
	changed := *old
	changed.Limits = c.Limits
	return d.putContainer(&changed)
}
