package catalog

import (
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// PutLimits gives a container limits of its own: 404 when it does not exist, 412
// when Old are not those that it has any more. Its etag stays, because clients
// do not see them.
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
