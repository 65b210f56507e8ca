package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"writ"
)

// Bounds of flags that have none of their own.
const (
	longest      = 366 * 24 * time.Hour // of a wait
	longestGrant = 100 * longest        // of rights and records
	most         = 1_000_000_000
)

// inRange lets a flag that was added take only values between two bounds. Its default need not be one: it may stand for what is usual.
func inRange[N int | int64 | float64 | time.Duration](flags *pflag.FlagSet, name string, value *N, least, most N) {
	f := flags.Lookup(name)
	f.Value = &ranged[N]{Value: f.Value, flag: f, value: value, least: least, most: most}
	if f.DefValue == "0s" {
		f.DefValue = "0" // pflag leaves out a default of 0s only of its own types
	}
}

// ranged is the value of a flag with its bounds.
type ranged[N int | int64 | float64 | time.Duration] struct {
	pflag.Value
	flag        *pflag.Flag
	value       *N
	least, most N
}

// Set refuses what is outside. Not-a-number is neither within nor outside.
func (r *ranged[N]) Set(text string) error {
	if err := r.Value.Set(text); err != nil {
		return err
	}
	if within := *r.value >= r.least && *r.value <= r.most; !within {
		return writ.Errorf(writ.CodeUsage, "--%s: %s is not %s", r.flag.Name, text, r.possible()).WithHint("--%s: %s", r.flag.Name, r.flag.Usage)
	}
	return nil
}

// possible says which values are.
func (r *ranged[N]) possible() string {
	return "between " + boundText(r.least) + " and " + boundText(r.most)
}

func boundText[N int | int64 | float64 | time.Duration](bound N) string {
	switch b := any(bound).(type) {
	case time.Duration:
		return lifetime(b)
	case float64:
		return strconv.FormatFloat(b, 'f', -1, 64)
	default:
		return fmt.Sprint(b)
	}
}
