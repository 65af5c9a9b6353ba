package query

import (
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// numberedError is the form of errors that have a number and no place.
func numberedError(code int, message string) error {
	return status.BadRequest(`{"errors":[{"severity":"Error","code":%d,"message":%s}]}`, code, value.AppendQuoted(nil, message))
}

// planError is the form of errors that planning finds: sentences alone.
func planError(message string) error {
	return status.BadRequest(`{"Errors":[%s]}`, value.AppendQuoted(nil, message))
}
