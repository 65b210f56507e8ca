// Package nodelog finds lines in what a node keeps of its log: a ring in a directory for each source. The runner has one, and on a machine from a node
// image the first process, the kernel and each service. It must not know who asks.
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
	// Runner is the source of what the runner logs.
	Runner = "runner"
	// maxSources bounds the rings that are read: those of a machine with all services that an image can have.
	maxSources = 20
	// lineCost is what a line costs in a report besides its text, in bytes.
	lineCost = 128
)

// Log is what a node keeps of its log.
type Log struct {
	Dir    string
	Redact func(text string) string // takes secrets out of a text
}

// sources lists what has a ring.
func (l *Log) sources() []string {
	all := slices.DeleteFunc(logring.Sources(l.Dir), func(source string) bool { return !writ.ValidName(source) })
	return all[:min(len(all), maxSources)]
}

// Read returns the lines that a query asks for: the newest, or the oldest behind its position. Lines of earlier starts of the machine come before
// those of this one; apart from that they are in the order of their times.
func (l *Log) Read(q nodes.LogQuery) nodes.LogReport {
	report := nodes.LogReport{Query: q.ID, Boot: logring.Boot()}
	after, err := parsePosition(q.After)
	sources := l.sources()
	switch {
	case err != nil:
		report.Refused = err.Error()
		return report
	case q.Source != "" && !slices.Contains(sources, q.Source):
		report.Refused = fmt.Sprintf("the node keeps no log of %q; it has those of %s", q.Source, cmp.Or(strings.Join(sources, ", "), "nothing"))
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
				found = append(found, line{nodes.LogLine{Time: e.Time, Boot: e.Boot, Source: source, Level: e.Level, Text: l.Redact(e.Text)}, e.Number, at})
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

// line is a line that was found, with its number in its ring and its place among the lines of all rings.
type line struct {
	nodes.LogLine
	number int64
	at     moment
}

// moment is when a line was written: in this start of the machine or an earlier one, and then by the clock.
type moment struct {
	now  bool
	time time.Time
}

// then returns the moment of the next line of a ring. It is never before the one of the line in front, also if the clock was set back: a position
// in a ring is the number of a line, so that what is read is always the beginning of what is left.
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

// rest returns what is behind a number in a ring, and whether some of it is gone.
func rest(entries []logring.Entry, after int64) (behind []logring.Entry, lost bool) {
	if len(entries) == 0 {
		return nil, after > 0
	}
	if after > entries[len(entries)-1].Number { // of a ring that is gone, with its disk
		return entries, true
	}
	i := slices.IndexFunc(entries, func(e logring.Entry) bool { return e.Number > after })
	if i < 0 {
		return nil, false
	}
	return entries[i:], after > 0 && entries[0].Number > after+1
}

// isWanted reports whether a query asks for a line.
func isWanted(l logring.Line, q nodes.LogQuery) bool {
	return slices.Index(nodes.LogLevels, l.Level) >= slices.Index(nodes.LogLevels, q.Level) && !l.Time.Before(time.UnixMilli(q.Since))
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

// position is the number of the last line that was read, by source.
type position map[string]int64

// String is the form of a position in queries, "boot.12,runner.345".
func (p position) String() string {
	var all []string
	for source, number := range p {
		all = append(all, source+"."+strconv.FormatInt(number, 10))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// parsePosition reads a position; "" is the beginning.
func parsePosition(text string) (position, error) {
	p := position{}
	if text == "" {
		return p, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		source, digits, _ := strings.Cut(one, ".")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || number < 0 || len(p) >= maxSources {
			return nil, fmt.Errorf("%.50q is no position in a log", text)
		}
		p[source] = number
	}
	return p, nil
}
