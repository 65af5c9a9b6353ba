package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// Cassandra is where the commands that speak CQL send their statements.
type Cassandra struct {
	CQL string `name:"cql" env:"-" placeholder:"ADDRESS" help:"The Cassandra API: HOST:PORT, or tls://USER@HOST:PORT for TLS and another user, as an account of Azure needs (default: port 10350 of the machine of --endpoint)."`
}

// CQL is a connection to the Cassandra API, in version 4 of its protocol. It carries one
// message after another; one goroutine uses it.
type CQL struct {
	at     cqlPlace
	conn   net.Conn
	reader *frame.Reader
	writer *frame.Writer
}

const (
	cqlPort     = "10350" // the default of decan serve, and that of Azure
	cqlUser     = "decan"
	cqlDialWait = 10 * time.Second
)

// cqlPlace is where the Cassandra API is, and who asks.
type cqlPlace struct {
	host     string // and port
	user     string
	password string
	tls      *tls.Config // nil for none
}

// DialCQL connects to the Cassandra API and authenticates with the account key. An empty
// address is port 10350 of the machine of the endpoint. The caller closes the connection.
func (a Account) DialCQL(ctx context.Context, address string) (*CQL, error) {
	if a.Token != "" {
		return nil, errors.New("the Cassandra API takes the account key, and no token: give --account-key")
	}
	at, err := a.cqlPlace(address)
	if err != nil {
		return nil, err
	}
	return dialCQL(ctx, at)
}

func (a Account) cqlPlace(address string) (cqlPlace, error) {
	p := cqlPlace{host: address, user: cqlUser, password: a.Key}
	if address == "" {
		endpoint, err := url.Parse(baseURL(a.Endpoint))
		if err != nil {
			return p, fmt.Errorf("--endpoint: %w", err)
		}
		p.host = net.JoinHostPort(endpoint.Hostname(), cqlPort)
		return p, nil
	}
	rest, secure := strings.CutPrefix(address, "tls://")
	if user, host, named := strings.Cut(rest, "@"); named {
		p.user, rest = user, host
	}
	p.host = rest
	if _, _, err := net.SplitHostPort(p.host); err != nil {
		return p, fmt.Errorf("%s is not an address of the Cassandra API: give HOST:PORT or tls://USER@HOST:PORT", address)
	}
	if secure {
		config, err := a.TLS()
		if err != nil {
			return p, err
		}
		p.tls = config
	}
	return p, nil
}

func dialCQL(ctx context.Context, at cqlPlace) (*CQL, error) {
	ctx, cancel := context.WithTimeout(ctx, cqlDialWait)
	defer cancel()
	var conn net.Conn
	var err error
	if at.tls != nil {
		conn, err = (&tls.Dialer{Config: at.tls}).DialContext(ctx, "tcp", at.host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", at.host)
	}
	if err != nil {
		// The cause is text: what people must change is not the endpoint.
		return nil, fmt.Errorf("no Cassandra API answers at %s (give its address with --cql): %s", at.host, err.Error())
	}
	c := &CQL{at: at, conn: conn, reader: frame.NewReader(conn, frame.BodyMax), writer: frame.NewWriter(conn)}
	if err := c.begin(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the Cassandra API at %s: %w", at.host, err)
	}
	return c, nil
}

// begin sends the first messages of a connection.
func (c *CQL) begin(ctx context.Context) error {
	answer, err := c.Exchange(ctx, &frame.Startup{Options: []frame.Pair[string]{
		{Name: frame.OptionCQLVersion, Value: "3.4.6"}, {Name: "DRIVER_NAME", Value: "decan"},
	}})
	if err != nil {
		return err
	}
	if _, asks := answer.Message.(frame.Authenticate); asks {
		answer, err = c.Exchange(ctx, &frame.AuthResponse{Token: []byte("\x00" + c.at.user + "\x00" + c.at.password)})
		if err != nil {
			return err
		}
	}
	switch answer.Message.(type) {
	case frame.Ready, frame.AuthSuccess:
		return nil
	}
	return fmt.Errorf("it answered %s to a new connection", answer.Message.Opcode())
}

// Close ends the connection.
func (c *CQL) Close() { c.conn.Close() }

// Exchange sends a message and returns the answer. An answer that is an error is returned
// as one, a *[frame.Error], after which the connection can be used further. Every other
// error ends the connection, and so does the end of the context.
func (c *CQL) Exchange(ctx context.Context, message frame.Message) (frame.Frame, error) {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	if err := c.writer.Add(&frame.Frame{Version: frame.V4, Message: message}); err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	if err := c.writer.Flush(); err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	answer, err := c.reader.Next()
	if err != nil {
		return frame.Frame{}, c.broken(ctx, err)
	}
	if failed, is := answer.Message.(*frame.Error); is {
		return answer, failed
	}
	return answer, nil
}

// broken returns the error of a connection that ended.
func (c *CQL) broken(ctx context.Context, err error) error {
	c.conn.Close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server has closed the connection")
	}
	return err
}

// Wake connects again if the connection has ended, and reports whether it had to.
func (c *CQL) Wake(ctx context.Context) (again bool, err error) {
	if _, err := c.Exchange(ctx, &frame.Options{}); err == nil {
		return false, nil
	}
	next, err := dialCQL(ctx, c.at)
	if err != nil {
		return false, err
	}
	*c = *next
	return true, nil
}
