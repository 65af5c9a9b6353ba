package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Refused is an error that a server answered.
type Refused struct {
	Status int
	// Start and End are the bytes of the query that the error is about; both are 0 if
	// it names none.
	Start, End int

	text string
}

// Error returns the message of the server.
func (r Refused) Error() string { return r.text }

// Refusal returns the error that a server answered, without the parts of the message
// that are for logs and programs.
func Refusal(code int, body []byte) error {
	var answer struct{ Message string }
	if err := json.Unmarshal(body, &answer); err != nil || answer.Message == "" {
		return Refused{Status: code, text: fmt.Sprintf("%d %s", code, http.StatusText(code))}
	}
	text, _, _ := strings.Cut(answer.Message, "\r\nActivityId")
	if code == http.StatusUnauthorized && strings.Contains(text, "payload to sign") {
		text = "the server refuses the key, or the clock of this machine is wrong" // The message continues with the signed text.
	}
	if code == http.StatusUnauthorized && strings.Contains(text, "x-decan-key") {
		text = "the server refuses the key" // The admin port names the header.
	}
	r := Refused{Status: code, text: text}
	if inner, is := strings.CutPrefix(text, "Message: "); is {
		r.unwrap(inner)
	}
	return r
}

// unwrap replaces the text by the errors of a message that is JSON: of texts, or of
// objects with a code and a place in the query.
func (r *Refused) unwrap(message string) {
	message, _, _ = strings.Cut(message, "\r\n")
	var list struct{ Errors []json.RawMessage } // Also errors: the names are matched in any case.
	if json.Unmarshal([]byte(message), &list) != nil || len(list.Errors) == 0 {
		return
	}
	var all []string
	for _, raw := range list.Errors {
		var text string
		var placed struct {
			Code     string `json:"code"`
			Message  string `json:"message"`
			Location struct{ Start, End int }
		}
		switch {
		case json.Unmarshal(raw, &text) == nil:
			all = append(all, text)
		case json.Unmarshal(raw, &placed) == nil && placed.Message != "":
			all = append(all, fmt.Sprintf("%s (%s)", placed.Message, placed.Code))
			if r.End == 0 {
				r.Start, r.End = placed.Location.Start, placed.Location.End
			}
		default:
			return
		}
	}
	r.text, _, _ = strings.Cut(strings.Join(all, " "), " Learn more: ")
}
