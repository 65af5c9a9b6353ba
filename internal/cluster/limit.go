package cluster

import "log/slog"

const (
	// maxOpenDefault bounds memory: an idle partition takes about a quarter
	// of a megabyte.
	maxOpenDefault = 4096

	// An open store holds eight or nine files, and a compaction a few more.
	descriptorsPerPartition = 12

	// descriptorsElsewhere are left for connections, logs and the catalog, and for
	// those that the storage keeps back.
	descriptorsElsewhere = 512
)

// maxOpen returns how many partitions may be open, and warns when the
// descriptor limit allows fewer than wanted.
func maxOpen(wanted int, logger *slog.Logger) int {
	if wanted <= 0 {
		wanted = maxOpenDefault
	}
	limit, known := descriptorLimit()
	if !known {
		return wanted
	}
	n := openUnder(wanted, limit)
	if n < wanted {
		logger.Warn("descriptor limit lowers the number of open partitions",
			"descriptors", limit, "partitions_max", n, "descriptors_wanted", wanted*descriptorsPerPartition+descriptorsElsewhere)
	}
	return n
}

// openUnder is the arithmetic of maxOpen: at least one partition, whatever the
// limit.
func openUnder(wanted int, limit uint64) int {
	if limit <= descriptorsElsewhere {
		return 1
	}
	allowed := (limit - descriptorsElsewhere) / descriptorsPerPartition
	return max(1, int(min(uint64(wanted), allowed)))
}
