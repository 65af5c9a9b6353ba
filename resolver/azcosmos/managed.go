package azcosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

// Missing returns which targets have no container yet: what Ensure would make.
func (c *Client) Missing(ctx context.Context, targets []resolver.Target) ([]resolver.Target, error) {
	var missing []resolver.Target
	for _, t := range targets {
		container, err := c.container(t)
		if err != nil {
			return nil, err
		}
		err = c.retryThrottled(ctx, func() error {
			_, err := container.Read(ctx, nil)
			return err
		})
		if statusOf(err) == http.StatusNotFound {
			missing = append(missing, t)
		} else if err != nil {
			return nil, fmt.Errorf("read the container of %s: %w", t.Name, err)
		}
	}
	return missing, nil
}

// ScriptWriter registers a script in a container, or replaces it. The SDK cannot;
// RESTScripts can.
type ScriptWriter interface {
	PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error
}

// Ensure makes the missing containers of the targets from a template, their databases
// too, and registers the scripts of the template in those it made. It returns what it
// made. Creation is rate limited by the service, so it waits and tries again as told.
// Two clients may do so at once. scripts may be nil when the template has none.
func (c *Client) Ensure(ctx context.Context, template resolver.Template, targets []resolver.Target, scripts ScriptWriter) ([]resolver.Target, error) {
	if len(template.Scripts) > 0 && scripts == nil {
		return nil, fmt.Errorf("%w: the template has scripts, and there is no writer for them", resolver.ErrConfig)
	}
	missing, err := c.Missing(ctx, targets)
	if err != nil {
		return nil, err
	}
	for i, t := range missing {
		if err := c.make(ctx, template, t); err != nil {
			return missing[:i], fmt.Errorf("make the container of %s: %w", t.Name, err)
		}
		for _, script := range template.Scripts {
			if err := scripts.PutScript(ctx, t, script); err != nil {
				return missing[:i], fmt.Errorf("register %s in %s: %w", script.ID, t.Name, err)
			}
		}
	}
	return missing, nil
}

// PartitionKeyPaths returns the paths of the partition key that a target's container
// has, which is what Config.PartitionKey has to say.
func (c *Client) PartitionKeyPaths(ctx context.Context, t resolver.Target) ([]string, error) {
	properties, _, err := c.usage(ctx, t)
	if err != nil {
		return nil, err
	}
	return properties.PartitionKeyDefinition.Paths, nil
}

// checkPartitionKeys returns a resolver.ErrConfig when a container has another partition
// key than the client believes. Reads by the wrong key find nothing, which a move would
// take for items that are deleted. Containers that do not exist pass.
func (c *Client) checkPartitionKeys(ctx context.Context, targets []resolver.Target) error {
	for _, t := range targets {
		paths, err := c.PartitionKeyPaths(ctx, t)
		if statusOf(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
		if !slices.EqualFunc(paths, c.config.PartitionKey, samePath) {
			return fmt.Errorf("%w: the container of %s is partitioned by %s, the client by %s", resolver.ErrConfig,
				t.Name, strings.Join(paths, ", "), strings.Join(c.config.PartitionKey, ", "))
		}
	}
	return nil
}

// samePath reports whether two paths lead to one property, however they are quoted.
func samePath(a, b string) bool {
	left, errLeft := partitionkey.ParsePath(a)
	right, errRight := partitionkey.ParsePath(b)
	return errLeft == nil && errRight == nil && slices.Equal(left, right)
}

// EnsureLike makes the missing containers of the targets with the properties and the
// throughput of another target's, their databases too, and returns what it made. It does
// not copy scripts.
func (c *Client) EnsureLike(ctx context.Context, like resolver.Target, targets []resolver.Target) ([]resolver.Target, error) {
	missing, err := c.Missing(ctx, targets)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	properties, _, err := c.usage(ctx, like)
	if err != nil {
		return nil, err
	}
	for i, t := range missing {
		if err := c.makeLike(ctx, like, t, properties); err != nil {
			return missing[:i], fmt.Errorf("make the container of %s: %w", t.Name, err)
		}
	}
	return missing, nil
}

// make creates one container; one that exists by now is as good.
func (c *Client) make(ctx context.Context, template resolver.Template, t resolver.Target) error {
	var properties sdk.ContainerProperties
	if err := properties.UnmarshalJSON(template.Definition); err != nil {
		return fmt.Errorf("%w: the template's definition: %w", resolver.ErrConfig, err)
	}
	properties.ID = t.Container
	options := &sdk.CreateContainerOptions{}
	if template.Throughput > 0 {
		throughput := sdk.NewManualThroughputProperties(template.Throughput)
		if template.Autoscale {
			throughput = sdk.NewAutoscaleThroughputProperties(template.Throughput)
		}
		options.ThroughputProperties = &throughput
	}
	return c.create(ctx, t, properties, options)
}

func (c *Client) create(ctx context.Context, t resolver.Target, properties sdk.ContainerProperties, options *sdk.CreateContainerOptions) error {
	account := c.config.Accounts[t.Account]
	if account == nil {
		return fmt.Errorf("%w: target %q is in the account %q, which this client does not know", resolver.ErrConfig, t.Name, t.Account)
	}
	database, err := account.NewDatabase(t.Database)
	if err != nil {
		return err
	}
	err = c.retryThrottled(ctx, func() error {
		_, err := database.CreateContainer(ctx, properties, options)
		if statusOf(err) != http.StatusNotFound {
			return err
		}
		if _, err := account.CreateDatabase(ctx, sdk.DatabaseProperties{ID: t.Database}, nil); err != nil && statusOf(err) != http.StatusConflict {
			return err
		}
		_, err = database.CreateContainer(ctx, properties, options)
		return err
	})
	if statusOf(err) == http.StatusConflict {
		return nil
	}
	return err
}

// Spill looks whether the last container of a spillover scheme is full, and if so makes
// the next one like it and saves the state that writes there. It returns the container
// that takes writes in the saved state, and whether that is a new one. Clients follow
// as they see the state; until then they write to the full one, which is why it counts
// as full early. Two clients may do so at once: they make one container.
//
// Call it every now and then, for instance each minute, and after a write was refused
// for lack of room.
func (c *Client) Spill(ctx context.Context, store resolver.Store, name, scheme string) (resolver.Target, bool, error) {
	for {
		state, version, err := resolver.LoadState(ctx, store, name)
		if err != nil {
			return resolver.Target{}, false, err
		}
		spillover, err := state.Spillover(scheme)
		if err != nil {
			return resolver.Target{}, false, err
		}
		last := spillover.Last()
		full, properties, err := c.isFull(ctx, last, spillover)
		if err != nil || !full {
			return last, false, err
		}
		grown, next, err := state.Spill(scheme)
		if err != nil {
			return last, false, err
		}
		if err := c.makeLike(ctx, last, next, properties); err != nil {
			return last, false, fmt.Errorf("make the container of %s: %w", next.Name, err)
		}
		_, err = resolver.SaveState(ctx, store, name, grown, version)
		if errors.Is(err, resolver.ErrChanged) {
			continue // somebody else was faster: look at what there is now
		}
		return next, err == nil, err
	}
}

func (c *Client) isFull(ctx context.Context, t resolver.Target, spillover *resolver.Spillover[resolver.Key]) (bool, *sdk.ContainerProperties, error) {
	properties, usage, err := c.usage(ctx, t)
	return err == nil && spillover.Full(usage["documentsSize"]*1024, usage["documentsCount"]), properties, err
}

// usage reads a container's properties and what it holds.
func (c *Client) usage(ctx context.Context, t resolver.Target) (*sdk.ContainerProperties, map[string]int64, error) {
	container, err := c.container(t)
	if err != nil {
		return nil, nil, err
	}
	var response sdk.ContainerResponse
	err = c.retryThrottled(ctx, func() error {
		var err error
		response, err = container.Read(ctx, &sdk.ReadContainerOptions{PopulateQuotaInfo: true})
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the container of %s: %w", t.Name, err)
	}
	return response.ContainerProperties, parseUsage(response.RawResponse.Header.Get("x-ms-resource-usage")), nil
}

// parseUsage reads "name=number;name=number"; sizes are in KiB. What is no number is
// left out.
func parseUsage(header string) map[string]int64 {
	usage := map[string]int64{}
	for part := range strings.SplitSeq(header, ";") {
		name, digits, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			usage[name] = n
		}
	}
	return usage
}

// makeLike creates a container with the properties and the throughput of another.
func (c *Client) makeLike(ctx context.Context, last, next resolver.Target, properties *sdk.ContainerProperties) error {
	container, err := c.container(last)
	if err != nil {
		return err
	}
	like := *properties
	like.ID, like.ETag, like.SelfLink, like.ResourceID = next.Container, nil, "", ""
	options := &sdk.CreateContainerOptions{}
	throughput, err := container.ReadThroughput(ctx, nil)
	switch {
	case statusOf(err) == http.StatusNotFound: // it shares that of its database
	case err != nil:
		return err
	default:
		options.ThroughputProperties = throughput.ThroughputProperties
	}
	return c.create(ctx, next, like, options)
}
