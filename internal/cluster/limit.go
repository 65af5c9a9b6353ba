package cluster

import "log/slog"

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

// maxOpen returns how many partitions may be open, and warns when the descriptors
// allow fewer than wanted: the given ones, or for 0 those of the process.
func maxOpen(wanted, given int, logger *slog.Logger) int {
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
	if n < wanted {
		logger.Warn("descriptor limit lowers the number of open partitions",
			"descriptors", given, "partitions_max", n, "descriptors_wanted", wanted*descriptorsPerPartition)
	}
	return n
}

// openWith is the arithmetic of maxOpen: at least one partition, however few
// descriptors there are.
func openWith(wanted, descriptors int) int {
	return max(1, min(wanted, descriptors/descriptorsPerPartition))
}
