package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Config configures a server. The zero value is a server in memory on the default
// ports, with the emulators' well-known key and the defaults of the options.
type Config struct {
	// Data is the data directory; "" keeps everything in memory. The default in the tag
	// applies only to decan serve.
	Data     string `default:"./decan-data" type:"path" help:"The data directory."`
	InMemory bool   `help:"Keep all data in memory; it is lost when the server stops. --data is ignored."`

	Ports      PortOptions       `embed:"" group:"Addresses"`
	Storage    StorageOptions    `embed:"" group:"Storage"`
	Memory     MemoryOptions     `embed:"" group:"Memory"`
	Keys       KeyOptions        `embed:"" group:"Account keys"`
	Tokens     TokenOptions      `embed:"" group:"Bearer tokens"`
	TLS        TLSOptions        `embed:"" group:"TLS"`
	Access     AccessOptions     `embed:"" group:"Access"`
	Audit      AuditOptions      `embed:"" group:"Audit log"`
	Account    AccountOptions    `embed:"" group:"Account"`
	Protocol   ProtocolOptions   `embed:"" group:"Protocol"`
	Direct     DirectOptions     `embed:"" group:"Direct mode"`
	Cassandra  CassandraOptions  `embed:"" group:"Cassandra API"`
	Explorer   ExplorerOptions   `embed:"" group:"Data Explorer"`
	Queries    QueryOptions      `embed:"" group:"Queries"`
	Partitions PartitionOptions  `embed:"" group:"Partitions"`
	Throughput ThroughputOptions `embed:"" group:"Throughput"`
	Clients    ClientOptions     `embed:"" group:"Connections"`
	Clock      ClockOptions      `embed:"" group:"Clock"`

	// Fields that only programs set.
	Limits      resource.Limits `kong:"-"` // replaces the limits of Partitions.Preset; options that are set override it
	AuditOutput io.Writer       `kong:"-"` // the output for the audit log "-"; default os.Stdout
	Version     string          `kong:"-"` // printed by decan version; default "devel"
	Logger      *slog.Logger    `kong:"-"` // default: discard

	// Now is the clock of the machine; default time.Now. Only tests set it.
	Now func() time.Time `kong:"-"`

	adjust      func(*storage.Options) // for tests; default nothing
	elapsed     func() time.Duration   // for tests; default that of cluster
	maintenance time.Duration          // between two runs, for tests; default that of cluster
}

// groups returns the option groups.
func (c *Config) groups() []reflect.Value {
	var groups []reflect.Value
	config := reflect.ValueOf(c).Elem()
	for i := range config.NumField() {
		if _, found := config.Type().Field(i).Tag.Lookup("embed"); found {
			groups = append(groups, config.Field(i))
		}
	}
	return groups
}

// openAudit opens the audit log; it returns nil if there is none.
func (c Config) openAudit() (*audit.Log, error) {
	if c.Audit.Log == "" {
		return nil, nil
	}
	level, err := audit.ParseLevel(c.Audit.Level)
	if err != nil {
		return nil, err
	}
	config := audit.LogConfig{Path: c.Audit.Log, Level: level, Required: c.Audit.Failure == "refuse", Logger: c.Logger}
	if c.Audit.Log == "-" {
		config.Path, config.Output = "", c.AuditOutput
		if config.Output == nil {
			config.Output = os.Stdout
		}
	}
	opened, err := audit.Open(config)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return opened, nil
}

// WellKnownKey is the key that every emulator of the service uses.
const WellKnownKey = auth.WellKnownKey

// noListener as an address means no port.
const noListener = "none"

// complete fills in the defaults and reports all errors at once.
func (c Config) complete() (Config, error) {
	if c.InMemory {
		c.Data = ""
	}
	preset := cmp.Or(c.Partitions.Preset, "default")
	if newLimits, known := limitsPresets[preset]; known && c.Limits == (resource.Limits{}) {
		c.Limits = newLimits()
	}
	c.setLimits() // Before the defaults, which would replace Limits.
	for _, group := range c.groups() {
		setDefaults(group)
	}
	if c.Keys.Primary == "" {
		c.Keys.Primary = WellKnownKey
	}
	if c.Version == "" {
		c.Version = "devel"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

// limitsPresets are the values of PartitionOptions.Preset.
var limitsPresets = map[string]func() resource.Limits{
	"default": resource.DefaultLimits,
	"laptop":  resource.LaptopLimits,
}

// setLimits replaces the limits for which an option is set: the tag "limit" of an
// option names its limit.
func (c *Config) setLimits() {
	limits := reflect.ValueOf(&c.Limits).Elem()
	for option, limit := range c.limitOptions() {
		if !option.IsZero() {
			limits.FieldByName(limit.Get("limit")).SetInt(option.Int())
		}
	}
	// A negative value of these means no limit.
	c.Limits.ClockSkew = max(c.Limits.ClockSkew, 0)
	c.Limits.SessionWait = max(c.Limits.SessionWait, 0)
}

// limitOptions are the options that replace a limit, with their tags.
func (c *Config) limitOptions() iter.Seq2[reflect.Value, reflect.StructTag] {
	return func(yield func(reflect.Value, reflect.StructTag) bool) {
		for _, group := range c.groups() {
			for i := range group.NumField() {
				tag := group.Type().Field(i).Tag
				if tag.Get("limit") != "" && !yield(group.Field(i), tag) {
					return
				}
			}
		}
	}
}

// limitFaults returns the errors of the limits. They name the flag of a limit that
// has one.
func (c *Config) limitFaults() error {
	err := c.Limits.Validate()
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, tag := range c.limitOptions() {
		text = strings.ReplaceAll(text, "limit "+tag.Get("limit")+" ", "--"+tag.Get("name")+" ")
	}
	return errors.New(text)
}

// validate reports all errors of a complete configuration at once. They name the
// flags of decan serve.
func (c *Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, group := range c.groups() {
		faults = append(faults, optionFaults(group)...)
	}
	faults = append(faults, checkAllowedHosts(c.Access.Hosts), checkOrigins(c.Access.Origins), c.limitFaults())
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		fault("a certificate needs its key: give both --tls-cert and --tls-key, or neither")
	}
	if strings.EqualFold(c.Account.ID, "localhost") {
		fault("--account-id %q: clients give this name a special meaning, use another", c.Account.ID)
	}
	if c.Account.Endpoint != "" {
		u, err := url.Parse(c.Account.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			fault("--endpoint %q: give a URL such as https://db.example.com:8081/", c.Account.Endpoint)
		}
	}
	faults = append(faults, c.Tokens.faults()...)
	faults = append(faults, c.Keys.faults()...)
	for _, positive := range []struct {
		flag   string
		option int64
	}{
		{"connections", int64(c.Clients.Connections)},
		{"clock-steady", int64(c.Clock.Steady)},
		{"split-delay", int64(c.Partitions.SplitDelay)},
	} {
		if positive.option < 0 {
			fault("--%s must not be negative", positive.flag)
		}
	}
	if c.Memory.Requests != 0 && c.Memory.Requests < requestMemoryMin {
		fault("--request-memory of %d bytes: give %dMB or more, so that a request of any size fits", c.Memory.Requests, requestMemoryMin>>20)
	}
	faults = append(faults, c.portFaults()...)
	return errors.Join(faults...)
}

// faults returns an error for each malformed key.
func (k KeyOptions) faults() (faults []error) {
	for _, key := range []struct{ flag, text string }{
		{"key", k.Primary}, {"secondary-key", k.Secondary}, {"readonly-key", k.Readonly}, {"secondary-readonly-key", k.SecondaryReadonly},
	} {
		if key.text == "" {
			continue
		}
		if _, err := auth.ParseKey(key.text); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", key.flag, err))
		}
	}
	return faults
}

// portFaults returns an error for each malformed address, and for each that other
// machines can reach with the well-known key.
func (c *Config) portFaults() (faults []error) {
	wellKnown := auth.IsWellKnown(c.Keys.Primary) || auth.IsWellKnown(c.Keys.Secondary)
	ports := []struct{ flag, address string }{{"listen", c.Ports.Data}, {"admin-listen", c.Ports.Admin}, {"compute-listen", c.Ports.Compute}}
	if address, given := c.directAddress(); given {
		ports = append(ports, struct{ flag, address string }{"direct-listen", address})
	}
	for _, address := range c.cqlAddresses() {
		ports = append(ports, struct{ flag, address string }{"cql-listen", address})
	}
	for _, port := range ports {
		if port.address == noListener || port.address == "" && port.flag != "cql-listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(port.address); err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: give host:port, such as 127.0.0.1:8081", port.flag, port.address))
			continue
		}
		if wellKnown && !c.Keys.Insecure && !isLoopback(port.address) {
			faults = append(faults, fmt.Errorf("--%s %q: other machines can reach this address, and everyone knows the account key: "+
				"set a key of your own with --key or DECAN_KEY, or allow the well-known key with --insecure-key", port.flag, port.address))
		}
	}
	return faults
}

// directPort is the usual port of direct mode.
const directPort = "10251"

// directAddress returns the address of direct mode, "" if it is off, and whether the
// configuration names it. Otherwise it is on the host of the data port, so that a client
// that reaches the one reaches the other, and on a free port if the data port is on one.
func (c *Config) directAddress() (address string, given bool) {
	switch {
	case !c.Direct.On || c.Ports.Direct == noListener:
		return "", false
	case c.Ports.Direct != "":
		return c.Ports.Direct, true
	}
	host, port, err := net.SplitHostPort(c.Ports.Data)
	if err != nil {
		return "", false // The address of the data port is refused.
	}
	if port != "0" {
		port = directPort
	}
	return net.JoinHostPort(host, port), false
}

// cqlAddresses returns the addresses of the Cassandra API, none if it is off.
func (c *Config) cqlAddresses() []string {
	if !c.Cassandra.On || c.Ports.CQL == noListener {
		return nil
	}
	var addresses []string
	for address := range strings.SplitSeq(c.Ports.CQL, ",") {
		addresses = append(addresses, strings.TrimSpace(address))
	}
	return addresses
}

// requestMemoryMin is enough for the largest body, the largest answer and some
// small requests.
const requestMemoryMin = 16 << 20

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
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{alpnHTTP2, alpnHTTP1}}
	if c.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s and --tls-key %s: %w", c.TLS.Cert, c.TLS.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
		return config, nil
	}
	dir := ""
	if c.Data != "" {
		dir = tlsDir(c.Data)
	}
	get, err := selfMade(dir, c.TLS.Hosts, time.Now)
	if err != nil {
		return nil, err
	}
	config.GetCertificate = get
	return config, nil
}
