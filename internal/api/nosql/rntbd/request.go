package rntbd

import (
	"fmt"
)

// Resource is the type of the resource that a request is about.
type Resource uint16

// The types of resources that clients send.
const (
	Connection      Resource = 0x00 // of the context
	Database        Resource = 0x01
	Collection      Resource = 0x02
	Document        Resource = 0x03
	Attachment      Resource = 0x04
	User            Resource = 0x05
	Permission      Resource = 0x06
	StoredProcedure Resource = 0x07
	Conflict        Resource = 0x08
)

var resourceNames = [...]string{"Connection", "Database", "Collection", "Document", "Attachment", "User", "Permission", "StoredProcedure", "Conflict"}

// String returns the name of the type, or its number.
func (r Resource) String() string {
	if int(r) < len(resourceNames) {
		return resourceNames[r]
	}
	return fmt.Sprintf("resource 0x%02X", uint16(r))
}

// Operation is what a request does.
type Operation uint16

// The operations that clients send.
const (
	Connect           Operation = 0x00 // of the context
	Create            Operation = 0x01
	Patch             Operation = 0x02
	Read              Operation = 0x03
	ReadFeed          Operation = 0x04
	Delete            Operation = 0x05
	Replace           Operation = 0x06
	ExecuteJavaScript Operation = 0x08
	SQLQuery          Operation = 0x09 // an old form of Query
	Query             Operation = 0x0F
	Head              Operation = 0x11
	HeadFeed          Operation = 0x12
	Upsert            Operation = 0x13
	Batch             Operation = 0x25
)

var operationNames = [...]string{
	Connect: "Connection", Create: "Create", Patch: "Patch", Read: "Read", ReadFeed: "ReadFeed", Delete: "Delete",
	Replace: "Replace", ExecuteJavaScript: "ExecuteJavaScript", SQLQuery: "SqlQuery", Query: "Query",
	Head: "Head", HeadFeed: "HeadFeed", Upsert: "Upsert", Batch: "Batch",
}

// String returns the name of the operation, or its number.
func (o Operation) String() string {
	if int(o) < len(operationNames) && operationNames[o] != "" {
		return operationNames[o]
	}
	return fmt.Sprintf("operation 0x%02X", uint16(o))
}

// Fault says why a request has arrived without its payload. Its handler answers with
// the error.
type Fault uint8

// The faults.
const (
	NoFault  Fault = iota
	TooLarge       // the payload exceeds Config.PayloadBytes: 413
	NoMemory       // all requests together take too much memory: 429
)

// Client is what a client has told when it connected. It does not change.
type Client struct {
	Remote    string // its address and port, or "" if it has none of TCP
	Version   string // of the protocol's semantics, such as 2020-07-15
	UserAgent string // up to 255 bytes
	Secure    bool   // it uses TLS
}

// Request is a request of a client. It belongs to its handler until Serve returns; texts
// that its methods return may be kept longer.
type Request struct {
	Resource  Resource
	Operation Operation
	Activity  GUID
	Client    *Client

	// Payload is the body. It may be changed, and not be kept after Serve has returned.
	Payload []byte
	Fault   Fault

	exchange *exchange // of which it is a part; nil without a connection

	head  string // the frame, without the payload
	slots []slot // of the known tokens, in the order of the frame

	// index has the number of the slot of each known token plus one, or 0.
	index [len(requestTokens)]uint16
}

// slot is where the value of a token is in the head of its frame.
type slot struct {
	begin, end uint32
	typ        Type
}

const (
	// headMin is the size of the fixed part of a frame.
	headMin = 24

	// tokensMax is the maximum number of tokens of a frame: more than all that exist.
	tokensMax = 1 << 10
)

// decode reads the head of a frame, which begins with its length. Of a token that is
// there several times, the last one counts.
//
// A token whose value is of another kind than the table's is skipped, like unknown
// ones: clients of different languages use some identifiers for different things.
func (r *Request) decode(head string) error {
	*r = Request{Client: r.Client, exchange: r.exchange, Payload: r.Payload[:0], slots: r.slots[:0]}
	if len(head) < headMin {
		return violation("a frame has %d bytes, and at least %d are needed", len(head), headMin)
	}
	r.head = head
	r.Resource = Resource(integer(head[4:6], false))
	r.Operation = Operation(integer(head[6:8], false))
	copy(r.Activity[:], head[8:headMin])
	count := 0
	for at := headMin; at < len(head); count++ {
		if count == tokensMax {
			return violation("a frame has more than %d tokens", tokensMax)
		}
		t, next, err := NextToken(head, at)
		if err != nil {
			return err
		}
		at = next
		if int(t.ID) >= len(requestTokens) || requestTokens[t.ID].name == "" || types[requestTokens[t.ID].typ].kind != types[t.Type].kind {
			continue
		}
		r.slots = append(r.slots, slot{begin: uint32(next - len(t.Value)), end: uint32(next), typ: t.Type})
		r.index[t.ID] = uint16(len(r.slots))
	}
	return nil
}

// Has reports whether the request has a token.
func (r *Request) Has(id RequestID) bool { return int(id) < len(r.index) && r.index[id] != 0 }

// Text returns the value of a token that is a text, or bytes as they are; "" if it is
// absent. The text is not checked to be UTF-8.
func (r *Request) Text(id RequestID) string {
	if !r.Has(id) {
		return ""
	}
	s := r.slots[r.index[id]-1]
	return r.head[s.begin:s.end]
}

// Int returns the value of a token that is an integer. It returns false if the token is
// absent.
func (r *Request) Int(id RequestID) (int64, bool) {
	if !r.Has(id) {
		return 0, false
	}
	s := r.slots[r.index[id]-1]
	return Token{Type: s.typ, Value: r.head[s.begin:s.end]}.Int()
}

// Bool reports whether the token is there and not 0.
func (r *Request) Bool(id RequestID) bool {
	n, _ := r.Int(id)
	return n != 0
}

// GUID returns the value of a token that is an identifier; the zero one if the token is
// absent.
func (r *Request) GUID(id RequestID) (g GUID) {
	copy(g[:], r.Text(id))
	return g
}

// transport returns the number by which the client knows the request.
func (r *Request) transport() uint32 {
	n, _ := r.Int(RequestTransportRequestID)
	return uint32(n)
}
