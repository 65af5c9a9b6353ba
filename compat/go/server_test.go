package compat

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const wellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// visits collects the x-decan-partitions header of every response.
type visits struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (v *visits) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		for id := range strings.SplitSeq(resp.Header.Get("x-decan-partitions"), ",") {
			if id != "" {
				v.ids[id] = true
			}
		}
	}
	return resp, err
}

func (v *visits) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ids = map[string]bool{}
}

func (v *visits) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.ids)
}

func connect(t *testing.T, endpoint, key string, seen *visits) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, clientOptions(t, seen))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// clientOptions trusts the certificate authority of the server.
func clientOptions(t *testing.T, seen *visits) *azcosmos.ClientOptions {
	t.Helper()
	pool := x509.NewCertPool()
	if file := os.Getenv("DECAN_CA"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			t.Fatalf("%s holds no certificate", file)
		}
	}
	return &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport:        &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
		PerRetryPolicies: []policy.Policy{seen},
	}}
}

func status(err error) int {
	var response *azcore.ResponseError
	if errors.As(err, &response) {
		return response.StatusCode
	}
	return 0
}

// overBoth runs a test with the http and the https endpoint of the server.
func overBoth(t *testing.T, test func(t *testing.T, endpoint string)) {
	t.Helper()
	endpoints := strings.Fields(os.Getenv("DECAN_ENDPOINTS"))
	if len(endpoints) != 2 {
		t.Fatal("DECAN_ENDPOINTS does not name the http and the https endpoint: run compat/run.sh")
	}
	for _, endpoint := range endpoints {
		scheme, _, _ := strings.Cut(endpoint, ":")
		t.Run(scheme, func(t *testing.T) { test(t, endpoint) })
	}
}

// newDatabase creates a database for the test, which is deleted when the test
// ends.
func newDatabase(t *testing.T, client *azcosmos.Client) *azcosmos.DatabaseClient {
	t.Helper()
	name := fmt.Sprintf("compat-go-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: name}, nil); err != nil {
		t.Fatal(err)
	}
	database, err := client.NewDatabase(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := database.Delete(context.Background(), nil); err != nil {
			t.Error(err)
		}
	})
	return database
}

// newContainer creates a container with a hierarchical partition key and a
// number of physical partitions.
func newContainer(t *testing.T, database *azcosmos.DatabaseClient, name string, partitions int, paths ...string) *azcosmos.ContainerClient {
	t.Helper()
	throughput := azcosmos.NewManualThroughputProperties(int32(partitions) * 6_000) // the server makes one partition per 6,000 RU/s
	definition := azcosmos.PartitionKeyDefinition{Paths: paths, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2}
	if _, err := database.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: name, PartitionKeyDefinition: definition},
		&azcosmos.CreateContainerOptions{ThroughputProperties: &throughput}); err != nil {
		t.Fatal(err)
	}
	container, err := database.NewContainer(name)
	if err != nil {
		t.Fatal(err)
	}
	return container
}
