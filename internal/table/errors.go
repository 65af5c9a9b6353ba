package table

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/row"
)

// Class says which kind of error a client gets.
type Class uint8

// The classes, with their codes in the native protocol.
const (
	Invalid        Class = iota // the statement cannot be carried out: 0x2200
	Syntax                      // the statement is not CQL: 0x2000
	Config                      // an option of a definition is wrong: 0x2300
	Exists                      // a keyspace or table exists already: 0x2400
	Unauthorized                // no client may do this: 0x2100
	FunctionFailed              // a function or an operation failed: 0x1400
	Protocol                    // a paging state is not one of this statement: 0x000A
)

// Error is the error of a statement. Its text is that of Apache Cassandra 4.1.
type Error struct {
	Class Class
	Text  string

	// Keyspace and Table are what exists already, for Exists; Table is empty for a
	// keyspace.
	Keyspace, Table string

	// Function failed, and has these types of arguments, for FunctionFailed. It is a
	// function of the keyspace system.
	Function  string
	Arguments []string

	unknown string // a name that no function has, if that is the error
	untyped bool   // a selected value has no type, or cannot have the one that is expected
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// invalid returns an error of the class Invalid.
func invalid(format string, args ...any) *Error {
	return &Error{Class: Invalid, Text: fmt.Sprintf(format, args...)}
}

// badType returns the error of a type that row.ParseType refused; one of this package stays
// as it is.
func badType(err error) error {
	ours, parsed := (*Error)(nil), (*row.Error)(nil)
	switch {
	case err == nil || errors.As(err, &ours):
		return err
	case errors.As(err, &parsed) && parsed.Reason == row.BadClass:
		return &Error{Class: Syntax, Text: parsed.Text}
	}
	return invalid("%s", err.Error())
}

// failed returns the error of an operation or function that failed.
func failed(function string, arguments []string, format string, args ...any) *Error {
	return &Error{Class: FunctionFailed, Text: fmt.Sprintf(format, args...), Function: function, Arguments: arguments}
}
