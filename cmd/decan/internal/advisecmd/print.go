package advisecmd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/simulate"
)

// print writes advice as tables and sentences.
func (c *Command) print(out io.Writer, a *simulate.Advice, present []string) error {
	fmt.Fprintf(out, "Sample of %s; the container would hold %s, %s.\n\n",
		console.Counted(int64(a.Sampled), "document"), console.Counted(a.Documents, "document"), console.Size(a.Bytes))

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "property\tvalues\tlargest\tmissing\tasked for")
	for i, p := range a.Properties {
		if i == propertiesMost {
			fmt.Fprintf(table, "and %d more\t\t\t\t\n", len(a.Properties)-i)
			break
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Path, console.Grouped(p.Values), percent(p.Largest), percent(p.Missing), percent(p.Asked))
	}
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(out)
	table = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "key\tlargest key\tRU/s needed\tpartitions\thottest\tqueries ask\tat 10x")
	for i := range a.Candidates {
		r := &a.Candidates[i]
		name := strings.Join(r.Paths, ",")
		if name == strings.Join(present, ",") {
			name += " (now)"
		}
		asked := "-"
		if len(r.Queries) > 0 {
			asked = fmt.Sprintf("%.1f of %d", r.Asked, r.Partitions)
		}
		grown := "-"
		if len(r.Growth) > 0 {
			grown = fmt.Sprintf("%d", r.Growth[0].Partitions)
			if r.Growth[0].Refused {
				grown += ", a key is full"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", name, console.Size(r.LargestBytes), console.Grouped(int64(r.Needed+0.5)), r.Partitions, percent(r.Hottest), asked, grown)
	}
	if err := table.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(out)
	for _, f := range a.Proposal {
		fmt.Fprintf(out, "%s [%s]\n", f.Text, f.Rule)
	}
	for _, text := range a.TradeOffs {
		fmt.Fprintf(out, "- %s\n", text)
	}
	shown := a.Candidates
	if !c.All {
		shown = shown[:1]
	}
	for i := range shown {
		printReport(out, &shown[i])
	}
	return nil
}

// propertiesMost is how many properties the table has.
const propertiesMost = 12

func printReport(out io.Writer, r *simulate.Report) {
	fmt.Fprintf(out, "\n%s\n", strings.Join(r.Paths, ", "))
	for _, f := range r.Findings {
		fmt.Fprintf(out, "  %-4s  %s [%s]\n", f.Weight, f.Text, f.Rule)
	}
	for _, q := range r.Queries {
		fmt.Fprintf(out, "  %s, %.1f of %d, %s: %s\n", q.Route, q.Partitions, r.Partitions, console.Units(q.Charge), q.Query)
	}
	for _, step := range r.Steps {
		fmt.Fprintf(out, "  to do: %s\n", step)
	}
}

func percent(f float64) string { return fmt.Sprintf("%.0f %%", 100*f) }
