// Package ctxio stops reads at the end of a context. It does not interpret the data.
package ctxio

import (
	"context"
	"io"
)

// Reader reads from From until Ctx ends, and then returns the error of Ctx. It does not interrupt a Read in progress.
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
