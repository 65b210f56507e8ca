// Package ctxio reads no longer than a context lasts. It must not know what is read.
package ctxio

import (
	"context"
	"io"
)

// Reader reads from another reader until its context ends, and then fails with the error of that.
type Reader struct {
	Ctx  context.Context
	From io.Reader
}

func (r *Reader) Read(b []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	return r.From.Read(b)
}
