//go:build !release

package daemons

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"writ/cmd/writ/internal/bench"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// seconds formats a time in a precision that suits comparisons.
func seconds(s float64) string {
	d, to := time.Duration(s*float64(time.Second)), 100*time.Microsecond
	if d < time.Millisecond {
		to = time.Microsecond
	}
	return d.Round(to).String()
}

// machineText describes the machine of a benchmark in one line.
func machineText(m bench.Machine) string {
	return fmt.Sprintf("%d cores (%s), %s, kernel %s, %s, fsync p50 %s", m.CPUs, cmp.Or(m.CPU, "model unknown"), m.OS,
		m.Kernel, m.Go, seconds(m.Fsync.P50))
}

// waitingText describes waiting runs by the causes of their wait.
func waitingText(runs, slots, resources, revisions int) string {
	return fmt.Sprintf("%d (%d for capacity of a node, %d for a resource, %d for their deployment)", runs, slots, resources,
		revisions)
}

// speedRow is a row of the speed table: one workload of one system.
type speedRow struct {
	system, workload string
	bench.Figures
}

// speedText formats the report of `writ bench`: the table and the notes below it.
func speedText(r bench.SpeedReport, wideTable bool) string {
	var rows []speedRow
	for _, w := range []struct {
		name func(bench.Figures) string
		of   func(bench.SystemReport) bench.Figures
	}{
		{func(f bench.Figures) string {
			return fmt.Sprintf("%d calls in a row, %d runs in flight", f.Calls, f.InFlight)
		},
			func(s bench.SystemReport) bench.Figures { return s.Together }},
		{func(f bench.Figures) string { return fmt.Sprintf("%d calls in a row, alone", f.Calls) },
			func(s bench.SystemReport) bench.Figures { return s.Alone }},
		{func(bench.Figures) string { return "one call, alone" },
			func(s bench.SystemReport) bench.Figures { return s.OneCall }},
		{func(f bench.Figures) string { return fmt.Sprintf("%d calls at once, alone", f.Calls) },
			func(s bench.SystemReport) bench.Figures { return s.FanOut }},
	} {
		for _, s := range r.Systems {
			f := w.of(s)
			rows = append(rows, speedRow{s.Name, w.name(f), f})
		}
	}
	var b strings.Builder
	b.WriteString(terminal.List(nil, rows, func(speedRow) string { return "" },
		cli.Column("WORKLOAD", func(r speedRow) string { return r.workload }),
		cli.Column("SYSTEM", func(r speedRow) string { return r.system }),
		cli.Column("RUNS/S", func(r speedRow) string { return fmt.Sprintf("%.1f", r.RunsPerSecond) }),
		cli.Column("CALLS/S", func(r speedRow) string { return fmt.Sprintf("%.0f", r.CallsPerSecond) }),
		cli.Column("P50", func(r speedRow) string { return seconds(r.Time.P50) }),
		cli.Column("P99", func(r speedRow) string { return seconds(r.Time.P99) }),
		cli.Column("CPU/CALL", func(r speedRow) string { return fmt.Sprintf("%.0f µs", r.CPUPerCall) }),
		cli.Column("WRIT/THIS", func(r speedRow) string { return fmt.Sprintf("%.2f", r.WritToThis) }),
		cli.Wide("OF WHICH", func(r speedRow) string { return partsText(r.CPUOf, "%.0f") }),
	).Text(wideTable))
	var fields []terminal.Field
	for _, s := range r.Systems {
		fields = append(fields, terminal.Field{Title: s.Name, Value: s.Durability})
	}
	for _, why := range r.Missing {
		fields = append(fields, terminal.Field{Title: "not measured", Value: why})
	}
	fields = append(fields,
		terminal.Field{Title: "Redis", Value: r.Redis},
		terminal.Field{Title: "node", Value: fmt.Sprintf("%d slots; bare asynq looks every %g ms", r.Slots, r.AsynqPollMS)},
		terminal.Field{Title: "machine", Value: machineText(r.Machine)},
		terminal.Field{
			Title: "figures",
			Value: fmt.Sprintf("medians of %d rounds; times of all of them, from submission to result", r.Rounds),
		})
	return b.String() + "\n" + terminal.Fields(fields, false)
}

// partsText lists the share of each part in a format, largest first.
func partsText(parts map[string]float64, format string) string {
	names := slices.SortedFunc(maps.Keys(parts),
		func(a, b string) int { return cmp.Or(cmp.Compare(parts[b], parts[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = name + " " + fmt.Sprintf(format, max(parts[name], 0)) // a difference of two measurements can be below 0
	}
	return strings.Join(names, ", ")
}
