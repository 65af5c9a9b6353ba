package drivers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

func cluster1(version int, key string) *gocql.ClusterConfig {
	c := gocql.NewCluster(endpoint())
	c.ProtoVersion = version
	c.Authenticator = gocql.PasswordAuthenticator{Username: user(), Password: key}
	c.Timeout, c.ConnectTimeout = time.Minute, time.Minute // for busy machines
	c.ReconnectInterval = time.Second
	c.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	return c
}

type session1 struct{ *gocql.Session }

func (s session1) exec(text string, values ...any) error { return s.Query(text, values...).Exec() }

func (s session1) rows(page int, text string, values ...any) (all []map[string]any, err error) {
	rows := s.Query(text, values...).PageSize(page).Iter()
	for row := map[string]any{}; rows.MapScan(row); row = map[string]any{} {
		all = append(all, row)
	}
	return all, rows.Close()
}

func (s session1) page(size int, state []byte, text string, values ...any) (all []map[string]any, next []byte, err error) {
	rows := s.Query(text, values...).PageSize(size).PageState(state).Iter()
	next = rows.PageState()
	for row := map[string]any{}; rows.MapScan(row); row = map[string]any{} {
		all = append(all, row)
	}
	return all, next, rows.Close()
}

func (s session1) traced(out io.Writer, text string, values ...any) error {
	return s.Query(text, values...).Trace(gocql.NewTraceWriter(s.Session, out)).Exec()
}

func (s session1) conditional(text string, values ...any) (bool, error) {
	return s.Query(text, values...).MapScanCAS(map[string]any{})
}

func (s session1) batch(logged bool, statements ...[]any) error {
	kind := gocql.UnloggedBatch
	if logged {
		kind = gocql.LoggedBatch
	}
	b := s.NewBatch(kind)
	for _, one := range statements {
		b.Query(one[0].(string), one[1:]...)
	}
	return s.ExecuteBatch(b)
}

func (s session1) keys(keyspace, table string) (names []string, err error) {
	meta, err := s.KeyspaceMetadata(keyspace)
	if err != nil {
		return nil, err
	}
	if meta.Tables[table] == nil {
		return nil, errNoTable
	}
	for _, c := range meta.Tables[table].PartitionKey {
		names = append(names, c.Name)
	}
	return names, nil
}

func (s session1) syntax(err error) bool {
	var e gocql.RequestError
	return errors.As(err, &e) && e.Code() == gocql.ErrCodeSyntax
}

func (s session1) close() { s.Close() }

// TestGocql1 runs the program on each version of the protocol that gocql 1 has, and on
// the one that it finds.
func TestGocql1(t *testing.T) {
	t.Parallel()
	for _, version := range []int{0, 3, 4} {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("v%d,compressed=%v", version, compressed), func(t *testing.T) {
				config := cluster1(version, key())
				if compressed { // With TLS, too.
					config.SslOpts = &gocql.SslOptions{Config: &tls.Config{InsecureSkipVerify: true}}
					config.Compressor = gocql.SnappyCompressor{}
				}
				s, err := config.CreateSession()
				must(t)(err)
				defer s.Close()
				keyspace := fmt.Sprintf("gocql1_v%d_%v", version, compressed)
				program(t, session1{s}, keyspace, version)
				if version == 0 && !compressed {
					splitting(t, session1{s}, keyspace)
				}
			})
		}
	}
	if _, err := cluster1(4, wrongKey).CreateSession(); err == nil {
		t.Error("a wrong key is accepted")
	}
	s, err := cluster1(0, key()).CreateSession()
	must(t)(err)
	defer s.Close()
	restarting(t, session1{s}, "gocql1_v0_false", "gocql1")
}
