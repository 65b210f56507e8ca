package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"writ"
	"writ/cmd/writ/internal/terminal"
)

// TestEachNumberOfACommandHasARange checks the flags of all commands: each number or duration rejects values outside of
// its range, and the error names the range.
//
// Promise: Commands and hosts: A command rejects invalid numbers and durations and those outside the documented
// range.
// How: One function limits flags; the test walks the commands, so a new flag without a range fails.
func TestEachNumberOfACommandHasARange(t *testing.T) {
	env := newEnv(terminal.New(os.Stdin, os.Stdout, os.Stderr, nil))
	checkedElsewhere := []string{"silent-after", "lost-after"} // identity.Silence compares the two
	walked := 0
	eachCommand(newRoot(env), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if c.Hidden || !slices.Contains([]string{"int", "int64", "float64", "duration"}, f.Value.Type()) || slices.Contains(checkedElsewhere, f.Name) {
				return
			}
			value, ok := f.Value.(interface{ Possible() string })
			if !ok {
				t.Errorf("%s: --%s has no range", c.CommandPath(), f.Name)
				return
			}
			walked++
			outside := []string{"-1", "9000000000000000000"}
			switch f.Value.Type() {
			case "float64":
				outside = append(outside, "nan", "inf", "-inf")
			case "duration":
				outside = []string{"-1s", "0s", "2562047h"}
			}
			for _, text := range outside {
				err := f.Value.Set(text)
				if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), value.Possible()) {
					t.Errorf("%s --%s %s: %v, where %s is possible", c.CommandPath(), f.Name, text, err, value.Possible())
				}
			}
		})
	})
	if walked < 50 {
		t.Errorf("checked only %d flags", walked)
	}
}

func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, child := range c.Commands() {
		eachCommand(child, do)
	}
}
