package resource

import (
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/value"
)

// UserNumbers is how many users can ever be created: the first bit of a number
// distinguishes users from containers.
const UserNumbers = 1 << 31

// User is a user of a database who can be given permissions. A user has no
// secret: a client that reads one of its permissions gets a token for it.
type User struct {
	ID   string    `json:"id"`
	RID  RID       `json:"rid"`
	ETag ETag      `json:"etag"`
	TS   Timestamp `json:"ts"`
}

// ParseUser parses the definition of a user from a client. It uses only the id.
// Errors are status 400.
func ParseUser(definition value.Value) (User, error) {
	id, err := parseID(definition)
	return User{ID: id}, err
}

// UserRID returns the RID of the database's user with that number, which must be
// below [UserNumbers].
func UserRID(database RID, n uint32) RID {
	if len(database) != databaseBytes || n >= UserNumbers {
		panic(fmt.Sprintf("resource: user %d of %q", n, database))
	}
	var b [containerBytes]byte
	copy(b[:], database)
	binary.BigEndian.PutUint32(b[databaseBytes:], n)
	return RID(b[:])
}

// IsUser reports whether r names a user.
func (r RID) IsUser() bool {
	return len(r) == containerBytes && r[databaseBytes]&containerBit == 0
}

// UserNumber returns the number of a user in its database, and zero for every
// other RID.
func (r RID) UserNumber() uint32 {
	if !r.IsUser() {
		return 0
	}
	return binary.BigEndian.Uint32([]byte(r[databaseBytes:]))
}

// User returns the RID of the user that r is or belongs to, and the zero value
// if there is none.
func (r RID) User() RID {
	if len(r) < containerBytes || r[databaseBytes]&containerBit != 0 {
		return ""
	}
	return r[:containerBytes]
}

// Self returns the _self link.
func (u User) Self() string {
	return string(appendLink(u.RID.Database().AppendSelf(nil), "users/", u.RID))
}

// Value returns the user in the form that clients read.
func (u User) Value() value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(u.ID)},
		{Name: "_rid", Value: value.String(u.RID.String())},
		{Name: "_self", Value: value.String(u.Self())},
		{Name: "_etag", Value: value.String(string(u.ETag))},
		{Name: "_permissions", Value: value.String("permissions/")},
		{Name: "_ts", Value: value.Int(int64(u.TS))},
	})
}
