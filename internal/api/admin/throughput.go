package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// The paths of throughput in the form of the service's management API, with and without
// the path of the account.
const (
	accountPath   = "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.DocumentDB/databaseAccounts/{account}"
	databasePath  = "/sqlDatabases/{database}"
	containerPath = databasePath + "/containers/{container}"
	settingsPath  = "/throughputSettings/default"
)

// throughputRoutes adds the paths of throughput to the table.
func (h *handler) throughputRoutes(mux *http.ServeMux) {
	for _, account := range []string{accountPath, ""} {
		for _, owner := range []string{account + databasePath, account + containerPath} {
			mux.HandleFunc("GET "+owner+settingsPath, h.keyed(h.readThroughput))
			mux.HandleFunc("PUT "+owner+settingsPath, h.keyed(h.replaceThroughput))
			mux.HandleFunc("POST "+owner+settingsPath+"/migrateToAutoscale", h.keyed(h.migrateToAutoscale))
			mux.HandleFunc("POST "+owner+settingsPath+"/migrateToManualThroughput", h.keyed(h.migrateToManual))
			mux.HandleFunc("POST "+owner+settingsPath+"/retrieveThroughputDistribution", h.keyed(h.retrieveDistribution))
			mux.HandleFunc("POST "+owner+settingsPath+"/redistributeThroughput", h.keyed(h.redistribute))
		}
	}
}

// managed returns the database or container that a path names.
func (h *handler) managed(hr *http.Request) (engine.Link, error) {
	if account := hr.PathValue("account"); account != "" && !strings.EqualFold(account, h.engine.Account().ID) {
		return engine.Link{}, status.New(status.CodeNotFound, 0, "The account '%s' does not exist: this one is '%s'.", account, h.engine.Account().ID)
	}
	return engine.Link{Database: hr.PathValue("database"), Container: hr.PathValue("container")}, nil
}

// readThroughput answers with the throughput of a database or container, or 404 if it
// has none of its own.
func (h *handler) readThroughput(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	req, err := h.offerRequest(hr)
	if err != nil {
		return err
	}
	res, err := h.engine.ReadOffer(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	return settings(hw, hr, &res)
}

// offerRequest returns a request about the offer of a path.
func (h *handler) offerRequest(hr *http.Request) (engine.OfferRequest, error) {
	link, err := h.managed(hr)
	if err != nil {
		return engine.OfferRequest{}, err
	}
	offer, err := h.engine.OfferOf(link)
	return engine.OfferRequest{Offer: offer}, err
}

// The members of properties.resource in bodies.
var (
	throughputMembers   = []string{"throughput", "autoscaleSettings", "throughputBuckets"}
	divisionMembers     = []string{"throughputPolicy", "targetPhysicalPartitionThroughputInfo", "sourcePhysicalPartitionThroughputInfo"}
	distributionMembers = []string{"physicalPartitionIds"}
)

// offerChange returns the request about the offer of a path, and properties.resource of
// the body.
func (h *handler) offerChange(hw http.ResponseWriter, hr *http.Request, members []string) (engine.OfferRequest, value.Value, error) {
	req, err := h.offerRequest(hr)
	if err != nil {
		return req, value.Undefined(), err
	}
	wanted, err := h.readResource(hw, hr, members)
	return req, wanted, err
}

// readResource returns properties.resource of the body. It refuses a body that has one of
// its members elsewhere.
func (h *handler) readResource(hw http.ResponseWriter, hr *http.Request, members []string) (value.Value, error) {
	body, err := h.readObject(hw, hr)
	if err != nil {
		return body, err
	}
	return body.Get("properties").Get("resource"), misplaced(body, []string{"properties", "resource"}, members...)
}

// replaceThroughput changes the throughput or the throughput buckets. Members that are
// missing in the body stay.
func (h *handler) replaceThroughput(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	req, wanted, err := h.offerChange(hw, hr, throughputMembers)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(throughputMembers, func(name string) bool { return wanted.Get(name).IsDefined() }) {
		return status.BadRequest("The body has none of throughput, autoscaleSettings and throughputBuckets in properties.resource.")
	}
	current, err := h.engine.ReadOffer(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	if req.Body, err = editedOffer(&current, wanted); err != nil {
		return err
	}
	req.IfMatch = current.ETag
	res, err := h.engine.ReplaceOffer(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	return settings(hw, hr, &res)
}

// editedOffer returns an offer with the members of wanted replaced.
func editedOffer(current *engine.Resource, wanted value.Value) (value.Value, error) {
	offer, err := value.Parse(current.Body)
	if err != nil {
		return offer, err
	}
	manual, autoscale := wanted.Get("throughput"), wanted.Get("autoscaleSettings")
	if manual.IsDefined() && autoscale.IsDefined() {
		return offer, status.BadRequest("Manual throughput and autoscale settings cannot be combined. Give one of them.")
	}
	content := offer.Get("content")
	members := []value.Member{}
	for _, m := range []value.Member{
		{Name: "offerThroughput", Value: manual},
		{Name: "offerAutopilotSettings", Value: autoscale},
		{Name: "throughputBuckets", Value: wanted.Get("throughputBuckets")},
	} {
		if !m.Value.IsDefined() {
			m.Value = content.Get(m.Name)
		}
		if m.Value.IsDefined() {
			members = append(members, m)
		}
	}
	return value.Object([]value.Member{{Name: "content", Value: value.Object(members)}}), nil
}

func (h *handler) migrateToAutoscale(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	return h.migrate(hw, hr, caller, func(req *engine.OfferRequest) { req.MigrateToAutoscale = true })
}

func (h *handler) migrateToManual(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	return h.migrate(hw, hr, caller, func(req *engine.OfferRequest) { req.MigrateToManual = true })
}

// migrate changes the mode of a throughput; the server chooses the value.
func (h *handler) migrate(hw http.ResponseWriter, hr *http.Request, caller auth.Caller, to func(*engine.OfferRequest)) error {
	req, err := h.offerRequest(hr)
	if err != nil {
		return err
	}
	body, err := h.optionalObject(hw, hr)
	if err != nil {
		return err
	}
	if len(body.Members()) > 0 {
		return status.BadRequest("A change of the mode takes no throughput: the server chooses it. Send no body, and change the throughput afterwards.")
	}
	to(&req)
	res, err := h.engine.ReplaceOffer(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	return settings(hw, hr, &res)
}

// settings answers with a throughput in the form of the management API, in which derived
// numbers are text.
func settings(hw http.ResponseWriter, hr *http.Request, res *engine.Resource) error {
	offer, err := value.Parse(res.Body)
	if err != nil {
		return err
	}
	content := offer.Get("content")
	var members []value.Member
	add := func(name string, v value.Value) {
		if v.IsDefined() {
			members = append(members, value.Member{Name: name, Value: v})
		}
	}
	if autoscale := content.Get("offerAutopilotSettings"); autoscale.IsDefined() {
		add("autoscaleSettings", autoscale)
		if res.ReplacePending {
			add("targetMaxThroughput", autoscale.Get("maxThroughput"))
		}
	} else {
		add("throughput", content.Get("offerThroughput"))
	}
	add("minimumThroughput", value.String(strconv.Itoa(res.MinThroughput)))
	add("offerReplacePending", value.String(strconv.FormatBool(res.ReplacePending)))
	add("instantMaximumThroughput", value.String(strconv.Itoa(res.InstantThroughput)))
	add("softAllowedMaximumThroughput", value.String(strconv.Itoa(res.MaxThroughput)))
	add("throughputBuckets", content.Get("throughputBuckets"))
	if len(res.Earlier) > 0 {
		add(earlierMember, earlierValues(res.Earlier))
	}
	for _, name := range []string{"_rid", "_ts", "_etag"} {
		add(name, offer.Get(name))
	}
	kind := "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/throughputSettings"
	if hr.PathValue("container") != "" {
		kind = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/throughputSettings"
	}
	path, _, _ := strings.Cut(hr.URL.Path, settingsPath)
	answer := value.Object([]value.Member{
		{Name: "id", Value: value.String(path + settingsPath)},
		{Name: "name", Value: value.String("default")},
		{Name: "type", Value: value.String(kind)},
		properties(value.Object(members)),
	})
	writeJSON(hw, http.StatusOK, answer.Append(nil))
	return nil
}

// earlierMember is a member that the service does not have: the values that a throughput
// had before, oldest first.
const earlierMember = "x-decan-earlier"

func earlierValues(earlier []resource.EarlierThroughput) value.Value {
	list := make([]value.Value, len(earlier))
	for i, e := range earlier {
		members := []value.Member{{Name: "since", Value: value.Int(int64(e.TS))}}
		if e.Max > 0 {
			members = append(members, value.Member{Name: "autoscaleSettings", Value: value.Object([]value.Member{{Name: "maxThroughput", Value: value.Int(int64(e.Max))}})})
		} else {
			members = append(members, value.Member{Name: "throughput", Value: value.Int(int64(e.Manual))})
		}
		list[i] = value.Object(members)
	}
	return value.Array(list)
}

// properties returns the envelope of a resource of the management API.
func properties(resource value.Value) value.Member {
	return value.Member{Name: "properties", Value: value.Object([]value.Member{{Name: "resource", Value: resource}})}
}

// retrieveDistribution answers with the throughput of physical partitions. The id "-1",
// or no id, means all of them.
func (h *handler) retrieveDistribution(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := h.managed(hr)
	if err != nil {
		return err
	}
	wanted, err := h.readResource(hw, hr, distributionMembers)
	if err != nil {
		return err
	}
	ids := wanted.Get("physicalPartitionIds")
	if ids.Kind() > value.KindNull && ids.Kind() != value.KindArray {
		return status.BadRequest("The property 'physicalPartitionIds' must be an array.")
	}
	var names []string
	for _, item := range ids.Items() {
		if item.Get("id").Text() == "-1" {
			names = nil
			break
		}
		share, err := resource.ParseShareName(item.Get("id"))
		if err != nil {
			return err
		}
		names = append(names, share.Name())
	}
	return h.distribution(hw, hr, caller, link, names)
}

// redistribute divides a throughput and answers with the throughput of the named
// partitions, or of all if none is named. The policy none changes nothing.
func (h *handler) redistribute(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	req, wanted, err := h.offerChange(hw, hr, divisionMembers)
	if err != nil {
		return err
	}
	policy := wanted.Get("throughputPolicy").Text()
	if policy == "" {
		return status.BadRequest("The throughputPolicy is missing: give equal, custom or none.")
	}
	req.Redistribution, err = engine.ParseRedistribution(policy, wanted.Get("targetPhysicalPartitionThroughputInfo"), wanted.Get("sourcePhysicalPartitionThroughputInfo"))
	if err != nil {
		return err
	}
	link, err := h.managed(hr)
	if err != nil {
		return err
	}
	if req.Redistribution == nil {
		return h.distribution(hw, hr, caller, link, nil)
	}
	if _, err := h.engine.ReplaceOffer(hr.Context(), caller, req); err != nil {
		return err
	}
	var names []string
	for _, list := range [][]resource.Share{req.Redistribution.Targets, req.Redistribution.Sources} {
		for _, share := range list {
			names = append(names, share.Name())
		}
	}
	return h.distribution(hw, hr, caller, link, names)
}

// distribution answers with the throughput of partitions.
func (h *handler) distribution(hw http.ResponseWriter, hr *http.Request, caller auth.Caller, link engine.Link, names []string) error {
	given, err := h.engine.ThroughputDistribution(hr.Context(), caller, link, names)
	if err != nil {
		return err
	}
	infos := make([]value.Value, len(given))
	for i, p := range given {
		infos[i] = value.Object([]value.Member{
			{Name: "id", Value: value.String(p.Name)},
			{Name: "throughput", Value: value.Number(round(p.RUs))},
		})
	}
	answer := value.Object([]value.Member{properties(value.Object([]value.Member{
		{Name: "physicalPartitionThroughputInfo", Value: value.Array(infos)},
	}))})
	writeJSON(hw, http.StatusOK, answer.Append(nil))
	return nil
}
