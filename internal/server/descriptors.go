package server

import (
	"log/slog"

	"github.com/decandb/decan/internal/cluster"
)

// descriptors is the division of the process's file descriptors.
type descriptors struct {
	connections int // of the data ports
	direct      int // connections in direct mode
	cql         int // connections of the Cassandra API
	admin       int // connections of the admin port
	tables      int // tables that the stores keep open in total
	stores      int // other descriptors of the open partitions
}

const (
	connectionsMax = 8192 // of the data ports, by default
	directMax      = 2048 // in direct mode
	cqlMax         = 4096 // of the Cassandra API

	// connectionMemory is the memory per connection for the default limit: a
	// quiet one takes 15 to 60 KB.
	connectionMemory = 128 << 10

	adminMax  = 64
	adminMin  = 8
	tablesMax = 1000
	tablesMin = 16

	// descriptorsFixed are for the files of the catalog, the storage's reserve,
	// the ports, connections that are being refused, and the runtime.
	descriptorsFixed = 64
)

// planDescriptors divides limit descriptors. Client connections may take a third,
// up to most, or wanted if that is not 0, which is reduced to a half. With direct, clients
// in direct mode may have a quarter as many in addition, because each of their connections
// has many requests; with cql, clients of the Cassandra API half as many.
func planDescriptors(limit uint64, known bool, wanted, most int, direct, cql bool) descriptors {
	if !known || limit > 1<<20 {
		limit = 1 << 20
	}
	left := max(int(limit)-descriptorsFixed, 4*adminMin)
	d := descriptors{connections: min(left/3, most)}
	if wanted > 0 {
		d.connections = min(wanted, left/2)
	}
	d.admin = min(max(left/16, adminMin), adminMax)
	d.tables = min(max(left/6, tablesMin), tablesMax)
	if direct {
		d.direct = max(1, min(d.connections/4, left/12, directMax, left-d.connections-d.admin-d.tables-1))
	}
	if cql {
		d.cql = max(1, min(d.connections/2, left/6, cqlMax, left-d.connections-d.direct-d.admin-d.tables-1))
	}
	d.stores = max(left-d.connections-d.direct-d.cql-d.admin-d.tables, 1)
	return d
}

// descriptors divides the descriptors of the process, and warns if the configuration
// needs more than it has.
func (c Config) descriptors(logger *slog.Logger) descriptors {
	limit, known := cluster.DescriptorLimit()
	most := connectionsMax
	if int64(c.Memory.Process) > 0 {
		most = max(adminMax, int(min(int64(c.Memory.Process)/connectionMemory, connectionsMax)))
	}
	direct, _ := c.directAddress()
	d := planDescriptors(limit, known, c.Clients.Connections, most, direct != "", len(c.cqlAddresses()) > 0)
	if d.connections < c.Clients.Connections {
		logger.Warn("clients may have fewer connections than --connections: raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)",
			"descriptors", limit, "connections_max", d.connections, "descriptors_wanted", 2*c.Clients.Connections+descriptorsFixed)
	}
	return d
}
