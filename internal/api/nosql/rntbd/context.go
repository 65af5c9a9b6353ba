package rntbd

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
)

// contextID identifies a token of a context request or of its answer.
type contextID uint16

// The tokens of a context request that the server reads.
const (
	contextProtocolVersion contextID = 0x0000
	contextClientVersion   contextID = 0x0001
	contextUserAgent       contextID = 0x0002
)

// The tokens of the answer that the server sends.
const (
	answerProtocolVersion contextID = 0x0000
	answerClientVersion   contextID = 0x0001
	answerServerAgent     contextID = 0x0002
	answerServerVersion   contextID = 0x0003
)

// protocolVersion is the only version of the protocol.
const protocolVersion = 1

// hello is the first frame of a client.
type hello struct {
	activity GUID
	version  string // of the client, "" if it is absent
	agent    string
	refusal  string // why it is refused, or ""
}

// decodeHello reads the head of the first frame of a connection. Clients send more
// tokens, such as EnableChannelMultiplexing, which change nothing here: many requests
// may be pending on a connection in any case.
func decodeHello(head string) (hello, error) {
	if len(head) < headMin {
		return hello{}, violation("a frame has %d bytes, and at least %d are needed", len(head), headMin)
	}
	resource, operation := Resource(integer(head[4:6], false)), Operation(integer(head[6:8], false))
	if resource != Connection || operation != Connect {
		return hello{}, violation("the first frame is %s of %s instead of a context", operation, resource)
	}
	var h hello
	copy(h.activity[:], head[8:headMin])
	version := int64(-1)
	var hasVersion, hasAgent bool
	for at, count := headMin, 0; at < len(head); count++ {
		if count == tokensMax {
			return hello{}, violation("a frame has more than %d tokens", tokensMax)
		}
		t, next, err := NextToken(head, at)
		if err != nil {
			return hello{}, err
		}
		at = next
		text := types[t.Type].kind == kindText
		switch id := contextID(t.ID); {
		case id == contextProtocolVersion:
			if n, ok := t.Int(); ok {
				version = n
			}
		case id == contextClientVersion && text:
			h.version, hasVersion = t.Value, true
		case id == contextUserAgent && text:
			h.agent, hasAgent = t.Value, true
		}
	}
	switch {
	case version < 0:
		h.refusal = "The context has no ProtocolVersion."
	case version != protocolVersion:
		h.refusal = "The context has a ProtocolVersion other than 1, which is not supported."
	case !hasVersion:
		h.refusal = "The context has no ClientVersion."
	case !hasAgent:
		h.refusal = "The context has no UserAgent."
	}
	return h, nil
}

// appendAnswer encodes the answer to a context request. Clients need ServerAgent and
// ServerVersion in it; .NET fails without them. A refusal has a body whether or not a
// token says so.
func (h *hello) appendAnswer(dst []byte, agent, version string) []byte {
	begin := len(dst)
	status := http.StatusOK
	if h.refusal != "" {
		status = http.StatusBadRequest
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(status))
	dst = append(dst, h.activity[:]...)
	add := func(id contextID, t Type, value string) {
		dst, _ = Token{ID: uint16(id), Type: t, Value: value[:min(len(value), t.Max())]}.Append(dst) // It always fits.
	}
	add(answerProtocolVersion, TypeULong, string(appendInteger(nil, protocolVersion, 4)))
	if h.version != "" {
		add(answerClientVersion, TypeSmallString, h.version)
	}
	add(answerServerAgent, TypeSmallString, agent)
	add(answerServerVersion, TypeSmallString, version)
	binary.LittleEndian.PutUint32(dst[begin:], uint32(len(dst)-begin))
	if h.refusal == "" {
		return dst
	}
	body, _ := json.Marshal(map[string]string{"code": "BadRequest", "message": h.refusal}) // Strings always can be encoded.
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}
