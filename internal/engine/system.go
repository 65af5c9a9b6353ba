package engine

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// SystemTable returns one of the server's own tables, empty if it does not exist and
// create is false. Such a table has partitions as others have, and no limit and no
// throughput of a user counts it. No client finds it: only code with its RID reads and
// writes its items. The partition key has one column.
func (e *Engine) SystemTable(ctx context.Context, name string, create bool) (resource.RID, error) {
	for attempt := 0; ; attempt++ {
		view := e.catalog.View()
		database, ok := view.System()
		if ok {
			for _, c := range view.Containers(database.RID) {
				if c.ID == name {
					return c.RID, nil
				}
			}
		}
		if !create {
			return "", nil
		}
		var err error
		if ok {
			err = e.createSystemTable(ctx, database, name)
		} else {
			_, err = e.catalog.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: resource.SystemDatabase}})
		}
		if err != nil && (status.CodeOf(err) != status.CodeConflict || attempt >= attemptsMax) {
			return "", fail(err)
		}
	}
}

func (e *Engine) createSystemTable(ctx context.Context, database resource.Database, name string) error {
	c, err := resource.NewTable(name, []string{"key"}, []byte(`{}`))
	if err != nil {
		return err
	}
	c.RID = e.catalog.ReserveContainer(database.RID)
	return e.build(ctx, catalog.CreateContainer{Container: c, Partitions: e.tile(c.PartitionKey, 1)}, &Resource{})
}
