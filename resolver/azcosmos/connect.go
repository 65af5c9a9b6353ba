package azcosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Account is the address and the key of an account.
type Account struct {
	Endpoint string `json:"endpoint"` // such as https://name.documents.azure.com:443/
	Key      string `json:"key"`      // base64
}

// Connect creates the SDK's clients of accounts by name, in the form of
// Config.Accounts. It sends no request. The error is a resolver.ErrConfig.
func Connect(accounts map[string]Account) (map[string]*sdk.Client, error) {
	return ConnectWith(accounts, nil)
}

// ConnectWith is Connect with the HTTP client that requests are sent with, such as one
// that trusts an authority of one's own. Nil means the SDK's.
func ConnectWith(accounts map[string]Account, sender *http.Client) (map[string]*sdk.Client, error) {
	var options *sdk.ClientOptions
	if sender != nil {
		options = &sdk.ClientOptions{ClientOptions: policy.ClientOptions{Transport: sender}}
	}
	clients := make(map[string]*sdk.Client, len(accounts))
	for name, account := range accounts {
		endpoint, err := url.Parse(account.Endpoint)
		if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
			return nil, fmt.Errorf("%w: account %q: the endpoint %q is not an http or https address", resolver.ErrConfig, name, account.Endpoint)
		}
		credential, err := sdk.NewKeyCredential(account.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: account %q: the key is not valid base64", resolver.ErrConfig, name)
		}
		if clients[name], err = sdk.NewClientWithKey(account.Endpoint, credential, options); err != nil {
			return nil, fmt.Errorf("%w: account %q: %w", resolver.ErrConfig, name, err)
		}
	}
	return clients, nil
}

// Status returns the HTTP status with which a server refused a request, or 0 if err is no
// refusal.
func Status(err error) int {
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refused.StatusCode
	}
	return 0
}

// Reason returns the text of an error on one line. It shortens the SDK's page
// about a refused request to the request, the status and the service's message.
func Reason(err error) string {
	text := err.Error()
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		text = strings.ReplaceAll(text, refused.Error(), refusal(refused))
	}
	return strings.Join(strings.Fields(text), " ")
}

func refusal(refused *azcore.ResponseError) string {
	text := refused.ErrorCode
	if code := strconv.Itoa(refused.StatusCode); !strings.HasPrefix(text, code) {
		text = code + " " + text
	}
	if refused.RawResponse == nil {
		return text
	}
	if request := refused.RawResponse.Request; request != nil {
		text = fmt.Sprintf("%s %s: %s", request.Method, request.URL.Redacted(), text)
	}
	// The SDK has replaced the body, so it can be read again.
	var answer struct{ Message string }
	_, page, _ := strings.Cut(refused.Error(), "{")
	if end := strings.LastIndex(page, "}"); end >= 0 && json.Unmarshal([]byte("{"+page[:end+1]), &answer) == nil && answer.Message != "" {
		message, _, _ := strings.Cut(answer.Message, "\r\nActivityId")
		text += ": " + message
	}
	return text
}
