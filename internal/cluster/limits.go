package cluster

import (
	"time"

	"github.com/decandb/decan/internal/resource"
)

// splitDelay returns the delay of the splits and merges of a container.
func (n *Node) splitDelay(container resource.RID) time.Duration {
	if c, ok := n.cfg.Catalog.View().ContainerByRID(container); ok && c.Limits.SplitDelay != nil {
		return *c.Limits.SplitDelay
	}
	return n.cfg.SplitDelay
}

// SplitDelay returns the delay of splits and merges in containers that do not set one.
func (n *Node) SplitDelay() time.Duration { return n.cfg.SplitDelay }
