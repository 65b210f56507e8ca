package terminal

import (
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
	Name  string         // for CSV; Title in lower case if ""

	// In a narrow terminal:
	Minor int  // columns with a higher number are left out first; of equal ones, the last
	Whole bool // a cut cell would be of no use: the column is left out instead
	ID    bool // cells are ids, and every command takes the beginning of one
}

const (
	gap     = 2  // spaces between columns
	leastID = 8  // characters of an id
	leastIn = 12 // columns that a cell keeps when it is cut
)

// grid is a table of clean cells, titles first.
type grid struct {
	rows   [][]string
	widths []int // of the columns, in columns of the terminal
}

func newGrid[T any](items []T, columns []Column[T]) *grid {
	g := &grid{widths: make([]int, len(columns))}
	titles := make([]string, len(columns))
	for i, c := range columns {
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

// String returns the lines of the table. Cells that are wider than their columns are cut.
func (g *grid) String() string {
	var b strings.Builder
	for _, row := range g.rows {
		for i, cell := range row {
			cell = ansi.Truncate(cell, g.widths[i], "…")
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", g.widths[i]+gap-lipgloss.Width(cell)))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// table shows a list without any bound to its width.
func table[T any](items []T, columns []Column[T], wide bool) string {
	return newGrid(items, shown(columns, wide)).String()
}

func shown[T any](columns []Column[T], wide bool) []Column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Wide && !wide })
}

// fittedTable shows a list in at most width columns. It shortens ids and cuts cells. If that is not enough, it leaves out columns. The last line names
// those of them that are Whole.
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
		least := leastWidths(columns, g.widths)
		if room := width - total(least); room >= 0 || len(columns) == 1 {
			g.widths = grow(least, g.widths, room)
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

// tooWide returns a Whole column that does not fit even beside the first column alone, -1 if there is none. Other columns are left out in vain for it.
func tooWide[T any](columns []Column[T], least []int, width int) int {
	for i := 1; i < len(columns); i++ {
		if columns[i].Whole && least[0]+gap+least[i] > width {
			return i
		}
	}
	return -1
}

// lostColumns returns the line about columns that were left out and have what a person would copy, "" for none.
func lostColumns(titles []string, width int) string {
	if len(titles) == 0 {
		return ""
	}
	slices.Sort(titles)
	return ansi.Truncate("-o wide shows "+strings.Join(titles, " and "), width, "…") + "\n"
}

// shortenIDs shortens the ids of a column to the shortest prefixes of one length that differ.
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
}

// leastWidths returns how narrow each column may become.
func leastWidths[T any](columns []Column[T], widths []int) []int {
	least := slices.Clone(widths)
	for i, c := range columns {
		if !c.Whole && !c.ID {
			least[i] = min(widths[i], max(leastIn, lipgloss.Width(c.Title)))
		}
	}
	return least
}

// leastImportant returns the column that is left out next. The first one names the item and stays.
func leastImportant[T any](columns []Column[T]) int {
	least := len(columns) - 1
	for i := len(columns) - 1; i > 0; i-- {
		if columns[i].Minor > columns[least].Minor {
			least = i
		}
	}
	return least
}

// grow shares room among the columns that are narrower than they want, evenly. If room is negative, the only column shrinks.
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

// total returns the width of a table whose columns have these widths.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}
