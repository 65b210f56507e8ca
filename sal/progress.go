package sal

import (
	"context"
	"fmt"
)

// listener is the key of who wants to know how far something is.
type listener struct{}

// Telling returns a context in which copies of big files say how far they are. It is for whoever waits, and changes nothing.
func Telling(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, listener{}, tell)
}

// Far returns what is called with the bytes that are done out of a total, 0 if that is not known. It tells whoever listens in the
// context: at each hundredth of the total, and not more often than every 64 MiB. Doing is a participle, "copied".
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
			tell(fmt.Sprintf("%s of it %s", size(done), doing))
			return
		}
		tell(fmt.Sprintf("%s of %s %s", size(done), size(total), doing))
	}
}

// size writes an amount as people read it: in MiB, or in GiB with a tenth.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
