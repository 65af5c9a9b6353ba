package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// scrubRate is the default of Config.ScrubRate.
const scrubRate = 4 << 20

// Config configures a server. The zero value is a server in memory on the default
// ports, with the emulators' well-known key and the service's defaults.
type Config struct {
	Listen        string // data plane, TLS and plain on one port; default 127.0.0.1:8081
	AdminListen   string // health, metrics and management; default 127.0.0.1:8080, "none" for no admin port
	ComputeListen string // a second listener for clients that address the compute gateway; default none

	Data string // the data directory; "" keeps everything in memory

	// DataAccess is who may read the data directory, which contains documents and
	// account keys: "owner" (default), "group", which also lets the group of its
	// files read them, or "any". The start removes other permissions, and refuses
	// a directory where that fails; with "any" it ignores permissions.
	DataAccess string

	// The account keys, base64. A key that was regenerated under the same
	// configuration replaces the configured one.
	Key                  string // default the emulators' well-known key
	SecondaryKey         string // accepted as well; default none until keys are listed
	ReadonlyKey          string // for requests that change nothing; default none until keys are listed
	SecondaryReadonlyKey string // likewise
	InsecureKey          bool   // allow the well-known key beyond loopback

	Tokens TokenConfig // bearer tokens; the zero value accepts none

	PrefixPermissions bool // allow permissions for a prefix of a hierarchical key

	TLSCert  string   // PEM file of a certificate chain; default a self-made certificate
	TLSKey   string   // PEM file of its key
	TLSHosts []string // more names and addresses for the self-made certificate

	// AllowedHosts are names by which clients may address the server in addition
	// to those that it knows: localhost and names below it, the names of
	// Endpoint, TLSHosts, TLSCert and the listen address, the machine's name if
	// other machines can reach the listen address, and in containers the names
	// that ContainerNames allows. "*.example.com" allows every name below
	// example.com, "*" any name. An address as Host is always allowed.
	AllowedHosts []string

	HTTPSOnly      bool // refuse plain HTTP on every port; the admin port then also uses TLS
	ProtectMetrics bool // /metrics needs an account key, which may be a read-only one

	Audit AuditConfig // the audit log; the zero value keeps none

	// ContainerNames allows the names by which containers are addressed: those
	// without a dot, those below .internal, and the services of Kubernetes. "on",
	// "off", or "auto" (default), which is on in a recognized container.
	ContainerNames string

	AccountID      string // default "decan"; never "localhost"
	Endpoint       string // advertised by the account document; default taken from the request's Host header
	Region         string // default "South Central US"
	Consistency    string // default "Session"
	CrossPartition string // "service" (default) refuses the queries that the service's gateway refuses, "full" answers them
	TrailingPage   bool   // add a continuation to a final full page; the page that follows is empty, as in the official emulator
	StrictIDs      bool   // refuse the item ids that the official emulator refuses on the main port

	// TrustForwardedProto takes the scheme of advertised endpoints from
	// X-Forwarded-Proto, for a proxy that terminates TLS and sets the header
	// itself.
	TrustForwardedProto bool

	ResourcesMax int // databases and containers of the account; default 0: any number

	QueryMemory int64         // memory limit of all queries together, in bytes; default 64 MB
	QueryTime   time.Duration // processor time of one request for a page of a query; default one minute
	QueryQueue  int           // queries that may wait for a processor; more are refused; default 256

	// Throughput is the treatment of requests above the throughput of a physical
	// partition: "off" (default) admits them, "warn" counts and logs them, "on"
	// refuses them with 429.
	Throughput string

	BurstCapacity bool // physical partitions below 3,000 RU/s accumulate unused throughput
	Serverless    bool // containers have no provisioned throughput

	// LimitsPreset sets Limits if they are zero: "default", as the service
	// documents them, or "laptop", scaled down.
	LimitsPreset string

	LogicalPartitionMax    int64 // bytes of one full partition key; default from the limits, also for the following settings
	PhysicalPartitionMax   int64 // bytes of one physical partition
	PartitionThroughputMax int   // RU/s of one physical partition
	ContainerThroughputMax int   // RU/s of a container or database

	// Limits of the requests about metadata, as the service has them; default
	// unlimited.
	MetadataThroughputMax int // RU/s for databases, containers, their ranges and throughput; the service has 240
	ThroughputChangesMax  int // changes of provisioned throughput in five minutes; the service allows 25

	// SplitDelay delays the beginning of each split of a physical partition, to
	// imitate the hours that the service takes. Zero: no delay.
	SplitDelay time.Duration

	// CacheBytes is the size of the block cache; default 128 MB. It does not
	// include the write buffers of partitions.
	CacheBytes int64

	// RequestMemory is the number of bytes that the bodies and answers of all
	// running requests may take together; default 128 MB. Above it requests get
	// 429.
	RequestMemory int64

	// Memory is the amount of memory that the process may use, for defaults; 0 if
	// unknown. The server does not enforce it.
	Memory int64

	// Connections is the maximum number of client connections; default 8,192, or
	// if less a third of the descriptors or one for each 128 KB of Memory.
	// ConnectionsPerAddress is the maximum for one address, other than a loopback
	// one; default three quarters, negative for no limit. The admin port has up
	// to 64 of its own.
	Connections           int
	ConnectionsPerAddress int

	// ReadTimeout is the time for the headers of a request and for each 64 KB of
	// its body, WriteTimeout for each 64 KB of an answer, and IdleTimeout for a
	// connection without a request. Default 30 seconds, 30 seconds and 10
	// minutes; negative for no limit.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	IdleTimeout  time.Duration

	// IdleFlush is the time after the last write to a physical partition at which
	// its memory is flushed; default one minute, negative for never.
	IdleFlush time.Duration

	// ScrubRate is the number of bytes per second of stored tables that are read
	// in the background, once a day, to compare their checksums; default 4 MB,
	// negative for never.
	ScrubRate int64

	// DiskReserve is the number of bytes of the disk reserved for deletions, at
	// most 1/32 of it; default 64 MB, negative for none.
	DiskReserve int64

	// ClockJump is by how much the clock of the machine may differ from the time that has
	// passed, or from the last known time at a start, without being called a jump;
	// default a minute, negative for any. ClockAhead is how far _ts follows a clock that
	// has jumped ahead; default 30 days, negative for not at all. ClockSteady is for how
	// long such a clock must hold until documents expire by it; default 15 minutes.
	ClockJump   time.Duration
	ClockAhead  time.Duration
	ClockSteady time.Duration

	ClockSkew time.Duration // how old or early a signature may be; default 15 minutes, negative for no limit

	// SessionWait is how long a read waits for a partition that has not reached
	// its session token before it is refused; default 50 ms, negative for no
	// wait.
	SessionWait time.Duration

	Limits  resource.Limits // zero value: the documented defaults
	Version string          // printed by `decan version`
	Logger  *slog.Logger    // default: discard

	adjust  func(*storage.Options) // for tests; default nothing
	now     func() time.Time       // for tests; default time.Now
	elapsed func() time.Duration   // for tests; default that of cluster
}

// AuditConfig configures the audit log of who did what.
type AuditConfig struct {
	Log   string // a file to append to, "-" for Output; default none
	Level string // "failures", "changes" (default) or "all"

	// Failure is the treatment of requests while the log cannot be written:
	// "warn" (default) serves them, and keeps or counts the lines, "refuse"
	// answers 503 on the data ports.
	Failure string

	Output io.Writer // the output for "-"; default os.Stdout
}

func (c AuditConfig) open(log *slog.Logger) (*audit.Log, error) {
	if c.Log == "" {
		return nil, nil
	}
	level, err := audit.ParseLevel(c.Level)
	if err != nil {
		return nil, err
	}
	config := audit.LogConfig{Path: c.Log, Level: level, Required: c.Failure == auditRefuse, Logger: log}
	if c.Log == "-" {
		config.Path, config.Output = "", c.Output
		if config.Output == nil {
			config.Output = os.Stdout
		}
	}
	return audit.Open(config)
}

// Values of AuditConfig.Failure.
const (
	auditWarn   = "warn"
	auditRefuse = "refuse"
)

// WellKnownKey is the key that every emulator of the service uses.
const WellKnownKey = auth.WellKnownKey

const (
	defaultListen      = "127.0.0.1:8081"
	defaultAdminListen = "127.0.0.1:8080"
	noListener         = "none"
)

// complete fills in the defaults and reports all errors at once.
func (c Config) complete() (Config, error) {
	setDefault(&c.Listen, defaultListen)
	setDefault(&c.AdminListen, defaultAdminListen)
	setDefault(&c.DataAccess, accessOwner)
	setDefault(&c.ContainerNames, containerAuto)
	setDefault(&c.Audit.Level, "changes")
	setDefault(&c.Audit.Failure, auditWarn)
	setDefault(&c.Key, WellKnownKey)
	setDefault(&c.AccountID, "decan")
	setDefault(&c.Region, "South Central US")
	setDefault(&c.Consistency, "Session")
	setDefault(&c.CrossPartition, "service")
	setDefault(&c.Version, "devel")
	if c.ScrubRate == 0 {
		c.ScrubRate = scrubRate
	}
	if c.DiskReserve == 0 {
		c.DiskReserve = storage.ReserveDefault
	}
	if c.ClockSkew == 0 {
		c.ClockSkew = 15 * time.Minute
	}
	setDefault(&c.Throughput, cluster.EnforceOff.String())
	setDefault(&c.LimitsPreset, "default")
	c.setLimits()
	if c.ClockSkew > 0 {
		c.Limits.ClockSkew = c.ClockSkew
	} else {
		c.Limits.ClockSkew = 0
	}
	if c.SessionWait != 0 {
		c.Limits.SessionWait = max(c.SessionWait, 0)
	}
	if c.ResourcesMax != 0 {
		c.Limits.Databases = c.ResourcesMax
	}
	if c.QueryMemory != 0 {
		c.Limits.QueryMemoryBytes = c.QueryMemory
	}
	setDefaultTime(&c.ReadTimeout, 30*time.Second)
	setDefaultTime(&c.WriteTimeout, 30*time.Second)
	setDefaultTime(&c.IdleTimeout, 10*time.Minute)
	if c.QueryTime != 0 {
		c.Limits.QueryTime = c.QueryTime
	}
	if c.QueryQueue != 0 {
		c.Limits.QueryQueue = c.QueryQueue
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, err := resource.ParseConsistency(c.Consistency); err != nil {
		fault("consistency %q: use Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual", c.Consistency)
	}
	if !slices.Contains([]string{"service", "full"}, c.CrossPartition) {
		fault("cross-partition %q: use service or full", c.CrossPartition)
	}
	if !slices.Contains([]string{accessOwner, accessGroup, accessAny}, c.DataAccess) {
		fault("data access %q: use owner, group or any", c.DataAccess)
	}
	if !slices.Contains([]string{containerAuto, containerOn, containerOff}, c.ContainerNames) {
		fault("container names %q: use auto, on or off", c.ContainerNames)
	}
	if _, err := audit.ParseLevel(c.Audit.Level); err != nil {
		faults = append(faults, err)
	}
	if !slices.Contains([]string{auditWarn, auditRefuse}, c.Audit.Failure) {
		fault("audit failure %q: use warn or refuse", c.Audit.Failure)
	}
	if err := checkAllowedHosts(c.AllowedHosts); err != nil {
		faults = append(faults, err)
	}
	if _, err := cluster.ParseEnforcement(c.Throughput); err != nil {
		faults = append(faults, err)
	}
	if _, ok := limitsPresets[c.LimitsPreset]; !ok {
		fault("limits %q: use default or laptop", c.LimitsPreset)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		fault("a certificate needs its key: give both --tls-cert and --tls-key, or neither")
	}
	if strings.EqualFold(c.AccountID, "localhost") {
		fault("account id %q: clients give this name a special meaning, use another", c.AccountID)
	}
	if err := c.Limits.Validate(); err != nil {
		faults = append(faults, err)
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			fault("endpoint %q: give a URL such as https://db.example.com:8081/", c.Endpoint)
		}
	}
	faults = append(faults, c.Tokens.faults()...)
	for _, key := range []string{c.Key, c.SecondaryKey, c.ReadonlyKey, c.SecondaryReadonlyKey} {
		if key == "" {
			continue
		}
		if _, err := auth.ParseKey(key); err != nil {
			fault("account key: %w", err)
		}
	}
	if c.Connections < 0 {
		fault("%d connections: give a positive number", c.Connections)
	}
	if c.RequestMemory != 0 && c.RequestMemory < requestMemoryMin {
		fault("request memory of %d bytes: give %d or more, so that a request of any size fits", c.RequestMemory, requestMemoryMin)
	}
	if c.ClockSteady < 0 {
		fault("clock steady %s must not be negative", c.ClockSteady)
	}
	if c.SplitDelay < 0 {
		fault("split delay %s must not be negative", c.SplitDelay)
	}
	for _, listen := range []string{c.Listen, c.AdminListen, c.ComputeListen} {
		if listen == "" || listen == noListener {
			continue
		}
		if _, _, err := net.SplitHostPort(listen); err != nil {
			fault("listen address %q: give host:port, such as 127.0.0.1:8081", listen)
			continue
		}
		if (auth.IsWellKnown(c.Key) || auth.IsWellKnown(c.SecondaryKey)) && !c.InsecureKey && !isLoopback(listen) {
			fault("listen address %q is reachable by others while the account key is the one everybody knows: "+
				"set a key of your own with --key or DECAN_KEY, or allow it with --insecure-key", listen)
		}
	}
	return c, errors.Join(faults...)
}

// requestMemoryMin is enough for the largest body, the largest answer and some
// small requests.
const requestMemoryMin = 16 << 20

var limitsPresets = map[string]func() resource.Limits{
	"default": resource.DefaultLimits,
	"laptop":  resource.LaptopLimits,
}

// setLimits fills in Limits from the preset and the single settings.
func (c *Config) setLimits() {
	if preset, ok := limitsPresets[c.LimitsPreset]; ok && c.Limits == (resource.Limits{}) {
		c.Limits = preset()
	}
	set(&c.Limits.LogicalPartitionBytes, c.LogicalPartitionMax)
	set(&c.Limits.PhysicalPartitionBytes, c.PhysicalPartitionMax)
	set(&c.Limits.PartitionRUs, c.PartitionThroughputMax)
	set(&c.Limits.ContainerRUs, c.ContainerThroughputMax)
	set(&c.Limits.MetadataRUs, c.MetadataThroughputMax)
	set(&c.Limits.ThroughputChanges, c.ThroughputChangesMax)
}

// set replaces a limit by a setting if there is one.
func set[T int | int64](limit *T, setting T) {
	if setting != 0 {
		*limit = setting
	}
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func setDefaultTime(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// certificates returns a function that supplies the certificate of the data
// plane.
func (c Config) certificates() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("read the certificate %s and its key %s: %w", c.TLSCert, c.TLSKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
		return config, nil
	}
	dir := ""
	if c.Data != "" {
		dir = tlsDir(c.Data)
	}
	get, err := selfMade(dir, c.TLSHosts, time.Now)
	if err != nil {
		return nil, err
	}
	config.GetCertificate = get
	return config, nil
}
