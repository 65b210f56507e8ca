package registry

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"writ/internal/outbound"
)

const (
	// stallLimit is the longest pause in a download.
	stallLimit = time.Minute
	// maxBreaks is how many connections in a row may break without any data.
	maxBreaks = 3
	// breakPause is the time between the end of a connection and the start of the next connection.
	breakPause = 200 * time.Millisecond
)

var errStalled = errors.New("the server sent no data for a minute")

// download reads a blob. It is cancelled after a pause of stallLimit. If a connection breaks, it continues with the
// next byte on another connection.
type download struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no place for it
	cancel context.CancelCauseFunc
	timer  *time.Timer
	open   func(context.Context) (io.ReadCloser, error) // the result must be an io.Seeker
	body   io.ReadCloser
	offset int64
	breaks int
}

// begin opens a download.
func begin(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (*download, error) {
	d := &download{open: open}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.timer = time.AfterFunc(stallLimit, func() { d.cancel(errStalled) })
	var err error
	if d.body, err = open(d.ctx); err != nil {
		err = d.cause(err)
		d.end()
		return nil, err
	}
	return d, nil
}

func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.body.Read(p)
		d.timer.Reset(stallLimit)
		if d.offset += int64(n); n > 0 {
			d.breaks = 0
		}
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return n, err
		case d.breaks == maxBreaks || d.ctx.Err() != nil || errdefs.IsFailedPrecondition(err), isFinal(err):
			return n, d.cause(err)
		}
		d.breaks++
		if err := d.reopen(); err != nil {
			return n, d.cause(err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// isFinal reports whether a new connection would fail with the same error.
func isFinal(err error) bool {
	return slices.ContainsFunc([]error{outbound.ErrSlow, outbound.ErrLong, outbound.ErrEncoded, outbound.ErrSwitched},
		func(final error) bool { return errors.Is(err, final) })
}

// reopen makes a new connection, and continues at the offset.
func (d *download) reopen() error {
	_ = d.body.Close()
	select {
	case <-d.ctx.Done():
		return d.ctx.Err()
	case <-time.After(breakPause):
	}
	body, err := d.open(d.ctx)
	if err != nil {
		return err
	}
	d.body = body
	seeker, ok := body.(io.Seeker)
	if !ok {
		return errors.New("the download cannot be resumed")
	}
	_, err = seeker.Seek(d.offset, io.SeekStart)
	return err
}

// Close ends the download.
func (d *download) Close() error {
	defer d.end()
	return d.body.Close()
}

func (d *download) end() { d.timer.Stop(); d.cancel(nil) }

func (d *download) cause(err error) error {
	if errors.Is(context.Cause(d.ctx), errStalled) {
		return errStalled
	}
	return err
}
