package nosql

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/resource"
)

// place is a decoded path of an address:
//
//	/apps/decan/services/CONTAINER/partitions/ID/replicas/1p
//
// CONTAINER is the RID in hexadecimal digits, and master with the ID M for definitions.
// The replica is 1p for the primary, and 2s, 3s, 4s for the secondaries.
type place struct {
	known     bool
	master    bool
	container resource.RID
	partition resource.PartitionID
	primary   bool
}

const (
	placeApp       = "/apps/decan/services/"
	placePartition = "/partitions/"
	placeReplica   = "/replicas/"
	placeMaster    = "master"
)

// appendPlace appends the path of a replica's address; number is 1 for the primary.
func appendPlace(out []byte, container resource.RID, partition string, number int) []byte {
	out = append(out, placeApp...)
	if container == "" {
		out = append(out, placeMaster...)
	} else {
		out = hex.AppendEncode(out, []byte(container))
	}
	out = append(append(append(out, placePartition...), partition...), placeReplica...)
	out = strconv.AppendInt(out, int64(number), 10)
	if number == 1 {
		return append(out, 'p')
	}
	return append(out, 's')
}

// parsePlace reads a path that appendPlace has made, with or without a slash at its end.
func parsePlace(path string) (at place) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), placeApp)
	container, rest, cut := strings.Cut(rest, placePartition)
	partition, replica, cutToo := strings.Cut(rest, placeReplica)
	if !ok || !cut || !cutToo {
		return place{}
	}
	switch replica {
	case "1p":
		at.primary = true
	case "2s", "3s", "4s":
	default:
		return place{}
	}
	if container == placeMaster {
		at.master = true
		at.known = partition == masterID
		return at
	}
	var rid [8]byte
	if len(container) != 2*len(rid) {
		return place{}
	}
	if _, err := hex.Decode(rid[:], []byte(container)); err != nil {
		return place{}
	}
	at.container = resource.RID(rid[:])
	id, err := strconv.ParseUint(partition, 10, 32)
	at.partition, at.known = resource.PartitionID(id), err == nil && at.container.IsContainer()
	return at
}
