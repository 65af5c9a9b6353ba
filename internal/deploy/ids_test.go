package deploy

import "testing"

// TestIDs reads ids with letters whose small form has another length.
func TestIDs(t *testing.T) {
	t.Parallel()
	const account = "/ȺȺK/providers/Microsoft.DocumentDB/DatabaseAccounts/a"
	for scope, want := range map[string]string{
		account:                   "",
		account + "/":             "",
		account + "/dbs/Ⱥ/colls/": "/dbs/Ⱥ/colls",
		"/dbs/K":                  "/dbs/K",
		"":                        "",
	} {
		if got := BelowAccount(scope); got != want {
			t.Errorf("below the account of %q is %q, want %q", scope, got, want)
		}
	}
	item, ok := ItemOf(account + "/sqlDatabases/Ⱥ")
	if !ok || item.Name != "a/Ⱥ" || item.accountID() != account {
		t.Errorf("%+v, %v", item, ok)
	}
}
