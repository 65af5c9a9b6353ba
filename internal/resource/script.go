package resource

import (
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// FunctionsMax is how many user-defined functions a container may have.
const FunctionsMax = 50

// functionType is the type of a function's RID; see [RID].
const functionType = 6

// Function is the definition of a user-defined function of a container. Its body
// is JavaScript, which package script compiles and runs.
type Function struct {
	ID   string    `json:"id"`
	RID  RID       `json:"rid"`
	ETag ETag      `json:"etag"`
	TS   Timestamp `json:"ts"`
	Body string    `json:"body"`
}

// ParseFunction reads the definition of a function that a client sent: id and
// body count. Errors are status 400.
func ParseFunction(definition value.Value) (Function, error) {
	id, err := parseID(definition)
	if err != nil {
		return Function{}, err
	}
	body := definition.Get("body")
	switch body.Kind() {
	case value.KindString:
		return Function{ID: id, Body: body.Text()}, nil
	case value.KindUndefined:
		return Function{}, status.BadRequest("The input content is invalid because the required property 'body' is missing.")
	}
	return Function{}, status.BadRequest("The property 'body' is %s. It must be a string.", nameOf(body.Kind()))
}

// FunctionRID returns the RID of the function with that number, below 2^60, in
// the container.
func FunctionRID(container RID, number uint64) RID {
	return childRID(container, number, functionType)
}

// IsFunction reports whether r names a user-defined function.
func (r RID) IsFunction() bool { return r.isChild(functionType) }

// Self returns the _self link.
func (f Function) Self() string {
	return string(appendLink(f.RID.Container().AppendSelf(nil), "udfs/", f.RID))
}

// Value returns the function as clients read it.
func (f Function) Value() value.Value {
	return value.Object([]value.Member{
		{Name: "body", Value: value.String(f.Body)},
		{Name: "id", Value: value.String(f.ID)},
		{Name: "_rid", Value: value.String(f.RID.String())},
		{Name: "_ts", Value: value.Int(int64(f.TS))},
		{Name: "_self", Value: value.String(f.Self())},
		{Name: "_etag", Value: value.String(string(f.ETag))},
	})
}
