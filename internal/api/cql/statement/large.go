package statement

import (
	"fmt"
	"sync"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

// largeKeys remembers which large partition keys are in the log, so that each is there once
// an hour at most. The zero value is empty.
type largeKeys struct {
	mu   sync.Mutex
	seen map[[2]string]time.Time // by table and routing key
}

// Bounds of the log of large partition keys.
const (
	largeEvery = time.Hour
	largeMax   = 1000 // keys that are remembered
)

// due says whether a key is to be logged.
func (l *largeKeys) due(table resource.RID, key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := [2]string{string(table), key}
	if last, ok := l.seen[name]; ok && now.Sub(last) < largeEvery {
		return false
	}
	if l.seen == nil || len(l.seen) >= largeMax {
		l.seen = map[[2]string]time.Time{}
	}
	l.seen[name] = now
	return true
}

// warnOfSize returns the warning of a write that left a large partition key, and logs it
// (S119).
func (p *Processor) warnOfSize(w *writing, written engine.ItemsResult) []string {
	most := p.config.LargePartition
	if most <= 0 || written.Size <= most {
		return nil
	}
	for _, c := range w.changes {
		if c.Key != written.Largest {
			continue
		}
		rid := w.schema.ridOf(c.Table)
		if p.config.Logger != nil && p.large.due(rid, c.Key, p.config.Now()) {
			p.config.Logger.Warn("large partition of a table", "keyspace", c.Table.Keyspace, "table", c.Table.Name, "key", fmt.Sprintf("%x", c.Key), "bytes", written.Size)
		}
		return []string{fmt.Sprintf("A partition of %s.%s has %d bytes, and partitions above %d bytes are slow to read as a whole: routing key %x.", c.Table.Keyspace, c.Table.Name, written.Size, most, clipKey(c.Key))}
	}
	return nil
}

// clipKey returns the beginning of a routing key for a message.
func clipKey(key string) string { return key[:min(len(key), 64)] }
