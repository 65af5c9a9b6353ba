package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestUserRIDs checks that the RIDs of users and permissions identify their kind
// and their database.
func TestUserRIDs(t *testing.T) {
	t.Parallel()
	database := DatabaseRID(7)
	for _, n := range []uint32{1, 2, UserNumbers - 1} {
		user := UserRID(database, n)
		permission := PermissionRID(user, 1<<40+uint64(n))
		if !user.IsUser() || user.IsContainer() || user.UserNumber() != n || user.Database() != database || user.Container() != "" {
			t.Errorf("user %d is %q", n, user)
		}
		if !permission.IsPermission() || permission.IsDocument() || permission.User() != user || permission.Container() != "" || permission.Number() != 1<<40+uint64(n) {
			t.Errorf("permission of user %d is %q", n, permission)
		}
		for _, rid := range []RID{user, permission} {
			if again, err := ParseRID(rid.String()); err != nil || again != rid {
				t.Errorf("%q is read as %q, %v", rid, again, err)
			}
		}
		if want := "dbs/" + database.String() + "/users/" + user.String() + "/permissions/" + permission.String() + "/"; (Permission{RID: permission}).Self() != want {
			t.Errorf("self link %s, want %s", Permission{RID: permission}.Self(), want)
		}
	}
	container := ContainerRID(database, 1)
	if container.IsUser() || container.UserNumber() != 0 || container.User() != "" || DocumentRID(container, 1).IsPermission() {
		t.Errorf("container %q is a user", container)
	}
}

// TestFingerprint checks that the fingerprint changes with what is allowed.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	container := ContainerRID(DatabaseRID(1), 1)
	seen := map[[8]byte]string{}
	for _, mode := range []string{"All", "Read"} {
		for _, key := range []string{"", `,"resourcePartitionKey":["a"]`, `,"resourcePartitionKey":["a","b"]`, `,"resourcePartitionKey":["a,b"]`, `,"resourcePartitionKey":[null]`, `,"resourcePartitionKey":[{}]`} {
			for _, target := range []PermissionTarget{{Container: container}, {Container: ContainerRID(DatabaseRID(1), 2)}, {container, "docs", "x", ""}, {container, "udfs", "x", ""}, {container, "docs", "y", ""}, {"", "", "", "c"}, {"", "", "", "d"}, {"", "docs", "x", "c"}} {
				body, err := value.ParseString(fmt.Sprintf(`{"id":"p","permissionMode":%q,"resource":"r"%s}`, mode, key))
				if err != nil {
					t.Fatal(err)
				}
				p, err := ParsePermission(body)
				if err != nil {
					t.Fatal(err)
				}
				p.Target = target
				what := fmt.Sprint(mode, key, target)
				if other, twice := seen[p.Fingerprint()]; twice {
					t.Errorf("%s has the fingerprint of %s", what, other)
				}
				seen[p.Fingerprint()] = what
				if p.Target.Waits() { // Its tokens are valid when the container is created.
					p.Target.Container = container
					if seen[p.Fingerprint()] != what {
						t.Errorf("%s has another fingerprint with its container", what)
					}
				}
				if p.ID, p.ETag = "q", "e"; seen[p.Fingerprint()] != what {
					t.Errorf("%s has another fingerprint with another id", what)
				}
				if p.Mode = PermissionMode(strings.ToLower(mode)); seen[p.Fingerprint()] != what {
					t.Errorf("%s has another fingerprint with its mode in lower case", what)
				}
			}
		}
	}
}

// FuzzPermissionLink parses any text as the resource of a permission: a link
// that is assembled again is the same.
func FuzzPermissionLink(f *testing.F) {
	for _, link := range []string{"dbs/d/colls/c", "/dbs/d/colls/c/", "dbs/d/colls/c/docs/a/b", "dbs/d/colls/c/sprocs/s", "dbs/d", "", "dbs//colls/c", "dbs/d/colls/c/docs/", "dbs/d/colls/c/docs"} {
		f.Add(link)
	}
	f.Fuzz(func(t *testing.T, link string) {
		l, err := ParsePermissionLink(link)
		if err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatal(err)
			}
			return
		}
		again := "dbs/" + l.Database + "/colls/" + l.Container
		if l.Feed != "" {
			again += "/" + l.Feed + "/" + l.ID
		}
		if again != strings.Trim(link, "/") || (l.Feed == "") != (l.ID == "") {
			t.Fatalf("%q is read as %+v", link, l)
		}
	})
}

// FuzzScope parses any text as the scope of a role: its short form parses to the
// same scope, and a scope covers itself.
func FuzzScope(f *testing.F) {
	const account = "/subscriptions/0/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/decan"
	for _, text := range []string{"/", "/dbs/d", "/dbs/d/colls/c", account, account + "/dbs/d", account + "/sqlDatabases/d/containers/c", account + "/", "/dbs", "/dbs/d/colls", "dbs/d", "", "/x/d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScope(text, "decan")
		if err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatal(err)
			}
			return
		}
		again, err := ParseScope(s.String(), "decan")
		if err != nil || again != s || !s.Covers(s) || !(Scope{}).Covers(s) {
			t.Fatalf("%q is %+v, which is read as %+v: %v", text, s, again, err)
		}
	})
}

// TestScopeCovers checks that a role applies at its scope and below it, and
// nowhere else.
func TestScopeCovers(t *testing.T) {
	t.Parallel()
	account, database, container := Scope{}, Scope{Database: "d"}, Scope{"d", "c"}
	other, sibling := Scope{Database: "e"}, Scope{"d", "e"}
	for _, c := range []struct {
		scope, at Scope
		want      bool
	}{
		{account, container, true},
		{database, database, true},
		{database, container, true},
		{container, container, true},
		{database, account, false},
		{container, database, false},
		{database, other, false},
		{container, sibling, false},
		{container, Scope{"e", "c"}, false},
	} {
		if got := c.scope.Covers(c.at); got != c.want {
			t.Errorf("%s covers %s: %v", c.scope, c.at, got)
		}
	}
}

// TestDataActions checks that the two wildcards do not overlap, and that every
// name has a meaning.
func TestDataActions(t *testing.T) {
	t.Parallel()
	if itemActions&containerActions != 0 || (itemActions|containerActions)&ReadMetadata != 0 {
		t.Error("the wildcards overlap")
	}
	for _, known := range dataActions {
		got, err := parseDataAction(strings.ToUpper(actionPrefix + known.name))
		if err != nil || got != known.actions || got == 0 || got.String() == "" {
			t.Errorf("%s: %v, %v", known.name, got, err)
		}
	}
	for _, wrong := range []string{"", "*", actionPrefix + "*", "readMetadata", actionPrefix + "sqlDatabases/*"} {
		if _, err := parseDataAction(wrong); err == nil {
			t.Errorf("%q is an action", wrong)
		}
	}
	reader, writer := BuiltInRoles()[0].Allowed(), BuiltInRoles()[1].Allowed()
	if reader != ReadMetadata|ReadItem|ExecuteQuery|ReadChangeFeed || writer != ReadMetadata|itemActions|containerActions {
		t.Errorf("the built-in roles allow %s and %s", reader, writer)
	}
}

// TestStoredKeyHidden checks that an account key is never printed.
func TestStoredKeyHidden(t *testing.T) {
	t.Parallel()
	key := StoredKey{Key: "secret", Replaces: KeyDigest("other")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if printed := fmt.Sprintf(verb, map[string]StoredKey{"k": key}); strings.Contains(printed, "secret") {
			t.Errorf("%s prints %s", verb, printed)
		}
	}
	if KeyDigest("") != "" || KeyDigest("a") == KeyDigest("b") || KeyDigest("a") != KeyDigest(" a\n") {
		t.Error("KeyDigest must ignore white space around the key and return nothing for no key")
	}
}
