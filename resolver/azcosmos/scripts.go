package azcosmos

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/decandb/decan/resolver"
)

// RESTScripts is a ScriptWriter that speaks REST with the key of an account, because
// the SDK has no scripts.
type RESTScripts struct {
	Endpoint string // of the account, such as https://name.documents.azure.com:443/
	Key      string // base64 text

	// HTTP sends the requests. Default http.DefaultClient.
	HTTP *http.Client

	// Now is the clock that requests are signed by. Default time.Now.
	Now func() time.Time
}

// PutScript creates a script, or replaces the one of its id.
func (r RESTScripts) PutScript(ctx context.Context, target resolver.Target, script resolver.Script) error {
	switch script.Kind {
	case resolver.StoredProcedure, resolver.Trigger, resolver.UserDefinedFunction:
	default:
		return fmt.Errorf("%w: the kind of script %q", resolver.ErrConfig, script.Kind)
	}
	body, err := json.Marshal(struct {
		ID               string `json:"id"`
		Body             string `json:"body"`
		TriggerType      string `json:"triggerType,omitempty"`
		TriggerOperation string `json:"triggerOperation,omitempty"`
	}{script.ID, script.Body, script.TriggerType, script.TriggerOperation})
	if err != nil {
		return err
	}
	container := "dbs/" + target.Database + "/colls/" + target.Container
	status, answer, err := r.send(ctx, http.MethodPost, container, container+"/"+string(script.Kind), script.Kind, body)
	if status == http.StatusConflict {
		link := container + "/" + string(script.Kind) + "/" + script.ID
		status, answer, err = r.send(ctx, http.MethodPut, link, link, script.Kind, body)
	}
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("the service answered %d: %s", status, answer)
	}
	return err
}

// answerBytesMax is how much of an answer is read: it is only shown.
const answerBytesMax = 4096

// send signs and sends one request. link is the resource that is signed, path where it
// goes.
func (r RESTScripts) send(ctx context.Context, method, link, path string, kind resolver.ScriptKind, body []byte) (int, string, error) {
	key, err := base64.StdEncoding.DecodeString(r.Key)
	if err != nil {
		return 0, "", fmt.Errorf("%w: the account key: %w", resolver.ErrConfig, err)
	}
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(r.Endpoint, "/")+"/"+strings.Join(segments, "/"), bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	date := strings.ToLower(now().UTC().Format(http.TimeFormat))
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, strings.ToLower(method)+"\n"+string(kind)+"\n"+link+"\n"+date+"\n\n") // a hash takes everything
	request.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Ms-Date", date)
	request.Header.Set("X-Ms-Version", "2018-12-31")
	client := r.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	return response.StatusCode, string(answer), err
}
