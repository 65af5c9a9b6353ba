package patch

import (
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/status"
)

// ConditionQuery returns the condition as a query that has a row if the document
// fulfils it; "" if the patch has no condition.
func (p *Patch) ConditionQuery() string {
	if p.Condition == "" {
		return ""
	}
	return "SELECT VALUE true " + p.Condition
}

// checkCondition checks that the condition has the clauses FROM and WHERE alone, and
// that FROM names the document.
func (p *Patch) checkCondition() error {
	if p.Condition == "" {
		return nil
	}
	wrong := func(why string) error {
		return status.BadRequest("The condition of the patch is not valid: it is a filter such as 'from c where c.n = 1', %s.", why)
	}
	if words := strings.Fields(p.Condition); len(words) == 0 || !strings.EqualFold(words[0], "from") {
		return wrong("which begins with FROM")
	}
	q, err := sql.Parse(p.ConditionQuery(), nil)
	if err != nil {
		return err
	}
	if len(q.From.Inputs) > 1 || q.From.Inputs[0].In || q.From.Inputs[0].Subquery != nil {
		return wrong("and has no JOIN, no IN and no subquery after FROM")
	}
	if q.GroupBy != nil || q.OrderBy != nil || q.Offset != nil {
		return wrong("and ends with its WHERE clause")
	}
	return nil
}
