// Package writ is the dictionary of the house: the ids, values, states and codes that at least two rooms say to each
// other and mean the same by. It knows no I/O, no interfaces, no locks, no SQL and no HTTP, and imports the standard
// library only; everything else imports it. The words are those of docs/architecture.md.
package writ
