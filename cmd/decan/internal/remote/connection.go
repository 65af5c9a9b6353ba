package remote

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/decandb/decan/internal/auth"
)

// ParseConnection reads a connection string as Azure's pages show it:
// AccountEndpoint=URL;AccountKey=KEY; with further parts that have no effect here. The
// names are read in any case.
func ParseConnection(text string) (endpoint, key string, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, content, found := strings.Cut(part, "=")
		if !found {
			return "", "", fmt.Errorf("the part %.20q has no '=': give AccountEndpoint=URL;AccountKey=KEY", part)
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "accountendpoint":
			endpoint = strings.TrimSpace(content)
		case "accountkey":
			key = strings.TrimSpace(content)
		}
	}
	if endpoint == "" || key == "" {
		return "", "", errors.New("give AccountEndpoint=URL;AccountKey=KEY")
	}
	if parsed, err := url.Parse(baseURL(endpoint)); err != nil || parsed.Host == "" {
		return "", "", fmt.Errorf("AccountEndpoint=%s is not a URL", endpoint)
	}
	if _, err := auth.ParseKey(key); err != nil {
		return "", "", fmt.Errorf("AccountKey: %w", err)
	}
	return endpoint, key, nil
}

// adminPort is the default port of the admin port.
const adminPort = "8080"

// AdminOf returns the URL at which the server of an endpoint has its admin port, if
// that has the default port.
func AdminOf(endpoint string) string {
	parsed, err := url.Parse(baseURL(endpoint))
	if err != nil {
		return "" // The endpoint is refused where it is used.
	}
	return "http://" + net.JoinHostPort(parsed.Hostname(), adminPort)
}
