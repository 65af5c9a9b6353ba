package cluster

import (
	"log/slog"

	"github.com/decandb/decan/internal/catalog"
)

const (
	// maxOpenDefault bounds memory: an idle partition takes about a quarter
	// of a megabyte.
	maxOpenDefault = 4096

	// An open store holds eight or nine files besides its tables, and a compaction a
	// few more.
	descriptorsPerPartition = 12

	// descriptorsElsewhere are left for connections, tables, logs and the catalog,
	// and for those that the storage keeps back, where Config.Descriptors does not say
	// how many there are.
	descriptorsElsewhere = 512
)

// maxOpen returns how many partitions may be open at the same time: wanted, or fewer if
// the descriptors allow fewer, which are the given ones, or for 0 those of the process.
// It warns if those that exist cannot all be open: then partitions are closed and opened
// again as requests need them. Fewer than wanted are otherwise no reason to act.
func maxOpen(wanted, given, exist int, logger *slog.Logger) int {
	if wanted <= 0 {
		wanted = maxOpenDefault
	}
	if given <= 0 {
		limit, known := DescriptorLimit()
		if !known {
			return wanted
		}
		given = int(min(max(limit, descriptorsElsewhere)-descriptorsElsewhere, 1<<30))
	}
	n := openWith(wanted, given)
	if n < min(exist, wanted) {
		logger.Warn("not all partitions can be open at the same time, which makes requests slower: raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)",
			"partitions", exist, "partitions_max", n, "descriptors", given, "descriptors_wanted", min(exist, wanted)*descriptorsPerPartition)
	} else if n < wanted {
		logger.Debug("open partitions are bounded by the limit of open files", "partitions_max", n, "descriptors", given)
	}
	return n
}

// partitions counts the partitions of all containers.
func partitions(view *catalog.View) (n int) {
	for _, c := range view.AllContainers() {
		n += len(c.Partitions())
	}
	return n
}

// openWith is the arithmetic of maxOpen: at least one partition, however few
// descriptors there are.
func openWith(wanted, descriptors int) int {
	return max(1, min(wanted, descriptors/descriptorsPerPartition))
}
