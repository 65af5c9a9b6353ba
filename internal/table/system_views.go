package table

import (
	"math"
	"strconv"

	"github.com/decandb/decan/internal/row"
)

// ViewBuild is the state of the building of a materialized view.
type ViewBuild struct {
	Keyspace, View string
	Done           bool
	Rows           int64  // of its table that were read
	Last           *int64 // token of the last of them; nil at the beginning
}

// RowsWith returns the rows of a system table, nil for another table. Those about the
// building of views are made from what builds returns.
func (y *System) RowsWith(t *Table, builds func() []ViewBuild) *Rows {
	var add func(*Rows, ViewBuild)
	switch t.Keyspace + "." + t.Name {
	case "system.built_views":
		add = func(r *Rows, b ViewBuild) {
			if b.Done {
				r.add(map[string][]byte{"keyspace_name": []byte(b.Keyspace), "view_name": []byte(b.View), "status_replicated": row.Boolean(true)})
			}
		}
	case "system.views_builds_in_progress": // 3.11
		add = func(r *Rows, b ViewBuild) {
			if b.Done {
				return
			}
			values := map[string][]byte{"keyspace_name": []byte(b.Keyspace), "view_name": []byte(b.View)}
			if b.Last != nil {
				values["generation_number"], values["last_token"] = row.Int(0), strconv.AppendInt(nil, *b.Last, 10)
			}
			r.add(values)
		}
	case "system.view_builds_in_progress":
		add = func(r *Rows, b ViewBuild) {
			if b.Done {
				return
			}
			values := map[string][]byte{
				"keyspace_name": []byte(b.Keyspace), "view_name": []byte(b.View), "keys_built": row.BigInt(b.Rows),
				"start_token": strconv.AppendInt(nil, math.MinInt64, 10), "end_token": strconv.AppendInt(nil, math.MaxInt64, 10),
			}
			if b.Last != nil {
				values["last_token"] = strconv.AppendInt(nil, *b.Last, 10)
			}
			r.add(values)
		}
	case "system_distributed.view_build_status":
		add = func(r *Rows, b ViewBuild) {
			status := "STARTED"
			if b.Done {
				status = "SUCCESS"
			}
			r.add(map[string][]byte{"keyspace_name": []byte(b.Keyspace), "view_name": []byte(b.View), "host_id": y.host[:], "status": []byte(status)})
		}
	default:
		return y.Rows(t)
	}
	rows := &Rows{table: t, items: map[string][]rowItem{}}
	for _, b := range builds() {
		add(rows, b)
	}
	rows.sort()
	return rows
}
