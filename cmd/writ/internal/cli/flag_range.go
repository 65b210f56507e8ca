package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"writ/sal/catalog"

	"github.com/spf13/pflag"

	"writ"
)

// Limits for flags that need no narrower limit.
const (
	Longest      = 366 * 24 * time.Hour // for waits
	LongestGrant = 100 * Longest        // for permissions and records
	Most         = 1_000_000_000
)

// InRange restricts a flag to values between `least` and `most`. The default may be outside of the range; the command
// then replaces it by a computed value.
func InRange[N int | int64 | float64 | time.Duration](flags *pflag.FlagSet, name string, value *N, least, most N) {
	f := flags.Lookup(name)
	f.Value = &ranged[N]{Value: f.Value, flag: f, value: value, least: least, most: most}
	if f.DefValue == "0s" {
		f.DefValue = "0" // pflag hides a default of 0s only for its own types
	}
}

// ranged is a flag value with limits.
type ranged[N int | int64 | float64 | time.Duration] struct {
	pflag.Value
	flag        *pflag.Flag
	value       *N
	least, most N
}

// Set rejects values outside of the range, including NaN. A duration may begin with a number of days.
func (r *ranged[N]) Set(text string) error {
	value := text
	if _, ok := any(*r.value).(time.Duration); ok {
		value = withoutDays(text)
	}
	if err := r.Value.Set(value); err != nil {
		return err
	}
	if within := *r.value >= r.least && *r.value <= r.most; !within {
		return writ.Errorf(writ.CodeUsage, "--%s: %s is not %s", r.flag.Name, text, r.Possible()).
			WithHint("--%s: %s", r.flag.Name, r.flag.Usage)
	}
	return nil
}

// withoutDays returns the duration "36h" or "24h12h" for "36h" or "1d12h". A day has 24 hours.
func withoutDays(text string) string {
	days, rest, found := strings.Cut(text, "d")
	n, err := strconv.ParseUint(days, 10, 16) // so that the hours cannot overflow
	if !found || err != nil {
		return text
	}
	return fmt.Sprintf("%dh%s", 24*n, rest)
}

// Possible describes the range.
func (r *ranged[N]) Possible() string {
	return "between " + boundText(r.least) + " and " + boundText(r.most)
}

func boundText[N int | int64 | float64 | time.Duration](bound N) string {
	switch b := any(bound).(type) {
	case time.Duration:
		return catalog.ShortDuration(b)
	case float64:
		return strconv.FormatFloat(b, 'f', -1, 64)
	default:
		return fmt.Sprint(b)
	}
}
