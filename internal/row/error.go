package row

import "errors"

// Error says why a value, a text, a condition or a mutation is refused. Text is
// the sentence that clients expect, without the name of a column.
type Error struct {
	Reason Reason
	Text   string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Reason says which input is at fault.
type Reason uint8

// The reasons.
const (
	BadType      Reason = iota + 1 // the text of a type
	BadValue                       // bytes that are not a value of the type
	BadLiteral                     // text that is not a value of the type
	BadJSON                        // JSON that is not a value of the type
	BadCondition                   // a condition that cannot be evaluated
	BadMutation                    // a mutation that cannot be applied to the row
	BadDuration                    // text that is not a duration
	BadClass                       // a class of Cassandra in the text of a type
)

// ErrCorrupt is wrapped by errors about encoded keys, rows, mutations and
// partition metadata that no version of this package wrote.
var ErrCorrupt = errors.New("corrupt row data")
