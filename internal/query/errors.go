package query

import (
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// numberedError returns an error in the form with a number and without a position.
func numberedError(code int, message string) error {
	return status.BadRequest(`{"errors":[{"severity":"Error","code":%d,"message":%s}]}`, code, value.AppendQuoted(nil, message))
}

// planError returns an error of the planner that is only a sentence.
func planError(message string) error {
	return status.Service("%s", message)
}
