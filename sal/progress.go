package sal

import (
	"context"
	"fmt"
)

// listener is the context key of the progress function.
type listener struct{}

// Telling returns a context that makes copies of large files report their progress to the function `tell`. The text is
// for display only.
func Telling(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, listener{}, tell)
}

// Far returns a function that takes the number of bytes done so far. The returned function reports progress to the
// function set by Telling: at each hundredth of total, but at most once per 64 MiB. A total of 0 means unknown. `doing`
// is a participle: "copied".
func Far(ctx context.Context, doing string, total int64) func(done int64) {
	tell, _ := ctx.Value(listener{}).(func(string))
	if tell == nil {
		return func(int64) {}
	}
	pace := max(total/100, 64<<20)
	next := pace
	return func(done int64) {
		if done < next {
			return
		}
		next = done - done%pace + pace
		if total == 0 {
			tell(fmt.Sprintf("%s %s", size(done), doing))
			return
		}
		tell(fmt.Sprintf("%s of %s %s", size(done), size(total), doing))
	}
}

// size formats a number of bytes for people: in MiB, or in GiB with one decimal.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
