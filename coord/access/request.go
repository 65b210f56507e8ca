package access

import "context"

// Request holds the state of a request that net/http does not have.
type Request struct {
	ID     string
	Remote string
	Signer string  // the logged-in person, or ""
	Viewer *Viewer // nil if the route needs no login

	refused bool // the refusal was recorded
}

type requestKey struct{}

// With returns a context with the state of a request.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns the state of the request of a context. The state is empty if the context has no request.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return new(Request)
}
