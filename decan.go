// Package decan runs a Decan server inside a Go program.
//
// [Start] starts a server that speaks the Azure Cosmos DB protocols on a
// loopback port. Any official SDK connects to [Server.Endpoint] with
// [Server.Key]. Package decantest does the same for a test in one call.
//
// # Invariants
//
// A server keeps no state outside its Config, so one process can run many
// servers. If Config.Data names a directory, an acknowledged write is durable.
//
// Page: docs/embedding.md
package decan

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/decandb/decan/internal/server"
)

// Config configures a server. The zero value is a server in memory on a free
// loopback port, with the emulators' well-known key.
type Config struct {
	// Listen is the address of the data plane, which accepts TLS and plain HTTP
	// on the same port. Default 127.0.0.1:0, a free port.
	Listen string

	// AdminListen is the address for health, metrics and management. Default: no
	// admin port.
	AdminListen string

	// CQLListen is the address of the Cassandra API, such as 127.0.0.1:0 for a free
	// port; several are separated by commas. Default: the API is off.
	CQLListen string

	// DirectListen is the address of direct mode, which the Java and .NET SDKs use
	// unless they are told otherwise, such as 127.0.0.1:0 for a free port; clients are
	// told the port. Default: direct mode is off, and such clients must choose gateway
	// mode.
	DirectListen string

	// Data is the data directory, created if it does not exist. Default "": all
	// data is in memory and is lost on Close.
	Data string

	// Key is the account key in base64. Default: the emulators' well-known key,
	// which Start refuses if Listen is not a loopback address.
	Key string

	// TokenIssuers, TokenAudiences and TokenKeys configure bearer tokens
	// (Microsoft Entra ID, OpenID Connect): the accepted values of "iss" and
	// "aud", and the file or URL of the issuers' public keys. Default: bearer
	// tokens are not accepted. Roles are assigned on the admin port.
	TokenIssuers   []string
	TokenAudiences []string
	TokenKeys      string

	// EmulatorTokens accepts the bearer tokens of the SDKs' test suites, which
	// contain the account key itself.
	EmulatorTokens bool

	// DisableLocalAuth refuses the account key and resource tokens except on the
	// admin port, so that clients need bearer tokens.
	DisableLocalAuth bool

	// PrefixPermissions allows permissions, and so resource tokens, for a prefix
	// of a hierarchical partition key. The service does not.
	PrefixPermissions bool

	// AllowedHosts are the names, in addition to loopback names, by which clients
	// address the server, such as db.example.com, or *.example.com for all names
	// in that domain. A request for any other name is refused with 403. Default:
	// localhost, the name in Listen, and in a container names without a dot.
	AllowedHosts []string

	// Consistency is the account's default consistency level. Default Session.
	Consistency string

	// CrossPartition is "service" (the default) to refuse the cross-partition
	// queries that the service's gateway refuses, or "full" to answer them on
	// the server.
	CrossPartition string

	// Throughput is "off" (the default) to serve every request whatever the
	// throughput of its container, "warn" to also log requests that would be
	// refused, or "on" to refuse them with status 429 as the service does.
	Throughput string

	// Limits is "default" (the default) for the service's documented limits of
	// partitions and throughput, or "laptop" for limits so low that they are
	// reached within seconds.
	Limits string

	// Explorer serves the Data Explorer, a page for browsers, below /_explorer/ on
	// the port for clients. Default: no page.
	Explorer bool

	// Clock says how the server treats a wrong clock of the machine.
	Clock Clock

	// Logger receives the server's log. Default: no logging.
	Logger *slog.Logger
}

// Clock configures how a server treats a wrong clock. A zero field means its
// default. docs/clock.md has the rules.
type Clock struct {
	// Skew is the maximum difference between the date of a request's signature
	// and the current time. Default 15 minutes; negative for no limit.
	Skew time.Duration

	// Jump is the difference between the machine's clock and the elapsed time
	// above which the clock has jumped. Default 1 minute; negative to ignore
	// jumps.
	Jump time.Duration

	// Ahead is how far _ts follows a clock that has jumped ahead. Default 30
	// days; negative for not at all.
	Ahead time.Duration

	// Steady is how long a clock that has jumped ahead must run without another
	// jump before documents expire by it. Default 15 minutes.
	Steady time.Duration
}

// Server is a running server. It is safe for concurrent use.
type Server struct{ running *server.Server }

// Start opens the data and returns when the server accepts requests. It fails if
// the configuration is invalid, an address is in use, or the data directory
// cannot be opened, for instance because another server has it open.
//
// The context bounds only the start; Close stops the server.
func Start(ctx context.Context, config Config) (*Server, error) {
	running, err := server.Start(ctx, config.server())
	if err != nil {
		return nil, err
	}
	return &Server{running: running}, nil
}

// server returns the configuration of the server. The defaults of a library differ
// from those of decan serve in the ports, the data directory and the throughput.
func (c Config) server() server.Config {
	return server.Config{
		Data:       c.Data,
		Ports:      server.PortOptions{Data: cmp.Or(c.Listen, "127.0.0.1:0"), Admin: cmp.Or(c.AdminListen, "none"), Direct: c.DirectListen, CQL: c.CQLListen},
		Direct:     server.DirectOptions{On: c.DirectListen != ""},
		Cassandra:  server.CassandraOptions{On: c.CQLListen != ""},
		Keys:       server.KeyOptions{Primary: c.Key},
		Account:    server.AccountOptions{Consistency: c.Consistency},
		Protocol:   server.ProtocolOptions{CrossPartition: c.CrossPartition},
		Throughput: server.ThroughputOptions{Enforcement: cmp.Or(c.Throughput, "off")},
		Partitions: server.PartitionOptions{Preset: c.Limits},
		Access:     server.AccessOptions{Hosts: c.AllowedHosts, PrefixPermissions: c.PrefixPermissions},
		Explorer:   server.ExplorerOptions{On: c.Explorer},
		Clock:      server.ClockOptions(c.Clock),
		Logger:     c.Logger,
		Tokens: server.TokenOptions{
			Issuers: c.TokenIssuers, Audiences: c.TokenAudiences, Keys: c.TokenKeys, Emulator: c.EmulatorTokens, Only: c.DisableLocalAuth,
		},
	}
}

// Endpoint returns the URL for clients over plain HTTP, such as
// http://127.0.0.1:34567/. The same port accepts HTTPS.
func (s *Server) Endpoint() string { return s.running.Endpoint() }

// AdminEndpoint returns the URL of the admin port, "" if there is none.
func (s *Server) AdminEndpoint() string { return s.running.AdminEndpoint() }

// DirectAddress returns the address of direct mode, "" if it is off.
func (s *Server) DirectAddress() string { return s.running.DirectAddress() }

// CQLAddress returns the address of the Cassandra API, the first one if there are
// several, and "" if it is off. Its user is decan, its password [Server.Key].
func (s *Server) CQLAddress() string {
	if addresses := s.running.CQLAddresses(); len(addresses) > 0 {
		return addresses[0]
	}
	return ""
}

// Key returns the current primary account key.
func (s *Server) Key() string { return s.running.Key() }

// CreateContainer creates a container with exactly the given number of physical
// partitions. Without it, a container needs 10,000 RU/s for each partition.
// definition is the container's JSON in the form that clients send. The database
// is created if it does not exist. Use CreateContainer to test fan-out and
// routing.
func (s *Server) CreateContainer(ctx context.Context, database, definition string, partitions int) error {
	return s.running.CreateContainer(ctx, database, definition, partitions)
}

// Close finishes the requests in progress and closes the data. When it returns,
// everything that the server started has stopped.
func (s *Server) Close() error { return s.running.Close() }
