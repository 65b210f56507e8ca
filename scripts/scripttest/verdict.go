package scripttest

// Test is a test of a file.
type Test struct {
	Name string `json:"name"`
	Line int    `json:"line"` // of its definition, from 1
}

// Outcome is the outcome of a test.
type Outcome string

// The outcomes of tests.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
)

// Verdict is the result of one test.
type Verdict struct {
	Test    string  `json:"test"`
	Outcome Outcome `json:"outcome"`
	Notes   []Note  `json:"notes,omitempty"` // in the order of their creation
}

// Note is a message of a test, with its position.
type Note struct {
	Failure  bool     `json:"failure,omitempty"` // it failed the test; other notes are informative
	Text     string   `json:"text"`              // may have several lines
	Position string   `json:"position,omitempty"`
	Trace    []string `json:"trace,omitempty"` // positions of the callers within the test, innermost first
}
