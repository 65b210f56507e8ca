package transfer

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// newPace bounds how many bytes go out in a second, nil if nothing does. A twentieth of a second's worth may go at once, so that timers, which are
// late by a part of a millisecond, slow nobody down.
func newPace(bytes int64) *rate.Limiter {
	if bytes <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytes), max(record, int(min(bytes, 1<<40)/20)))
}

// paced writes no faster than its pace, which others share.
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
