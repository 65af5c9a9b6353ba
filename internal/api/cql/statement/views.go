package statement

import (
	"context"
	"sync"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/materialize"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// project finds the tables with materialized views.
func (s *schema) project() error {
	s.viewed = map[resource.RID]*materialize.Viewed{}
	for _, k := range s.user.Keyspaces() {
		for _, t := range k.Tables {
			projections, err := s.user.Projections(t)
			if err != nil {
				return err
			}
			if len(projections) == 0 {
				continue
			}
			v := &materialize.Viewed{RID: s.ridOf(t), Table: t, Projections: projections, Views: map[[16]byte]resource.RID{}}
			for _, p := range projections {
				v.Views[p.View.ID] = s.ridOf(p.View)
			}
			s.viewed[v.RID] = v
		}
	}
	return nil
}

// viewsOf returns the names of the views of a table.
func (s *schema) viewsOf(t *table.Table) (names []string) {
	if v := s.viewed[s.ridOf(t)]; v != nil {
		for _, p := range v.Projections {
			names = append(names, p.View.Name)
		}
	}
	return names
}

// keeperConfig configures the keeper of the views.
func (p *Processor) keeperConfig() materialize.Config {
	return materialize.Config{
		Engine: p.config.Engine, Now: p.config.Now, Logger: p.config.Logger,
		Viewed: func(rid resource.RID) (*materialize.Viewed, error) {
			now, err := p.schema()
			if err != nil {
				return nil, err
			}
			return now.viewed[rid], nil
		},
		All: func() (all []*materialize.Viewed, err error) {
			now, err := p.schema()
			if err != nil {
				return nil, err
			}
			for _, v := range now.viewed {
				all = append(all, v)
			}
			return all, nil
		},
	}
}

// settle brings the views of the changed rows into agreement with them. The error says
// that the rows are changed, and the views will be.
func (p *Processor) settle(ctx context.Context, w *writing) (spent engine.ItemsResult, err error) {
	var all []*table.KeyChange
	for _, c := range w.changes {
		if c.Projected {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return spent, nil
	}
	results, errs := make([]engine.ItemsResult, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	slots := make(chan struct{}, settlersMax)
	for i, c := range all {
		slots <- struct{}{}
		group.Go(func() {
			results[i], errs[i] = p.views.Settle(ctx, w.schema.ridOf(c.Table), c.Key)
			<-slots
		})
	}
	group.Wait()
	for i := range all {
		spent.Add(results[i])
		if errs[i] != nil && err == nil {
			timeout := status.New(status.CodeRequestTimeout, 0, "The row was written. Its materialized views were not updated in time, and will be.")
			timeout.Cause = errs[i]
			err = &door.WriteError{Type: frame.WriteView, Err: timeout}
		}
	}
	return spent, err
}

// settlersMax is the number of partition keys of one statement whose views are updated at
// the same time.
const settlersMax = 16

// settleLater updates the views of changes whose outcome is perhaps not known.
func (p *Processor) settleLater(w *writing) {
	for _, c := range w.changes {
		if c.Projected {
			p.views.Later(w.schema.ridOf(c.Table), c.Key)
		}
	}
}

// builds returns the state of the building of all views.
func (p *Processor) builds() (all []table.ViewBuild) {
	for _, b := range p.views.Builds() {
		one := table.ViewBuild{Keyspace: b.Keyspace, View: b.View, Done: b.Done, Rows: b.Rows}
		if b.After != "" {
			token := partitionkey.Token([]byte(b.After))
			one.Last = &token
		}
		all = append(all, one)
	}
	return all
}
