package terminal

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"writ"
	"writ/internal/hidden"
	"writ/internal/lazyregexp"
)

// Format is an output format.
type Format string

// Output formats.
const (
	Table Format = "table" // for people
	Wide  Format = "wide"  // Table with more columns
	JSON  Format = "json"  // the shapes of the HTTP API
	YAML  Format = "yaml"  // the same shapes as JSON
	CSV   Format = "csv"   // the rows of a list with all columns, for spreadsheets
	Name  Format = "name"  // one name or id per line, for shell loops

	Markdown Format = "markdown" // a plan, for a comment on a pull or merge request
)

// Formats lists all formats.
var Formats = []Format{Table, Wide, JSON, YAML, CSV, Name, Markdown}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Set implements pflag.Value. It rejects unknown formats.
func (f *Format) Set(s string) error {
	if !slices.Contains(Formats, Format(s)) {
		return fmt.Errorf("it must be one of %s", strings.Join(FormatNames(), ", "))
	}
	*f = Format(s)
	return nil
}

// Type returns the name of the value type in help texts.
func (f *Format) Type() string { return "format" }

// FormatNames lists the names of all formats.
func FormatNames() []string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return names
}

// View holds data in every output format.
type View struct {
	Data  any // for JSON and YAML
	Text  func(wide bool) string
	Names []string
	Rows  [][]string // for CSV, titles first; nil if the data is not a list

	Markdown func() string // nil if the data is not a plan

	fitted func(width int) string // for a terminal; nil if the width of Text is unlimited
}

// Print writes v in the selected format.
func (t *Terminal) Print(v View) error {
	switch t.Format {
	case JSON:
		return t.PrintJSON(v.Data)
	case YAML:
		text, err := YAMLText(v.Data)
		if err != nil {
			return err
		}
		_, err = t.Out.Write(text)
		return err
	case CSV:
		return writeCSV(t.Out, v.Rows)
	case Markdown:
		if v.Markdown == nil {
			return writ.Errorf(writ.CodeUsage, "only plans can be printed as Markdown").WithHint("use -o json")
		}
		return t.PrintText(v.Markdown())
	case Name:
		for _, name := range v.Names {
			if _, err := fmt.Fprintln(t.Out, Clean(name)); err != nil {
				return err
			}
		}
		return nil
	default:
		if v.fitted != nil && t.Format == Table && t.Columns > 0 {
			return t.PrintText(v.fitted(t.Columns))
		}
		return t.PrintText(v.Text(t.Format == Wide))
	}
}

// PrintText writes text for people. It escapes the remaining unsafe characters, except the colours of Paint.
func (t *Terminal) PrintText(text string) error {
	_, err := io.WriteString(t.Out, t.safe(text))
	return err
}

// PrintExact writes the text of a file: unchanged for a file or a program. For a person, it escapes unsafe characters,
// and applies paint to each line; paint may be nil.
func (t *Terminal) PrintExact(text []byte, paint func(line string) string) error {
	if !t.screen {
		_, err := t.Out.Write(text)
		return err
	}
	lines := strings.Split(hidden.EscapeText(string(text)), "\n")
	for i := range lines {
		if paint != nil {
			lines[i] = paint(lines[i])
		}
	}
	_, err := io.WriteString(t.Out, strings.Join(lines, "\n"))
	return err
}

// writeCSV writes rows as in RFC 4180, but with the line endings of the system.
func writeCSV(w io.Writer, rows [][]string) error {
	if rows == nil {
		return writ.Errorf(writ.CodeUsage, "only lists can be printed as CSV").WithHint("use -o json")
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("print as CSV: %w", err)
	}
	return nil
}

// PrintJSON writes v as indented JSON.
func (t *Terminal) PrintJSON(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	if err == nil {
		_, err = t.Out.Write(harmless(text.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// harmless escapes characters of a JSON text that could control the terminal or mislead a reader, and the bracket of CI
// commands such as "##vso[". Both occur only inside JSON strings.
func harmless(text []byte) []byte {
	return hidden.EscapeJSON(bracketed.ReplaceAll(text, []byte(`$1\u005b`)))
}

var bracketed = lazyregexp.New(`(##[A-Za-z]*)\[`)

// Structured reports whether the format is JSON or YAML. A command then prints complete values without running text.
func (t *Terminal) Structured() bool { return t.Format == JSON || t.Format == YAML }

// List returns the view of a list. data is the value for JSON and YAML.
func List[T any](data any, items []T, name func(T) string, columns ...Column[T]) View {
	v := View{
		Data:   data,
		Text:   func(wide bool) string { return table(items, columns, wide) },
		fitted: func(width int) string { return fittedTable(items, columns, width) },
	}
	for _, item := range items {
		v.Names = append(v.Names, name(item))
	}
	v.Rows = rowsOf(items, columns)
	return v
}

// WithFooter returns v with lines added below its table.
func (v View) WithFooter(lines string) View {
	text, fitted := v.Text, v.fitted
	v.Text = func(wide bool) string { return text(wide) + lines }
	if fitted != nil {
		v.fitted = func(width int) string { return fitted(width) + lines }
	}
	return v
}

// WithLayout returns v with another text for people. layout receives the width of the terminal, or 0 for a file or
// pipe.
func (v View) WithLayout(layout func(width int) string) View {
	v.Text, v.fitted = func(bool) string { return layout(0) }, layout
	return v
}

// Empty reports whether v is a list without items.
func (v View) Empty() bool { return len(v.Rows) == 1 }

// rowsOf returns the rows of a list for programs: all columns, with titles in the form of identifiers.
func rowsOf[T any](items []T, columns []Column[T]) [][]string {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = cmp.Or(c.Name, strings.ToLower(strings.ReplaceAll(c.Title, " ", "_")))
	}
	rows := [][]string{titles}
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			if row[i] = c.Cell(item); c.Exact != nil {
				row[i] = c.Exact(item)
			}
			row[i] = noFormula(Clean(row[i]))
		}
		rows = append(rows, row)
	}
	return rows
}

// noFormula prefixes a cell with an apostrophe if a spreadsheet could evaluate it as a formula.
func noFormula(cell string) string {
	if len(cell) < 2 || !strings.Contains("=+-@", cell[:1]) {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}

// Field is one line of a record.
type Field struct {
	Title string
	Value string // a field with an empty value is omitted
	Wide  bool   // only with -o wide
}

// Record returns the view of one object, with one field per line.
func Record(data any, name string, fields ...Field) View {
	return View{Data: data, Names: []string{name}, Text: func(wide bool) string { return Fields(fields, wide) }}
}

// Fields formats fields, one per line.
func Fields(fields []Field, wide bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.Value != "" && (wide || !f.Wide) {
			fmt.Fprintf(w, "%s:\t%s\n", f.Title, Clean(f.Value))
		}
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// BadFormat returns the error for a command that does not support format f.
func BadFormat(f Format, possible ...string) error {
	return writ.Errorf(writ.CodeUsage, "this command does not print %s", f).
		WithHint("use %s", strings.Join(possible, " or "))
}

// PrintLine writes v as one line of JSON, for streams of values.
func (t *Terminal) PrintLine(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	_, err = t.Out.Write(append(harmless(text), '\n'))
	return err
}
