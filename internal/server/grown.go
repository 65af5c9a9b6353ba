package server

import (
	"sync"

	"github.com/decandb/decan/internal/balance"
	"github.com/decandb/decan/internal/resource"
)

// grownContainers tells the balancer which containers have a partition that may need a
// split. The node opens partitions while it starts, before the balancer exists: reports
// from that time are kept. The zero value is ready.
type grownContainers struct {
	mu sync.Mutex

	balancer *balance.Balancer // nil until passTo
	early    []resource.RID
}

// wake reports a container. It does not block.
func (g *grownContainers) wake(container resource.RID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.balancer == nil {
		g.early = append(g.early, container)
		return
	}
	g.balancer.Wake(container)
}

// passTo passes on the reports so far, and from now on each report at once.
func (g *grownContainers) passTo(balancer *balance.Balancer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.balancer = balancer
	for _, container := range g.early {
		balancer.Wake(container)
	}
	g.early = nil
}
