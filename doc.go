// Package writ has the shared types: ids, values, states and codes that at least two packages use, with one meaning. It
// knows no I/O, no interfaces, no locks, no SQL and no HTTP, and imports the standard library only; everything else
// imports it. The terms are those of docs/architecture.md.
package writ
