// Package nodelog finds lines in the logs of a node: a directory with a ring file for each source. The runner is a
// source. On a machine that was started from a node image, the init process, the kernel and each service are further
// sources. The package must not depend on the origin of queries.
package nodelog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/internal/logring"
	"writ/supervisor/nodes"
)

const (
	// Runner is the source for the log of the runner.
	Runner = "runner"
	// maxSources limits the number of rings that are read. It suffices for a machine with all services of an image.
	maxSources = 20
	// lineCost is the overhead of a line in a report, in bytes.
	lineCost = 128
)

// Log is the stored log of a node.
type Log struct {
	Dir    string
	Redact func(text string) string // removes secrets from a text
}

// sources returns the names of at most maxSources sources that have a ring.
func (l *Log) sources() []string {
	all := slices.DeleteFunc(logring.Sources(l.Dir), func(source string) bool { return !writ.ValidName(source) })
	return all[:min(len(all), maxSources)]
}

// Read returns the newest lines that match a query, or the oldest matching lines after the query's position if it has
// one. Lines from before the last boot come first; within each part they are ordered by time.
func (l *Log) Read(q nodes.LogQuery) nodes.LogReport {
	report := nodes.LogReport{Query: q.ID, Boot: logring.Boot()}
	after, err := parsePosition(q.After)
	sources := l.sources()
	switch {
	case err != nil:
		report.Refused = err.Error()
		return report
	case q.Source != "" && !slices.Contains(sources, q.Source):
		report.Refused = fmt.Sprintf("the node has no log of %q; its logs are: %s", q.Source,
			cmp.Or(strings.Join(sources, ", "), "nothing"))
		return report
	}
	next := position{}
	var found []line
	for _, source := range sources {
		if q.Source != "" && q.Source != source {
			continue
		}
		entries, err := logring.Read(logring.File(l.Dir, source))
		if err != nil {
			report.Refused = err.Error()
			return report
		}
		behind, lost := rest(entries, after[source])
		report.Lost = report.Lost || lost
		next[source] = after[source]
		var at moment
		for _, e := range behind {
			next[source], at = e.Number, at.then(moment{e.Boot == report.Boot, e.Time})
			if isWanted(e.Line, q) {
				found = append(found, line{
					nodes.LogLine{Time: e.Time, Boot: e.Boot, Source: source, Level: e.Level, Text: l.Redact(e.Text)},
					e.Number, at,
				})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b line) int { return a.at.compare(b.at) })
	limit := min(cmp.Or(q.Lines, nodes.MaxLogLines), nodes.MaxLogLines)
	if q.After == "" {
		found = newest(found, limit)
	} else if fit := oldest(found, limit); len(fit) < len(found) {
		report.More = true
		for _, l := range found[len(fit):] {
			next[l.Source] = min(next[l.Source], l.number-1)
		}
		found = fit
	}
	for _, l := range found {
		report.Lines = append(report.Lines, l.LogLine)
	}
	report.Next = next.String()
	return report
}

// line is a matching line, with its number in its ring and its moment, which orders the lines of all rings.
type line struct {
	nodes.LogLine
	number int64
	at     moment
}

// moment orders lines: lines of earlier boots come before lines of the current boot, and both parts are ordered by
// time.
type moment struct {
	now  bool
	time time.Time
}

// then returns the moment of the next line of a ring. It is never earlier than the previous moment, even if the clock
// was set back. A query continues after a line number in each ring. Therefore a report with a line must contain all
// earlier matching lines of the same ring.
func (m moment) then(next moment) moment {
	if next.compare(m) < 0 {
		return m
	}
	return next
}

func (m moment) compare(o moment) int {
	if m.now != o.now {
		if m.now {
			return 1
		}
		return -1
	}
	return m.time.Compare(o.time)
}

// rest returns the entries of a ring after the number `after`, and whether the ring has lost entries after that number.
func rest(entries []logring.Entry, after int64) (behind []logring.Entry, lost bool) {
	if len(entries) == 0 {
		return nil, after > 0
	}
	if after > entries[len(entries)-1].Number { // the ring was lost with its disk
		return entries, true
	}
	i := slices.IndexFunc(entries, func(e logring.Entry) bool { return e.Number > after })
	if i < 0 {
		return nil, false
	}
	return entries[i:], after > 0 && entries[0].Number > after+1
}

// isWanted reports whether a line matches a query.
func isWanted(l logring.Line, q nodes.LogQuery) bool {
	return slices.Index(nodes.LogLevels, l.Level) >= slices.Index(nodes.LogLevels, q.Level) &&
		!l.Time.Before(time.UnixMilli(q.Since))
}

// newest returns the last lines that fit into a report.
func newest(all []line, limit int) []line {
	size, from := 0, len(all)
	for from > 0 && len(all)-from < limit && size+lineCost+len(all[from-1].Text) <= nodes.MaxLogBytes {
		from--
		size += lineCost + len(all[from].Text)
	}
	return all[from:]
}

// oldest returns the first lines that fit into a report.
func oldest(all []line, limit int) []line {
	size, to := 0, 0
	for to < len(all) && to < limit && size+lineCost+len(all[to].Text) <= nodes.MaxLogBytes {
		size += lineCost + len(all[to].Text)
		to++
	}
	return all[:to]
}

// position holds the number of the last line read from each source.
type position map[string]int64

// String returns the format of a position in queries, such as "boot.12,runner.345".
func (p position) String() string {
	var all []string
	for source, number := range p {
		all = append(all, source+"."+strconv.FormatInt(number, 10))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// parsePosition parses a position. "" is the position before all lines.
func parsePosition(text string) (position, error) {
	p := position{}
	if text == "" {
		return p, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		source, digits, _ := strings.Cut(one, ".")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || number < 0 || len(p) >= maxSources {
			return nil, fmt.Errorf("%.50q is not a position in a log", text)
		}
		p[source] = number
	}
	return p, nil
}
