package terminal

import (
	"iter"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Column is a column of a table.
type Column[T any] struct {
	Title string
	Wide  bool // only with -o wide
	Cell  func(T) string
	Exact func(T) string // for CSV, if Cell rounds or shortens
	Name  string         // for CSV; "" means the title in lower case

	// Behaviour in a narrow terminal:
	Minor int  // columns with higher numbers are omitted first; among equals, the last one
	Whole bool // a truncated cell would be useless, so the column is omitted instead
	ID    bool // cells are ids; commands accept a prefix of an id
	Wraps bool // cells are words to copy: they continue on further lines instead of being truncated
}

const (
	gap     = 2  // spaces between columns
	leastID = 8  // minimum characters of a shortened id
	leastIn = 12 // minimum width of a truncated cell
	wrapped = 24 // minimum width of a column that wraps; longer words are broken
)

// grid is a table of clean cells, titles first.
type grid struct {
	rows   [][]string
	widths []int // column widths in terminal cells
	wraps  []bool
}

func newGrid[T any](items []T, columns []Column[T]) *grid {
	g := &grid{widths: make([]int, len(columns)), wraps: make([]bool, len(columns))}
	titles := make([]string, len(columns))
	for i, c := range columns {
		g.wraps[i] = c.Wraps
		titles[i] = Clean(c.Title)
	}
	g.rows = append(g.rows, titles)
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			if row[i] = Clean(c.Cell(item)); row[i] == "" {
				row[i] = "-"
			}
		}
		g.rows = append(g.rows, row)
	}
	g.measure()
	return g
}

func (g *grid) measure() {
	for i := range g.widths {
		g.widths[i] = 0
		for _, row := range g.rows {
			g.widths[i] = max(g.widths[i], lipgloss.Width(row[i]))
		}
	}
}

// String returns the lines of the table. Cells wider than their columns are wrapped or truncated.
func (g *grid) String() string {
	var b strings.Builder
	for _, row := range g.rows {
		for line := range g.lines(row) {
			text := ""
			for i, cell := range line {
				text += cell + strings.Repeat(" ", max(g.widths[i]+gap-lipgloss.Width(cell), 0))
			}
			b.WriteString(strings.TrimRight(text, " ") + "\n")
		}
	}
	return b.String()
}

// lines returns the lines of a row, each with a cell for every column.
func (g *grid) lines(row []string) iter.Seq[[]string] {
	cells, height := make([][]string, len(row)), 1
	for i, cell := range row {
		if !g.wraps[i] {
			cells[i] = []string{ansi.Truncate(cell, g.widths[i], "…")}
			continue
		}
		for part := range strings.SplitSeq(ansi.Wrap(cell, g.widths[i], " "), "\n") {
			cells[i] = append(cells[i], strings.TrimSpace(part))
		}
		height = max(height, len(cells[i]))
	}
	return func(yield func([]string) bool) {
		for n := range height {
			line := make([]string, len(row))
			for i := range cells {
				if n < len(cells[i]) {
					line[i] = cells[i][n]
				}
			}
			if !yield(line) {
				return
			}
		}
	}
}

// longestWord returns the width of the longest word in a column.
func (g *grid) longestWord(column int) int {
	longest := 0
	for _, row := range g.rows {
		for word := range strings.SplitSeq(row[column], " ") {
			longest = max(longest, lipgloss.Width(word))
		}
	}
	return longest
}

// table formats a list without a width limit.
func table[T any](items []T, columns []Column[T], wide bool) string {
	return newGrid(items, shown(columns, wide)).String()
}

func shown[T any](columns []Column[T], wide bool) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Wide && !wide })
}

// fittedTable formats a list in at most width terminal cells. It shortens ids, wraps and truncates cells, then omits
// columns if necessary. It breaks words of columns that wrap only to keep columns that are not Minor. The last line names
// the omitted Whole columns.
func fittedTable[T any](items []T, columns []Column[T], width int) string {
	columns = shown(columns, false)
	g := newGrid(items, columns)
	for i, c := range columns {
		if c.ID {
			g.shortenIDs(i)
		}
	}
	g.measure()
	var lost []string
	for {
		least := leastWidths(g, columns, false)
		if total(least) > width && columns[leastImportant(columns)].Minor == 0 {
			least = leastWidths(g, columns, true)
		}
		if room := width - total(least); room >= 0 || len(columns) == 1 {
			words := slices.Clone(least) // words that wrap stay whole if possible
			for i, c := range columns {
				if c.Wraps {
					words[i] = max(least[i], g.longestWord(i))
				}
			}
			least = grow(least, words, room)
			g.widths = grow(least, g.widths, width-total(least))
			return g.String() + lostColumns(lost, width)
		}
		i := tooWide(columns, least, width)
		if i < 0 {
			i = leastImportant(columns)
		}
		if columns[i].Whole {
			lost = append(lost, columns[i].Title)
		}
		columns = slices.Delete(slices.Clone(columns), i, i+1)
		g.leaveOut(i)
	}
}

// tooWide returns a Whole column that does not fit even next to the first column alone, or -1. Omitting other columns
// would not make room for it.
func tooWide[T any](columns []Column[T], least []int, width int) int {
	for i := 1; i < len(columns); i++ {
		if columns[i].Whole && least[0]+gap+least[i] > width {
			return i
		}
	}
	return -1
}

// lostColumns returns the line that names the omitted Whole columns, or "".
func lostColumns(titles []string, width int) string {
	if len(titles) == 0 {
		return ""
	}
	slices.Sort(titles)
	return ansi.Truncate("-o wide shows "+strings.Join(titles, " and "), width, "…") + "\n"
}

// shortenIDs shortens the ids of a column to the shortest common length at which they differ, at least leastID.
func (g *grid) shortenIDs(column int) {
	length := leastID
	for ; ; length++ {
		full, longer := map[string]string{}, false
		for _, row := range g.rows[1:] {
			id := row[column]
			start := id[:min(length, len(id))]
			if other, found := full[start]; found && other != id {
				longer = true
			}
			full[start] = id
		}
		if !longer {
			break
		}
	}
	for _, row := range g.rows[1:] {
		row[column] = row[column][:min(length, len(row[column]))]
	}
}

func (g *grid) leaveOut(column int) {
	for r, row := range g.rows {
		g.rows[r] = slices.Delete(row, column, column+1)
	}
	g.widths = slices.Delete(g.widths, column, column+1)
	g.wraps = slices.Delete(g.wraps, column, column+1)
}

// leastWidths returns the minimum width of each column, with whole or broken words in columns that wrap.
func leastWidths[T any](g *grid, columns []Column[T], broken bool) []int {
	least := slices.Clone(g.widths)
	for i, c := range columns {
		switch {
		case c.Wraps && broken:
			least[i] = min(g.longestWord(i), wrapped)
		case c.Wraps:
			least[i] = g.longestWord(i)
		case !c.Whole && !c.ID:
			least[i] = min(least[i], max(leastIn, lipgloss.Width(c.Title)))
		}
	}
	return least
}

// leastImportant returns the column to omit next. The first column names the item and always stays.
func leastImportant[T any](columns []Column[T]) int {
	least := len(columns) - 1
	for i := len(columns) - 1; i > 0; i-- {
		if columns[i].Minor > columns[least].Minor {
			least = i
		}
	}
	return least
}

// grow distributes room evenly among the columns that are narrower than wanted. If room is negative, the only remaining
// column shrinks.
func grow(widths, want []int, room int) []int {
	if room < 0 {
		widths[0] = max(widths[0]+room, 1)
	}
	for grown := true; grown && room > 0; {
		grown = false
		for i := range widths {
			if widths[i] < want[i] && room > 0 {
				widths[i]++
				room--
				grown = true
			}
		}
	}
	return widths
}

// total returns the width of a table with these column widths.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}
