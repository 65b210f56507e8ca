package transfer

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// newPace returns a limiter for bytes per second, or nil if bytes is not positive. The burst is the number of bytes in
// 1/20 second, so that late timers do not reduce the rate.
func newPace(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), max(record, int(min(bytes, 1<<40)/20)))
}

// paced is a writer with a rate limit, which several writers can share.
type paced struct {
	io.Writer
	ctx  context.Context
	pace *rate.Limiter
}

func (p *paced) Write(text []byte) (written int, err error) {
	for len(text) > 0 && err == nil {
		piece := text[:min(record, len(text))]
		if err = p.pace.WaitN(p.ctx, len(piece)); err != nil {
			return written, err
		}
		var n int
		n, err = p.Writer.Write(piece)
		written, text = written+n, text[len(piece):]
	}
	return written, err
}
