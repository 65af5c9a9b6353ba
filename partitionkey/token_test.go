package partitionkey

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// TestToken checks the tokens of the public vectors, each confirmed by three
// drivers (S128).
func TestToken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cql-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Count   int
		Vectors []struct {
			RoutingKey string `json:"routing_key_hex"`
			Token      string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.Count < 200 || len(file.Vectors) != file.Count {
		t.Fatalf("%d vectors of %d", len(file.Vectors), file.Count)
	}
	for _, v := range file.Vectors {
		key, err := hex.DecodeString(v.RoutingKey)
		if err != nil {
			t.Fatal(err)
		}
		if got := strconv.FormatInt(Token(key), 10); got != v.Token {
			t.Errorf("Token(%s) = %s, want %s", v.RoutingKey, got, v.Token)
		}
	}
	if got := Token(nil); got != math.MinInt64 {
		t.Errorf("Token of the empty key = %d", got)
	}
}
