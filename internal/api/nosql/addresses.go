package nosql

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// readAddresses answers where clients in direct mode find the replicas of partitions: of
// those of a container, or of the one with the definitions.
func (h *handler) readAddresses(r *request) (*response, error) {
	if h.directPort == 0 {
		return nil, directOff()
	}
	asked, err := url.ParseQuery(r.target.query)
	if err != nil {
		return nil, badTarget("its query is not valid")
	}
	if filter := asked.Get("$filter"); !servedProtocol(filter) {
		return nil, status.BadRequest("The filter %.64q of addresses is not %q: direct mode over HTTPS does not exist here.", filter, "protocol eq rntbd")
	}
	host, err := h.directHost(r)
	if err != nil {
		return nil, err
	}
	var resolved target
	if err := resolved.parse("/" + strings.TrimPrefix(asked.Get("$resolveFor"), "/")); err != nil {
		return nil, err
	}
	list := addressList{host: host}
	if resolved.count == 1 && resolved.segments[0] == "dbs" {
		list.add("", "", masterID)
		return r.answer(http.StatusOK, list.json("").Append(nil)), nil
	}
	if resolved.count != 5 || resolved.segments[0] != "dbs" || resolved.segments[2] != "colls" || resolved.segments[4] != "docs" {
		return nil, status.BadRequest("The value %.128q of $resolveFor is neither dbs nor the documents of a container.", asked.Get("$resolveFor"))
	}
	found, ok := h.engine.Address(engine.Link{Database: resolved.id(0), Container: resolved.id(1)})
	if !ok {
		return nil, status.OwnerNotFound()
	}
	r.result.Owner, r.result.OwnerRID = found.Owner(), found.RID()
	given := asked.Get("$partitionKeyRangeIds")
	if given == "" {
		return nil, status.BadRequest("The request names no partition: $partitionKeyRangeIds is a list of their ids.")
	}
	ids := strings.Split(given, ",")
	if len(ids) > addressesMax {
		return nil, status.BadRequest("The request names %d partitions. At most %d are allowed.", len(ids), addressesMax)
	}
	for _, text := range ids {
		id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		if err != nil {
			return nil, status.BadRequest("The partition key range id %.32q is not a number.", text)
		}
		if !found.Has(resource.PartitionID(id)) {
			return nil, status.PartitionMoved(status.SubRangeGone)
		}
		list.add(found.RID(), found.RID().String(), resource.PartitionID(id).String())
	}
	return r.answer(http.StatusOK, list.json(found.RID().String()).Append(nil)), nil
}

// addressesMax is how many partitions one request may name. Clients ask for 50.
const addressesMax = 1000

// directOff is the error of a server that does not serve direct mode.
func directOff() error {
	return status.Unsupported("The resource type addresses, for direct mode instead of gateway mode,")
}

// servedProtocol reports whether clients ask for addresses of the one protocol that there
// is.
func servedProtocol(filter string) bool {
	words := strings.Fields(filter)
	return len(words) == 0 || len(words) == 3 && strings.EqualFold(words[0], "protocol") && strings.EqualFold(words[1], "eq") && strings.EqualFold(words[2], "rntbd")
}

// directHost returns host and port of direct mode for this client: the host by which it
// has reached the endpoint, so that port mappings and names of any kind work, or that of
// Config.Endpoint.
func (h *handler) directHost(r *request) (string, error) {
	host := r.host
	if h.endpoint != "" {
		if fixed, err := url.Parse(h.endpoint); err == nil && fixed.Host != "" {
			host = fixed.Host
		}
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
		if !address.IsLoopback() {
			return "", status.BadRequest("Clients in direct mode cannot use the address [%s]: use a name or an IPv4 address as the endpoint, or gateway mode.", host)
		}
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(h.directPort)), nil
}

// addressList is the body of an answer.
type addressList struct {
	host string
	list []value.Value
}

// add adds the replicas of a partition. The names of the members are those of the
// service, misspelled as they are.
func (l *addressList) add(container resource.RID, rid, id string) {
	index := id + "@1"
	for number := 1; number <= replicas; number++ {
		uri := append([]byte("rntbd://"), l.host...)
		uri = append(appendPlace(uri, container, id, number), '/')
		l.list = append(l.list, value.Object([]value.Member{
			{Name: "_rid", Value: value.String(rid)},
			{Name: "isPrimary", Value: value.Bool(number == 1)},
			{Name: "isAuxiliary", Value: value.Bool(false)},
			{Name: "protocol", Value: value.String("rntbd")},
			{Name: "logicalUri", Value: value.String("")},
			{Name: "physcialUri", Value: value.String(string(uri))}, //nolint:misspell
			{Name: "partitionIndex", Value: value.String(index)},
			{Name: "partitionKeyRangeId", Value: value.String(id)},
			{Name: "partitionTargetReplicaSetSize", Value: value.Int(replicas)},
		}))
	}
}

func (l *addressList) json(rid string) value.Value {
	return value.Object([]value.Member{
		{Name: "_rid", Value: value.String(rid)},
		{Name: "_count", Value: value.Int(int64(len(l.list)))},
		{Name: "Addresss", Value: value.Array(l.list)},
	})
}
