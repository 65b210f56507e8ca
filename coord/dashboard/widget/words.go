package widget

import (
	"fmt"
	"strconv"
	"time"

	"writ/internal/hidden"
)

// Duration formats a duration so that durations are easy to compare. static/dashboard.js formats the durations of
// running work in the same way.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms" // two times from different clocks
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %02d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Stamp formats a time for readers without scripts, which would convert it to their time zone.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Millis formats a time for scripts.
func Millis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Short shortens an id to 8 characters. It uses the end of a UUID that begins with its time of creation, because all
// such ids of the same minute begin alike.
func Short(id any) string {
	text := fmt.Sprint(id)
	if len(text) == 36 && text[14] == '7' { // UUIDv7, as writ.NewUUID makes them
		return "…" + text[28:]
	}
	return text[:min(8, len(text))]
}

// Plural formats a count with its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Gibi formats a number of MiB.
func Gibi(mib int64) string {
	if mib%1024 == 0 || mib >= 10*1024 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

// Percent returns the used percentage of a whole, rounded up, from 0 to 100.
func Percent(used, whole int64) int64 {
	if whole <= 0 || used <= 0 {
		return 0
	}
	return min(100, (used*100+whole-1)/whole)
}

// MaxValue limits the characters of a shown value.
const MaxValue = 1000

// Cut shortens a text to its first max characters and appends the number of omitted characters. It escapes invisible
// characters.
func Cut(text string, max int) string {
	text = hidden.Escape(text)
	if len(text) <= max {
		return text
	}
	if runes := []rune(text); len(runes) > max {
		return fmt.Sprintf("%s … (%d more)", string(runes[:max]), len(runes)-max)
	}
	return text
}
