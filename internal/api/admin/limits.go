package admin

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// limitList is the limits of a container, and which of them are its own.
type limitList struct {
	Database  string          `json:"database"`
	Container string          `json:"container"`
	Limits    containerLimits `json:"limits"`
	Own       []string        `json:"own"`
}

type containerLimits struct {
	LogicalBytes   int64  `json:"logicalPartitionBytes"` // documents of one full partition key
	PartitionBytes int64  `json:"partitionBytes"`        // documents of one physical partition; a larger one is split
	PartitionRUs   int    `json:"partitionRUs"`          // maximum RU/s of one physical partition
	ContainerRUs   int    `json:"containerRUs"`          // maximum RU/s of the container
	SplitDelay     string `json:"splitDelay"`            // delay of each split
}

// ownLimit is a limit that a container may have of its own.
type ownLimit struct {
	name string
	has  func(resource.OwnLimits) bool
	set  func(*resource.OwnLimits, value.Value) error // null means the server's limit
}

// ownLimits are the members that a PUT may set, in the order of the answer.
var ownLimits = []ownLimit{
	{
		"logicalPartitionBytes", func(o resource.OwnLimits) bool { return o.LogicalPartitionBytes != 0 },
		func(o *resource.OwnLimits, v value.Value) error { return setNumber(&o.LogicalPartitionBytes, v) },
	},
	{
		"partitionBytes", func(o resource.OwnLimits) bool { return o.PhysicalPartitionBytes != 0 },
		func(o *resource.OwnLimits, v value.Value) error { return setNumber(&o.PhysicalPartitionBytes, v) },
	},
	{
		"partitionRUs", func(o resource.OwnLimits) bool { return o.PartitionRUs != 0 },
		func(o *resource.OwnLimits, v value.Value) error { return setNumber(&o.PartitionRUs, v) },
	},
	{
		"containerRUs", func(o resource.OwnLimits) bool { return o.ContainerRUs != 0 },
		func(o *resource.OwnLimits, v value.Value) error { return setNumber(&o.ContainerRUs, v) },
	},
	{
		"splitDelay", func(o resource.OwnLimits) bool { return o.SplitDelay != nil },
		func(o *resource.OwnLimits, v value.Value) error { return setDelay(&o.SplitDelay, v) },
	},
}

func setNumber[T int | int64](field *T, v value.Value) error {
	if v.Kind() == value.KindNull {
		*field = 0
		return nil
	}
	n, ok := v.Int64()
	if !ok || n <= 0 {
		return errors.New("a positive whole number, or null for the limit of the server")
	}
	*field = T(n)
	return nil
}

func setDelay(field **time.Duration, v value.Value) error {
	if v.Kind() == value.KindNull {
		*field = nil
		return nil
	}
	d, err := time.ParseDuration(v.Text())
	if err != nil {
		return errors.New("a text such as \"30s\" or \"4h\", or null for the delay of the server")
	}
	*field = &d
	return nil
}

// limitsRoutes adds the paths of limits to the table.
func (h *handler) limitsRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /limits", h.keyed(h.showLimits))
	mux.HandleFunc("PUT /limits", h.keyed(h.changeLimits))
}

func limitsLink(hr *http.Request) (engine.Link, error) {
	query := hr.URL.Query()
	link := engine.Link{Database: query.Get("database"), Container: query.Get("container")}
	if link.Database == "" || link.Container == "" {
		return link, status.BadRequest("Give the container: /limits?database=D&container=C.")
	}
	return link, nil
}

// showLimits answers GET /limits?database=D&container=C.
func (h *handler) showLimits(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := limitsLink(hr)
	if err != nil {
		return err
	}
	all, err := h.engine.LimitsOf(caller, link)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeLimits(link, all))
}

// changeLimits answers PUT /limits?database=D&container=C with an object of the
// limits to change. Other limits stay, and null means the limit of the server.
func (h *handler) changeLimits(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := limitsLink(hr)
	if err != nil {
		return err
	}
	body, err := h.readObject(hw, hr)
	if err != nil {
		return err
	}
	all, err := h.engine.ChangeLimits(hr.Context(), caller, link, func(own *resource.OwnLimits) error { return setLimits(own, body) })
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeLimits(link, all))
}

func setLimits(own *resource.OwnLimits, body value.Value) error {
	for _, m := range body.Members() {
		at := slices.IndexFunc(ownLimits, func(l ownLimit) bool { return l.name == m.Name })
		if at < 0 {
			return status.BadRequest("The limit %q does not exist. A container has logicalPartitionBytes, partitionBytes, partitionRUs, containerRUs and splitDelay.", m.Name)
		}
		if err := ownLimits[at].set(own, m.Value); err != nil {
			return status.BadRequest("The limit %s must be %s.", m.Name, err)
		}
	}
	return nil
}

func describeLimits(link engine.Link, all engine.ContainerLimits) limitList {
	list := limitList{
		Database:  link.Database,
		Container: link.Container,
		Limits: containerLimits{
			LogicalBytes:   all.Limits.LogicalPartitionBytes,
			PartitionBytes: all.Limits.PhysicalPartitionBytes,
			PartitionRUs:   all.Limits.PartitionRUs,
			ContainerRUs:   all.Limits.ContainerRUs,
			SplitDelay:     all.SplitDelay.String(),
		},
		Own: []string{},
	}
	for _, l := range ownLimits {
		if l.has(all.Own) {
			list.Own = append(list.Own, l.name)
		}
	}
	return list
}
