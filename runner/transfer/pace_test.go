package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Several concurrent archives together take as long as their bytes at the limit. A wait ends with its connection.
func TestArchivesShareTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, each = 1 << 20, 5 << 20
		pace, begin := newPace(perSecond), time.Now()
		var out [maxStreams]bytes.Buffer
		var all sync.WaitGroup
		for i := range out {
			all.Go(func() {
				if n, err := (&paced{&out[i], t.Context(), pace}).Write(make([]byte, each)); n != each || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		all.Wait()
		if took, want := time.Since(begin), maxStreams*each/perSecond*time.Second; took > want || took < want-time.Second/10 {
			t.Errorf("it took %s, not %s", took, want)
		}
		ctx, over := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, over)
		n, err := (&paced{io.Discard, ctx, pace}).Write(make([]byte, each))
		if !errors.Is(err, context.Canceled) || n >= each {
			t.Errorf("after its end %d bytes went out, %v", n, err)
		}
	})
	if newPace(0) != nil {
		t.Error("a zero rate is limited")
	}
}
