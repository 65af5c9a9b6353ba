package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/decantest"
)

// TestTokens: a bearer token, and a resource token as it is printed or percent-encoded, are
// taken instead of the key, from the command line and from the environment. They get no more
// than they allow, also where a part of the command would use the admin port or the
// Cassandra API, and the error names the flag.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	types(t, 0, []string{"token", "new-issuer", "--dir", dir})
	s := decantest.Start(t, decan.Config{
		AdminListen: "127.0.0.1:0", CQLListen: "127.0.0.1:0",
		TokenIssuers: []string{issuerName}, TokenKeys: filepath.Join(dir, issuerSetFile),
	})
	t.Setenv("DECAN_ENDPOINT", s.Endpoint())
	t.Setenv("DECAN_ADMIN", s.AdminEndpoint())
	types(t, 0, []string{"container", "create", "shop", "orders", "-k", "/pk", "--create-database"})
	types(t, 0, []string{"item", "put", "shop", "orders", `{"id":"1","pk":"a"}`})
	types(t, 0, []string{"user", "create", "shop", "u"})
	resourceToken := strings.TrimSpace(types(t, 0, []string{"permission", "create", "shop", "u", "p", "--container", "orders", "--mode", "read"}))
	bearer := strings.TrimSpace(types(t, 0, []string{"token", "sign", "--dir", dir, "--principal", "ann"}))
	const guid = "00000000-0000-0000-0000-000000000009"
	admin := remote.Admin{Endpoint: s.AdminEndpoint(), Key: s.Key()}
	var answer any
	if err := admin.Send(t.Context(), "PUT", "sqlRoleAssignments/"+guid, strings.NewReader(
		`{"properties":{"roleDefinitionId":"/x/00000000-0000-0000-0000-000000000001","scope":"/","principalId":"ann"}}`), &answer); err != nil {
		t.Fatal(err)
	}
	query := []string{"query", "shop", "orders", "SELECT VALUE c.id FROM c"}
	put := []string{"item", "put", "shop", "orders", `{"id":"2","pk":"a"}`}
	const (
		mayNot = `\nThis token may not do that: give one that may with --token or DECAN_TOKEN, or the key of the account with --account-key\.\n$`
		wrong  = `\nGive another token with --token or DECAN_TOKEN, or the key of the account with --account-key\.\n$`
	)
	for _, token := range []string{bearer, resourceToken, url.QueryEscape(resourceToken), url.QueryEscape("type=aad&ver=1.0&sig=" + bearer)} {
		types(t, 0, append(query, "--token", token), `^"1"\n$`)
		types(t, 0, []string{"item", "get", "shop", "orders", "1", "--partition-key", `"a"`, "--token", token}, `"id": ?"1"`)
		types(t, 0, []string{"export", "documents", "shop", "orders", "--token", token}, `"id":"1"`)
		types(t, 0, []string{"shell", "shop", "orders", "-c", "SELECT VALUE c.id FROM c;", "--token", token}, `^"1"\n`)
		types(t, 0, []string{"shell", "shop", "orders", "-c", `\decan item get shop orders 1 --partition-key '"a"'`, "--token", token}, `"id": ?"1"`)
		types(t, 1, append(put, "--token", token), mayNot)
		types(t, 1, []string{"container", "delete", "shop", "orders", "--yes", "--token", token}, mayNot)
	}
	for _, token := range []string{"nothing", bearer + "x", "type=resource&ver=1&sig=none"} {
		types(t, 1, append(query, "--token", token), wrong)
	}

	// Who has only a token does not get what the default key may do.
	for _, command := range []string{`\decan limits shop orders`, `\decan resolver where items:shop/orders/s a`} {
		types(t, 1, []string{"shell", "-c", command, "--token", bearer}, "takes the account key, and no token")
	}
	types(t, 1, []string{"shell", "-c", `\cql`, "--cql", s.CQLAddress(), "--token", bearer}, "the Cassandra API takes the account key, and no token: give --account-key")
	template := filepath.Join(dir, "role.json")
	if err := os.WriteFile(template, []byte(`{"$schema":"https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#","contentVersion":"1.0.0.0","resources":[{"type":"Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments","apiVersion":"2024-05-15",
		"name":"acc/00000000-0000-0000-0000-000000000008","properties":{"roleDefinitionId":"/x/00000000-0000-0000-0000-000000000002","scope":"/","principalId":"ann"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	types(t, 1, []string{"deploy", template, "--token", bearer}, "the admin port takes the account key, and no token: give --account-key")

	// What the command line says takes precedence, and a token over a key.
	t.Setenv("DECAN_KEY", s.Key())
	t.Setenv("DECAN_TOKEN", resourceToken)
	types(t, 1, put, mayNot)
	types(t, 0, append(put, "--account-key", s.Key()))
	types(t, 0, append(query, "--token", bearer))
	connection := "AccountEndpoint=" + s.Endpoint() + ";AccountKey=" + s.Key()
	types(t, 0, append(put, "--connection-string", connection))
	for _, flag := range [][]string{{"--account-key", s.Key()}, {"--connection-string", connection}} {
		types(t, 2, append(append(query, "--token", bearer), flag...), "--token and "+flag[0]+" both say who asks: give only one")
	}
}

// TestTokenFromConnection: the endpoint of a connection string in the environment is used
// with the token of the command line.
func TestTokenFromConnection(t *testing.T) {
	s := decantest.Start(t, decan.Config{AdminListen: "none"})
	t.Setenv("DECAN_CONNECTION_STRING", "AccountEndpoint="+s.Endpoint()+";AccountKey="+s.Key())
	types(t, 1, []string{"database", "list", "--token", "nothing"}, "type=aad|token", "!no server answers")
}
