package cql

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/transport"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// authenticator is the class that AUTHENTICATE names. Drivers know it.
const authenticator = "org.apache.cassandra.auth.PasswordAuthenticator"

// supported is the answer to OPTIONS.
func (c *connection) supported() frame.Supported {
	release := c.server.config.Release
	return frame.Supported{Options: []frame.Pair[[]string]{
		{Name: "PROTOCOL_VERSIONS", Value: release.versions()},
		{Name: "COMPRESSION", Value: frame.CompressionNames()},
		{Name: "CQL_VERSION", Value: []string{release.CQL()}},
	}}
}

// reply answers a request that runs no statement.
func (c *connection) reply(stream int16, message frame.Message) {
	c.send(&frame.Frame{Version: c.version, Stream: stream, Message: message}, debt{})
}

// login handles a request of a client that has not signed in. It returns false if the
// connection ends.
func (c *connection) login(h *frame.Header) bool {
	body, err := c.reader.Body()
	if err != nil {
		return c.end(h.Stream, err)
	}
	f, err := frame.Decode(*h, body)
	if err != nil {
		return c.end(h.Stream, err)
	}
	switch m := f.Message.(type) {
	case frame.Options:
		if !c.started {
			c.reply(h.Stream, c.supported())
			return true
		}
	case frame.Startup:
		if !c.started {
			return c.startup(h.Stream, m)
		}
	case frame.AuthResponse:
		if c.started {
			return c.authenticate(h.Stream, m)
		}
	}
	stream := h.Stream
	expecting := "SASL_RESPONSE"
	if !c.started {
		expecting = "STARTUP or OPTIONS"
		if c.server.config.Release == Release41 {
			stream = 0 // as 4.1 has it
		}
	}
	c.reply(stream, protocolError("Unexpected message %s, expecting %s", h.Opcode, expecting))
	return true
}

// cqlVersion is the form of versions of the language.
var cqlVersion = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})(\.\w+)?([-.+]\S*)?$`)

// startup handles STARTUP.
func (c *connection) startup(stream int16, m frame.Startup) bool {
	if err := c.choose(m); err != nil {
		c.reply(stream, err)
		return true
	}
	c.started = true
	c.compress()
	if c.version >= frame.V5 {
		// The answer is the last envelope that is not in a segment.
		c.mu.Lock()
		c.writer.SetCompression(frame.NoCompression)
		c.mu.Unlock()
		c.reply(stream, frame.Authenticate{Class: authenticator})
		c.segment()
		return true
	}
	c.reply(stream, frame.Authenticate{Class: authenticator})
	return true
}

// choose takes over the options of STARTUP.
func (c *connection) choose(m frame.Startup) *frame.Error {
	options := map[string]string{}
	for _, option := range m.Options {
		options[strings.ToUpper(option.Name)] = option.Value
	}
	version, given := options[frame.OptionCQLVersion]
	if !given {
		return protocolError("Missing value CQL_VERSION in STARTUP message")
	}
	parts := cqlVersion.FindStringSubmatch(version)
	if parts == nil {
		return protocolError("Invalid version value: %s", version)
	}
	if major := strings.TrimLeft(parts[1], "0"); len(major) <= 1 && major < "3" {
		return protocolError("CQL version %s is not supported by the binary protocol (supported version are >= 3.0.0)", version)
	}
	c.compression = frame.NoCompression
	if name, given := options[frame.OptionCompression]; given {
		compression, known := frame.ParseCompression(name)
		switch {
		case !known:
			return protocolError("Unknown compression algorithm: %s", strings.ToLower(name))
		case compression == frame.Snappy && c.version >= frame.V5:
			return protocolError("Snappy compression is not supported in protocol V5")
		}
		c.compression = compression
	}
	c.overload = options[frame.OptionOverload] == "1"
	return nil
}

// authenticate handles AUTH_RESPONSE. A client with a wrong key is disconnected after
// its answer.
func (c *connection) authenticate(stream int16, m frame.AuthResponse) bool {
	config := &c.server.config
	verifier := config.Verifier()
	user, caller, reason, err := c.credentials(verifier, m.Token)
	c.signedInAs(caller, err)
	if err != nil {
		config.Watch.Refused(reason, c.conn.RemoteAddr().String())
		c.reply(stream, err)
		return false
	}
	c.token, c.verifier = bytes.Clone(m.Token), verifier
	c.session = &Session{Caller: caller, User: user, Remote: transport.Remote(c.conn), Version: c.version}
	c.reader.SetLimit(config.FrameBytes)
	c.spoken.Store(uint32(c.version))
	c.signedIn.Store(true)
	c.reply(stream, frame.AuthSuccess{})
	return true
}

// welcome reports whether the client may still use the connection: after a key was
// replaced, only if the one that it has sent is valid.
func (c *connection) welcome() bool {
	verifier := c.server.config.Verifier()
	if verifier == c.verifier {
		return true
	}
	if _, caller, _, err := c.credentials(verifier, c.token); err != nil || caller.Kind() != c.session.Caller.Kind() {
		return false
	}
	c.verifier = verifier
	return true
}

// credentials checks a token of SASL PLAIN: an identity that is ignored, the user and
// the password. It returns the user, and of an error the reason for metrics.
func (c *connection) credentials(verifier *auth.Verifier, token []byte) (string, auth.Caller, string, *frame.Error) {
	refused := func(reason, format string, args ...any) (string, auth.Caller, string, *frame.Error) {
		return "", auth.Caller{}, reason, &frame.Error{Code: frame.CodeBadCredentials, Message: fmt.Sprintf(format, args...)}
	}
	parts := bytes.Split(token, []byte{0})
	switch {
	case len(parts) < 3 || len(parts[1]) == 0:
		return refused("malformed", "Authentication ID must not be null")
	case len(parts) > 3:
		return refused("malformed", "Credential format error: username or password is empty or contains NUL(\\0) character")
	case len(parts[2]) == 0:
		return refused("missing", "Password must not be null")
	}
	user := string(parts[1])
	caller, err := verifier.VerifyKey(string(parts[2]))
	switch {
	case status.SubOf(err) == status.SubLocalAuthDisabled:
		return refused("local_auth_disabled", "Provided username %s and/or password are incorrect: the server does not accept account keys (--disable-local-auth)", user)
	case err != nil || user != c.server.config.Account:
		return refused("key", "Provided username %s and/or password are incorrect", user)
	}
	return user, caller, "", nil
}
