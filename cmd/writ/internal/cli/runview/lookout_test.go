package runview

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLookoutLooksOnlyWhileRunIsSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		news []int // seconds of events
		want []int // seconds of checks, until 240
	}{
		"Silent":         {nil, []int{4, 12, 28, 60, 120, 180, 240}},
		"NewsStartsOver": {[]int{1, 2, 29}, []int{6, 14, 33, 41, 57, 89, 149, 209}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var looks []int
				l := NewLookout(func(context.Context) { looks = append(looks, int(time.Since(began).Seconds())) })
				ctx, stop := context.WithTimeout(t.Context(), 241*time.Second)
				defer stop()
				for _, at := range tt.news {
					time.AfterFunc(time.Duration(at)*time.Second, l.Heard)
				}
				l.run(ctx)
				if !slices.Equal(looks, tt.want) {
					t.Errorf("checks at %v, want %v", looks, tt.want)
				}
			})
		})
	}
}
