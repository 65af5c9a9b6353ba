package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/decandb/decan/internal/server"
)

type serveCommand struct {
	Listen        string `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Where clients connect, with TLS or plain HTTP on the same port."`
	AdminListen   string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Health, metrics and management; \"none\" for no admin port."`
	ComputeListen string `placeholder:"HOST:PORT" help:"A second port for clients that address the compute gateway."`

	Data       string `default:"./decan-data" type:"path" help:"The data directory."`
	DataAccess string `default:"owner" enum:"owner,group,any" help:"Who may read the data directory, which has account keys: its owner alone, its group too, or anybody that its modes allow. What others could read is closed to them at start."`
	InMemory   bool   `help:"Keep everything in memory; nothing is left after the server stops."`

	Key                  string `placeholder:"BASE64" help:"The account key (default: the emulators' well-known key)."`
	SecondaryKey         string `placeholder:"BASE64" help:"A second account key that is accepted as well, for rotation."`
	ReadonlyKey          string `placeholder:"BASE64" help:"A key that opens what changes nothing."`
	SecondaryReadonlyKey string `placeholder:"BASE64" help:"A second one, for rotation."`

	TokenIssuer       []string `placeholder:"URL" help:"Accept bearer tokens (Microsoft Entra ID, OpenID Connect) that say they are of this issuer."`
	TokenAudience     []string `placeholder:"URL" help:"Whom bearer tokens must be for (default: ${audience})."`
	TokenKeys         string   `placeholder:"FILE|URL" help:"The public keys of the issuer: a JSON web key set or PEM."`
	EmulatorTokens    bool     `help:"Accept the bearer tokens of the SDKs' test suites, which carry the account key itself."`
	DisableLocalAuth  bool     `help:"Refuse account keys and resource tokens on all ports but the admin port, so that bearer tokens alone let in."`
	PrefixPermissions bool     `help:"Allow permissions, and so resource tokens, for a prefix of a hierarchical partition key, which the service does not."`

	InsecureKey bool `help:"Allow the well-known key on addresses that others can reach."`

	TLSCert string   `name:"tls-cert" placeholder:"FILE" type:"path" help:"PEM certificate chain (default: a self-made certificate)."`
	TLSKey  string   `name:"tls-key" placeholder:"FILE" type:"path" help:"PEM key of the certificate."`
	TLSHost []string `name:"tls-host" placeholder:"NAME" help:"More names and addresses for the self-made certificate."`

	HTTPSOnly      bool     `name:"https-only" help:"Refuse plain HTTP, on the admin port as well."`
	ProtectMetrics bool     `help:"Ask for an account key on /metrics; a read-only key is enough."`
	AuditLog       string   `placeholder:"FILE" help:"Append who did what, when, and the outcome to this file, as JSON lines; \"-\" for standard output. SIGHUP opens it again."`
	AuditLevel     string   `default:"changes" enum:"failures,changes,all" help:"What is in the audit log: refused access alone (failures), changes too, or reads too (all)."`
	AuditFailure   string   `default:"warn" enum:"warn,refuse" help:"What becomes of requests while the audit log cannot be written: they are served (warn), or refused with 503 (refuse)."`
	AllowedHosts   []string `placeholder:"NAME" help:"More names by which clients may address the server, such as db.example.com, or *.example.com for all below, or * for any. Those of --endpoint, --tls-host and --tls-cert, localhost and addresses need no mention."`
	ContainerNames string   `default:"auto" enum:"auto,on,off" help:"Let names pass by which containers are addressed: without a dot, below .internal, and services of Kubernetes; auto does so in a container."`

	AccountID      string        `name:"account-id" default:"decan" help:"The account's name."`
	Endpoint       string        `placeholder:"URL" help:"What the account document advertises (default: the scheme and Host of each request)."`
	TrustForwarded bool          `name:"trust-forwarded-proto" help:"Take the scheme of advertised endpoints from X-Forwarded-Proto, behind a proxy that sets it."`
	Region         string        `default:"South Central US" help:"The name of the account's region."`
	Consistency    string        `default:"Session" enum:"Strong,BoundedStaleness,Session,ConsistentPrefix,Eventual" help:"The account's default consistency: ${enum}."`
	CrossPartition string        `default:"service" enum:"service,full" help:"Refuse the cross-partition queries that the service's gateway refuses (service), or answer them (full)."`
	TrailingPage   bool          `help:"Follow a page of unordered rows that is full with the last one by an empty page, as the official emulator does."`
	StrictIDs      bool          `name:"strict-ids" help:"Refuse odd item ids on the main port as the official emulator does."`
	ResourcesMax   int           `default:"0" placeholder:"N" help:"How many databases and containers the account may have (default: any number; the service allows 500)."`
	QueryMemory    int64         `default:"67108864" placeholder:"BYTES" help:"How much memory all queries together may take for groups, distinct rows and rankings (${default})."`
	QueryTime      time.Duration `default:"1m" placeholder:"DURATION" help:"How much processor time one request may take for a page of a query (${default})."`
	QueryQueue     int           `default:"256" placeholder:"N" help:"How many queries that take long may wait for a processor before others are refused (${default})."`
	ClockSkew      time.Duration `default:"15m" help:"How old or early a request's signature may be; negative for any."`
	ClockJump      time.Duration `default:"1m" placeholder:"DURATION" help:"By how much the machine's clock may differ from the time that has passed without being called a jump (${default}); negative for any."`
	ClockAhead     time.Duration `default:"720h" placeholder:"DURATION" help:"How far _ts follows a clock that has jumped ahead (${default}); negative for not at all."`
	ClockSteady    time.Duration `default:"15m" placeholder:"DURATION" help:"For how long a clock that has jumped ahead must hold until documents expire by it (${default})."`
	SessionWait    time.Duration `default:"50ms" placeholder:"DURATION" help:"How long a read waits for a partition that is behind its session token before it is refused (${default}); negative for not at all."`

	Memory        sizeBytes `placeholder:"SIZE" help:"How much memory the server may take in all, which garbage is collected to keep to (default: nine tenths of the container's memory, or three quarters of the machine's). GOMEMLIMIT in the environment says what Go takes of it."`
	RequestMemory sizeBytes `placeholder:"SIZE" help:"How much the bodies and answers of all requests under way may take, beyond which requests are 429 (default: a 32nd of --memory, between 64MB and 512MB)."`

	Connections           int           `default:"0" placeholder:"N" help:"How many connections clients may have; the one that has been quiet for longest makes room for another (default: 8192, or fewer by memory and file descriptors)."`
	ConnectionsPerAddress int           `default:"0" placeholder:"N" help:"How many of them one address may have, other than a loopback one (default: three quarters); negative for any number."`
	ReadTimeout           time.Duration `default:"30s" placeholder:"DURATION" help:"How long a client may take for the headers of a request and for each 64KB of its body (${default}); negative for any time."`
	WriteTimeout          time.Duration `default:"30s" placeholder:"DURATION" help:"How long a client may take for each 64KB of an answer (${default}); negative for any time."`
	IdleTimeout           time.Duration `default:"10m" placeholder:"DURATION" help:"How long a connection is kept that asks for nothing (${default}); negative for ever."`

	Cache       sizeBytes     `placeholder:"SIZE" help:"How much of the stored data stays in memory, such as 512MB (default: an eighth of the machine's or container's memory, 128MB or more)."`
	DiskReserve string        `default:"64MB" placeholder:"SIZE" help:"How much of the disk is kept back for deletions when it is full, at most a part in 32 of it (${default}); 0 for nothing."`
	ScrubRate   string        `default:"4MB" placeholder:"SIZE" help:"How much of the stored tables is read each second in the background, once in a day, to find damage by their checksums (${default}); 0 for never."`
	IdleFlush   time.Duration `default:"1m" placeholder:"DURATION" help:"Flush a physical partition that was not written to for this long, so that it takes little memory (${default}); negative for never."`

	SplitDelay             time.Duration `placeholder:"DURATION" help:"Hold each split of a physical partition this long before it begins, such as 4h, as the service may take hours (default: no delay)."`
	Throughput             string        `default:"warn" enum:"off,warn,on" help:"What becomes of requests over the throughput of their physical partition: nothing (off), a count and a warning (warn), or 429 as the service answers (on)."`
	BurstCapacity          bool          `help:"Let physical partitions below 3,000 RU/s save what they do not use, for up to five minutes."`
	Serverless             bool          `help:"Make containers without provisioned throughput, and refuse to set any."`
	Limits                 string        `default:"default" enum:"default,laptop" help:"Limits of partitions and throughput: as the service documents them (default), or scaled down so that they are reached within seconds (laptop)."`
	LogicalPartitionMax    sizeBytes     `placeholder:"SIZE" help:"How much one full partition key may hold, such as 20GB or 4MB (default: as --limits says)."`
	PhysicalPartitionMax   sizeBytes     `placeholder:"SIZE" help:"How much one physical partition holds before it is split (default: as --limits says)."`
	PartitionThroughputMax int           `default:"0" placeholder:"RU/s" help:"How much throughput one physical partition can be given (default: as --limits says)."`
	ContainerThroughputMax int           `default:"0" placeholder:"RU/s" help:"How much throughput a container can be given (default: as --limits says)."`
	MetadataThroughputMax  int           `default:"0" placeholder:"RU/s" help:"How much requests about databases, containers and throughput may cost together in a second (default: any number; the service has 240)."`
	ThroughputChangesMax   int           `default:"0" placeholder:"N" help:"How often throughput may be changed in five minutes (default: any number; the service allows 25)."`

	LogLevel  slog.Level `default:"info" help:"debug, info, warn or error."`
	LogFormat string     `default:"text" enum:"text,json" help:"${enum}."`

	EnablePreview bool `help:"Accepted for scripts written for the older emulator; hierarchical partition keys are always on."`
}

// Run serves until SIGINT or SIGTERM, then finishes running requests.
func (c *serveCommand) Run(io streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return c.serve(ctx, stop, io)
}

// serve serves until ctx ends, and then calls stop, which lets go of the signals.
func (c *serveCommand) serve(ctx context.Context, stop func(), io streams) error {
	reserve, err := sizeOrNone("--disk-reserve", c.DiskReserve)
	if err != nil {
		return err
	}
	scrub, err := sizeOrNone("--scrub-rate", c.ScrubRate)
	if err != nil {
		return err
	}
	memory := c.memoryPlan()
	config := server.Config{
		DiskReserve: reserve,
		ScrubRate:   scrub,

		Listen:         c.Listen,
		AdminListen:    c.AdminListen,
		ComputeListen:  c.ComputeListen,
		Data:           c.Data,
		DataAccess:     c.DataAccess,
		Key:            c.Key,
		SecondaryKey:   c.SecondaryKey,
		ReadonlyKey:    c.ReadonlyKey,
		InsecureKey:    c.InsecureKey,
		TLSCert:        c.TLSCert,
		TLSKey:         c.TLSKey,
		TLSHosts:       c.TLSHost,
		AllowedHosts:   c.AllowedHosts,
		HTTPSOnly:      c.HTTPSOnly,
		ProtectMetrics: c.ProtectMetrics,
		Audit:          server.AuditConfig{Log: c.AuditLog, Level: c.AuditLevel, Failure: c.AuditFailure, Output: io.out},
		ContainerNames: c.ContainerNames,
		AccountID:      c.AccountID,
		Endpoint:       c.Endpoint,

		SecondaryReadonlyKey: c.SecondaryReadonlyKey,
		Tokens: server.TokenConfig{
			Issuers: c.TokenIssuer, Audiences: c.TokenAudience, Keys: c.TokenKeys, Emulator: c.EmulatorTokens,
			Only: c.DisableLocalAuth,
		},
		PrefixPermissions: c.PrefixPermissions,

		TrustForwardedProto: c.TrustForwarded,

		Region:         c.Region,
		Consistency:    c.Consistency,
		CrossPartition: c.CrossPartition,
		TrailingPage:   c.TrailingPage,
		StrictIDs:      c.StrictIDs,
		ResourcesMax:   c.ResourcesMax,
		QueryMemory:    c.QueryMemory,
		QueryTime:      c.QueryTime,
		QueryQueue:     c.QueryQueue,
		ClockSkew:      c.ClockSkew,
		ClockJump:      c.ClockJump,
		ClockAhead:     c.ClockAhead,
		ClockSteady:    c.ClockSteady,
		SessionWait:    c.SessionWait,

		Memory:                memory.total,
		RequestMemory:         memory.requests,
		Connections:           c.Connections,
		ConnectionsPerAddress: c.ConnectionsPerAddress,
		ReadTimeout:           c.ReadTimeout,
		WriteTimeout:          c.WriteTimeout,
		IdleTimeout:           c.IdleTimeout,

		CacheBytes:             memory.cache,
		IdleFlush:              c.IdleFlush,
		SplitDelay:             c.SplitDelay,
		Throughput:             c.Throughput,
		BurstCapacity:          c.BurstCapacity,
		Serverless:             c.Serverless,
		LimitsPreset:           c.Limits,
		LogicalPartitionMax:    int64(c.LogicalPartitionMax),
		PhysicalPartitionMax:   int64(c.PhysicalPartitionMax),
		PartitionThroughputMax: c.PartitionThroughputMax,
		ContainerThroughputMax: c.ContainerThroughputMax,
		MetadataThroughputMax:  c.MetadataThroughputMax,
		ThroughputChangesMax:   c.ThroughputChangesMax,

		Version: version,
		Logger:  logger(io.err, c.LogLevel, c.LogFormat),
	}
	if c.InMemory {
		config.Data = ""
	}
	defer keepHeapFloor()()
	defer memory.limitMemory()()
	began := time.Now()
	running, err := server.Start(ctx, config)
	if err != nil {
		return err
	}
	fmt.Fprint(io.out, banner(running, config, time.Since(began)))
	reopened := c.reopenAudit(ctx, running, config.Logger)
	<-ctx.Done()
	// Who cannot wait sends a second signal, which ends the process at once: it
	// loses nothing that was acknowledged, as kill -9 does not.
	stop()
	<-reopened
	return running.Close()
}

// reopenAudit opens the file of the audit log again at each SIGHUP until ctx ends, and
// then closes what it returns. Without a file SIGHUP ends the process, as ever.
func (c *serveCommand) reopenAudit(ctx context.Context, running *server.Server, log *slog.Logger) <-chan struct{} {
	ended := make(chan struct{})
	if c.AuditLog == "" || c.AuditLog == "-" {
		close(ended)
		return ended
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer close(ended)
		defer signal.Stop(asked)
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
				if err := running.ReopenAudit(); err != nil {
					log.Error("audit log not opened again", "error", err)
				}
			}
		}
	}()
	return ended
}

// sizeBytes is a size as people write it: 20GB, 4 MB, 512KB or plain bytes. A
// kilobyte has 1,024 bytes, as everywhere here.
type sizeBytes int64

// UnmarshalText reads a size; it is positive and fits.
func (s *sizeBytes) UnmarshalText(text []byte) error {
	digits, unit := strings.ToUpper(strings.TrimSpace(string(text))), int64(1)
	for power, suffix := range []string{"KB", "MB", "GB"} {
		if rest, found := strings.CutSuffix(digits, suffix); found {
			digits, unit = strings.TrimSpace(rest), 1<<(10*(power+1))
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size such as 20GB, 4MB, 512KB or 1000", text)
	}
	*s = sizeBytes(n * unit)
	return nil
}

// sizeOrNone reads a size that may be 0, as the server's configuration has it: negative
// for nothing, zero for the default.
func sizeOrNone(flag, text string) (int64, error) {
	switch strings.TrimSpace(text) {
	case "":
		return 0, nil
	case "0":
		return -1, nil
	}
	var size sizeBytes
	if err := size.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	return int64(size), nil
}

// banner is what a person needs to connect. The key is shown only when
// everybody knows it anyway.
func banner(running *server.Server, config server.Config, took time.Duration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "decan %s is ready after %d ms\n", config.Version, took.Milliseconds())
	more := " (https on the same port)"
	if config.HTTPSOnly {
		more = ""
	}
	fmt.Fprintf(&out, "  endpoint  %s%s\n", running.Endpoint(), more)
	if config.Key == "" {
		fmt.Fprintf(&out, "  key       %s\n", server.WellKnownKey)
	}
	if config.Data == "" {
		fmt.Fprintf(&out, "  data      in memory, gone when the server stops\n")
	} else {
		fmt.Fprintf(&out, "  data      %s\n", config.Data)
	}
	if admin := running.AdminEndpoint(); admin != "" {
		fmt.Fprintf(&out, "  admin     %s (/alive /ready /metrics)\n", admin)
	}
	return out.String()
}
