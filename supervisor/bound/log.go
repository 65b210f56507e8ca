package bound

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// MaxAnswer limits a list in one answer to a coordinator, in bytes of JSON. The frame also carries the rest of the
// answer.
const MaxAnswer = 600 << 10

// Log limits a part of a node's log for display. If the part is too long, it keeps the last lines and sets Lost. It
// changes the list in place.
func Log(r nodes.LogReport) nodes.LogReport {
	r.Boot, r.Refused = HostWord(r.Boot), OneLine(r.Refused, MaxWord)
	if len(r.Next) > nodes.MaxLogPosition || strings.ContainsFunc(r.Next, invalidInPosition) {
		r.Next = ""
	}
	from, size, encoded := len(r.Lines), 0, 0
	for from > 0 && len(r.Lines)-from < nodes.MaxLogLines {
		line := logLine(r.Lines[from-1])
		text, err := json.Marshal(link.NodeLine(line)) // JSON takes six bytes for some characters
		size, encoded = size+len(line.Text), encoded+len(text)
		if err != nil || size > nodes.MaxLogBytes || encoded > MaxAnswer {
			break
		}
		from--
		r.Lines[from] = line
	}
	r.Lines, r.Lost = r.Lines[from:], r.Lost || from > 0
	return r
}

// logLine limits a line of a log for display. Invalid values become "unknown", "info" or the zero time.
func logLine(l nodes.LogLine) nodes.LogLine {
	if l.Time = l.Time.UTC(); l.Time.Year() < 1970 || l.Time.Year() > 9999 {
		l.Time = time.Time{} // JSON cannot represent some years
	}
	if !writ.ValidName(l.Source) {
		l.Source = "unknown"
	}
	if !slices.Contains(nodes.LogLevels, l.Level) {
		l.Level = "info"
	}
	l.Boot, l.Text = HostWord(l.Boot), OneLine(l.Text, nodes.MaxLogText)
	return l
}

// invalidInPosition reports whether a log position cannot contain r.
func invalidInPosition(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(".,-", r))
}
