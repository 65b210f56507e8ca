package writ_test

import (
	"errors"
	"fmt"
	"os"

	"writ"
)

// An error for people has a code, which tells the caller how to react, and a hint. Other errors may wrap it.
func ExampleErrorf() {
	err := writ.Errorf(writ.CodeProjectUnknown, "the roster has no project %q", "shop").WithHint("list the projects: writ project list")
	wrapped := fmt.Errorf("submit: %w", err)

	fmt.Println(writ.CodeOf(wrapped))
	fmt.Println(wrapped)
	if e, ok := errors.AsType[*writ.Error](wrapped); ok {
		fmt.Println("hint:", e.Hint)
	}
	// Output:
	// PROJECT_UNKNOWN
	// submit: the roster has no project "shop"
	// hint: list the projects: writ project list
}

// Every other error is internal. Its text is logged, and people see only the code.
func ExampleCodeOf() {
	_, err := os.Open("/does/not/exist")
	fmt.Println(writ.CodeOf(err))
	// Output: INTERNAL
}
