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

// How long a resource token is good for.
const (
	TokenLifetimeMin     = 10 * time.Second
	TokenLifetimeDefault = time.Hour
	TokenLifetimeMax     = 24 * time.Hour
)

// How many users and permissions an account may have, as the service documents
// it.
const (
	UsersMax       = 500_000
	PermissionsMax = 2_000_000
)

// PermissionMode is what a permission lets its user do.
type PermissionMode string

// The modes.
const (
	PermissionRead PermissionMode = "Read" // read, list and query
	PermissionAll  PermissionMode = "All"  // everything
)

// Permission lets a user work with one resource: a container and what is in it,
// or one document or script of a container.
type Permission struct {
	ID   string         `json:"id"`
	RID  RID            `json:"rid"`
	ETag ETag           `json:"etag"`
	TS   Timestamp      `json:"ts"`
	Mode PermissionMode `json:"mode"`

	// Resource is the link as it was given. It is shown and never followed:
	// Target is what counts.
	Resource string           `json:"resource"`
	Target   PermissionTarget `json:"target"`

	// Key confines the permission to the documents under a key, or under a prefix
	// of a hierarchical one; nil does not.
	Key *partitionkey.Key `json:"key,omitempty"`
}

// PermissionTarget is what a permission is for. It names its container by RID,
// so that another one of the same name is another target.
type PermissionTarget struct {
	Container RID    `json:"container"`
	Feed      string `json:"feed,omitempty"` // "docs", "sprocs", "triggers" or "udfs"; empty: the container and all that is in it
	ID        string `json:"id,omitempty"`   // of the one in the feed, as the link has it
}

// ParsePermission reads the definition of a permission that a client sent,
// without what its resource stands for, which [ParsePermissionLink] tells.
// Errors are status 400.
func ParsePermission(definition value.Value) (Permission, error) {
	id, err := parseID(definition)
	if err != nil {
		return Permission{}, err
	}
	p := Permission{ID: id}
	switch mode := definition.Get("permissionMode"); {
	case strings.EqualFold(mode.Text(), string(PermissionRead)):
		p.Mode = PermissionRead
	case strings.EqualFold(mode.Text(), string(PermissionAll)):
		p.Mode = PermissionAll
	default:
		return p, status.BadRequest("The property 'permissionMode' must be 'All' or 'Read'.")
	}
	link := definition.Get("resource")
	if link.Kind() != value.KindString {
		return p, status.BadRequest("The property 'resource' is missing or no string. It is a link such as 'dbs/d/colls/c'.")
	}
	p.Resource = link.Text()
	if p.Key, err = parsePermissionKey(definition.Get("resourcePartitionKey")); err != nil {
		return p, err
	}
	return p, nil
}

// parsePermissionKey reads the key that confines a permission; an empty list
// confines nothing, as a missing one.
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

// PermissionLink is the link of a permission, taken apart. Each segment is a
// name or the text of a RID.
type PermissionLink struct {
	Database, Container, Feed, ID string
}

// ParsePermissionLink takes the resource of a permission apart: dbs/d/colls/c,
// with or without a document or script, and with or without slashes around it.
// The id of a document may have slashes in it. Errors are status 400.
func ParsePermissionLink(link string) (PermissionLink, error) {
	parts := strings.SplitN(strings.Trim(link, "/"), "/", 6)
	wrong := status.BadRequest("The resource '%s' of the permission is no link to a container, or to a document or script in one, such as 'dbs/d/colls/c'.", clip(link))
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

// PermissionRID returns the RID of the permission with that number, below 2^60,
// of the user.
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

// SameResource reports whether two permissions are for the same: a user has one
// of them at most.
func (p Permission) SameResource(o Permission) bool {
	if p.Target != o.Target || (p.Key == nil) != (o.Key == nil) {
		return false
	}
	return p.Key == nil || p.Key.Equal(*o.Key)
}

// Fingerprint stands for all that the permission allows: it is another when
// mode, target or key is. Tokens carry it.
func (p Permission) Fingerprint() [8]byte {
	key := ""
	if p.Key != nil {
		key = p.Key.String()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", p.Mode, string(p.Target.Container), p.Target.Feed, p.Target.ID, key))
	return [8]byte(sum[:8])
}

// Value returns the permission as clients read it, with the token that was just
// made for it.
func (p Permission) Value(token string) value.Value {
	members := []value.Member{
		{Name: "permissionMode", Value: value.String(string(p.Mode))},
		{Name: "resource", Value: value.String(p.Resource)},
	}
	if p.Key != nil {
		// A missing value is an empty object in it, as clients write it.
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
