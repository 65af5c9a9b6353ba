package decan

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
)

// TestConfigReachesServer: each setting changes the configuration of the server, and
// only that setting does.
func TestConfigReachesServer(t *testing.T) {
	t.Parallel()
	plain := Config{}.server()
	seen := map[string]string{}
	var walk func(name string, field func(*Config) reflect.Value)
	walk = func(name string, field func(*Config) reflect.Value) {
		var config Config
		switch f := field(&config); f.Interface().(type) {
		case string:
			f.SetString("text")
		case []string:
			f.Set(reflect.ValueOf([]string{"text"}))
		case bool:
			f.SetBool(true)
		case time.Duration:
			f.SetInt(int64(time.Hour))
		case *slog.Logger:
			f.Set(reflect.ValueOf(slog.New(slog.DiscardHandler)))
		case Clock:
			for i := range f.NumField() {
				walk(name+"."+f.Type().Field(i).Name, func(c *Config) reflect.Value { return field(c).Field(i) })
			}
			return
		default:
			t.Fatalf("%s: the test has no value of type %s", name, f.Type())
		}
		got := config.server()
		if reflect.DeepEqual(got, plain) {
			t.Errorf("%s does not reach the server", name)
		}
		text := fmt.Sprintf("%+v", got)
		if other := seen[text]; other != "" {
			t.Errorf("%s and %s change the same setting of the server", name, other)
		}
		seen[text] = name
	}
	for i, config := 0, reflect.TypeFor[Config](); i < config.NumField(); i++ {
		walk(config.Field(i).Name, func(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().Field(i) })
	}
	if plain.Ports != (server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}) || plain.Throughput.Enforcement != "off" || plain.Data != "" {
		t.Errorf("the defaults of a library: %+v", plain)
	}
}
