package scripts

// Test is a test of a file.
type Test struct {
	Name string `json:"name"`
	Line int    `json:"line"` // of its definition, from 1
}

// TestOutcome is the outcome of a test.
type TestOutcome string

// The outcomes of tests.
const (
	TestPassed  TestOutcome = "pass"
	TestFailed  TestOutcome = "fail"
	TestSkipped TestOutcome = "skip"
)

// Verdict is the result of one test.
type Verdict struct {
	Test    string      `json:"test"`
	Outcome TestOutcome `json:"outcome"`
	Notes   []TestNote  `json:"notes,omitempty"` // in the order of their creation
}

// TestNote is a message of a test, with its position.
type TestNote struct {
	Failure  bool     `json:"failure,omitempty"` // it failed the test; other notes are informative
	Text     string   `json:"text"`              // may have several lines
	Position string   `json:"position,omitempty"`
	Trace    []string `json:"trace,omitempty"` // positions of the callers within the test, innermost first
}
