package cluster

import (
	"log/slog"

	"github.com/decandb/decan/internal/catalog"
)

const (
	// maxOpenDefault bounds the memory of open partitions. An idle one uses about a
	// quarter of a megabyte.
	maxOpenDefault = 4096

	// descriptorsPerPartition is enough for an open store, which has eight or nine open
	// files in addition to its tables, and for a compaction.
	descriptorsPerPartition = 12

	// descriptorsElsewhere are for connections, tables, logs, the catalog, and the reserve
	// of the storage. It applies if Config.Descriptors is zero.
	descriptorsElsewhere = 512
)

// maxOpen returns how many partitions may be open at the same time: wanted, or fewer if
// there are too few descriptors. given is the number of descriptors for partitions; zero
// means to derive it from the limit of the process. maxOpen warns if not all of the
// existing partitions can be open, because closing and reopening them slows requests.
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

// openWith returns how many of the wanted partitions the descriptors allow; at least one.
func openWith(wanted, descriptors int) int {
	return max(1, min(wanted, descriptors/descriptorsPerPartition))
}
