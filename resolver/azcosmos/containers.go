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

// Missing returns the targets whose containers do not exist: those that Managed
// would create.
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

// PartitionKeyPaths returns the partition key paths of a target's container.
// Config.PartitionKey must name the same paths.
func (c *Client) PartitionKeyPaths(ctx context.Context, t resolver.Target) ([]string, error) {
	properties, _, err := c.usage(ctx, t)
	if err != nil {
		return nil, err
	}
	return properties.PartitionKeyDefinition.Paths, nil
}

// checkPartitionKeys returns a resolver.ErrConfig if a container has another
// partition key than the client's configuration. Reads with the wrong key find
// nothing, and a move would take the items for deleted. It ignores containers
// that do not exist.
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

// samePath reports whether two paths name the same property, however they are
// quoted.
func samePath(a, b string) bool {
	left, errLeft := partitionkey.ParsePath(a)
	right, errRight := partitionkey.ParsePath(b)
	return errLeft == nil && errRight == nil && slices.Equal(left, right)
}

// Items returns the number of items that the service reports for a target, for
// the charge of reading the container's properties. The number may be some
// minutes old.
func (c *Client) Items(ctx context.Context, t resolver.Target) (int64, error) {
	_, usage, err := c.usage(ctx, t)
	return usage["documentsCount"], err
}

// usage reads a container's properties and its usage.
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

// parseUsage parses "name=number;name=number". Sizes are in KiB. It ignores
// values that are not numbers.
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
