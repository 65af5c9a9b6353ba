package partition

import "github.com/decandb/decan/internal/resource"

// growthSteps is the number of calls of Grown while a partition above its storage limit
// grows by that limit again, so that a split that failed is tried again.
const growthSteps = 16

// weigh calls Grown if the documents exceed the storage limit, and again after each
// further step of growth.
func (p *Partition) weigh(bytes int64) {
	if p.config.Grown == nil {
		return
	}
	most := p.limits().PhysicalPartitionBytes
	if bytes <= most || bytes < p.apply.heard {
		return
	}
	p.apply.heard = bytes + most/growthSteps
	p.config.Grown()
}

// limits returns the current limits of the container.
func (p *Partition) limits() resource.Limits {
	own := p.config.Container().Limits
	return p.config.Limits.Of(own)
}
