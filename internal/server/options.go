package server

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The option groups of [Config]. The tags of a field are the only description of the
// setting: the name of its flag, its default with the unit, its values and its help.
// decan serve derives flags and environment names from the tags, [Config] takes its
// defaults and the permitted values from them, and a test compares docs/operating.md
// with them.
//
// The zero value of an option means its default. A negative duration or number
// means "no limit" where the help says so. The tag "limit" names the field of
// [resource.Limits] that the option replaces. The default of an option with the tag
// "only" holds for decan serve only.

// PortOptions are the addresses to listen on.
type PortOptions struct {
	Data    string `name:"listen" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"The address for clients, who use TLS or plain HTTP on the same port (${default})."`
	Admin   string `name:"admin-listen" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"The address for health, metrics and management (${default}); none for no admin port."`
	CQL     string `name:"cql-listen" default:"127.0.0.1:10350" placeholder:"HOST:PORT" help:"The address for clients of the Cassandra API, who use TLS or no TLS on the same port; several are separated by commas (${default})."`
	Direct  string `name:"direct-listen" placeholder:"HOST:PORT" help:"The address for clients in direct mode, who use TLS (default: port 10251 of the host of --listen, or a free port if that one is in use: clients are told the port)."`
	Compute string `name:"compute-listen" placeholder:"HOST:PORT" help:"A second address for clients that use the compute gateway (default: none)."`
}

// KeyOptions are the account keys, in base64. A key that was regenerated under the
// same configuration replaces the configured one.
type KeyOptions struct {
	Primary           string `name:"key" placeholder:"BASE64" help:"The account key (default: the emulators' well-known key)."`
	Secondary         string `name:"secondary-key" placeholder:"BASE64" help:"A second account key, for rotation (default: none until keys are listed)."`
	Readonly          string `name:"readonly-key" placeholder:"BASE64" help:"A key for requests that change nothing (default: none until keys are listed)."`
	SecondaryReadonly string `name:"secondary-readonly-key" placeholder:"BASE64" help:"A second read-only key, for rotation (default: none until keys are listed)."`
	Insecure          bool   `name:"insecure-key" help:"Allow the well-known key on addresses that other machines can reach."`
}

// TokenOptions are the accepted bearer tokens. The zero value accepts none.
type TokenOptions struct {
	Issuers   []string `name:"token-issuer" placeholder:"URL" help:"Accept bearer tokens (Microsoft Entra ID, OpenID Connect) of this issuer."`
	Audiences []string `name:"token-audience" placeholder:"URL" help:"The audience that bearer tokens must name (default: ${audience})."`

	// Keys locates the public keys of the issuers: a file, or a URL of https, or
	// of http on this machine. A file is read at the start. A URL is fetched at the
	// start, and again, once a minute at most, for a token that names an unknown
	// key.
	Keys string `name:"token-keys" placeholder:"FILE|URL" help:"The public keys of the issuers, as a JSON web key set or PEM."`

	Emulator bool `name:"emulator-tokens" help:"Accept the bearer tokens of the SDKs' test suites, which contain the account key."`
	Only     bool `name:"disable-local-auth" help:"Refuse account keys and resource tokens except on the admin port, so that clients need bearer tokens."`
}

// TLSOptions are the certificate and the use of TLS.
type TLSOptions struct {
	Cert  string   `name:"tls-cert" placeholder:"FILE" type:"path" help:"The certificate chain, in PEM (default: a self-made certificate)."`
	Key   string   `name:"tls-key" placeholder:"FILE" type:"path" help:"The key of the certificate, in PEM."`
	Hosts []string `name:"tls-host" placeholder:"NAME" help:"More names and addresses for the self-made certificate."`
	Only  bool     `name:"https-only" help:"Refuse plain HTTP on every port. The admin port then also uses TLS."`
}

// AccessOptions decide who may use the server.
type AccessOptions struct {
	// Hosts are names in addition to those that the server knows: localhost and
	// names below it, the names of the endpoint, the certificate and the listen
	// addresses, the machine's name if other machines can reach the listen address,
	// and in a container those that ContainerNames allows. An address as Host is
	// always allowed.
	Hosts []string `name:"allowed-hosts" placeholder:"NAME" help:"More names by which clients may address the server, such as db.example.com, *.example.com for all names below it, or * for any name. Addresses, localhost and the names of --endpoint, --tls-host and --tls-cert are always allowed."`

	Origins           []string `name:"cors-origins" placeholder:"ORIGIN" help:"Origins whose pages in browsers may send requests to the ports for clients, such as https://app.example.com (default: none)."`
	ContainerNames    string   `name:"container-names" default:"auto" enum:"auto,on,off" help:"Allow the names by which containers are addressed: names without a dot, names below .internal, and services of Kubernetes. auto allows them if the server runs in a container."`
	ProtectMetrics    bool     `name:"protect-metrics" help:"Require an account key for /metrics; a read-only key is sufficient."`
	PrefixPermissions bool     `name:"prefix-permissions" help:"Allow permissions, and so resource tokens, for a prefix of a hierarchical partition key. The service does not."`
}

// AuditOptions are the log of who did what. The zero value keeps none.
type AuditOptions struct {
	Log     string `name:"audit-log" placeholder:"FILE" help:"Append the caller, the operation, the time and the outcome of requests to this file, as JSON lines; - is standard output. SIGHUP opens the file again (default: no audit log)."`
	Level   string `name:"audit-level" default:"changes" enum:"failures,changes,all" help:"The requests in the audit log: refused access (failures), also changes (changes), or also reads (all)."`
	Failure string `name:"audit-failure" default:"warn" enum:"warn,refuse" help:"The treatment of requests while the audit log cannot be written: serve them (warn), or refuse them with 503 (refuse)."`
}

// AccountOptions are what clients see of the account.
type AccountOptions struct {
	ID          string `name:"account-id" default:"decan" help:"The name of the account."`
	Endpoint    string `name:"endpoint" placeholder:"URL" help:"The endpoint in the account document (default: the scheme and Host of each request)."`
	Forwarded   bool   `name:"trust-forwarded-proto" help:"Take the scheme of advertised endpoints from X-Forwarded-Proto, for a proxy that terminates TLS and sets this header itself."`
	Region      string `name:"region" default:"South Central US" help:"The name of the account's region."`
	Consistency string `name:"consistency" default:"Session" enum:"Strong,BoundedStaleness,Session,ConsistentPrefix,Eventual" help:"The account's default consistency: ${enum}."`
	Resources   int    `name:"resources-max" limit:"Databases" placeholder:"N" help:"The maximum number of databases and containers (default: no limit; the service allows 500)."`
}

// ProtocolOptions choose between behaviours that clients can observe.
type ProtocolOptions struct {
	CrossPartition string        `name:"cross-partition" default:"service" enum:"service,full" help:"Refuse the cross-partition queries that the service's gateway refuses (service), or answer them (full)."`
	TrailingPage   bool          `name:"trailing-page" help:"Add a continuation to a final full page of unordered rows; the page that follows is empty, as in the official emulator."`
	StrictIDs      bool          `name:"strict-ids" help:"Refuse the item ids that the official emulator refuses on the main port."`
	PrefixDeletes  bool          `name:"prefix-deletes" help:"Allow the deletion of all items of a prefix of a hierarchical partition key. The service refuses it."`
	Triggers       bool          `name:"several-triggers" help:"Allow up to ten triggers before and after a write. The service runs one of each."`
	SessionWait    time.Duration `name:"session-wait" limit:"SessionWait" default:"50ms" placeholder:"DURATION" help:"How long a read waits for a partition that has not reached its session token, before it is refused with 404 and sub-status 1002 (${default}); negative for no wait."`
}

// DirectOptions are about direct mode.
type DirectOptions struct {
	// On is false in the zero value, for the same reason as CassandraOptions.On.
	On bool `name:"direct" default:"true" only:"serve" help:"Serve direct mode, which the Java and .NET SDKs use unless they are told otherwise; --direct=false opens no port for it."`

	Plain bool `name:"direct-plain" help:"Also serve clients of direct mode that do not use TLS. No SDK is one: it is for tests."`
}

// ExplorerOptions are about the Data Explorer.
type ExplorerOptions struct {
	// On is false in the zero value: a program that starts a server has no use for a
	// page unless it says so.
	On bool `name:"explorer" default:"true" only:"serve" help:"Serve the Data Explorer, a page for browsers, below /_explorer/ on the port for clients; --explorer=false serves none."`
}

// CassandraOptions are about the Cassandra API.
type CassandraOptions struct {
	// On is false in the zero value: only decan serve opens the port without being
	// asked, because a program that starts several servers has one such port.
	On bool `name:"cql" default:"true" only:"serve" help:"Serve the Cassandra API; --cql=false opens no port for it."`

	Release string `name:"cql-release" default:"4.1" enum:"4.1,3.11" help:"The release of Apache Cassandra as which the server presents itself: ${enum}. The service shows 3.11, without version 5 of the protocol and without DESCRIBE in the server."`

	Strict bool `name:"cql-strict" help:"Refuse statements that Apache Cassandra allows, and that the service's documentation says it does not support, such as DISTINCT and logged batches."`

	Retries bool `name:"cql-server-retries" help:"Try statements over the throughput again for up to a minute, and then let them time out, instead of answering them as overloaded. The service calls it server-side retry."`

	PartitionWarning Size `name:"cql-partition-warning" placeholder:"SIZE" help:"Warn the client, and in the log, when a write leaves a partition of a table larger than this, such as 100MB, the size that Apache Cassandra advises (default: no warning)."`
}

// QueryOptions bound what queries use.
type QueryOptions struct {
	Memory Size          `name:"query-memory" limit:"QueryMemoryBytes" default:"64MB" placeholder:"SIZE" help:"The maximum memory of all queries together for groups, distinct rows and rankings (${default})."`
	Time   time.Duration `name:"query-time" limit:"QueryTime" default:"1m" placeholder:"DURATION" help:"The maximum processor time of one request for a page of a query (${default})."`
	Queue  int           `name:"query-queue" limit:"QueryQueue" default:"256" placeholder:"N" help:"The maximum number of long queries that wait for a processor; more are refused (${default})."`
}

// ClockOptions are the treatment of wrong clocks; docs/clock.md has the rules.
type ClockOptions struct {
	Skew   time.Duration `name:"clock-skew" limit:"ClockSkew" default:"15m" placeholder:"DURATION" help:"The maximum difference between the date of a request's signature and the current time (${default}); negative for no limit."`
	Jump   time.Duration `name:"clock-jump" default:"1m" placeholder:"DURATION" help:"The difference between the machine's clock and the elapsed time above which the clock has jumped (${default}); negative to ignore jumps."`
	Ahead  time.Duration `name:"clock-ahead" default:"720h" placeholder:"DURATION" help:"How far _ts follows a clock that has jumped ahead (${default}); negative for not at all."`
	Steady time.Duration `name:"clock-steady" default:"15m" placeholder:"DURATION" help:"How long a clock that has jumped ahead must run without another jump before documents expire by it (${default})."`
}

// MemoryOptions divide the memory of the process. The command fills in the options
// that have no default here, by the memory of the machine or container. The server
// does not enforce Process.
type MemoryOptions struct {
	Process  Size `name:"memory" placeholder:"SIZE" help:"The memory that the server may use in total, a soft limit for the garbage collector (default: 90 % of the container's memory, or 75 % of the machine's). GOMEMLIMIT in the environment replaces the limit of the collector."`
	Requests Size `name:"request-memory" placeholder:"SIZE" help:"The maximum memory for the bodies and answers of all running requests. Above it requests are refused with 429 (default: 1/32 of --memory, at least 64MB and at most 512MB)."`
	Cache    Size `name:"cache" placeholder:"SIZE" help:"The memory for stored data that was read, such as 512MB (default: 1/8 of the memory of the machine or container, at least 128MB)."`
}

// ClientOptions bound the connections of clients. The admin port has up to 64
// connections of its own.
type ClientOptions struct {
	Connections  int           `name:"connections" placeholder:"N" help:"The maximum number of client connections. At the limit, the connection that has been idle longest is closed for a new one (default: 8192, or fewer depending on memory and file descriptors)."`
	PerAddress   int           `name:"connections-per-address" placeholder:"N" help:"The maximum number of connections of one address, except loopback addresses (default: 3/4 of --connections); negative for no limit."`
	ReadTimeout  time.Duration `name:"read-timeout" default:"30s" placeholder:"DURATION" help:"The time for a client to send the headers of a request, and each 64KB of its body (${default}); negative for no limit."`
	WriteTimeout time.Duration `name:"write-timeout" default:"30s" placeholder:"DURATION" help:"The time for a client to receive each 64KB of an answer (${default}); negative for no limit."`
	IdleTimeout  time.Duration `name:"idle-timeout" default:"10m" placeholder:"DURATION" help:"How long a connection without a request stays open (${default}); negative for no limit."`
}

// StorageOptions are about the files of the data directory.
type StorageOptions struct {
	// Access: the start removes permissions that this option does not allow, and
	// refuses a directory where that fails.
	Access      string        `name:"data-access" default:"owner" enum:"owner,group,any" help:"Who may read the data directory, which contains account keys: only its owner, also its group, or everyone whom its modes allow (any). The start removes all other permissions."`
	DiskReserve SizeOrNone    `name:"disk-reserve" default:"64MB" placeholder:"SIZE" help:"The disk space that is reserved for deletions when the disk is full, at most 1/32 of the disk (${default}); 0 for none."`
	ScrubRate   SizeOrNone    `name:"scrub-rate" default:"4MB" placeholder:"SIZE" help:"How much of the stored tables is read per second, once a day in the background, to find damage by their checksums (${default}); 0 for never."`
	IdleFlush   time.Duration `name:"idle-flush" default:"1m" placeholder:"DURATION" help:"Flush a physical partition that was not written to for this long, to save memory (${default}); negative for never."`
}

// PartitionOptions are the sizes of partitions, and when full ones are split.
type PartitionOptions struct {
	Preset      string        `name:"limits" default:"default" enum:"default,laptop" help:"The limits of partitions and throughput: as the service documents them (default), or so low that they are reached within seconds (laptop)."`
	LogicalMax  Size          `name:"logical-partition-max" limit:"LogicalPartitionBytes" placeholder:"SIZE" help:"The maximum size of the documents of one full partition key, such as 20GB or 4MB (default: as --limits says)."`
	PhysicalMax Size          `name:"physical-partition-max" limit:"PhysicalPartitionBytes" placeholder:"SIZE" help:"The size at which a physical partition is split (default: as --limits says)."`
	SplitDelay  time.Duration `name:"split-delay" placeholder:"DURATION" help:"Delay each split and merge of physical partitions, such as 4h, because the service may take hours (default: no delay)."`
}

// ThroughputOptions are the treatment of request units.
type ThroughputOptions struct {
	Enforcement  string `name:"throughput" default:"warn" enum:"off,warn,on" help:"The treatment of requests above the throughput of their physical partition: serve them (off), also count and log them (warn), or refuse them with 429 as the service does (on)."`
	Burst        bool   `name:"burst-capacity" help:"Let physical partitions below 3,000 RU/s accumulate unused throughput for up to five minutes."`
	Serverless   bool   `name:"serverless" help:"Create containers without provisioned throughput, and refuse to set any."`
	PartitionMax int    `name:"partition-throughput-max" limit:"PartitionRUs" placeholder:"RU/s" help:"The maximum throughput of one physical partition (default: as --limits says)."`
	ContainerMax int    `name:"container-throughput-max" limit:"ContainerRUs" placeholder:"RU/s" help:"The maximum throughput of a container or database (default: as --limits says)."`
	MetadataMax  int    `name:"metadata-throughput-max" limit:"MetadataRUs" placeholder:"RU/s" help:"The maximum throughput of requests about databases, containers, their ranges and throughput together (default: no limit; the service has 240)."`
	ChangesMax   int    `name:"throughput-changes-max" limit:"ThroughputChanges" placeholder:"N" help:"The maximum number of changes of throughput in five minutes (default: no limit; the service allows 25)."`
}

// Size is a number of bytes, as text with a unit: 20GB, 4 MB, 512KB, or plain
// bytes. A kilobyte has 1,024 bytes.
type Size int64

// UnmarshalText reads a size, which is positive.
func (s *Size) UnmarshalText(text []byte) error {
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
	*s = Size(n * unit)
	return nil
}

// SizeOrNone is a [Size] that may be "none": 0 as text, and negative as a value,
// because the zero value means the default.
type SizeOrNone int64

// UnmarshalText reads a size or 0.
func (s *SizeOrNone) UnmarshalText(text []byte) error {
	if strings.TrimSpace(string(text)) == "0" {
		*s = -1
		return nil
	}
	var size Size
	if err := size.UnmarshalText(text); err != nil {
		return err
	}
	*s = SizeOrNone(size)
	return nil
}

// setDefaults sets the options of a group that are zero to their defaults. It
// panics if a tag is malformed.
func setDefaults(group reflect.Value) {
	for i := range group.NumField() {
		field, tag := group.Field(i), group.Type().Field(i).Tag
		text, found := tag.Lookup("default")
		if !found || !field.IsZero() || tag.Get("only") != "" {
			continue
		}
		if err := setOption(field, text); err != nil {
			panic(fmt.Sprintf("default of --%s: %v", tag.Get("name"), err))
		}
	}
}

// setOption sets an option from its text.
func setOption(field reflect.Value, text string) error {
	switch to := field.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *string:
		*to = text
	case *int:
		n, err := strconv.Atoi(text)
		*to = n
		return err
	case *time.Duration:
		d, err := time.ParseDuration(text)
		*to = d
		return err
	default:
		return fmt.Errorf("options of type %s have no default", field.Type())
	}
	return nil
}

// optionFaults returns an error for each option of a group whose value is not one
// of its enum.
func optionFaults(group reflect.Value) (faults []error) {
	for i := range group.NumField() {
		tag := group.Type().Field(i).Tag
		enum, found := tag.Lookup("enum")
		if !found {
			continue
		}
		values := strings.Split(enum, ",")
		if got := group.Field(i).String(); !slices.Contains(values, got) {
			last := len(values) - 1
			faults = append(faults, fmt.Errorf("--%s %q: use %s or %s", tag.Get("name"), got, strings.Join(values[:last], ", "), values[last]))
		}
	}
	return faults
}
