package azcosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// ContainerStore is a resolver.Store in a container whose partition key is /id.
// Each document is one item; its version is the etag. The account's consistency
// must make a write visible to the next reader, so it must not be Eventual or
// ConsistentPrefix.
type ContainerStore struct {
	Container *sdk.ContainerClient

	// Prefix begins the ids of the items, so that several groups can share a
	// container. Ids must not contain a slash or backslash.
	Prefix string
}

// stored is the item of a document.
type stored struct {
	ID       string          `json:"id"`
	Document json.RawMessage `json:"document"`
}

// Load reads an item.
func (s ContainerStore) Load(ctx context.Context, name string) ([]byte, string, error) {
	id := s.Prefix + name
	response, err := s.Container.ReadItem(ctx, sdk.NewPartitionKeyString(id), id, nil)
	if statusOf(err) == http.StatusNotFound {
		return nil, "", fmt.Errorf("%w: %s", resolver.ErrNotFound, id)
	}
	if err != nil {
		return nil, "", err
	}
	var item stored
	if err := json.Unmarshal(response.Value, &item); err != nil || item.Document == nil {
		return nil, "", fmt.Errorf("%w: the item %s has no document", resolver.ErrConfig, id)
	}
	return item.Document, string(response.ETag), nil
}

// Save creates an item, or replaces it if its etag equals version.
func (s ContainerStore) Save(ctx context.Context, name string, document []byte, version string) (string, error) {
	id := s.Prefix + name
	body, err := json.Marshal(stored{id, document})
	if err != nil {
		return "", err
	}
	pk := sdk.NewPartitionKeyString(id)
	var response sdk.ItemResponse
	if version == "" {
		response, err = s.Container.CreateItem(ctx, pk, body, nil)
	} else {
		etag := azcore.ETag(version)
		response, err = s.Container.ReplaceItem(ctx, pk, id, body, &sdk.ItemOptions{IfMatchEtag: &etag})
	}
	switch statusOf(err) {
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound:
		return "", fmt.Errorf("%w: %s", resolver.ErrChanged, id)
	}
	return string(response.ETag), err
}
