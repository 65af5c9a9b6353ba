package nosql

import (
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// wording returns the message of an error for clients of this protocol: the
// service's text where clients parse it, in the form of the service, otherwise a
// text that names the header or the switch that helps.
func wording(e *status.Error) string {
	const forbidden = "Insufficient permissions provided in the authorization header for the corresponding request"
	switch r := e.Reason.(type) {
	case status.Missing:
		return listed("Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found")
	case status.SessionAhead:
		return listed("The read/write session is not available for the input session token.")
	case status.ConditionFailed:
		return listed("One of the specified pre-condition is not met. Learn more: https://aka.ms/CosmosDB/sql/errors/precondition-failed")
	case status.KeyMissing:
		return "The partition key must be supplied in the x-ms-partitionkey header for this operation."
	case status.KeyDiffers:
		return listed("PartitionKey extracted from document doesn't match the one specified in the header. Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value")
	case status.KeyLevels:
		more := "fewer"
		if r.Given > r.Levels {
			more = "more"
		}
		return fmt.Sprintf("The partition key supplied in x-ms-partitionkey header has %s components than defined in the collection: %d instead of %d.", more, r.Given, r.Levels)
	case status.PrefixPermission:
		return fmt.Sprintf("The resourcePartitionKey has %d values, and the partition key has %d paths. A permission for a prefix of a hierarchical partition key is not supported; a server started with --prefix-permissions allows it.", r.Values, r.Levels)
	case status.PrefixDelete:
		return fmt.Sprintf("The partition key supplied in x-ms-partitionkey header has fewer components than defined in the collection: %d instead of %d. A server started with --prefix-deletes deletes by a prefix.", r.Values, r.Levels)
	case status.PrefixToken:
		return "The resource token is for a prefix of a partition key, which this server does not allow: see --prefix-permissions."
	case status.NotPermitted:
		if r.Keyless {
			return fmt.Sprintf("The request (%s on '%s') cannot be authorized by a bearer token in the data plane. Use an account key.", r.Action, status.Clip(linkOf(r.At), linkCharsShown))
		}
		return fmt.Sprintf(forbidden+" (%s on '%s'). Retry with another authorization header.", r.Action, status.Clip(linkOf(r.At), linkCharsShown))
	case status.OutsideToken:
		return forbidden + ". " + r.Detail
	case status.TokenNeedsKey:
		return forbidden + ". The resource token is for one partition key: the request has to name it, in x-ms-documentdb-partitionkey."
	case status.QueryUnbound:
		return "Cross partition query is required but disabled: the query is not bound to one partition key. Allow it with x-ms-documentdb-query-enablecrosspartition, or give the partition key."
	case status.QueryNotServed:
		return "The cross partition query can not be directly served by the gateway. The client has to follow the query plan that comes with this error, or ask for full execution with x-decan-cross-partition: full."
	case status.FeedFromStart:
		return "The change feed of all versions cannot be read from the beginning. Begin at now: If-None-Match: *."
	case status.FeedFromTime:
		return "The change feed of all versions cannot be read from a time. Begin at now: If-None-Match: *."
	case status.FeedPosition:
		return "The If-None-Match value is no position in this change feed: it was issued for another container or scope, or has been changed."
	case status.OfferMode:
		return "An offer cannot be switched between manual and autoscale throughput by editing it. Send the migration header with the request."
	}
	if e.Quoted {
		return listed(e.Message)
	}
	return e.Message
}

// listed returns a sentence in the form of the service: a JSON object with a list.
func listed(sentence string) string {
	return `{"Errors":[` + string(value.AppendQuoted(nil, sentence)) + `]}`
}

// linkCharsShown is how much of a link a message shows.
const linkCharsShown = 64

// linkOf returns the link of a resource by names, such as dbs/d/colls/c/docs/x;
// empty for the account.
func linkOf(p status.Path) string {
	var b strings.Builder
	add := func(feed, id string) {
		if feed == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(feed)
		if id != "" {
			b.WriteByte('/')
			b.WriteString(id)
		}
	}
	if p.Database == "" {
		return ""
	}
	add("dbs", p.Database)
	if p.Container != "" {
		add("colls", p.Container)
	}
	if p.User != "" {
		add("users", p.User)
	}
	add(p.Kind, p.ID)
	return b.String()
}

// appendOwnerLink appends the link of the resource that contains another one.
func appendOwnerLink(out []byte, o engine.Owner) []byte {
	if o.Database == "" {
		return out
	}
	out = append(append(out, "dbs/"...), o.Database...)
	switch {
	case o.Container != "":
		out = append(append(out, "/colls/"...), o.Container...)
	case o.User != "":
		out = append(append(out, "/users/"...), o.User...)
	}
	return out
}
