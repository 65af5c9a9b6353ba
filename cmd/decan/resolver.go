package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// resolverCommand works with the states of package resolver, which say how keys are
// laid out over several containers. docs/resolver.md describes them.
type resolverCommand struct {
	Where   whereCommand   `cmd:"" help:"Show in which container keys are."`
	Spread  spreadCommand  `cmd:"" help:"Show how evenly a sample of keys lies over the containers, and draw rings and ranges."`
	Plan    planCommand    `cmd:"" help:"Show what moves when the layout changes. Nothing is changed."`
	Migrate migrateCommand `cmd:"" help:"Move items to another layout while clients work; after any interruption, run it again to go on."`
	Verify  verifyCommand  `cmd:"" help:"Count and hash the items of all containers and compare both sides of a move. Nothing is changed."`
	State   stateCommand   `cmd:"" help:"Show a state and how far its move is, or store a first one."`
}

// stateSource is where a state is. NAME in the help is the last part of the argument.
type stateSource struct {
	State string `arg:"" help:"The state: a JSON file, DIR/NAME for the newest state NAME of a directory that clients share, or items:DATABASE/CONTAINER/NAME for one in a container."`
}

// itemsPrefix marks a state in a container.
const itemsPrefix = "items:"

// accountFlags say how to reach the accounts of a state.
type accountFlags struct {
	Endpoint     string `default:"http://127.0.0.1:8081" env:"-" placeholder:"URL" help:"The account of targets that name none (${default})."`
	Key          string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY" placeholder:"KEY" help:"Its key, in base64 (the well-known one)."`
	Accounts     string `env:"-" placeholder:"FILE" help:"A JSON file with the accounts that targets name: {\"NAME\": {\"endpoint\": \"URL\", \"key\": \"KEY\"}}. Without a key the well-known one is meant."`
	StateAccount string `name:"state-account" env:"-" placeholder:"NAME" help:"The account that holds the state, for items:..."`

	trustFlags
}

// idleConnectionsMax is how many connections to one account are kept open.
const idleConnectionsMax = 64

// sender returns the client that requests to the accounts are sent with.
func (f *accountFlags) sender() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnectionsMax
	return f.client(transport)
}

// list returns the accounts by name.
func (f *accountFlags) list() (map[string]azcosmos.Account, error) {
	endpoint := f.Endpoint
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	accounts := map[string]azcosmos.Account{"": {Endpoint: endpoint, Key: f.Key}}
	if f.Accounts == "" {
		return accounts, nil
	}
	text, err := os.ReadFile(f.Accounts)
	if err != nil {
		return nil, err
	}
	var listed map[string]azcosmos.Account
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&listed); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Accounts, err)
	}
	for name, account := range listed {
		if account.Key == "" {
			account.Key = auth.WellKnownKey
		}
		accounts[name] = account
	}
	return accounts, nil
}

// store returns the store that a state is in and its name there.
func (s *stateSource) store(flags *accountFlags) (resolver.Store, string, error) {
	path, inItems := strings.CutPrefix(s.State, itemsPrefix)
	if !inItems {
		if info, err := os.Stat(s.State); err == nil && info.Mode().IsRegular() {
			return nil, "", fmt.Errorf("%s is a file of its own, which clients cannot share: store it with decan resolver state DIR/NAME --init %s", s.State, s.State)
		}
		dir, name := filepath.Split(s.State)
		if dir == "" {
			dir = "."
		}
		return resolver.FileStore{Dir: dir}, name, nil
	}
	parts := strings.Split(path, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, "", fmt.Errorf("%q: want items:DATABASE/CONTAINER/NAME", s.State)
	}
	accounts, err := flags.list()
	if err != nil {
		return nil, "", err
	}
	sender, err := flags.sender()
	if err != nil {
		return nil, "", err
	}
	clients, err := azcosmos.ConnectWith(accounts, sender)
	if err != nil {
		return nil, "", err
	}
	account := clients[flags.StateAccount]
	if account == nil {
		return nil, "", fmt.Errorf("--state-account: there is no account %q", flags.StateAccount)
	}
	container, err := account.NewContainer(parts[0], parts[1])
	if err != nil {
		return nil, "", err
	}
	return azcosmos.ContainerStore{Container: container}, parts[2], nil
}

// load returns the state, wherever it is.
func (s *stateSource) load(ctx context.Context, flags *accountFlags) (resolver.State, error) {
	if !strings.HasPrefix(s.State, itemsPrefix) {
		info, err := os.Stat(s.State)
		if err == nil && info.Mode().IsRegular() {
			return readState(s.State)
		}
		if filepath.Ext(s.State) != "" {
			return resolver.State{}, fmt.Errorf("%s: there is no such file", s.State)
		}
	}
	store, name, err := s.store(flags)
	if err != nil {
		return resolver.State{}, err
	}
	state, _, err := resolver.LoadState(ctx, store, name)
	if errors.Is(err, resolver.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return state, fmt.Errorf("%s: there is no such file and no such stored state", s.State)
	}
	return state, err
}

// open returns the state, wherever it is, and has it ready.
func (s *stateSource) open(ctx context.Context, flags *accountFlags) (resolver.State, *resolver.Routing, error) {
	state, err := s.load(ctx, flags)
	if err != nil {
		return state, nil, say(err)
	}
	routing, err := openState(state)
	return state, routing, err
}

// readState reads a state from a file of its own.
func readState(path string) (resolver.State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return resolver.State{}, err
	}
	state, err := resolver.ParseState(text)
	if err == nil {
		_, err = openState(state)
	}
	if err != nil {
		return state, fmt.Errorf("%s: %w", path, err)
	}
	return state, nil
}

// openState makes a state ready. A key that a function computes can be given, but not
// be taken from a document here.
func openState(state resolver.State) (*resolver.Routing, error) {
	registry := resolver.Registry{Functions: map[string]resolver.Extractor{}}
	if function := state.Key.Function; function != "" {
		registry.Functions[function] = func([]byte) (resolver.Key, error) {
			return resolver.Key{}, fmt.Errorf("%w: the function %s, which takes keys from documents, is code of your program: give keys instead", resolver.ErrKey, function)
		}
	}
	return resolver.Open(state, registry)
}

// parseKey reads a key from one line: a JSON array is the whole key, a JSON object is a
// document that has the key, and anything else is a key of one string.
func parseKey(routing *resolver.Routing, text string) (resolver.Key, error) {
	switch {
	case strings.HasPrefix(text, "{"):
		return routing.Key([]byte(text))
	case strings.HasPrefix(text, "["):
		key, err := partitionkey.Parse(text)
		if err == nil && key.Len() == 0 {
			err = errors.New("a key of no level")
		}
		if err != nil {
			return key, fmt.Errorf("%s: %w (write a string that begins with a bracket as [\"[...\"])", text, err)
		}
		return key, nil
	}
	return resolver.TextKey(text), nil
}

// keyLineMax is how long a line of a sample may be: a document of the largest size.
const keyLineMax = 4 << 20

// sample reads keys from the lines of a file.
type sample struct {
	name    string
	in      io.ReadCloser
	routing *resolver.Routing
	err     error // why the last pass ended early
}

// openSample opens a file, "-" for standard input.
func openSample(name string, routing *resolver.Routing) (*sample, error) {
	if name == "-" {
		return &sample{name: "standard input", in: io.NopCloser(os.Stdin), routing: routing}, nil
	}
	in, err := os.Open(name)
	return &sample{name: name, in: in, routing: routing}, err
}

// keys gives the keys of all lines that are not blank. Afterwards err tells why it
// ended, nil for the end of the file.
func (s *sample) keys() iter.Seq[resolver.Key] {
	return func(yield func(resolver.Key) bool) {
		lines := bufio.NewScanner(s.in)
		lines.Buffer(nil, keyLineMax)
		number := 0
		for lines.Scan() {
			number++
			text := strings.TrimSpace(lines.Text())
			if text == "" {
				continue
			}
			key, err := parseKey(s.routing, text)
			if err != nil {
				s.err = fmt.Errorf("%s, line %d: %w", s.name, number, err)
				return
			}
			if !yield(key) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			s.err = fmt.Errorf("%s, line %d: %w", s.name, number+1, err)
		}
	}
}

// bar draws a part of a whole.
func bar(part, whole float64, width int) string {
	if !(part > 0) || !(whole > 0) {
		return ""
	}
	return strings.Repeat("#", max(1, int(part/whole*float64(width)+0.5)))
}

// percent writes a share.
func percent(part, whole float64) string {
	if whole == 0 {
		part, whole = 0, 1
	}
	return fmt.Sprintf("%.1f %%", 100*part/whole)
}

// address names a target and the container it stands for.
func address(t resolver.Target) string {
	if t.Container == "" {
		return t.Name
	}
	at := t.Database + "/" + t.Container
	if t.Account != "" {
		at = t.Account + ":" + at
	}
	return t.Name + " (" + at + ")"
}

// printJSON writes a value over several lines.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// interruptible is a context that ends at the first SIGINT or SIGTERM.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
}

// connection is a client of a stored state.
type connection struct {
	store  resolver.Store
	name   string
	live   *resolver.Live
	client *azcosmos.Client
}

// clientFlags say how the client works.
type clientFlags struct {
	Lease   time.Duration `default:"5s" env:"-" help:"How long a client relies on a state it has seen; the same in all programs that use the state (${default})."`
	Timeout time.Duration `default:"10s" env:"-" help:"How long one operation of a client takes at most; the same in all programs that use the state (${default})."`
}

// Validate refuses durations that cannot be waited for.
func (f *clientFlags) Validate() error {
	if f.Lease <= 0 || f.Timeout <= 0 {
		return errors.New("--lease and --timeout have to be longer than 0")
	}
	return nil
}

// connect returns a client of a state in a store. The caller closes its view.
func (s *stateSource) connect(ctx context.Context, accounts *accountFlags, flags *clientFlags, parallelism int) (*connection, error) {
	store, name, err := s.store(accounts)
	if err != nil {
		return nil, err
	}
	state, err := s.load(ctx, accounts)
	if err != nil {
		return nil, err
	}
	if function := state.Key.Function; function != "" {
		return nil, fmt.Errorf("the key of this state is taken from documents by the function %s, which only your program has: run a Mover there", function)
	}
	list, err := accounts.list()
	if err != nil {
		return nil, err
	}
	sender, err := accounts.sender()
	if err != nil {
		return nil, err
	}
	clients, err := azcosmos.ConnectWith(list, sender)
	if err != nil {
		return nil, err
	}
	live, err := resolver.Watch(ctx, resolver.LiveConfig{Store: store, Name: name, Poll: -1, Lease: flags.Lease})
	if err != nil {
		return nil, err
	}
	client, err := keyedClient(ctx, azcosmos.Config{
		Accounts: clients, View: live, Scripts: azcosmos.RESTScripts{Accounts: list, HTTP: sender},
		Timeout: flags.Timeout, Parallelism: parallelism,
	})
	if err != nil {
		live.Close()
		return nil, err
	}
	return &connection{store, name, live, client}, nil
}

// keyedClient returns a client with the partition key that the containers have.
func keyedClient(ctx context.Context, config azcosmos.Config) (*azcosmos.Client, error) {
	client, err := azcosmos.New(config)
	if err != nil {
		return nil, err
	}
	config.PartitionKey, err = client.PartitionKeyPaths(ctx, config.View.Routing().Current().Targets()[0])
	if err != nil {
		return nil, err
	}
	return azcosmos.New(config)
}

// items returns a function that asks how many items a target has. The answers serve
// bars only, so a failure counts as none.
func (c *connection) items(ctx context.Context) func(target string) int64 {
	return func(target string) int64 {
		for _, t := range c.live.Routing().Targets() {
			if t.Name == target {
				n, _ := c.client.Items(ctx, t)
				return n
			}
		}
		return 0
	}
}

// said is an error whose text fits on a line.
type said struct{ error }

func (e said) Error() string { return azcosmos.Reason(e.error) }

func (e said) Unwrap() error { return e.error }

// say makes an error of the SDK readable.
func say(err error) error {
	if err == nil {
		return nil
	}
	return said{err}
}
