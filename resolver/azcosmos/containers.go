package azcosmos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
)

// Missing returns which targets have no container yet: what Managed would make.
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

// Items returns how many items the service says a target has, at the charge of reading
// a container's properties. The service may be some minutes behind.
func (c *Client) Items(ctx context.Context, t resolver.Target) (int64, error) {
	_, usage, err := c.usage(ctx, t)
	return usage["documentsCount"], err
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
