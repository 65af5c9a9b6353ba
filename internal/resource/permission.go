package resource

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// The lifetime of a resource token.
const (
	TokenLifetimeMin     = 10 * time.Second
	TokenLifetimeDefault = time.Hour
	TokenLifetimeMax     = 24 * time.Hour
)

// The maximum number of users and permissions of an account, as documented by
// the service.
const (
	UsersMax       = 500_000
	PermissionsMax = 2_000_000
)

// PermissionMode says what a permission allows its user to do.
type PermissionMode string

// The modes.
const (
	PermissionRead PermissionMode = "Read" // read, list and query
	PermissionAll  PermissionMode = "All"  // everything
)

// Is reports whether both are the same mode, in any letter case.
func (m PermissionMode) Is(o PermissionMode) bool { return strings.EqualFold(string(m), string(o)) }

// Permission allows a user to work with one resource: a container with
// everything in it, or one document or script of a container.
type Permission struct {
	ID   string         `json:"id"`
	RID  RID            `json:"rid"`
	ETag ETag           `json:"etag"`
	TS   Timestamp      `json:"ts"`
	Mode PermissionMode `json:"mode"` // in the letter case in which it was given; see [PermissionMode.Is]

	// Resource is the link as given. Clients read it, but the server uses only
	// Target.
	Resource string           `json:"resource"`
	Target   PermissionTarget `json:"target"`

	// Key restricts the permission to the documents of a key, or of a prefix of
	// a hierarchical key. Nil means no restriction.
	Key *partitionkey.Key `json:"key,omitempty"`
}

// PermissionTarget is the resource of a permission. It names its container by
// RID, so another container with the same name is another target.
type PermissionTarget struct {
	Container RID    `json:"container"`      // empty while it waits for its container: it allows nothing
	Feed      string `json:"feed,omitempty"` // "docs", "sprocs", "triggers" or "udfs"; empty: the container and everything in it
	ID        string `json:"id,omitempty"`   // of the document or script, as in the link

	// Awaited is the name of the container in the database of the user, if the
	// permission was made before the container; Container is set when a container of
	// this name is created. If the link names another database, it is both names with
	// a slash, which no container has.
	Awaited string `json:"awaited,omitempty"`
}

// Waits reports whether the container does not exist yet.
func (t PermissionTarget) Waits() bool { return t.Container == "" }

// same reports whether both are the same resource. A container that a permission was
// made before is the same as one that it was made for.
func (t PermissionTarget) same(o PermissionTarget) bool {
	if !t.Waits() {
		t.Awaited, o.Awaited = "", ""
	}
	return t == o
}

// ParsePermission parses the definition of a permission from a client. It does
// not resolve the resource; [ParsePermissionLink] parses its link. Errors are
// status 400.
func ParsePermission(definition value.Value) (Permission, error) {
	id, err := parseID(definition)
	if err != nil {
		return Permission{}, err
	}
	p := Permission{ID: id}
	p.Mode = PermissionMode(definition.Get("permissionMode").Text())
	if !p.Mode.Is(PermissionRead) && !p.Mode.Is(PermissionAll) {
		return p, status.BadRequest("The property 'permissionMode' must be 'All' or 'Read'.")
	}
	link := definition.Get("resource")
	if link.Kind() != value.KindString {
		return p, status.BadRequest("The property 'resource' is missing or not a string. It is a link such as 'dbs/d/colls/c'.")
	}
	p.Resource = link.Text()
	if p.Key, err = parsePermissionKey(definition.Get("resourcePartitionKey")); err != nil {
		return p, err
	}
	return p, nil
}

// parsePermissionKey parses the key that restricts a permission. An empty list
// is the same as a missing one: no restriction.
func parsePermissionKey(given value.Value) (*partitionkey.Key, error) {
	switch given.Kind() {
	case value.KindUndefined, value.KindNull:
		return nil, nil
	case value.KindArray:
	default:
		return nil, status.BadRequest("The property 'resourcePartitionKey' is %s. It must be an array with one value for each path of the partition key.", nameOf(given.Kind()))
	}
	key, err := partitionkey.Parse(string(given.Append(nil)))
	if err != nil {
		return nil, status.BadRequest("The property 'resourcePartitionKey' cannot be read: %s", err)
	}
	if key.Len() == 0 {
		return nil, nil
	}
	return &key, nil
}

// PermissionLink is the parsed link of a permission. Each segment is a name or
// the text of a RID.
type PermissionLink struct {
	Database, Container, Feed, ID string
}

// ParsePermissionLink parses the resource of a permission: dbs/d/colls/c, with
// or without a document or script, and with or without slashes at its ends. The
// id of a document may contain slashes. Errors are status 400.
func ParsePermissionLink(link string) (PermissionLink, error) {
	parts := strings.SplitN(strings.Trim(link, "/"), "/", 6)
	wrong := status.BadRequest("The resource '%s' of the permission is not a link to a container, or to a document or script in one, such as 'dbs/d/colls/c'.", clip(link))
	if len(parts) != 4 && len(parts) != 6 || parts[0] != "dbs" || parts[2] != "colls" || parts[1] == "" || parts[3] == "" {
		return PermissionLink{}, wrong
	}
	l := PermissionLink{Database: parts[1], Container: parts[3]}
	if len(parts) == 4 {
		return l, nil
	}
	l.Feed, l.ID = parts[4], parts[5]
	switch l.Feed {
	case "docs", "sprocs", "triggers", "udfs":
		if len(l.ID) > ItemIDBytesMax {
			return PermissionLink{}, wrong
		}
		return l, nil
	}
	return PermissionLink{}, wrong
}

// PermissionRID returns the RID of the user's permission with that number, which
// must be below 2^60.
func PermissionRID(user RID, number uint64) RID {
	if !user.IsUser() || number > numberMask {
		panic(fmt.Sprintf("resource: permission %d of %q", number, user))
	}
	var b [childBytes]byte
	copy(b[:], user)
	binary.LittleEndian.PutUint64(b[containerBytes:], number)
	return RID(b[:])
}

// IsPermission reports whether r names a permission.
func (r RID) IsPermission() bool {
	return len(r) == childBytes && r[databaseBytes]&containerBit == 0
}

// Self returns the _self link.
func (p Permission) Self() string {
	return string(appendLink([]byte(User{RID: p.RID.User()}.Self()), "permissions/", p.RID))
}

// SameResource reports whether two permissions are for the same resource. A user
// has at most one permission for a resource.
func (p Permission) SameResource(o Permission) bool {
	if !p.Target.same(o.Target) || (p.Key == nil) != (o.Key == nil) {
		return false
	}
	return p.Key == nil || p.Key.Equal(*o.Key)
}

// Fingerprint is a hash of what the permission allows: its mode, target and key.
// Tokens contain it. That of a permission that was made before its container does not
// change when the container is created.
func (p Permission) Fingerprint() [8]byte {
	mode := PermissionRead // however it is spelled
	if p.Mode.Is(PermissionAll) {
		mode = PermissionAll
	}
	key := ""
	if p.Key != nil {
		key = p.Key.String()
	}
	container := fmt.Sprintf("%q", string(p.Target.Container))
	if p.Target.Awaited != "" {
		container = fmt.Sprintf("awaited %q", p.Target.Awaited)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %q %q %q", mode, container, p.Target.Feed, p.Target.ID, key))
	return [8]byte(sum[:8])
}

// Value returns the permission in the form that clients read, with a token that
// was made for it.
func (p Permission) Value(token string) value.Value {
	members := []value.Member{
		{Name: "permissionMode", Value: value.String(string(p.Mode))},
		{Name: "resource", Value: value.String(p.Resource)},
	}
	if p.Key != nil {
		// An undefined component is an empty object, as clients write it.
		if key, err := value.ParseString(p.Key.String()); err == nil {
			members = append(members, value.Member{Name: "resourcePartitionKey", Value: key})
		}
	}
	return value.Object(append(members,
		value.Member{Name: "id", Value: value.String(p.ID)},
		value.Member{Name: "_rid", Value: value.String(p.RID.String())},
		value.Member{Name: "_ts", Value: value.Int(int64(p.TS))},
		value.Member{Name: "_self", Value: value.String(p.Self())},
		value.Member{Name: "_etag", Value: value.String(string(p.ETag))},
		value.Member{Name: "_token", Value: value.String(token)},
	))
}
