package cql

import "strings"

// The functions with which WHERE asks for the change feed of a table, as Azure Cosmos DB
// has them. They are no part of CQL: Apache Cassandra has no function on the left of a
// relation but token.
const (
	FeedStartTime = "cosmos_changefeed_start_time"   // since a time
	FeedFromStart = "cosmos_changefeed_from_start"   // since the beginning
	FeedRange     = "cosmos_feedrange"               // of a part of the table
	FeedVersions  = "cosmos_fullfidelity_changefeed" // of all versions
)

// isFeedFunction reports whether a call of a function of the change feed begins at the
// current token.
func (p *parser) isFeedFunction() bool {
	if p.stopped || p.peek(1) != tParenOpen || !isName(p.kind()) {
		return false
	}
	switch strings.ToLower(p.text()) {
	case FeedStartTime, FeedFromStart, FeedRange, FeedVersions:
		return true
	}
	return false
}

func (p *parser) feedRelation() Relation {
	r := Relation{Kind: OnFeed, Columns: []string{p.name()}}
	p.expect(tParenOpen)
	p.expect(tParenClose)
	r.Operator = p.comparison()
	r.Value = p.term()
	return r
}
