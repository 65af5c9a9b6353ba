package resource

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// ScriptKind is the kind of a script of a container. It is the type in the
// script's RID; see [RID].
type ScriptKind byte

// The kinds of scripts.
const (
	Function  ScriptKind = 6 // user-defined function
	Trigger   ScriptKind = 7
	Procedure ScriptKind = 8 // stored procedure
)

// ScriptKinds are all of them.
var ScriptKinds = [...]ScriptKind{Function, Trigger, Procedure}

// Max returns the maximum number of scripts of the kind in a container.
func (k ScriptKind) Max() int {
	if k == Procedure {
		return 100
	}
	return 50
}

// String returns the name of the kind for messages.
func (k ScriptKind) String() string {
	switch k {
	case Function:
		return "user-defined function"
	case Trigger:
		return "trigger"
	case Procedure:
		return "stored procedure"
	}
	return "script"
}

// Word returns the segment of the kind in a link, such as udfs.
func (k ScriptKind) Word() string {
	switch k {
	case Trigger:
		return "triggers"
	case Procedure:
		return "sprocs"
	}
	return "udfs"
}

// ScriptKindOf returns the kind for a segment of a link.
func ScriptKindOf(word string) (ScriptKind, bool) {
	for _, k := range ScriptKinds {
		if k.Word() == word {
			return k, true
		}
	}
	return 0, false
}

// Script is the definition of a user-defined function, a stored procedure or a
// trigger of a container. Its body is JavaScript, which package script compiles
// and runs.
type Script struct {
	ID   string    `json:"id"`
	RID  RID       `json:"rid"`
	ETag ETag      `json:"etag"`
	TS   Timestamp `json:"ts"`
	Body string    `json:"body"`

	// For triggers only: Pre or Post, and one of TriggerOperations, in the letter
	// case in which they were given.
	TriggerType      string `json:"triggerType,omitempty"`
	TriggerOperation string `json:"triggerOperation,omitempty"`
}

// The types of triggers.
const (
	PreTrigger  = "Pre"
	PostTrigger = "Post"
)

// TriggerOperations are the operations for which a trigger can run. Update is
// another name for Replace.
var TriggerOperations = []string{"All", "Create", "Update", "Delete", "Replace", "Upsert"}

// Fires reports whether a trigger runs for an operation: Create, Replace, Upsert
// or Delete.
func (s Script) Fires(operation string) bool {
	is := func(word string) bool { return strings.EqualFold(s.TriggerOperation, word) }
	return is("All") || is(operation) || is("Update") && operation == "Replace"
}

// ParseScript parses the definition of a script from a client: its id and body
// and, for a trigger, its type and operation. Errors are status 400.
func ParseScript(kind ScriptKind, definition value.Value) (s Script, err error) {
	if s.ID, err = parseID(definition); err != nil {
		return Script{}, err
	}
	if s.Body, err = scriptText(definition, "body"); err != nil {
		return Script{}, err
	}
	if kind != Trigger {
		return s, nil
	}
	if s.TriggerType, err = scriptWord(definition, "triggerType", []string{PreTrigger, PostTrigger}); err != nil {
		return Script{}, err
	}
	if s.TriggerOperation, err = scriptWord(definition, "triggerOperation", TriggerOperations); err != nil {
		return Script{}, err
	}
	return s, nil
}

func scriptText(definition value.Value, name string) (string, error) {
	switch member := definition.Get(name); member.Kind() {
	case value.KindString:
		return member.Text(), nil
	case value.KindUndefined:
		return "", missingProperty(name)
	default:
		return "", status.BadRequest("The property '%s' is %s. It must be a string.", name, nameOf(member.Kind()))
	}
}

func scriptWord(definition value.Value, name string, words []string) (string, error) {
	text, err := scriptText(definition, name)
	if err == nil && !slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(word, text) }) {
		err = status.BadRequest("The property '%s' is not one of %q.", name, words)
	}
	return text, err
}

// ScriptRID returns the RID of the container's script with that number, which
// must be below 2^60.
func ScriptRID(kind ScriptKind, container RID, number uint64) RID {
	return childRID(container, number, uint64(kind))
}

// ScriptKind returns the kind of the script that r names, and false if r does
// not name a script.
func (r RID) ScriptKind() (ScriptKind, bool) {
	for _, k := range ScriptKinds {
		if r.isChild(byte(k)) {
			return k, true
		}
	}
	return 0, false
}

// Self returns the _self link.
func (s Script) Self() string {
	kind, _ := s.RID.ScriptKind()
	return string(appendLink(s.RID.Container().AppendSelf(nil), kind.Word()+"/", s.RID))
}

// Value returns the script in the form that clients read.
func (s Script) Value() value.Value {
	members := []value.Member{
		{Name: "body", Value: value.String(s.Body)},
		{Name: "id", Value: value.String(s.ID)},
	}
	if s.TriggerType != "" {
		members = append(members,
			value.Member{Name: "triggerType", Value: value.String(s.TriggerType)},
			value.Member{Name: "triggerOperation", Value: value.String(s.TriggerOperation)})
	}
	return value.Object(append(members,
		value.Member{Name: "_rid", Value: value.String(s.RID.String())},
		value.Member{Name: "_ts", Value: value.Int(int64(s.TS))},
		value.Member{Name: "_self", Value: value.String(s.Self())},
		value.Member{Name: "_etag", Value: value.String(string(s.ETag))},
	))
}
