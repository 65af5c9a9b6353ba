package resolvercmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// TestMoveMeter shows the progress of a phase with two containers on a terminal and in a
// file.
func TestMoveMeter(t *testing.T) {
	t.Parallel()
	pages := []azcosmos.Progress{
		{Phase: resolver.Prepare},
		{Phase: resolver.Copy, Scans: []azcosmos.Scan{{Target: "a"}, {Target: "b"}}},
		{Phase: resolver.Copy, Copied: 3, Charge: 9.5, Scans: []azcosmos.Scan{{Target: "a", Seen: 5}, {Target: "b"}}},
		{Phase: resolver.Copy, Copied: 4, Charge: 9.75, Scans: []azcosmos.Scan{{Target: "a", Seen: 6}, {Target: "b"}}},
		{Phase: resolver.Copy, Copied: 9, Charge: 20, Scans: []azcosmos.Scan{{Target: "a", Seen: 12, Done: true}, {Target: "b"}}},
		{Phase: resolver.Copy, Copied: 20, Charge: 50, Scans: []azcosmos.Scan{{Target: "a", Seen: 12, Done: true}, {Target: "b", Seen: 9, Done: true}}},
		{Phase: resolver.Switch},
	}
	for _, c := range []struct {
		terminal, tenths bool

		want string
	}{
		{false, false, `prepare
copy       100 %  20 copied, 0 repaired, 0 deleted, 50.00 RU
switch
`},
		{false, true, `prepare
copy         0 %  0 copied, 0 repaired, 0 deleted, 0.00 RU
copy        10 %  3 copied, 0 repaired, 0 deleted, 9.50 RU
copy        23 %  9 copied, 0 repaired, 0 deleted, 20.00 RU
copy       100 %  20 copied, 0 repaired, 0 deleted, 50.00 RU
switch
`},
		{true, false, `prepare
~copy       ··········    0 %  0 copied, 0 repaired, 0 deleted, 0.00 RU~copy       █·········   10 %  3 copied, 0 repaired, 0 deleted, 9.50 RU~copy       █▎········   12 %  4 copied, 0 repaired, 0 deleted, 9.75 RU~copy       ██▎·······   23 %  9 copied, 0 repaired, 0 deleted, 20.00 RU~copy       ██████████  100 %  20 copied, 0 repaired, 0 deleted, 50.00 RU
switch
`},
	} {
		var out bytes.Buffer
		meter := &moveMeter{out: &out, terminal: c.terminal, tenths: c.tenths, items: func(target string) int64 {
			return map[string]int64{"a": 10, "b": 40}[target]
		}}
		for _, p := range pages {
			meter.show(p)
		}
		meter.endLine()
		if got := strings.ReplaceAll(out.String(), "\r\x1b[K", "~"); got != c.want {
			t.Errorf("terminal %v:\n%s\nwant\n%s", c.terminal, got, c.want)
		}
	}
}
