package progress

import (
	"errors"
	"strings"

	"writ"
)

// Flatten flattens joined errors.
func Flatten(err error) (all []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		all = append(all, Flatten(one)...)
	}
	return all
}

// HintOf returns the hint of an error, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*writ.Error](err); ok {
		return e.Hint
	}
	return ""
}

// Failure converts an error to a report.
func Failure(stage string, err error) Report {
	return Report{
		Stage: stage, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Next: HintOf(err), Failed: true,
	}
}
