package table

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/table/cql"
)

// Options are the options of a table. Decan acts on DefaultTTL and the throughput; it
// keeps the others, because clients read them.
type Options struct {
	AdditionalWritePolicy string            `json:"additional_write_policy"`
	BloomFilterFPChance   float64           `json:"bloom_filter_fp_chance"`
	Caching               map[string]string `json:"caching"`
	CDC                   bool              `json:"cdc"`
	Comment               string            `json:"comment"`
	Compaction            map[string]string `json:"compaction"`
	Compression           map[string]string `json:"compression"`
	Memtable              string            `json:"memtable"`
	CRCCheckChance        float64           `json:"crc_check_chance"`
	DefaultTTL            int               `json:"default_time_to_live"` // in seconds, 0 for no end
	GCGraceSeconds        int               `json:"gc_grace_seconds"`
	MaxIndexInterval      int               `json:"max_index_interval"`
	MemtableFlushPeriod   int               `json:"memtable_flush_period_in_ms"`
	MinIndexInterval      int               `json:"min_index_interval"`
	ReadRepair            string            `json:"read_repair"`
	SpeculativeRetry      string            `json:"speculative_retry"`

	// Throughput in request units per second, given with CREATE or ALTER TABLE; 0 if it
	// was not. It is no part of the definition: the catalog has the throughput.
	Throughput int `json:"-"`
	Autoscale  int `json:"-"`
}

// ttlMax is the longest time to live, 20 years.
const ttlMax = 630_720_000

const (
	compactionClasses  = "org.apache.cassandra.db.compaction."
	compressionClasses = "org.apache.cassandra.io.compress."
)

// DefaultOptions returns the options of a table that names none.
func DefaultOptions() Options {
	return Options{
		AdditionalWritePolicy: "99p", BloomFilterFPChance: 0.01,
		Caching:        map[string]string{"keys": "ALL", "rows_per_partition": "NONE"},
		Compaction:     map[string]string{"class": compactionClasses + "SizeTieredCompactionStrategy", "max_threshold": "32", "min_threshold": "4"},
		Compression:    map[string]string{"chunk_length_in_kb": "16", "class": compressionClasses + "LZ4Compressor"},
		Memtable:       "default",
		CRCCheckChance: 1, GCGraceSeconds: 864_000, MaxIndexInterval: 2048, MinIndexInterval: 128,
		ReadRepair: "BLOCKING", SpeculativeRetry: "99p",
	}
}

// config returns an error about an option.
func config(format string, args ...any) error {
	e := invalid(format, args...)
	e.Class = Config
	return e
}

func syntax(format string, args ...any) error {
	e := invalid(format, args...)
	e.Class = Syntax
	return e
}

var mapOptions = []string{"caching", "compaction", "compression", "extensions"}

var plainOptions = []string{
	"additional_write_policy", "bloom_filter_fp_chance", "cdc", "comment", "crc_check_chance", "default_time_to_live",
	"gc_grace_seconds", "id", "max_index_interval", "memtable", "memtable_flush_period_in_ms", "min_index_interval",
	"read_repair", "speculative_retry", "dclocal_read_repair_chance", "read_repair_chance", "nodesync",
	"cosmosdb_provisioned_throughput", "cosmosdb_autoscale_max_throughput",
	"cosmosdb_cell_level_timestamp", "cosmosdb_cell_level_timestamp_tombstones", "cosmosdb_cell_level_timetolive",
}

// apply changes options by those that a statement names. The names are checked first.
func (o Options) apply(props []cql.Property, alter bool) (Options, error) {
	for _, p := range props {
		isMap := slices.Contains(mapOptions, p.Name)
		switch {
		case !isMap && !slices.Contains(plainOptions, p.Name):
			return o, syntax("Unknown property '%s'", p.Name)
		case isMap && !p.IsMap:
			return o, syntax("Invalid value for property '%s'. It should be a map.", p.Name)
		case !isMap && p.IsMap:
			return o, syntax("Invalid value for property '%s'. It should be a string", p.Name)
		}
	}
	if i := slices.IndexFunc(props, func(p cql.Property) bool { return p.Name == "id" }); i >= 0 && alter {
		return o, config("Cannot alter table id.")
	}
	named := map[string]bool{}
	for _, p := range props {
		named[p.Name] = true
		if err := o.set(p); err != nil {
			return o, err
		}
	}
	if !alter && !named["bloom_filter_fp_chance"] && strings.HasSuffix(o.Compaction["class"], "LeveledCompactionStrategy") {
		o.BloomFilterFPChance = 0.1
	}
	if err := oneThroughput(o.Throughput, o.Autoscale); err != nil {
		return o, err
	}
	return o, o.check()
}

// set changes one option.
func (o *Options) set(p cql.Property) (err error) {
	switch p.Name {
	case "additional_write_policy":
		o.AdditionalWritePolicy, err = policy(p)
	case "speculative_retry":
		o.SpeculativeRetry, err = policy(p)
	case "bloom_filter_fp_chance":
		o.BloomFilterFPChance, err = decimalOption(p)
	case "crc_check_chance":
		o.CRCCheckChance, err = decimalOption(p)
	case "caching":
		o.Caching, err = cachingOption(p)
	case "compaction":
		o.Compaction, err = compactionOption(p)
	case "compression":
		o.Compression, err = compressionOption(p)
	case "cdc":
		o.CDC, err = booleanOption(p)
	case "comment":
		o.Comment = p.Value
	case "memtable":
		if o.Memtable = p.Value; p.Value != "default" {
			err = config("Memtable configuration \"%s\" not found.", p.Value)
		}
	case "default_time_to_live":
		o.DefaultTTL, err = integerOption(p)
	case "gc_grace_seconds":
		o.GCGraceSeconds, err = integerOption(p)
	case "max_index_interval":
		o.MaxIndexInterval, err = integerOption(p)
	case "min_index_interval":
		o.MinIndexInterval, err = integerOption(p)
	case "memtable_flush_period_in_ms":
		o.MemtableFlushPeriod, err = integerOption(p)
	case "read_repair":
		if o.ReadRepair = strings.ToUpper(p.Value); o.ReadRepair != "BLOCKING" && o.ReadRepair != "NONE" {
			return config("Invalid value %s for option 'read_repair'", p.Value)
		}
	case "cosmosdb_provisioned_throughput":
		o.Throughput, err = throughputOption(p)
	case "cosmosdb_autoscale_max_throughput":
		o.Autoscale, err = throughputOption(p)
	}
	return err
}

// oneThroughput refuses manual throughput together with autoscale.
func oneThroughput(manual, autoscale int) error {
	if manual != 0 && autoscale != 0 {
		return config("cosmosdb_provisioned_throughput and cosmosdb_autoscale_max_throughput cannot be given together")
	}
	return nil
}

func throughputOption(p cql.Property) (int, error) {
	n, err := integerOption(p)
	if err == nil && n <= 0 {
		err = config("%s must be greater than 0 (got %d)", p.Name, n)
	}
	return n, err
}

// booleanOption accepts what Apache Cassandra takes for true or false.
func booleanOption(p cql.Property) (bool, error) {
	switch strings.ToLower(p.Value) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	}
	return false, syntax("Invalid boolean value %s for '%s'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'.", p.Value, p.Name)
}

func integerOption(p cql.Property) (int, error) {
	n, err := strconv.ParseInt(p.Value, 10, 32)
	if err != nil {
		return 0, syntax("Invalid integer value %s for '%s'", p.Value, p.Name)
	}
	return int(n), nil
}

func decimalOption(p cql.Property) (float64, error) {
	f, err := strconv.ParseFloat(p.Value, 64)
	if err != nil {
		return 0, syntax("Invalid double value %s for '%s'", p.Value, p.Name)
	}
	return f, nil
}

// policy checks a policy of repeated reads or writes: always, never, a percentile, a
// time, or the lesser or greater of two.
func policy(p cql.Property) (string, error) {
	v := strings.ToLower(strings.ReplaceAll(p.Value, " ", ""))
	switch v {
	case "always":
		return "ALWAYS", nil
	case "never", "none":
		return "NEVER", nil
	}
	for _, unit := range []string{"percentile", "p", "ms"} {
		if number, ok := strings.CutSuffix(v, unit); ok {
			f, err := strconv.ParseFloat(number, 64)
			if err != nil || f < 0 || unit != "ms" && (f <= 0 || f >= 100) {
				break
			}
			if unit == "ms" {
				return number + "ms", nil
			}
			return strconv.FormatFloat(f, 'f', -1, 64) + "p", nil
		}
	}
	if strings.HasPrefix(v, "min(") || strings.HasPrefix(v, "max(") {
		return p.Value, nil
	}
	// As in Apache Cassandra, of the other policy too.
	return "", config("Invalid value %s for option 'speculative_retry'", p.Value)
}

func entries(p cql.Property) map[string]string {
	m := make(map[string]string, len(p.Map))
	for _, e := range p.Map {
		m[e.Key] = e.Value
	}
	return m
}

func cachingOption(p cql.Property) (map[string]string, error) {
	caching := map[string]string{"keys": "ALL", "rows_per_partition": "NONE"}
	given := entries(p)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := strings.ToUpper(given[key])
		switch key {
		case "keys":
			if value != "ALL" && value != "NONE" {
				return nil, config("Invalid value '%s' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed", given[key])
			}
		case "rows_per_partition":
			if _, err := strconv.ParseUint(value, 10, 31); err != nil && value != "ALL" && value != "NONE" {
				return nil, config("Invalid value '%s' for caching sub-option 'rows_per_partition': only 'ALL', 'NONE', and integer values are allowed", given[key])
			}
		default:
			return nil, config("Invalid caching sub-options [%s]: only 'keys' and 'rows_per_partition' are allowed", key)
		}
		caching[key] = value
	}
	return caching, nil
}

// check checks the numbers of the options.
func (o *Options) check() error {
	least := func(name string, n, bound int) error {
		if n < bound {
			return config("%s must be greater than or equal to %d (got %d)", name, bound, n)
		}
		return nil
	}
	if o.BloomFilterFPChance <= 6.71e-5 || o.BloomFilterFPChance > 1 {
		return config("bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got %s)", decimalText(o.BloomFilterFPChance))
	}
	if o.CRCCheckChance < 0 || o.CRCCheckChance > 1 {
		return config("crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got %s)", decimalText(o.CRCCheckChance))
	}
	if err := least("default_time_to_live", o.DefaultTTL, 0); err != nil {
		return err
	}
	if o.DefaultTTL > ttlMax {
		return config("default_time_to_live must be less than or equal to %d (got %d)", ttlMax, o.DefaultTTL)
	}
	for _, one := range []struct {
		name     string
		n, bound int
	}{
		{"gc_grace_seconds", o.GCGraceSeconds, 0},
		{"min_index_interval", o.MinIndexInterval, 1},
		{"max_index_interval", o.MaxIndexInterval, o.MinIndexInterval},
		{"memtable_flush_period_in_ms", o.MemtableFlushPeriod, 0},
	} {
		if one.name == "max_index_interval" && one.n < one.bound {
			return config("max_index_interval must be greater than or equal to min_index_interval (%d) (got %d)", one.bound, one.n)
		}
		if err := least(one.name, one.n, one.bound); err != nil {
			return err
		}
	}
	return nil
}
