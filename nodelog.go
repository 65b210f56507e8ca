package writ

import "time"

// NodeLine is a line of the log of a node, in the node's own words.
type NodeLine struct {
	Time   time.Time `json:"time"`           // by the node's clock
	Boot   string    `json:"boot,omitempty"` // the kernel's id of the start of the machine in which it was written
	Source string    `json:"source"`         // "runner", "boot", "kernel", or the name of a service
	Level  string    `json:"level"`          // one of LogLevels
	Text   string    `json:"text"`
}

// LogLevels are the levels of lines of nodes, lowest first.
var LogLevels = []string{"debug", "info", "warn", "error"}

// NodeLogQuery says which lines of its log a node is asked for: the newest, or those behind a position.
type NodeLogQuery struct {
	ID     string `json:"id"`               // the answer repeats it
	Source string `json:"source,omitempty"` // only this one
	Level  string `json:"level,omitempty"`  // only this level and higher ones
	Since  int64  `json:"since,omitempty"`  // unix milliseconds
	After  string `json:"after,omitempty"`  // the position behind an earlier answer
	Lines  int    `json:"lines,omitempty"`
}
