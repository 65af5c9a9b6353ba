package statement

import (
	"context"
	"errors"
	"slices"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/internal/table/cql"
)

// provisioned is the name of the option with the throughput of a table, and of the entry
// of the payload of CREATE TABLE that the service accepts in its place.
const provisioned = "cosmosdb_provisioned_throughput"

// withThroughput returns CREATE TABLE with the throughput of the payload, unless the text
// says it.
func withThroughput(s cql.Statement, payload []frame.Pair[[]byte]) (cql.Statement, error) {
	given, found := frame.Lookup(payload, provisioned)
	if !found {
		return s, nil
	}
	create, ok := s.(*cql.CreateTable)
	if !ok {
		return nil, &table.Error{Text: "The entry " + provisioned + " of the payload belongs to CREATE TABLE."}
	}
	if slices.ContainsFunc(create.Properties, func(p cql.Property) bool { return p.Name == provisioned }) {
		return s, nil
	}
	changed := *create
	changed.Properties = append(slices.Clone(create.Properties), cql.Property{Name: provisioned, Value: string(given)})
	return &changed, nil
}

// throughputOf returns the throughput that a statement asks for, in request units per
// second: manual, or the maximum of autoscale.
func throughputOf(manual, autoscale int) (asked engine.ThroughputRequest) {
	if manual != 0 {
		asked.Manual = &manual
	}
	if autoscale != 0 {
		asked.AutoscaleMax = &autoscale
	}
	return asked
}

// aboutThroughput words a refused throughput as an error about an option.
func aboutThroughput(asked engine.ThroughputRequest, err error) error {
	known := (*status.Error)(nil)
	if asked != (engine.ThroughputRequest{}) && errors.As(err, &known) && known.Code == status.CodeBadRequest {
		return &table.Error{Class: table.Config, Text: known.Message}
	}
	return err
}

// changeThroughput changes the throughput of a keyspace or table, if ALTER asks for that.
// It is done if nothing else changes, or after an error.
func (p *Processor) changeThroughput(ctx context.Context, session *door.Session, owner engine.Link, asked engine.ThroughputRequest, alone bool) (done bool, res engine.Resource, err error) {
	if asked == (engine.ThroughputRequest{}) {
		return false, res, nil
	}
	res, err = p.config.Engine.ReplaceOffer(ctx, session.Caller, engine.OfferRequest{Owner: owner, Throughput: asked})
	return alone || err != nil, res, aboutThroughput(asked, err)
}
