package cluster

import (
	"time"

	"github.com/decandb/decan/internal/resource"
)

// splitDelay is for how long splits of a container are held before they begin.
func (n *Node) splitDelay(container resource.RID) time.Duration {
	if c, ok := n.cfg.Catalog.View().ContainerByRID(container); ok && c.Limits.SplitDelay != nil {
		return *c.Limits.SplitDelay
	}
	return n.cfg.SplitDelay
}

// SplitDelay returns for how long splits are held when their container says
// nothing else.
func (n *Node) SplitDelay() time.Duration { return n.cfg.SplitDelay }
