package partition

import "github.com/decandb/decan/internal/resource"

// growthSteps is how often Grown is called while a partition above its storage
// limit grows by that limit once more: whoever could not help the first time
// hears of it again.
const growthSteps = 16

// weigh calls Grown when the documents have passed the storage limit, and again
// for each further part of it.
func (p *Partition) weigh(bytes int64) {
	if p.config.Grown == nil {
		return
	}
	most := p.limits().PhysicalPartitionBytes
	if bytes <= most || bytes < p.heard {
		return
	}
	p.heard = bytes + most/growthSteps
	p.config.Grown()
}

// limits returns the limits of the container as it is now.
func (p *Partition) limits() resource.Limits {
	own := p.config.Container().Limits
	return p.config.Limits.Of(own)
}
