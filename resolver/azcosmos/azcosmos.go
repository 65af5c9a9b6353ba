// Package azcosmos applies a resolver to the Cosmos DB SDK for Go: one [Client]
// serves a group of containers, which may be in several databases and accounts.
//
// The client reads and writes each item in the container that the routing names,
// and merges the results of queries over several containers. [Mover] changes the
// layout while clients continue to work. [ContainerStore] keeps the routing in a
// container, [Managed] creates containers from a template, and [Client.Spill]
// adds a container when the last one is full.
//
// # Invariants
//
// An item is read, replaced and deleted where it was created, whatever move is
// in progress. A change that must reach two copies is acknowledged when both
// have it. A query returns each item once. Charges include every request that
// was sent.
//
// Page: docs/resolver.md
package azcosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

// The defaults of a Config.
const (
	ParallelismDefault = 8
	FenceWaitDefault   = 30 * time.Second
	TimeoutDefault     = 10 * time.Second
)

// The errors of this package. Other errors come from package resolver and from
// the SDK.
var (
	// ErrApart means that the operations of a batch belong to different
	// containers or partition keys.
	ErrApart = errors.New("the batch does not stay in one container and partition key")

	// ErrCollision means that a move would put an item where another item has
	// the same id and partition key. Rename one of them, or undo the move.
	ErrCollision = errors.New("another item has the same id and partition key in the target")

	// ErrRestart means that a query must start again: the items it was reading
	// have been moved, and the query has no order by which to find its place
	// again.
	ErrRestart = errors.New("the layout has changed since the query began: start it again")

	// ErrQuery means that a query cannot be answered over several containers, or
	// cannot be parsed.
	ErrQuery = errors.New("the query cannot be merged")

	// ErrContinuation means that a continuation token does not belong to the
	// query.
	ErrContinuation = errors.New("invalid continuation token")
)

// Config describes a Client.
type Config struct {
	// Accounts are the SDK's clients by the name in Target.Account. "" is the
	// account of targets that name none.
	Accounts map[string]*sdk.Client

	// View is the routing to follow.
	View *resolver.Live

	// PartitionKey are the paths of the containers' partition key. Default: the
	// paths of the routing key, which must then have paths.
	PartitionKey []string

	// Scripts reads and creates the scripts of containers, which the SDK cannot
	// do. RESTScripts implements it. If it is nil, templates with scripts are
	// refused, and a container made like another one gets no scripts.
	Scripts Scripts

	// Parallelism is the number of concurrent requests of a query. Default
	// ParallelismDefault; 1 asks one container after another.
	Parallelism int

	// FenceWait is how long a write waits while a move hands over its key,
	// before it fails with resolver.ErrMigrating. Default FenceWaitDefault.
	FenceWait time.Duration

	// Timeout bounds one operation on an item if the routing is watched, not
	// counting the wait at a fence. It tells a Mover when the last operation of
	// a phase has ended. A page of a query may take longer; the query then
	// confirms the state again at the end of the page. Default TimeoutDefault.
	Timeout time.Duration
}

// Client works on the containers of a routing as if they were one. It is safe
// for concurrent use.
type Client struct {
	config     Config
	partition  resolver.Extractor
	containers sync.Map // address -> *sdk.ContainerClient
	sleep      func(ctx context.Context, d time.Duration) error
}

// New returns a client. The error is a resolver.ErrConfig.
func New(c Config) (*Client, error) {
	if c.View == nil || len(c.Accounts) == 0 {
		return nil, fmt.Errorf("%w: a client needs a view and an account", resolver.ErrConfig)
	}
	if len(c.PartitionKey) == 0 {
		c.PartitionKey = c.View.Routing().State.Key.Paths
	}
	partition, err := resolver.Paths(c.PartitionKey...)
	if err != nil {
		return nil, fmt.Errorf("partition key: %w", err)
	}
	if c.Parallelism <= 0 {
		c.Parallelism = ParallelismDefault
	}
	if c.FenceWait <= 0 {
		c.FenceWait = FenceWaitDefault
	}
	if c.Timeout <= 0 {
		c.Timeout = TimeoutDefault
	}
	return &Client{config: c, partition: partition, sleep: sleep}, nil
}

// View returns the routing that the client follows.
func (c *Client) View() *resolver.Live { return c.config.View }

// address identifies the container of a target.
type address struct{ account, database, container string }

// container returns the SDK's client of a target's container.
func (c *Client) container(t resolver.Target) (*sdk.ContainerClient, error) {
	at := address{t.Account, t.Database, t.Container}
	if found, ok := c.containers.Load(at); ok {
		return found.(*sdk.ContainerClient), nil
	}
	account, err := c.account(t)
	if err != nil {
		return nil, err
	}
	container, err := account.NewContainer(t.Database, t.Container)
	if err != nil {
		return nil, fmt.Errorf("%w: target %q: %w", resolver.ErrConfig, t.Name, err)
	}
	c.containers.Store(at, container)
	return container, nil
}

// account returns the SDK's client of a target's account.
func (c *Client) account(t resolver.Target) (*sdk.Client, error) {
	account := c.config.Accounts[t.Account]
	if account == nil {
		return nil, fmt.Errorf("%w: target %q is in the account %q, which this client does not know", resolver.ErrConfig, t.Name, t.Account)
	}
	return account, nil
}

// partitionKey converts a key to the SDK's form.
func partitionKey(key resolver.Key) (sdk.PartitionKey, error) {
	pk := sdk.NewPartitionKey()
	for _, c := range key.Components() {
		switch c.Type() {
		case partitionkey.TypeString:
			pk = pk.AppendString(c.Text())
		case partitionkey.TypeNumber:
			pk = pk.AppendNumber(c.Float())
		case partitionkey.TypeTrue, partitionkey.TypeFalse:
			pk = pk.AppendBool(c.Type() == partitionkey.TypeTrue)
		case partitionkey.TypeNull:
			pk = pk.AppendNull()
		default:
			return pk, fmt.Errorf("%w: the SDK cannot send the partition key of an item in which a property of the key is missing", resolver.ErrKey)
		}
	}
	if key.Len() == 0 {
		return pk, fmt.Errorf("%w: no partition key", resolver.ErrKey)
	}
	return pk, nil
}

// statusOf returns the HTTP status of an error of the SDK, 0 for any other error.
func statusOf(err error) int {
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return response.StatusCode
	}
	return 0
}

// subStatusOf returns the sub-status of an error of the SDK, "" for none.
func subStatusOf(err error) string {
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok && response.RawResponse != nil {
		return response.RawResponse.Header.Get("x-ms-substatus")
	}
	return ""
}

// chargeOf returns what a failed request cost.
func chargeOf(err error) float64 {
	if response, ok := errors.AsType[*azcore.ResponseError](err); ok && response.RawResponse != nil {
		if charge, err := strconv.ParseFloat(response.RawResponse.Header.Get("x-ms-request-charge"), 64); err == nil {
			return charge
		}
	}
	return 0
}

// throttledAttempts is the maximum number of attempts of a refused request of a
// move or a template.
const throttledAttempts = 30

// retryThrottled calls f again while the service answers 429, 449 or 503, after
// the delay that the service asks for: at least 10 ms, and 1 s if it names none.
func (c *Client) retryThrottled(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		delay, throttled := retryDelay(err)
		if !throttled || attempt == throttledAttempts {
			return err
		}
		if err := c.sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// statusRetryWith is 449: the service met an internal conflict and asks for a
// retry.
const statusRetryWith = 449

func retryDelay(err error) (time.Duration, bool) {
	switch statusOf(err) {
	case http.StatusTooManyRequests, statusRetryWith, http.StatusServiceUnavailable:
	default:
		return 0, false
	}
	response, _ := errors.AsType[*azcore.ResponseError](err)
	delay := time.Second
	if response.RawResponse != nil {
		if told, err := time.ParseDuration(response.RawResponse.Header.Get("x-ms-retry-after-ms") + "ms"); err == nil {
			delay = max(told, 10*time.Millisecond)
		}
	}
	return delay, true
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
