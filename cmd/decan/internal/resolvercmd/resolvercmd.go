// Package resolvercmd is decan resolver: the commands that work with the states of
// package resolver, which distribute keys over several containers.
//
// resolvercmd.go finds states and accounts and reads keys, look.go has where and plan,
// spread.go spread, and move.go migrate, verify and state.
//
// Page: docs/resolver.md
package resolvercmd

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
	"path/filepath"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// Command is decan resolver.
type Command struct {
	Where   whereCommand   `cmd:"" help:"Show the containers of keys."`
	Spread  spreadCommand  `cmd:"" help:"Show how evenly a sample of keys is distributed over the containers, and draw rings and ranges."`
	Plan    planCommand    `cmd:"" help:"Show what moves if the layout changes. This command changes nothing."`
	Migrate migrateCommand `cmd:"" help:"Move items to another layout while clients work; after an interruption, run it again to continue."`
	Verify  verifyCommand  `cmd:"" help:"Count and hash the items of all containers and compare both sides of a move. This command changes nothing."`
	State   stateCommand   `cmd:"" help:"Show a state and the progress of its move, or store a first state."`
}

// stateSource is where a state is stored.
type stateSource struct {
	State string `arg:"" help:"The state: a JSON file, DIR/NAME for the newest state NAME of a directory that clients share, or items:DATABASE/CONTAINER/NAME for one in a container."`
}

// itemsPrefix marks a state in a container.
const itemsPrefix = "items:"

// accountFlags are the accounts of a state.
type accountFlags struct {
	Endpoint     string `default:"http://127.0.0.1:8081" env:"DECAN_ENDPOINT" placeholder:"URL" help:"The account of targets that do not name an account (${default})."`
	Key          string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY,DECAN_KEY" placeholder:"KEY" help:"The key of that account, in base64 (default: the well-known key)."`
	Connection   string `name:"connection-string" env:"DECAN_CONNECTION_STRING" placeholder:"TEXT" help:"Endpoint and key of that account in one text: AccountEndpoint=URL;AccountKey=KEY."`
	Accounts     string `env:"-" placeholder:"FILE" help:"A JSON file with the accounts that targets name: {\"NAME\": {\"endpoint\": \"URL\", \"key\": \"KEY\"}}. An account without a key has the well-known key."`
	StateAccount string `name:"state-account" env:"-" placeholder:"NAME" help:"The account that contains the state, for items:..."`

	remote.Trust
}

// idleConnectionsMax is the maximum number of idle connections to an account.
const idleConnectionsMax = 64

// sender returns the HTTP client for requests to the accounts.
func (f *accountFlags) sender() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnectionsMax
	return f.Client(transport)
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

// store returns the store of the state, and the name of the state in it.
func (s *stateSource) store(flags *accountFlags) (resolver.Store, string, error) {
	path, inItems := strings.CutPrefix(s.State, itemsPrefix)
	if !inItems {
		if info, err := os.Stat(s.State); err == nil && info.Mode().IsRegular() {
			return nil, "", fmt.Errorf("%s is a single file, which clients cannot share: store the state with decan resolver state DIR/NAME --init %s", s.State, s.State)
		}
		dir, name := filepath.Split(s.State)
		if dir == "" {
			dir = "."
		}
		return resolver.FileStore{Dir: dir}, name, nil
	}
	parts := strings.Split(path, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, "", fmt.Errorf("%q: give items:DATABASE/CONTAINER/NAME", s.State)
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
		return nil, "", fmt.Errorf("--state-account %q: there is no such account", flags.StateAccount)
	}
	container, err := account.NewContainer(parts[0], parts[1])
	if err != nil {
		return nil, "", err
	}
	return azcosmos.ContainerStore{Container: container}, parts[2], nil
}

// load returns the state.
func (s *stateSource) load(ctx context.Context, flags *accountFlags) (resolver.State, error) {
	if !strings.HasPrefix(s.State, itemsPrefix) {
		info, err := os.Stat(s.State)
		if err == nil && info.Mode().IsRegular() {
			return readState(s.State)
		}
		if filepath.Ext(s.State) != "" {
			return resolver.State{}, fmt.Errorf("%s: the file does not exist", s.State)
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

// open returns the state and its routing.
func (s *stateSource) open(ctx context.Context, flags *accountFlags) (resolver.State, *resolver.Routing, error) {
	state, err := s.load(ctx, flags)
	if err != nil {
		return state, nil, brief(err)
	}
	routing, err := openState(state)
	return state, routing, err
}

// readState reads a state from a single file.
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

// openState returns the routing of a state. If a function computes the key, keys can be
// given, but not extracted from documents.
func openState(state resolver.State) (*resolver.Routing, error) {
	registry := resolver.Registry{Functions: map[string]resolver.Extractor{}}
	if function := state.Key.Function; function != "" {
		registry.Functions[function] = func([]byte) (resolver.Key, error) {
			return resolver.Key{}, fmt.Errorf("%w: the function %s, which extracts keys from documents, is code of your program: give keys instead", resolver.ErrKey, function)
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
			err = errors.New("the key has no levels")
		}
		if err != nil {
			return key, fmt.Errorf("%s: %w (write a string that begins with a bracket as [\"[...\"])", text, err)
		}
		return key, nil
	}
	return resolver.TextKey(text), nil
}

// keyLineMax is the maximum length of a line of a sample: twice the largest document.
const keyLineMax = 4 << 20

// sample reads keys from the lines of a file.
type sample struct {
	name    string
	in      io.ReadCloser
	routing *resolver.Routing
	err     error // why the last pass ended early; nil at the end of the file
}

// openSample opens a file; "-" is stdin.
func openSample(name string, stdin io.Reader, routing *resolver.Routing) (*sample, error) {
	if name == "-" {
		return &sample{name: "standard input", in: io.NopCloser(stdin), routing: routing}, nil
	}
	in, err := os.Open(name)
	return &sample{name: name, in: in, routing: routing}, err
}

// keys yields the keys of all lines that are not blank. Afterwards err says why it
// ended.
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

// bar draws part of whole as a bar.
func bar(part, whole float64, width int) string {
	if !(part > 0) || !(whole > 0) {
		return ""
	}
	return strings.Repeat("#", max(1, int(part/whole*float64(width)+0.5)))
}

// percent writes part of whole in percent.
func percent(part, whole float64) string {
	if whole == 0 {
		part, whole = 0, 1
	}
	return fmt.Sprintf("%.1f %%", 100*part/whole)
}

// address returns the name of a target and its container.
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

// connection is a client of a stored state.
type connection struct {
	store  resolver.Store
	name   string
	live   *resolver.Live
	client *azcosmos.Client
}

// clientFlags are the times of a client.
type clientFlags struct {
	Lease   time.Duration `default:"5s" env:"-" placeholder:"DURATION" help:"How long a client uses a state that it has read; the same in all programs that use the state (${default})."`
	Timeout time.Duration `default:"10s" env:"-" placeholder:"DURATION" help:"The maximum time of one operation of a client; the same in all programs that use the state (${default})."`
}

// Validate refuses durations that are not positive.
func (f *clientFlags) Validate() error {
	if f.Lease <= 0 || f.Timeout <= 0 {
		return errors.New("--lease and --timeout must be longer than 0")
	}
	return nil
}

// connect returns a client of a stored state. The caller closes its live view.
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
		return nil, fmt.Errorf("the function %s extracts the keys of this state from documents, and only your program has it: run a Mover there", function)
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

// keyedClient returns a client with the partition key of the containers.
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

// items returns a function that requests the number of items of a target. It is for bars
// only, so a failure counts as 0.
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

// briefError is an error with a text of one line.
type briefError struct{ error }

func (e briefError) Error() string { return azcosmos.Reason(e.error) }

func (e briefError) Unwrap() error { return e.error }

// brief shortens the text of an SDK error. A refused key becomes a [remote.Refused], as in
// the other commands.
func brief(err error) error {
	if err == nil {
		return nil
	}
	if code := azcosmos.Status(err); code == http.StatusUnauthorized || code == http.StatusForbidden {
		if body, failed := json.Marshal(map[string]string{"message": azcosmos.Reason(err)}); failed == nil {
			answer := remote.Refusal(code, body)
			if what, _, found := strings.Cut(err.Error(), ": "); found && errors.Unwrap(err) != nil {
				answer = fmt.Errorf("%s: %w", what, answer) // Such as which of several containers.
			}
			return answer
		}
	}
	return briefError{err}
}
