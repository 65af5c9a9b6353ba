// Package decan runs a Decan server inside a Go program.
//
// [Start] gives a server that speaks the Azure Cosmos DB protocols on a
// loopback port; any official SDK connects to [Server.Endpoint] with
// [Server.Key]. Package decantest does the same for a test in one call.
//
// # Invariants
//
// A server keeps nothing outside its Config: many run in one process. What a
// client was told is written is durable when Config.Data names a directory.
//
// Page: docs/embedding.md
package decan

import (
	"context"
	"log/slog"

	"github.com/decandb/decan/internal/server"
)

// Config says how a server runs. The zero value is a server in memory on a free
// loopback port, with the emulators' well-known key.
type Config struct {
	// Listen is the address of the data plane, which answers TLS and plain HTTP
	// alike. Default 127.0.0.1:0, a free port.
	Listen string

	// AdminListen is the address of health, metrics and management. Default none.
	AdminListen string

	// Data is the data directory, made when missing. Default "": everything is
	// kept in memory and gone after Close.
	Data string

	// Key is the account key, base64 text. Default the emulators' well-known
	// key, which is refused on an address beyond loopback.
	Key string

	// TokenIssuers, TokenAudiences and TokenKeys say which bearer tokens (Microsoft
	// Entra ID, OpenID Connect) are accepted: what "iss" and "aud" may be, and the
	// file or URL of the issuers' public keys. Default: none. Roles are given on
	// the admin port.
	TokenIssuers   []string
	TokenAudiences []string
	TokenKeys      string

	// EmulatorTokens accepts the bearer tokens of the SDKs' test suites, which
	// carry the account key itself.
	EmulatorTokens bool

	// DisableLocalAuth refuses the account key and resource tokens, but on the admin
	// port: bearer tokens alone let in.
	DisableLocalAuth bool

	// PrefixPermissions allows permissions, and so resource tokens, for a prefix
	// of a hierarchical partition key, which the service does not.
	PrefixPermissions bool

	// AllowedHosts are names by which clients address the server beyond loopback,
	// such as db.example.com, or *.example.com for all below. A request for a name
	// that the server does not know is refused with 403. Default: localhost, the name
	// in Listen, and in a container names without a dot.
	AllowedHosts []string

	// Consistency is the account's default level. Default Session.
	Consistency string

	// CrossPartition is "service" (the default), which refuses the
	// cross-partition queries that the service's gateway refuses, or "full",
	// which answers them on the server.
	CrossPartition string

	// Throughput is "off" (the default), which serves every request whatever the
	// throughput of its container, "warn", which also logs what would have been
	// refused, or "on", which refuses with 429 as the service does.
	Throughput string

	// Limits is "default" (the default), the service's documented limits of
	// partitions and throughput, or "laptop", limits so low that they are reached
	// within seconds.
	Limits string

	// Logger gets what the server has to say. Default: nobody.
	Logger *slog.Logger
}

// Server is a running server. Its methods may be called by many goroutines.
type Server struct{ running *server.Server }

// Start opens the data and returns when the server accepts requests. It fails
// when the configuration is wrong, an address is taken, or the data directory
// cannot be used, for instance because another server has it open.
//
// The context bounds the start only; Close ends the server.
func Start(ctx context.Context, config Config) (*Server, error) {
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	if config.AdminListen == "" {
		config.AdminListen = "none"
	}
	running, err := server.Start(ctx, server.Config{
		Listen:         config.Listen,
		AdminListen:    config.AdminListen,
		Data:           config.Data,
		Key:            config.Key,
		Consistency:    config.Consistency,
		CrossPartition: config.CrossPartition,
		Throughput:     config.Throughput,
		LimitsPreset:   config.Limits,
		Logger:         config.Logger,

		Tokens: server.TokenConfig{
			Issuers: config.TokenIssuers, Audiences: config.TokenAudiences, Keys: config.TokenKeys, Emulator: config.EmulatorTokens,
			Only: config.DisableLocalAuth,
		},
		PrefixPermissions: config.PrefixPermissions,
		AllowedHosts:      config.AllowedHosts,
	})
	if err != nil {
		return nil, err
	}
	return &Server{running: running}, nil
}

// Endpoint returns the URL for clients, plain HTTP, such as
// http://127.0.0.1:34567/. The same port answers https.
func (s *Server) Endpoint() string { return s.running.Endpoint() }

// AdminEndpoint returns the URL of the admin port, "" without one.
func (s *Server) AdminEndpoint() string { return s.running.AdminEndpoint() }

// Key returns the primary account key as it is now.
func (s *Server) Key() string { return s.running.Key() }

// CreateContainer makes a container with exactly the given number of physical
// partitions, which no throughput setting can ask for below 10,000 RU/s each. The
// definition is the container's JSON, as clients send it. The database is made
// when it is missing. It is meant for tests of fan-out and routing.
func (s *Server) CreateContainer(ctx context.Context, database, definition string, partitions int) error {
	return s.running.CreateContainer(ctx, database, definition, partitions)
}

// Close finishes running requests, then closes the data. It returns when
// nothing of the server is left.
func (s *Server) Close() error { return s.running.Close() }
