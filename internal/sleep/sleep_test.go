package sleep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestForEndsWithItsTimeOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it took %s: %v", time.Since(began), err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		began = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("it took %s: %v", time.Since(began), err)
		}
	})
}

func TestEveryStartsAtOnceAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 150*time.Second)
		defer stop()
		began, times := time.Now(), 0
		Every(ctx, time.Minute, func(context.Context) { times++ })
		if times != 3 || time.Since(began) != 150*time.Second {
			t.Errorf("%d calls in %s", times, time.Since(began))
		}
	})
}
