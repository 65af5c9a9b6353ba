package partition

// growthSteps is how often Grown is called while a partition above its storage
// limit grows by that limit once more: whoever could not help the first time
// hears of it again.
const growthSteps = 16

// weigh calls Grown when the documents have passed the storage limit, and again
// for each further part of it.
func (p *Partition) weigh(bytes int64) {
	if p.config.Grown == nil || bytes <= p.config.Limits.PhysicalPartitionBytes || bytes < p.heard {
		return
	}
	p.heard = bytes + p.config.Limits.PhysicalPartitionBytes/growthSteps
	p.config.Grown()
}
