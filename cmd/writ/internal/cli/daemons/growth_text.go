//go:build !release

package daemons

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// growthRow is a row of the growth table: one size, and the first size to compare with.
type growthRow struct{ size, first bench.SizeReport }

// unknown is a figure that was not measured.
var unknown = math.NaN()

// growthColumn returns a column with a figure of each size and its ratio to the first size.
func growthColumn(title, format string, of func(bench.SizeReport) float64) terminal.Column[growthRow] {
	return cli.Column(title, func(r growthRow) string {
		value, first := of(r.size), of(r.first)
		if math.IsNaN(value) {
			return "–"
		}
		ratio := "–"
		if first > 0 {
			ratio = fmt.Sprintf("%.2f", value/first)
		}
		return fmt.Sprintf(format, value) + " (" + ratio + ")"
	})
}

// growthText formats the report of `writ bench growth`, which has at least one size: the table and the details of each
// size below it.
func growthText(r bench.GrowthReport, wideTable bool) string {
	var rows []growthRow
	for _, size := range r.Sizes {
		rows = append(rows, growthRow{size, r.Sizes[0]})
	}
	classes := slices.DeleteFunc(slices.Clone(bench.Classes), func(class string) bool {
		_, measured := r.Sizes[0].Together.CPUOf[class]
		return !measured
	})
	columns := []terminal.Column[growthRow]{
		cli.Column("DCS", func(r growthRow) string { return strconv.Itoa(r.size.Datacenters) }),
		cli.Column("NODES", func(r growthRow) string { return strconv.Itoa(r.size.Datacenters * r.size.Nodes) }),
		growthColumn("IDLE", "%.1f %%", func(s bench.SizeReport) float64 { return s.Idle.Cores() * 100 }),
	}
	together := func(s bench.SizeReport) *bench.LoadFigures { return &s.Together }
	fanOut := func(s bench.SizeReport) *bench.LoadFigures { return &s.FanOut }
	columns = append(columns, loadColumns("", classes, together)...)
	columns = append(columns, loadColumns("FAN ", classes, fanOut)...)
	if r.Sizes[0].Backlog != nil {
		columns = append(columns, loadColumns("BACKLOG ", classes, func(s bench.SizeReport) *bench.LoadFigures {
			if s.Backlog == nil {
				return nil
			}
			return &s.Backlog.Together
		})...)
	}
	var b strings.Builder
	b.WriteString(terminal.List(nil, rows, func(growthRow) string { return "" }, columns...).Text(wideTable))
	var fields []terminal.Field
	for _, size := range r.Sizes {
		fields = append(fields, sizeFields(size)...)
	}
	fields = append(fields,
		terminal.Field{Title: "Redis", Value: r.Redis},
		terminal.Field{Title: "journals and ledger", Value: r.Stores},
		terminal.Field{Title: "nodes", Value: fmt.Sprintf("%d slots each", r.Slots)},
		terminal.Field{Title: "machine", Value: machineText(r.Machine)})
	text := b.String() + "\n" + terminal.Fields(fields, false)
	if len(r.Histories) > 0 {
		text += "\n" + historyText(r.Histories)
	}
	return text
}

// historyText formats the times of the lists of a coordinator, with the number of runs in each history.
func historyText(all []bench.HistoryReport) string {
	columns := []terminal.Column[int]{
		cli.Column("LIST", func(i int) string { return all[0].Lists[i].Address }),
		cli.Column("KB", func(i int) string {
			return fmt.Sprintf("%.1f", float64(all[len(all)-1].Lists[i].Bytes)/1000)
		}),
	}
	for _, h := range all {
		runs := strconv.Itoa(h.Runs) + " RUNS"
		columns = append(columns,
			cli.Column("P50 OF "+runs, func(i int) string {
				one, first := h.Lists[i].Time.P50, all[0].Lists[i].Time.P50
				return fmt.Sprintf("%s (%.2f)", seconds(one), one/first)
			}),
			cli.Column("P99 OF "+runs, func(i int) string { return seconds(h.Lists[i].Time.P99) }))
	}
	rows := make([]int, len(all[0].Lists))
	for i := range rows {
		rows[i] = i
	}
	return terminal.List(nil, rows, func(int) string { return "" }, columns...).Text(false)
}

// loadColumns returns the columns of a workload, including the CPU time of each class. The function `of` returns nil
// for a size without this measurement.
func loadColumns(
	prefix string, classes []string, of func(bench.SizeReport) *bench.LoadFigures,
) (columns []terminal.Column[growthRow]) {
	add := func(wide bool, title, format string, value func(bench.LoadFigures) float64) {
		column := growthColumn(prefix+title, format, func(s bench.SizeReport) float64 {
			if f := of(s); f != nil {
				return value(*f)
			}
			return unknown
		})
		column.Wide = wide
		columns = append(columns, column)
	}
	fan, further := prefix == "FAN ", prefix != ""
	add(fan, "RUNS/S", "%.1f", func(f bench.LoadFigures) float64 { return f.RunsPerSecond })
	add(!fan, "CALLS/S", "%.0f", func(f bench.LoadFigures) float64 { return f.CallsPerSecond })
	add(false, "CPU/CALL", "%.0f µs", func(f bench.LoadFigures) float64 { return f.CPUPerCall })
	add(false, "BUSY", "%.0f µs", func(f bench.LoadFigures) float64 { return f.BusyPerCall })
	add(further, "REDIS/CALL", "%.1f", func(f bench.LoadFigures) float64 { return f.CommandsPerCall })
	add(further, "WRITTEN/CALL", "%.1f KB", func(f bench.LoadFigures) float64 { return f.WrittenPerCall / 1000 })
	for _, class := range classes {
		add(true, strings.ToUpper(class), "%.0f µs", func(f bench.LoadFigures) float64 { return f.CPUOf[class] })
	}
	return columns
}

// sizeFields returns the details of a size.
func sizeFields(s bench.SizeReport) []terminal.Field {
	fields := []terminal.Field{{
		Title: cli.Count(s.Datacenters, "datacenter"),
		Value: fmt.Sprintf("%s each, ready after %s", cli.Count(s.Nodes, "node"), seconds(s.JoinSeconds)),
	}}
	fields = append(fields, idleFields(s.Idle)...)
	fields = append(fields, loadFields("calls in a row", s.Together)...)
	fields = append(fields, loadFields("calls at once", s.FanOut)...)
	if b := s.Backlog; b != nil {
		fields = append(fields, terminal.Field{Title: "backlog", Value: waitingText(b.Runs, b.BehindSlots, b.BehindResources,
			b.BehindRevisions)})
		fields = append(fields, idleFields(b.Idle)...)
		fields = append(fields, loadFields("calls in a row", b.Together)...)
	}
	if r := s.Streams; r != nil {
		fields = append(fields, streamsFields(r.Streams, "a run", s.Together, r.OfRuns)...)
		fields = append(fields, streamsFields(r.Streams, "all runs", s.Together, r.OfAll)...)
	}
	return fields
}

// streamsFields returns the details of a workload with n open streams, and its ratio to the workload without.
func streamsFields(n int, of string, without, with bench.LoadFigures) []terminal.Field {
	return append([]terminal.Field{{
		Title: cli.Count(n, "stream") + " of " + of,
		Value: fmt.Sprintf("%.1f runs/s (%.2f)", with.RunsPerSecond, with.RunsPerSecond/without.RunsPerSecond),
	}}, loadFields("calls in a row", with)...)
}

func idleFields(f bench.IdleFigures) []terminal.Field {
	percent := make(map[string]float64)
	for class, cores := range f.CoresOf {
		percent[class] = cores * 100
	}
	var most []string
	for _, c := range f.Most {
		most = append(most, fmt.Sprintf("%s %.1f", c.Command, c.PerSecond))
	}
	return []terminal.Field{
		{Title: "% of a core, idle", Value: fmt.Sprintf("%s; a node %.2f", partsText(percent, "%.1f"), f.NodeCores*100)},
		{Title: "Redis commands/s, idle", Value: fmt.Sprintf("%.0f: %s", f.Commands, strings.Join(most, ", "))},
	}
}

func loadFields(title string, f bench.LoadFigures) []terminal.Field {
	kilobytes := make(map[string]float64)
	for class, n := range f.WrittenOf {
		kilobytes[class] = n / 1000
	}
	return []terminal.Field{
		{Title: title, Value: fmt.Sprintf("%s of %s, p50 %s, p99 %s", cli.Count(f.Runs, "run"), cli.Count(f.Calls, "call"),
			seconds(f.Time.P50), seconds(f.Time.P99))},
		{Title: "µs of CPU per call", Value: partsText(f.CPUOf, "%.0f")},
		{Title: "µs without the idle part", Value: partsText(f.BusyOf, "%.0f")},
		{Title: "KB written per call", Value: partsText(kilobytes, "%.1f")},
	}
}
