package dashboard

import (
	"fmt"
	"strconv"
	"time"
)

// duration writes how long something took so that it can be compared at a glance. static/app.js does the same for what goes on.
func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms" // two clocks were compared
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

// stamp writes a moment for people who have no script running that would write it in their own time.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// millis writes a moment for scripts.
func millis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// short cuts an id to what tells it from others on the same page.
func short(id any) string {
	text := fmt.Sprint(id)
	return text[:min(8, len(text))]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// gibi writes an amount of MiB.
func gibi(mib int64) string {
	if mib%1024 == 0 || mib >= 10*1024 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

// share is how much of a whole is used, in percent from 0 to 100.
func share(used, whole int64) int64 {
	if whole <= 0 || used <= 0 {
		return 0
	}
	return min(100, (used*100+whole-1)/whole)
}
