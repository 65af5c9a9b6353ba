package frame

import (
	"fmt"
	"net/netip"
)

// ErrorCode is the code of an ERROR.
type ErrorCode uint32

// The codes.
const (
	CodeServer          ErrorCode = 0x0000
	CodeProtocol        ErrorCode = 0x000A
	CodeBadCredentials  ErrorCode = 0x0100
	CodeUnavailable     ErrorCode = 0x1000
	CodeOverloaded      ErrorCode = 0x1001
	CodeBootstrapping   ErrorCode = 0x1002
	CodeTruncate        ErrorCode = 0x1003
	CodeWriteTimeout    ErrorCode = 0x1100
	CodeReadTimeout     ErrorCode = 0x1200
	CodeReadFailure     ErrorCode = 0x1300
	CodeFunctionFailure ErrorCode = 0x1400
	CodeWriteFailure    ErrorCode = 0x1500
	CodeCDCWriteFailure ErrorCode = 0x1600
	CodeCASWriteUnknown ErrorCode = 0x1700
	CodeSyntax          ErrorCode = 0x2000
	CodeUnauthorized    ErrorCode = 0x2100
	CodeInvalid         ErrorCode = 0x2200
	CodeConfig          ErrorCode = 0x2300
	CodeAlreadyExists   ErrorCode = 0x2400
	CodeUnprepared      ErrorCode = 0x2500
)

// errorNames never changes.
var errorNames = map[ErrorCode]string{
	CodeServer: "server error", CodeProtocol: "protocol error", CodeBadCredentials: "bad credentials",
	CodeUnavailable: "unavailable", CodeOverloaded: "overloaded", CodeBootstrapping: "bootstrapping", CodeTruncate: "truncate",
	CodeWriteTimeout: "write timeout", CodeReadTimeout: "read timeout", CodeReadFailure: "read failure",
	CodeFunctionFailure: "function failure", CodeCDCWriteFailure: "CDC write failure", CodeWriteFailure: "write failure", CodeCASWriteUnknown: "CAS write unknown",
	CodeSyntax: "syntax error", CodeUnauthorized: "unauthorized", CodeInvalid: "invalid", CodeConfig: "config error",
	CodeAlreadyExists: "already exists", CodeUnprepared: "unprepared",
}

// String returns the name of the code.
func (c ErrorCode) String() string {
	if name, known := errorNames[c]; known {
		return name
	}
	return fmt.Sprintf("error %#04x", uint32(c))
}

// Error is the message ERROR, and the error of this package. It is encoded as the
// version of its frame allows: version 3 has no failures of reads, writes and functions,
// version 4 no unknown result of a conditional write.
type Error struct {
	Code    ErrorCode
	Message string
	Details Details // of a code that has more than a message; nil for others
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Opcode implements [Message].
func (*Error) Opcode() Opcode { return OpError }

// Details are the fields of an ERROR after its message. The implementations are the
// types below.
type Details interface {
	code() ErrorCode
	encodeDetails(e *encoder)
}

// WithDetails returns an error with the code of its details.
func WithDetails(details Details, message string) *Error {
	return &Error{Code: details.code(), Message: message, Details: details}
}

func protocolError(format string, args ...any) *Error {
	return &Error{Code: CodeProtocol, Message: fmt.Sprintf(format, args...)}
}

// WriteType says what a write that failed was.
type WriteType string

// The types of writes.
const (
	WriteSimple        WriteType = "SIMPLE"
	WriteBatch         WriteType = "BATCH"
	WriteUnloggedBatch WriteType = "UNLOGGED_BATCH"
	WriteCounter       WriteType = "COUNTER"
	WriteBatchLog      WriteType = "BATCH_LOG"
	WriteCAS           WriteType = "CAS"
	WriteView          WriteType = "VIEW"
	WriteCDC           WriteType = "CDC"
)

// Unavailable has the details of [CodeUnavailable].
type Unavailable struct {
	Consistency     Consistency
	Required, Alive int32
}

// WriteTimeout has the details of [CodeWriteTimeout].
type WriteTimeout struct {
	Consistency        Consistency
	Received, BlockFor int32
	Type               WriteType
	Contentions        uint16 // of type CAS; not sent before version 5
}

// ReadTimeout has the details of [CodeReadTimeout].
type ReadTimeout struct {
	Consistency        Consistency
	Received, BlockFor int32
	DataPresent        bool
}

// Failure is the reason of one replica. Reasons are sent since version 5, before it only
// their number.
type Failure struct {
	Replica netip.Addr
	Reason  uint16
}

// Reasons of a [Failure].
const (
	FailureUnknown            uint16 = 0
	FailureTooManyTombstones  uint16 = 1
	FailureTimeout            uint16 = 2
	FailureIncompatibleSchema uint16 = 3
	FailureIndexNotAvailable  uint16 = 4
)

// ReadFailure has the details of [CodeReadFailure].
type ReadFailure struct {
	Consistency        Consistency
	Received, BlockFor int32
	Failures           []Failure // decoded from version 4: without content
	DataPresent        bool
}

// WriteFailure has the details of [CodeWriteFailure].
type WriteFailure struct {
	Consistency        Consistency
	Received, BlockFor int32
	Failures           []Failure // decoded from version 4: without content
	Type               WriteType
}

// FunctionFailure has the details of [CodeFunctionFailure].
type FunctionFailure struct {
	Keyspace, Function string
	Arguments          []string // their types
}

// CASWriteUnknown has the details of [CodeCASWriteUnknown].
type CASWriteUnknown struct {
	Consistency        Consistency
	Received, BlockFor int32
}

// AlreadyExists has the details of [CodeAlreadyExists].
type AlreadyExists struct{ Keyspace, Table string } // Table is "" for a keyspace

// Unprepared has the details of [CodeUnprepared].
type Unprepared struct{ ID []byte }

func (Unavailable) code() ErrorCode     { return CodeUnavailable }
func (WriteTimeout) code() ErrorCode    { return CodeWriteTimeout }
func (ReadTimeout) code() ErrorCode     { return CodeReadTimeout }
func (ReadFailure) code() ErrorCode     { return CodeReadFailure }
func (WriteFailure) code() ErrorCode    { return CodeWriteFailure }
func (FunctionFailure) code() ErrorCode { return CodeFunctionFailure }
func (CASWriteUnknown) code() ErrorCode { return CodeCASWriteUnknown }
func (AlreadyExists) code() ErrorCode   { return CodeAlreadyExists }
func (Unprepared) code() ErrorCode      { return CodeUnprepared }

// as returns the error as a version has it.
func (e *Error) as(version Version) *Error {
	switch details := e.Details.(type) {
	case ReadFailure:
		if version < V4 {
			return WithDetails(ReadTimeout{details.Consistency, details.Received, details.BlockFor, details.DataPresent}, e.Message)
		}
	case WriteFailure:
		if version < V4 {
			return WithDetails(WriteTimeout{Consistency: details.Consistency, Received: details.Received, BlockFor: details.BlockFor, Type: details.Type}, e.Message)
		}
	case FunctionFailure:
		if version < V4 {
			return &Error{Code: CodeInvalid, Message: "ERROR FUNCTION_FAILURE: " + e.Message}
		}
	case CASWriteUnknown:
		if version < V5 {
			return WithDetails(WriteTimeout{Consistency: details.Consistency, Received: details.Received, BlockFor: details.BlockFor, Type: WriteCAS}, e.Message)
		}
	}
	if e.Code == CodeCDCWriteFailure && version < V4 {
		return &Error{Code: CodeInvalid, Message: "ERROR CDC_WRITE_FAILURE: " + e.Message}
	}
	return e
}

func (e *Error) encode(to *encoder) {
	sent := e.as(to.version)
	to.uint(uint32(sent.Code))
	to.text(sent.Message)
	if sent.Details != nil {
		sent.Details.encodeDetails(to)
	}
}

func (e *encoder) counts(c Consistency, a, b int32) {
	e.consistency(c)
	e.int(a)
	e.int(b)
}

func (e *encoder) bool(b bool) {
	if b {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) failures(failures []Failure) {
	e.int(int32(len(failures)))
	if e.version < V5 {
		return
	}
	for _, f := range failures {
		e.address(f.Replica)
		e.short(int(f.Reason), "a reason")
	}
}

func (x Unavailable) encodeDetails(e *encoder) { e.counts(x.Consistency, x.Required, x.Alive) }

func (x WriteTimeout) encodeDetails(e *encoder) {
	e.counts(x.Consistency, x.Received, x.BlockFor)
	e.string(string(x.Type))
	if e.version >= V5 && x.Type == WriteCAS {
		e.short(int(x.Contentions), "contentions")
	}
}

func (x ReadTimeout) encodeDetails(e *encoder) {
	e.counts(x.Consistency, x.Received, x.BlockFor)
	e.bool(x.DataPresent)
}

func (x ReadFailure) encodeDetails(e *encoder) {
	e.counts(x.Consistency, x.Received, x.BlockFor)
	e.failures(x.Failures)
	e.bool(x.DataPresent)
}

func (x WriteFailure) encodeDetails(e *encoder) {
	e.counts(x.Consistency, x.Received, x.BlockFor)
	e.failures(x.Failures)
	e.string(string(x.Type))
}

func (x FunctionFailure) encodeDetails(e *encoder) {
	e.string(x.Keyspace)
	e.string(x.Function)
	e.stringList(x.Arguments)
}

func (x CASWriteUnknown) encodeDetails(e *encoder) { e.counts(x.Consistency, x.Received, x.BlockFor) }

func (x AlreadyExists) encodeDetails(e *encoder) {
	e.string(x.Keyspace)
	e.string(x.Table)
}

func (x Unprepared) encodeDetails(e *encoder) { e.shortBytes(x.ID) }

func (d *decoder) counts() (c Consistency, a, b int32) { return d.consistency(), d.int(), d.int() }

func (d *decoder) failures() []Failure {
	n := int(d.int())
	if d.version < V5 {
		// Reasons that are not sent use no memory.
		if n < 0 || n > shortMax {
			d.fail("Invalid number of failures: %d", n)
			return nil
		}
		return make([]Failure, n)
	}
	failures := make([]Failure, d.within(n, 1+4+2))
	for i := range failures {
		failures[i] = Failure{Replica: d.address(), Reason: uint16(d.short())}
	}
	return failures
}

func decodeError(d *decoder) Message {
	e := &Error{Code: ErrorCode(uint32(d.int())), Message: d.string()}
	switch e.Code {
	case CodeUnavailable:
		var x Unavailable
		x.Consistency, x.Required, x.Alive = d.counts()
		e.Details = x
	case CodeWriteTimeout:
		var x WriteTimeout
		x.Consistency, x.Received, x.BlockFor = d.counts()
		x.Type = WriteType(d.string())
		if d.version >= V5 && x.Type == WriteCAS {
			x.Contentions = uint16(d.short())
		}
		e.Details = x
	case CodeReadTimeout:
		var x ReadTimeout
		x.Consistency, x.Received, x.BlockFor = d.counts()
		x.DataPresent = d.byte() != 0
		e.Details = x
	case CodeReadFailure:
		var x ReadFailure
		x.Consistency, x.Received, x.BlockFor = d.counts()
		x.Failures = d.failures()
		x.DataPresent = d.byte() != 0
		e.Details = x
	case CodeWriteFailure:
		var x WriteFailure
		x.Consistency, x.Received, x.BlockFor = d.counts()
		x.Failures = d.failures()
		x.Type = WriteType(d.string())
		e.Details = x
	case CodeFunctionFailure:
		e.Details = FunctionFailure{Keyspace: d.string(), Function: d.string(), Arguments: d.stringList()}
	case CodeCASWriteUnknown:
		var x CASWriteUnknown
		x.Consistency, x.Received, x.BlockFor = d.counts()
		e.Details = x
	case CodeAlreadyExists:
		e.Details = AlreadyExists{Keyspace: d.string(), Table: d.string()}
	case CodeUnprepared:
		e.Details = Unprepared{ID: d.shortBytes()}
	}
	return e
}
