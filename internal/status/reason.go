package status

import "fmt"

// Reason says which rule a request broke, for errors whose helpful wording depends
// on the protocol: one client sends the partition key in a header, another one in a
// statement. The list is closed: only this package declares reasons.
//
// String returns a sentence in the words of no protocol. [Because] makes it the
// message. A door that has better words for its clients uses those instead; it
// finds the details in the fields of the reason.
type Reason interface {
	fmt.Stringer
	reason()
}

// Because returns an error for a reason, with the reason's own sentence as message.
func Because(code Code, sub Sub, reason Reason) *Error {
	return &Error{Code: code, Sub: sub, Message: reason.String(), Reason: reason}
}

// Reasons returns one value of each reason, so that tests of a door can show that
// it words all of them.
func Reasons() []Reason {
	return []Reason{
		Missing{},
		SessionAhead{},
		ConditionFailed{},
		KeyMissing{},
		KeyDiffers{},
		KeyLevels{},
		PrefixPermission{},
		PrefixToken{},
		PrefixDelete{},
		NotPermitted{},
		OutsideToken{},
		TokenNeedsKey{},
		QueryUnbound{},
		QueryNotServed{},
		FeedFromStart{},
		FeedFromTime{},
		FeedPosition{},
		OfferMode{},
	}
}

// Missing says that the resource does not exist.
type Missing struct{}

func (Missing) String() string {
	return "Entity with the specified id does not exist in the system."
}

// SessionAhead says that a session token has an LSN that the partition has not reached.
type SessionAhead struct{}

func (SessionAhead) String() string {
	return "The read session is not available for the input session token."
}

// ConditionFailed says that an etag condition is false.
type ConditionFailed struct{}

func (ConditionFailed) String() string { return "One of the specified pre-condition is not met." }

// KeyMissing says that the operation needs the partition key of its document.
type KeyMissing struct{}

func (KeyMissing) String() string { return "The operation needs the partition key of the document." }

// KeyDiffers says that the partition key in the document is not the one of the request.
type KeyDiffers struct{}

func (KeyDiffers) String() string {
	return "The partition key in the document is not the one of the request."
}

// KeyLevels says that the partition key has too many components for the container, or too
// few for the operation.
type KeyLevels struct{ Given, Levels int }

func (r KeyLevels) String() string {
	if r.Given > r.Levels {
		return fmt.Sprintf("The partition key has %d components, and no more than %d are defined.", r.Given, r.Levels)
	}
	return fmt.Sprintf("The partition key has %d of %d components.", r.Given, r.Levels)
}

// PrefixPermission says that a permission for a prefix of a partition key is requested,
// and the server allows none.
type PrefixPermission struct{ Values, Levels int }

func (r PrefixPermission) String() string {
	return fmt.Sprintf("The permission names %d values, and the partition key has %d paths. This server allows no permission for a prefix.", r.Values, r.Levels)
}

// PrefixDelete says that a deletion is requested for a prefix of a partition key, and the
// server allows none.
type PrefixDelete struct{ Values, Levels int }

func (r PrefixDelete) String() string {
	return fmt.Sprintf("The partition key has %d of %d levels. A prefix of a partition key cannot be deleted.", r.Values, r.Levels)
}

// PrefixToken says that a resource token is for a prefix of a partition key, and the server
// allows none.
type PrefixToken struct{}

func (PrefixToken) String() string {
	return "The resource token is for a prefix of a partition key, which this server does not allow."
}

// NotPermitted says that the caller may not do Action to the resource At. Keyless is
// true if only an account key permits it.
type NotPermitted struct {
	Action  string
	At      Path
	Keyless bool
}

func (r NotPermitted) String() string {
	text := fmt.Sprintf("The action %s on %s is not permitted.", r.Action, r.At)
	if r.Keyless {
		text += " Use an account key."
	}
	return text
}

// OutsideToken says that a resource token does not cover the resource of the request.
// Detail is a sentence that says why.
type OutsideToken struct{ Detail string }

func (r OutsideToken) String() string { return r.Detail }

// TokenNeedsKey says that the resource token is for one partition key, and the request names
// none.
type TokenNeedsKey struct{}

func (TokenNeedsKey) String() string {
	return "The resource token is for one partition key, and the request has to name it."
}

// QueryUnbound says that the query is not bound to one partition key, and the request does
// not allow queries over several.
type QueryUnbound struct{}

func (QueryUnbound) String() string {
	return "The query is not bound to one partition key, and the request does not allow a query over several partitions."
}

// QueryNotServed says that the client has to merge the results of the query, by the plan in
// [Error.Info].
type QueryNotServed struct{}

func (QueryNotServed) String() string {
	return "The query has to be merged by the client, which follows the plan that comes with this error."
}

// FeedFromStart says that the change feed of all versions cannot be read from the beginning.
type FeedFromStart struct{}

func (FeedFromStart) String() string {
	return "The change feed of all versions cannot be read from the beginning. Begin at now."
}

// FeedFromTime says that the change feed of all versions cannot be read from a time.
type FeedFromTime struct{}

func (FeedFromTime) String() string {
	return "The change feed of all versions cannot be read from a time. Begin at now."
}

// FeedPosition says that the position in the request does not belong to this change
// feed.
type FeedPosition struct{}

func (FeedPosition) String() string {
	return "The position does not belong to this change feed: it was issued for another container or scope, or has been changed."
}

// OfferMode says that throughput cannot be switched between manual and autoscale by editing
// its definition.
type OfferMode struct{}

func (OfferMode) String() string {
	return "Throughput cannot be switched between manual and autoscale by editing it. Ask for the migration."
}

func (Missing) reason()          {}
func (SessionAhead) reason()     {}
func (ConditionFailed) reason()  {}
func (KeyMissing) reason()       {}
func (KeyDiffers) reason()       {}
func (KeyLevels) reason()        {}
func (PrefixPermission) reason() {}
func (PrefixToken) reason()      {}
func (PrefixDelete) reason()     {}
func (NotPermitted) reason()     {}
func (OutsideToken) reason()     {}
func (TokenNeedsKey) reason()    {}
func (QueryUnbound) reason()     {}
func (QueryNotServed) reason()   {}
func (FeedFromStart) reason()    {}
func (FeedFromTime) reason()     {}
func (FeedPosition) reason()     {}
func (OfferMode) reason()        {}

// Path names a resource by its names, as a request did. Unused parts are empty; the
// zero value is the account.
type Path struct {
	Database, Container string
	User                string // of Database, for users and permissions
	Kind, ID            string // below the container or the user: "docs", "sprocs" and so on, and one of them
}

// String returns the resource in words, such as container "c" of database "d".
func (p Path) String() string {
	var text string
	switch {
	case p.Database == "":
		return "the account"
	case p.Container != "":
		text = fmt.Sprintf("container %.64q of database %.64q", p.Container, p.Database)
	case p.User != "":
		text = fmt.Sprintf("user %.64q of database %.64q", p.User, p.Database)
	default:
		text = fmt.Sprintf("database %.64q", p.Database)
	}
	kind := p.Kind
	if word, known := kindWords[kind]; known {
		kind = word
	}
	if p.ID != "" {
		text = fmt.Sprintf("%s %.64q of %s", kind, p.ID, text)
	} else if p.Kind != "" {
		text = fmt.Sprintf("every %s of %s", kind, text)
	}
	return text
}

// kindWords are the words for the kinds of a [Path].
var kindWords = map[string]string{
	"docs": "document", "sprocs": "stored procedure", "triggers": "trigger", "udfs": "user-defined function",
}
