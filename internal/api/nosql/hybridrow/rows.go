package hybridrow

import (
	"encoding/binary"
	"math"
)

// The numbers of the operations of a batch, and of documents.
const (
	OpCreate  = 0
	OpPatch   = 1
	OpRead    = 2
	OpDelete  = 4
	OpReplace = 5
	OpUpsert  = 20

	ResourceDocument = 2
)

// Operation is a row of a request. Empty text and nil bytes are absent.
type Operation struct {
	Type              int32
	Resource          int32
	PartitionKey      string // JSON
	ID                string
	Body              []byte // JSON; shares the memory of the input
	IndexingDirective string
	IfMatch           string
	IfNoneMatch       string
	TimeToLive        *int32 // seconds
	Minimal           bool   // the answer to a write omits the document
}

// The sparse fields of an operation, by their index in the schema.
const (
	tokenDirective   = 8
	tokenIfMatch     = 9
	tokenIfNoneMatch = 10
	tokenTimeToLive  = 11
	tokenMinimal     = 12
	operationTokens  = 13
)

// ReadOperations reads the body of a request, but at most most operations: a
// caller that allows fewer need not hold all of them in memory. The error is a
// BadRequest.
func ReadOperations(body []byte, most int) (operations []Operation, err error) {
	err = records(body, schemaOperation, func(r *reader) (more bool) {
		operations = append(operations, r.operation())
		return len(operations) < most
	})
	return operations, err
}

func (r *reader) operation() (o Operation) {
	present := r.byte()
	o.Type, o.Resource = int32(r.uint32()), int32(r.uint32())
	if r.err == nil && present&3 != 3 {
		r.fail("an operation has no type or no resource type")
	}
	columns := [5][]byte{} // key, hashed key, id, id in bytes, body
	for i := range columns {
		if present&(1<<(2+i)) != 0 {
			columns[i] = r.text()
		}
	}
	o.PartitionKey, o.ID, o.Body = string(columns[0]), string(columns[2]), columns[4]
	r.sparse(operationTokens, func(token uint64, kind byte) bool {
		switch {
		case token == tokenDirective && kind == typeUTF8:
			o.IndexingDirective = string(r.text())
		case token == tokenIfMatch && kind == typeUTF8:
			o.IfMatch = string(r.text())
		case token == tokenIfNoneMatch && kind == typeUTF8:
			o.IfNoneMatch = string(r.text())
		case token == tokenTimeToLive && kind == typeInt32:
			seconds := int32(r.uint32())
			o.TimeToLive = &seconds
		case token == tokenMinimal && (kind == typeTrue || kind == typeFalse):
			o.Minimal = kind == typeTrue
		default:
			return false
		}
		return true
	})
	return o
}

// AppendOperations appends the body of a request.
func AppendOperations(dst []byte, operations []Operation) []byte {
	dst = stream(dst)
	for i := range operations {
		dst = record(dst, schemaOperation, operations[i].append)
	}
	return dst
}

// fixed begins a row with the two numbers that begin every row, and its present
// columns in the order of the schema; nil stands for an absent one.
func fixed(dst []byte, first, second int32, columns ...[]byte) []byte {
	at := len(dst)
	dst = append(dst, 3)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(first))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(second))
	for i, column := range columns {
		if column != nil {
			dst[at] |= 1 << (2 + i)
			dst = appendText(dst, column)
		}
	}
	return dst
}

// text is a column that is absent if it is empty.
func text(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func (o *Operation) append(dst []byte) []byte {
	dst = fixed(dst, o.Type, o.Resource, text(o.PartitionKey), nil, text(o.ID), nil, o.Body)
	dst = appendField(dst, tokenDirective, o.IndexingDirective)
	dst = appendField(dst, tokenIfMatch, o.IfMatch)
	dst = appendField(dst, tokenIfNoneMatch, o.IfNoneMatch)
	if o.TimeToLive != nil {
		dst = binary.LittleEndian.AppendUint32(append(dst, typeInt32, tokenTimeToLive), uint32(*o.TimeToLive))
	}
	if o.Minimal {
		dst = append(dst, typeTrue, tokenMinimal)
	}
	return dst
}

// Result is a row of an answer. Empty text and nil bytes are absent.
type Result struct {
	Status           int32
	SubStatus        int32
	ETag             string
	Body             []byte // JSON; shares the memory of the input
	RetryAfterMillis uint32
	Charge           float64 // request units
}

// The sparse fields of a result, by their index in the schema.
const (
	tokenRetryAfter = 5
	tokenCharge     = 6
	resultTokens    = 7
)

// AppendResults appends the body of an answer.
func AppendResults(dst []byte, results []Result) []byte {
	dst = stream(dst)
	for i := range results {
		dst = record(dst, schemaResult, results[i].append)
	}
	return dst
}

func (s *Result) append(dst []byte) []byte {
	dst = fixed(dst, s.Status, s.SubStatus, text(s.ETag), s.Body)
	if s.RetryAfterMillis > 0 {
		dst = binary.LittleEndian.AppendUint32(append(dst, typeUint32, tokenRetryAfter), s.RetryAfterMillis)
	}
	return appendFloat(dst, tokenCharge, s.Charge)
}

// ReadResults reads the body of an answer. The error is a BadRequest.
func ReadResults(body []byte) (results []Result, err error) {
	err = records(body, schemaResult, func(r *reader) (more bool) {
		results = append(results, r.result())
		return true
	})
	return results, err
}

func (r *reader) result() (s Result) {
	present := r.byte()
	s.Status, s.SubStatus = int32(r.uint32()), int32(r.uint32())
	if present&(1<<2) != 0 {
		s.ETag = string(r.text())
	}
	if present&(1<<3) != 0 {
		s.Body = r.text()
	}
	r.sparse(resultTokens, func(token uint64, kind byte) bool {
		switch {
		case token == tokenRetryAfter && kind == typeUint32:
			s.RetryAfterMillis = r.uint32()
		case token == tokenCharge && kind == typeFloat64:
			s.Charge = math.Float64frombits(r.uint64())
		default:
			return false
		}
		return true
	})
	return s
}
