package table

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/table/cql"
)

// Decan compacts and compresses in its own way. It checks the options about both as Apache
// Cassandra 4.1 does, and keeps them for clients that read them.

// suboption checks the value of one entry of compaction or compression.
type suboption func(value string) error

// anything accepts every value.
func anything(string) error { return nil }

// numberAbove accepts an integer above a bound. small is the text of the error for one that
// is too small; it has the value.
func numberAbove(bound int64, name, small string) suboption {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return config("%s is not a parsable int (base10) for %s", value, name)
		}
		if n <= bound {
			return config(small, value)
		}
		return nil
	}
}

func trueOrFalse(name string) suboption {
	return func(value string) error {
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return config("%s should either be 'true' or 'false', not %s", name, value)
		}
		return nil
	}
}

func oneOf(text string, values ...string) suboption {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return config(text, value)
		}
		return nil
	}
}

// anyCompaction are the options of all compaction strategies.
var anyCompaction = map[string]suboption{
	"class": anything, "enabled": trueOrFalse("enabled"), "log_all": trueOrFalse("log_all"),
	"only_purge_repaired_tombstones": trueOrFalse("only_purge_repaired_tombstones"),
	"unchecked_tombstone_compaction": trueOrFalse("unchecked_tombstone_compaction"),
	"tombstone_compaction_interval":  numberAbove(0, "tombstone_compaction_interval", "tombstone_compaction_interval must be greater than 0, but was %s"),
	"tombstone_threshold": func(value string) error {
		f, err := strconv.ParseFloat(value, 32)
		if err != nil {
			return config("%s is not a parsable float for tombstone_threshold", value)
		}
		if f <= 0 {
			return config("tombstone_threshold must be greater than 0, but was %f", f)
		}
		return nil
	},
	"min_threshold": thresholdOption("min_threshold"), "max_threshold": thresholdOption("max_threshold"),
}

func thresholdOption(name string) suboption {
	return func(value string) error {
		if _, err := strconv.ParseInt(value, 10, 32); err != nil {
			return config("Invalid value %s for '%s' compaction sub-option - must be an integer", value, name)
		}
		return nil
	}
}

var sizeTiered = map[string]suboption{"min_sstable_size": numberAbove(-1, "min_sstable_size", "min_sstable_size must be non negative: %s"), "bucket_low": anything, "bucket_high": anything}

var resolutions = []string{"MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS", "NANOSECONDS"}

// compactionStrategies are the strategies with their own options. Nil accepts all.
var compactionStrategies = map[string]map[string]suboption{
	"SizeTieredCompactionStrategy": sizeTiered,
	"LeveledCompactionStrategy": with(sizeTiered, map[string]suboption{
		"sstable_size_in_mb":     numberAbove(0, "sstable_size_in_mb", "sstable_size_in_mb must be larger than 0, but was %s"),
		"fanout_size":            numberAbove(0, "fanout_size", "fanout_size must be larger than 0, but was %s"),
		"single_sstable_uplevel": anything,
	}),
	"TimeWindowCompactionStrategy": with(sizeTiered, map[string]suboption{
		"timestamp_resolution":                    oneOf("timestamp_resolution %s is not valid", resolutions...),
		"compaction_window_unit":                  oneOf("%s is not valid for compaction_window_unit", "MINUTES", "HOURS", "DAYS"),
		"compaction_window_size":                  numberAbove(0, "compaction_window_size", "%s must be greater than 1 for compaction_window_size"),
		"expired_sstable_check_frequency_seconds": numberAbove(-1, "expired_sstable_check_frequency_seconds", "expired_sstable_check_frequency_seconds must not be negative, but was %s"),
		"unsafe_aggressive_sstable_expiration":    anything,
	}),
	"DateTieredCompactionStrategy": with(sizeTiered, map[string]suboption{
		"timestamp_resolution": anything, "base_time_seconds": anything, "max_sstable_age_days": anything, "max_window_size_seconds": anything,
		"expired_sstable_check_frequency_seconds": anything,
	}),
	"UnifiedCompactionStrategy": nil, // of Cassandra 5.0
}

func with(all, more map[string]suboption) map[string]suboption {
	sum := maps.Clone(all)
	maps.Copy(sum, more)
	return sum
}

func compactionOption(p cql.Property) (map[string]string, error) {
	given := entries(p)
	class := given["class"]
	if class == "" {
		return nil, config("Missing sub-option 'class' for the 'compaction' option")
	}
	if !strings.Contains(class, ".") {
		class = compactionClasses + class
	}
	name := strings.TrimPrefix(class, compactionClasses)
	own, ok := compactionStrategies[name]
	if !ok {
		return nil, config("Unable to find compaction strategy class '%s'", class)
	}
	given["class"] = class
	if own != nil {
		if err := checkSuboptions(given, with(anyCompaction, own), func(unknown []string) error {
			return config("Properties specified [%s] are not understood by %s", strings.Join(unknown, ", "), name)
		}); err != nil {
			return nil, err
		}
	}
	for key, value := range map[string]string{"max_threshold": "32", "min_threshold": "4"} {
		if _, ok := given[key]; !ok {
			given[key] = value
		}
	}
	return given, checkCompaction(given)
}

// checkSuboptions checks the values, and then that no others are given.
func checkSuboptions(given map[string]string, known map[string]suboption, refuse func(unknown []string) error) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		check, ok := known[key]
		if !ok {
			unknown = append(unknown, key)
			continue
		}
		if err := check(given[key]); err != nil {
			return err
		}
	}
	if len(unknown) > 0 {
		return refuse(unknown)
	}
	return nil
}

// checkCompaction checks options that depend on each other.
func checkCompaction(given map[string]string) error {
	least, errLeast := strconv.Atoi(given["min_threshold"])
	most, errMost := strconv.Atoi(given["max_threshold"])
	switch {
	case errLeast != nil, errMost != nil: // The options of the strategy are not known.
	case least < 2:
		return config("Min compaction threshold cannot be less than 2 (got %d)", least)
	case least > most:
		return config("Min compaction threshold (got %d) cannot be greater than max compaction threshold (got %d)", least, most)
	}
	bucket := map[string]float64{"bucket_low": 0.5, "bucket_high": 1.5}
	for _, key := range []string{"bucket_low", "bucket_high"} {
		if text, ok := given[key]; ok {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return config("%s is not a parsable int (base10) for %s", text, key)
			}
			bucket[key] = f
		}
	}
	if bucket["bucket_high"] <= bucket["bucket_low"] {
		return config("bucket_high value (%s) is less than or equal to the bucket_low value (%s)", decimalText(bucket["bucket_high"]), decimalText(bucket["bucket_low"]))
	}
	return nil
}

// decimalText prints a number with a decimal point.
func decimalText(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// anyCompression are the options of all compressors.
var anyCompression = map[string]suboption{
	"class": anything, "enabled": anything, "crc_check_chance": anything,
	"chunk_length_in_kb": func(value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		switch {
		case err != nil:
			return config("Invalid value for chunk_length_in_kb")
		case n <= 0:
			return config("Invalid negative or null chunk_length_in_kb")
		case n&(n-1) != 0:
			return config("chunk_length_in_kb must be a power of 2")
		}
		return nil
	},
	"min_compress_ratio": func(value string) error {
		f, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
			return config("Invalid value %s for 'min_compress_ratio'", value)
		case f != 0 && f < 1:
			return config("min_compress_ratio can either be 0 or greater than or equal to 1")
		}
		return nil
	},
}

// compressors are the compressors with their own options.
var compressors = map[string]map[string]suboption{
	"LZ4Compressor": {
		"lz4_compressor_type":       oneOf("Invalid compressor type '%s' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are [high, fast].", "high", "fast"),
		"lz4_high_compressor_level": levelOption("lz4_high_compressor_level", 1, 17),
	},
	"SnappyCompressor": {}, "DeflateCompressor": {}, "NoopCompressor": {},
	"ZstdCompressor": {"compression_level": levelOption("compression_level", -131_072, 22)},
}

func levelOption(name string, least, most int64) suboption {
	return func(value string) error {
		if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < least || n > most {
			return config("%s=%s is invalid", name, value)
		}
		return nil
	}
}

func compressionOption(p cql.Property) (map[string]string, error) {
	given := entries(p)
	if enabled, ok := given["enabled"]; ok && !strings.EqualFold(enabled, "true") {
		if len(given) > 1 {
			return nil, config("If the 'enabled' option is set to false no other options must be specified")
		}
		return map[string]string{"enabled": "false"}, nil
	}
	class := given["class"]
	for _, old := range []string{"sstable_compression", "chunk_length_kb"} {
		if value, ok := given[old]; ok {
			delete(given, old)
			if old == "chunk_length_kb" {
				given["chunk_length_in_kb"] = value
			} else if class == "" {
				if class = value; class == "" {
					return map[string]string{"enabled": "false"}, nil
				}
			}
		}
	}
	if len(given) == 0 && class == "" {
		return map[string]string{"enabled": "false"}, nil
	}
	if class == "" {
		return nil, config("Missing sub-option 'class' for the 'compression' option.")
	}
	if !strings.Contains(class, ".") {
		class = compressionClasses + class
	}
	own, ok := compressors[strings.TrimPrefix(class, compressionClasses)]
	if !ok {
		return nil, config("Could not create Compression for type %s", class)
	}
	given["class"] = class
	if err := checkSuboptions(given, with(anyCompression, own), func(unknown []string) error {
		return config("Unknown compression options %s", strings.Join(unknown, ", "))
	}); err != nil {
		return nil, err
	}
	if _, ok := given["chunk_length_in_kb"]; !ok {
		given["chunk_length_in_kb"] = "16"
	}
	return given, nil
}

// replicationOption checks the replication of a keyspace. Decan replicates in its own way,
// so it accepts every name of a data center, and every number of copies.
func replicationOption(given map[string]string, keyspace string) error {
	const classes = "org.apache.cassandra.locator."
	class := strings.TrimPrefix(given["class"], classes)
	if !slices.Contains(strategies, class) {
		if !strings.Contains(class, ".") {
			class = classes + class
		}
		return config("Unable to find replication strategy class '%s'", class)
	}
	if class == "LocalStrategy" {
		return invalid("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
	}
	given["class"] = classes + class
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		switch {
		case key == "class":
		case key == "replication_factor" || class == "NetworkTopologyStrategy":
			text := given[key]
			n, err := strconv.ParseInt(text, 10, 32)
			if strings.Contains(text, "/") {
				return config("Transient replication is not enabled on this node")
			}
			if err != nil {
				return config("%s", fmt.Sprintf("For input string: \"%s\"", text))
			}
			if n < 0 {
				return config("Replication factor must be non-negative, found %d", n)
			}
		case class == "SimpleStrategy":
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		return config("Unrecognized strategy option {%s} passed to SimpleStrategy for keyspace %s", strings.Join(unknown, ", "), keyspace)
	}
	return nil
}
