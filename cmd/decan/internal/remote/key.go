package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// KeyPaths requests the paths of the levels of a container's partition key, each as
// the names of its steps.
func (c *Documents) KeyPaths(ctx context.Context, database, container string) ([][]string, error) {
	a, err := c.Call(ctx, "the container "+database+"/"+container, http.MethodGet, []string{"dbs", database, "colls", container}, nil)
	if err != nil {
		return nil, err
	}
	return ContainerKey(a.Body)
}

// ContainerKey returns the paths of the levels of the key in the JSON of a container.
func ContainerKey(container []byte) ([][]string, error) {
	var definition struct {
		PartitionKey struct {
			Paths []string `json:"paths"`
		} `json:"partitionKey"`
	}
	if err := json.Unmarshal(container, &definition); err != nil {
		return nil, fmt.Errorf("read the container: %w", err)
	}
	var paths [][]string
	for _, text := range definition.PartitionKey.Paths {
		names, err := partitionkey.ParsePath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, names)
	}
	return paths, nil
}

// KeyOf returns the partition key of a document in the form of the header.
func KeyOf(document value.Value, paths [][]string) string {
	components := make([]partitionkey.Component, len(paths))
	for i, names := range paths {
		v := document
		for _, name := range names {
			v = v.Get(name)
		}
		switch v.Kind() {
		case value.KindNull:
			components[i] = partitionkey.Null()
		case value.KindBool:
			components[i] = partitionkey.Bool(v.Bool())
		case value.KindNumber:
			components[i] = partitionkey.Number(v.Float())
		case value.KindString:
			components[i] = partitionkey.String(v.Text())
		default:
			components[i] = partitionkey.Undefined()
		}
	}
	return partitionkey.NewKey(components...).String()
}

// Key is a flag with a partition key: a JSON array, or the JSON of the only level.
type Key string

// UnmarshalText reads the flag.
func (k *Key) UnmarshalText(text []byte) error {
	given := strings.TrimSpace(string(text))
	if given == "" {
		*k = ""
		return nil
	}
	if !strings.HasPrefix(given, "[") {
		v, err := value.ParseString(given)
		if err != nil || v.Kind() == value.KindObject {
			return errors.New("give a JSON array, such as '[\"Contoso\",\"Alice\"]', or the JSON of one value, such as '\"Contoso\"' with its quotes")
		}
		given = "[" + given + "]"
	}
	key, err := partitionkey.Parse(given)
	if err != nil {
		return err
	}
	*k = Key(key.String())
	return nil
}
