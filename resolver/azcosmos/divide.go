package azcosmos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/partitionkey"
)

// part is the range of hashed keys that a stream reads. It lies in one physical
// partition, or did when the stream was divided. The zero value is the whole
// container.
type part struct {
	partition string // id of the physical partition, "" for the whole container
	keys      partitionkey.Range
}

// headerPartition names a physical partition, in requests and responses.
const headerPartition = "X-Ms-Documentdb-Partitionkeyrangeid"

// within restricts the requests of a context to the part.
func (p part) within(ctx context.Context) context.Context {
	if p.partition == "" {
		return ctx
	}
	header := keysHeader(p.keys)
	header[headerPartition] = []string{p.partition}
	return policy.WithHTTPHeader(ctx, header)
}

// keysHeader restricts a request to a range of hashed keys.
func keysHeader(keys partitionkey.Range) http.Header {
	return http.Header{
		"X-Ms-Read-Key-Type": {"EffectivePartitionKeyRange"},
		"X-Ms-Start-Epk":     {keys.Min.String()},
		"X-Ms-End-Epk":       {keys.Max.String()},
	}
}

// dividedError means that a stream must be divided along the partitions of its
// container: the gateway does not answer for all of them at once, or they have
// changed since the stream was divided.
type dividedError struct {
	stream *stream
	cause  error
}

func (e *dividedError) Error() string { return e.cause.Error() }

const (
	// subStatusCrossPartition comes with status 400 if a gateway does not answer
	// a query over several partitions.
	subStatusCrossPartition = "1004"

	// cutsMax is how many times in a row a stream is divided because its
	// partitions have changed again. The pauses between add up to some seconds.
	cutsMax = 8

	// cutPause is how long the second division waits for the partitions to
	// settle.
	cutPause = 20 * time.Millisecond
)

// mustDivide reports whether the error of a request means that the stream must
// be divided.
func (s *stream) mustDivide(err error) bool {
	if s.part.partition == "" {
		return statusOf(err) == http.StatusBadRequest && subStatusOf(err) == subStatusCrossPartition
	}
	return statusOf(err) == http.StatusGone && s.cuts < cutsMax
}

// divide replaces a stream by streams of one physical partition each. They
// continue at its position: the place in the order of all rows applies to each
// of them, and so does the token, because a service's token is a position in the
// order of documents.
func (p *Pager) divide(ctx context.Context, whole *stream) error {
	if p.shape.statement == nil {
		if err := p.merge(); err != nil {
			return err
		}
		if whole.token != "" {
			return fmt.Errorf("%w: %s has more partitions", ErrRestart, whole.target.Name)
		}
	}
	if slices.Contains(whole.ties, "") {
		return fmt.Errorf("%w: %s has other partitions, and FROM gives the document no name to tell equal rows apart by", ErrRestart, whole.target.Name)
	}
	if whole.cuts > 0 {
		if err := p.client.sleep(ctx, cutPause<<whole.cuts); err != nil {
			return err
		}
	}
	parts, err := p.parts(ctx, whole)
	if err != nil {
		return fmt.Errorf("partitions of %s: %w", whole.target.Name, err)
	}
	var streams []*stream
	if whole.done = true; len(whole.rows) > 0 {
		streams = append(streams, whole) // only its fetched rows remain
	}
	for _, part := range parts {
		streams = append(streams, &stream{
			target: whole.target, part: part, text: whole.text, cuts: whole.cuts + 1,
			token: whole.token, pageToken: whole.pageToken, last: whole.last, ties: whole.ties,
		})
	}
	i := slices.Index(p.streams, whole)
	p.streams = slices.Replace(p.streams, i, i+1, streams...)
	return nil
}

// parts divides what a stream reads along the current physical partitions. It
// omits partitions that cannot hold the query's partition key.
func (p *Pager) parts(ctx context.Context, whole *stream) ([]part, error) {
	container, err := p.client.container(whole.target)
	if err != nil {
		return nil, err
	}
	wanted, err := p.wantedKeys(ctx, whole)
	if err != nil {
		return nil, err
	}
	ranges, err := presentRanges(ctx, container)
	for range cutsMax {
		if err != nil {
			return nil, err
		}
		var parts []part
		for _, r := range ranges {
			keys, overlaps := wanted.Intersect(r)
			if !overlaps {
				continue
			}
			id, err := p.partitionOf(ctx, container, keys)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part{id, keys})
		}
		// If a partition was split before partitionOf asked for it, the id is
		// that of one half only.
		named := ranges
		if ranges, err = presentRanges(ctx, container); err == nil && slices.Equal(ranges, named) {
			return parts, nil
		}
	}
	return nil, errors.Join(errors.New("they change too often to be identified"), err)
}

// presentRanges returns the current bounds of a container's physical partitions.
// The SDK caches them and reloads them only for a change feed of keys that it
// cannot locate, such as those of an empty range.
func presentRanges(ctx context.Context, container *sdk.ContainerClient) ([]partitionkey.Range, error) {
	nowhere := sdk.FeedRange{MinInclusive: partitionkey.MaxEPK.String(), MaxExclusive: partitionkey.MaxEPK.String()}
	_, err := container.ReadChangeFeed(ctx, &sdk.ChangeFeedOptions{FeedRange: &nowhere})
	if !errors.Is(err, sdk.ErrFeedRangeUnresolved) {
		return nil, fmt.Errorf("look for partitions again: %w", cmp.Or(err, errors.New("the SDK located an empty range of keys")))
	}
	listed, err := container.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	ranges := make([]partitionkey.Range, len(listed))
	for i, r := range listed {
		low, errLow := partitionkey.ParseEPK(r.MinInclusive)
		high, errHigh := partitionkey.ParseEPK(r.MaxExclusive)
		if err := errors.Join(errLow, errHigh); err != nil {
			return nil, err
		}
		ranges[i] = partitionkey.Range{Min: low, Max: high}
	}
	return ranges, nil
}

// wantedKeys returns the hashed keys that the stream reads and that the query's
// partition key, or a prefix of one, selects.
func (p *Pager) wantedKeys(ctx context.Context, whole *stream) (partitionkey.Range, error) {
	wanted := partitionkey.Full()
	if whole.part.partition != "" {
		wanted = whole.part.keys
	}
	if p.options.PartitionKey == nil {
		return wanted, nil
	}
	properties, _, err := p.client.usage(ctx, whole.target)
	if err != nil {
		return wanted, err
	}
	of := properties.PartitionKeyDefinition
	kind := partitionkey.KindHash
	if of.Kind == sdk.PartitionKeyKindMultiHash {
		kind = partitionkey.KindMultiHash
	}
	given, err := partitionkey.Definition{Paths: of.Paths, Kind: kind, Version: of.Version}.Prefix(*p.options.PartitionKey)
	if err != nil {
		return wanted, err
	}
	wanted, _ = wanted.Intersect(given)
	return wanted, nil
}

// partitionOf returns the id of the physical partition that holds a range of
// keys. The SDK does not expose it; it is in the response to a query that reads
// nothing.
func (p *Pager) partitionOf(ctx context.Context, container *sdk.ContainerClient, keys partitionkey.Range) (string, error) {
	within := policy.WithHTTPHeader(ctx, keysHeader(keys))
	var page sdk.QueryItemsResponse
	err := p.client.retryThrottled(ctx, func() error {
		var err error
		page, err = container.NewQueryItemsPager("SELECT VALUE c.id FROM c WHERE false", sdk.NewPartitionKey(), nil).NextPage(within)
		return err
	})
	if err != nil {
		return "", err
	}
	p.charge += float64(page.RequestCharge)
	id := page.RawResponse.Header.Get(headerPartition)
	if id == "" {
		return "", fmt.Errorf("%w: the service does not name the partition of %v", ErrQuery, keys)
	}
	return id, nil
}
