package cli

import "writ/cmd/writ/internal/terminal"

// Column returns a column of a table.
func Column[T any](title string, cell func(T) string) terminal.Column[T] {
	return terminal.Column[T]{Title: title, Cell: cell}
}

// Wide returns a column that only wide tables show.
func Wide[T any](title string, cell func(T) string) terminal.Column[T] {
	return terminal.Column[T]{Title: title, Cell: cell, Wide: true}
}

// Minor makes a column optional in a narrow terminal. Columns with a higher rank are dropped first.
func Minor[T any](rank int, c terminal.Column[T]) terminal.Column[T] {
	c.Minor = rank
	return c
}

// Whole prevents truncation of the cells of a column, because users copy them, or because a truncated time is useless.
func Whole[T any](c terminal.Column[T]) terminal.Column[T] {
	c.Whole = true
	return c
}

// IDs marks a column of ids. Commands accept prefixes of these ids.
func IDs[T any](c terminal.Column[T]) terminal.Column[T] {
	c.ID = true
	return c
}
