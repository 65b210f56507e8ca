package scripts

import (
	"bytes"
	"strconv"
	"strings"

	"writ/scripts/diagnostic"
)

// Excerpt returns the source line at a position "file:line:column", with a caret below the column. It returns "" if the
// bundle does not contain the position, or if the line is longer than diagnostic.MaxLine.
func (b Bundle) Excerpt(position string) string {
	name, line, column, ok := ParsePosition(position)
	if !ok {
		return ""
	}
	for _, s := range append([]Source{b.Main}, b.Modules...) {
		if s.Name != name {
			continue
		}
		offset := 0
		for range line - 1 {
			end := bytes.IndexByte(s.Text[offset:], '\n')
			if end < 0 {
				return ""
			}
			offset += end + 1
		}
		text := diagnostic.LineAt(s.Text, offset)
		if len(text) > diagnostic.MaxLine || column > len(text)+1 {
			return ""
		}
		return diagnostic.Diagnostic{Line: line, Column: column, Width: 1, Text: text}.Excerpt()
	}
	return ""
}

// ParsePosition splits "name:line:column". The name may contain colons.
func ParsePosition(position string) (name string, line, column int, ok bool) {
	rest, last := cutLastColon(position)
	name, middle := cutLastColon(rest)
	line, err1 := strconv.Atoi(middle)
	column, err2 := strconv.Atoi(last)
	return name, line, column, err1 == nil && err2 == nil && line > 0 && column > 0
}

func cutLastColon(s string) (before, after string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+1:]
}
