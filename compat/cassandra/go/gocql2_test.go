package drivers

import (
	"errors"
	"fmt"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
)

func cluster2(version int, key string) *gocql.ClusterConfig {
	c := gocql.NewCluster(endpoint())
	c.ProtoVersion = version
	c.Authenticator = gocql.PasswordAuthenticator{Username: user(), Password: key}
	c.Keyspace = "ks"
	return c
}

// TestGocql2 runs the program on each version of the protocol that gocql 2 has, and on
// the one that it finds.
func TestGocql2(t *testing.T) {
	schema(t)
	for _, version := range []int{0, 3, 4, 5} {
		for _, compressed := range []bool{false, true} {
			t.Run(fmt.Sprintf("v%d,compressed=%v", version, compressed), func(t *testing.T) {
				config := cluster2(version, key())
				if compressed {
					config.Compressor = lz4.LZ4Compressor{}
				}
				s, err := config.CreateSession()
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				base := first()
				for i := range 25 {
					if err := s.Query("INSERT INTO t (k, v) VALUES (?, ?)", base+i, fmt.Sprint(i)).Exec(); err != nil {
						t.Fatal(err)
					}
				}
				var v string
				if err := s.Query("SELECT v FROM t WHERE k = ?", base+7).Scan(&v); err != nil || v != "7" {
					t.Errorf("%q, %v", v, err)
				}
				seen := map[int]bool{}
				var k int
				rows := s.Query("SELECT k, v FROM t").PageSize(10).Iter()
				for rows.Scan(&k, &v) {
					seen[k] = true
				}
				if err := rows.Close(); err != nil {
					t.Error(err)
				}
				for i := range 25 {
					if !seen[base+i] {
						t.Errorf("row %d is missing", i)
					}
				}
				batch := s.Batch(gocql.LoggedBatch)
				batch.Query("INSERT INTO t (k, v) VALUES (?, ?)", base+100, "a")
				batch.Query("INSERT INTO t (k, v) VALUES (?, 'b')", base+101)
				if err := batch.Exec(); err != nil {
					t.Error(err)
				}
				for _, want := range []bool{true, false} {
					applied, err := s.Query("INSERT INTO t (k, v) VALUES (?, ?) IF NOT EXISTS", base+200, "x").MapScanCAS(map[string]any{})
					if err != nil || applied != want {
						t.Errorf("applied %v, want %v: %v", applied, want, err)
					}
				}
				// The driver prepares again after a change of the table.
				if err := s.Query("ALTER TABLE ks.t WITH comment = 'changed'").Exec(); err != nil {
					t.Error(err)
				}
				if err := s.Query("INSERT INTO t (k, v) VALUES (?, ?)", base, "again").Exec(); err != nil {
					t.Error(err)
				}
				var syntax gocql.RequestError
				if err := s.Query("nonsense").Exec(); !errors.As(err, &syntax) || syntax.Code() != gocql.ErrCodeSyntax {
					t.Error(err)
				}
				meta, err := s.KeyspaceMetadata("ks")
				if err != nil || meta.Tables["t"] == nil || len(meta.Tables["t"].PartitionKey) != 1 {
					t.Errorf("metadata %+v, %v", meta, err)
				}
			})
		}
	}
	if _, err := cluster2(4, "d3Jvbmcga2V5IG9mIHNpeHRlZW4gYnl0ZXM=").CreateSession(); err == nil {
		t.Error("a wrong key is accepted")
	}
}
