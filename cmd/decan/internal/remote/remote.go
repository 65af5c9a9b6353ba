// Package remote is how the commands of decan talk to a server: [Admin] to its admin
// port, [Documents] to the port for clients. Both types carry the flags that say
// where the server is.
//
// Page: docs/operating.md
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Admin is where the commands that manage a server send their requests.
type Admin struct {
	Endpoint   string `name:"admin" default:"http://127.0.0.1:8080" env:"DECAN_ADMIN" placeholder:"URL" help:"The admin port of the server (${default})."`
	Key        string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY,DECAN_KEY" placeholder:"KEY" help:"The account key, in base64 (default: the well-known key)."`
	Connection string `name:"connection-string" env:"DECAN_CONNECTION_STRING" placeholder:"TEXT" help:"The key, and the machine of the admin port, as a connection string: AccountEndpoint=URL;AccountKey=KEY."`

	Trust
}

// Ask sends a request without a body and decodes the answer into out.
func (s Admin) Ask(ctx context.Context, method, path string, query url.Values, out any) error {
	return s.Send(ctx, method, path+"?"+query.Encode(), nil, out)
}

// Send sends a request and decodes the answer into out; into a *json.RawMessage it
// copies the answer.
func (s Admin) Send(ctx context.Context, method, path string, content io.Reader, out any) error {
	if s.Key == "" {
		return errors.New("the admin port takes the account key, and no token: give --account-key")
	}
	request, err := http.NewRequestWithContext(ctx, method, baseURL(s.Endpoint)+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("x-decan-key", s.Key)
	client, err := s.Client(http.DefaultTransport.(*http.Transport).Clone())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return Refusal(response.StatusCode, body)
	}
	if raw, ok := out.(*json.RawMessage); ok {
		*raw = body
		return nil
	}
	return s.Decode(body, out)
}

// Decode decodes an answer of the admin port. Its error says that the flag may name
// another port.
func (s Admin) Decode(answer []byte, out any) error {
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s is not an admin port of decan: it answered %.100s; give the address of the admin port with --admin", s.Endpoint, answer)
	}
	return nil
}
