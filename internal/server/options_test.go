package server

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/resource"
)

// TestDefaults shows that the zero configuration gets the default of each option, and
// no other value.
func TestDefaults(t *testing.T) {
	t.Parallel()
	full, err := Config{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, group := range full.groups() {
		for i := range group.NumField() {
			options++
			tag, got := group.Type().Field(i).Tag, group.Field(i)
			if text, found := tag.Lookup("default"); found && tag.Get("only") == "" {
				want := reflect.New(got.Type()).Elem()
				if err := setOption(want, text); err != nil || !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Errorf("--%s is %v, want %v (%v)", tag.Get("name"), got, want, err)
				}
			} else if tag.Get("name") != "key" && !got.IsZero() {
				t.Errorf("--%s is %v, and has no default", tag.Get("name"), got)
			}
		}
	}
	if options < 60 || full.Keys.Primary != WellKnownKey || full.Data != "" {
		t.Errorf("%d options, data in %q", options, full.Data)
	}

	// Options that are set do not change.
	set := Config{Data: "d", Clock: ClockOptions{Jump: -1, Ahead: time.Hour}, Storage: StorageOptions{ScrubRate: -1}}
	if full, err = set.complete(); err != nil || full.Data != "d" || full.Clock.Jump != -1 || full.Clock.Ahead != time.Hour || full.Storage.ScrubRate != -1 {
		t.Errorf("%+v %v", full, err)
	}
	set.InMemory = true
	if full, err = set.complete(); err != nil || full.Data != "" {
		t.Errorf("in memory the data is in %q, %v", full.Data, err)
	}
}

// TestLimitDefaults shows that the defaults of options are those of the limits that
// they replace, so decan serve, which sets all of them, has the documented limits.
func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	for preset, want := range map[string]resource.Limits{"default": resource.DefaultLimits(), "laptop": resource.LaptopLimits()} {
		config := Config{Partitions: PartitionOptions{Preset: preset}}
		for _, group := range config.groups() {
			setDefaults(group)
		}
		if full, err := config.complete(); err != nil || full.Limits != want {
			t.Errorf("%s: got %+v %v, want %+v", preset, full.Limits, err, want)
		}
	}
	for _, c := range []struct {
		config Config
		get    func(resource.Limits) any
		want   any
	}{
		{Config{Clock: ClockOptions{Skew: -1}}, func(l resource.Limits) any { return l.ClockSkew }, time.Duration(0)},
		{Config{Protocol: ProtocolOptions{SessionWait: -1}}, func(l resource.Limits) any { return l.SessionWait }, time.Duration(0)},
		{Config{Queries: QueryOptions{Memory: 1 << 20}}, func(l resource.Limits) any { return l.QueryMemoryBytes }, int64(1 << 20)},
		{Config{Account: AccountOptions{Resources: 3}}, func(l resource.Limits) any { return l.Databases }, 3},
	} {
		if full, err := c.config.complete(); err != nil || c.get(full.Limits) != c.want {
			t.Errorf("%+v: got %v %v, want %v", c.config, c.get(full.Limits), err, c.want)
		}
	}
	// Limits that a program sets do not change, except where an option is set.
	own := resource.LaptopLimits()
	own.QueryTime, own.QueryQueue = time.Hour, 5
	full, err := Config{Limits: own, Queries: QueryOptions{Queue: 7}}.complete()
	if want := own; err != nil || full.Limits.QueryTime != want.QueryTime || full.Limits.QueryQueue != 7 || full.Limits.PartitionRUs != want.PartitionRUs {
		t.Errorf("got %+v %v", full.Limits, err)
	}
}

// TestOptionTags shows that each option has its own flag and a help text, and that each
// limit that a tag names exists.
func TestOptionTags(t *testing.T) {
	t.Parallel()
	config, names := Config{}, map[string]bool{}
	for _, group := range config.groups() {
		for i := range group.NumField() {
			field := group.Type().Field(i)
			name := field.Tag.Get("name")
			if name == "" || names[name] || !strings.HasSuffix(strings.TrimSpace(field.Tag.Get("help")), ".") {
				t.Errorf("%s.%s: flag %q, help %q", group.Type(), field.Name, name, field.Tag.Get("help"))
			}
			names[name] = true
			if limit := field.Tag.Get("limit"); limit != "" && !reflect.ValueOf(config.Limits).FieldByName(limit).IsValid() {
				t.Errorf("--%s: there is no limit %q", name, limit)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1000": 1000, "512KB": 512 << 10, "4 MB": 4 << 20, " 20gb ": 20 << 30, "8589934591GB": 8589934591 << 30, "9223372036854775807": math.MaxInt64,
	} {
		var s Size
		var n SizeOrNone
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want {
			t.Errorf("%q: got %d %v, want %d", text, s, err, want)
		}
		if err := n.UnmarshalText([]byte(text)); err != nil || int64(n) != want {
			t.Errorf("%q, or none: got %d %v, want %d", text, n, err, want)
		}
	}
	for _, wrong := range []string{"", "0", "-1", "GB", "4TB", "1.5GB", "8589934592GB", "9223372036854775808", "4MBKB", "0x10"} {
		var s Size
		if err := s.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %d", wrong, s)
		}
		var n SizeOrNone
		if err := n.UnmarshalText([]byte(wrong)); (err == nil) != (wrong == "0") || err == nil && n >= 0 {
			t.Errorf("%q, or none, was read as %d, %v", wrong, n, err)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add("20GB")
	f.Add("4 mb")
	f.Fuzz(func(t *testing.T, text string) {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil && s <= 0 {
			t.Errorf("%q is %d", text, s)
		}
	})
}
