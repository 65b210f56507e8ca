package pagecache

import (
	"io"
	"sync"
	"time"
)

// Lease is one caller's use of a page. The page occupies memory until the caller calls Release.
type Lease struct {
	Body []byte // must not be changed

	cache   *Cache
	page    *page
	network string
	began   time.Time
	order   int64       // value of the cache's clock; older leases have lower values
	timer   *time.Timer // revokes the lease; nil while its page is cached

	revoking sync.Once
	revoked  chan struct{}
}

// Deadline ends a write from another goroutine. http.ResponseController implements it.
type Deadline interface{ SetWriteDeadline(at time.Time) error }

// Send writes the page to a caller and releases the lease. If the lease is revoked, the deadline ends the write.
func (l *Lease) Send(w io.Writer, deadline Deadline) error {
	defer l.Release()
	sent := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-l.revoked:
			_ = deadline.SetWriteDeadline(time.Unix(1, 0)) // in the past
		case <-sent:
		}
	})
	defer watching.Wait() // no deadline is set after the return
	defer close(sent)
	_, err := w.Write(l.Body)
	return err
}

// Release ends the lease. Further calls have no effect.
func (l *Lease) Release() { l.cache.release(l) }

func (l *Lease) revoke() { l.revoking.Do(func() { close(l.revoked) }) }
