package front

import (
	"cmp"
	"net/http"

	"writ"
	"writ/coord/access"
	"writ/internal/httpguard"
	"writ/internal/limit"
)

// serveReader answers a logged-in reader. It bounds the memory for all large responses in flight, however slowly the
// readers receive them.
func (f *Front) serveReader(w http.ResponseWriter, r *http.Request, next http.Handler) {
	reader := cmp.Or(access.RequestOf(r.Context()).Signer, limit.NetworkOf(r.RemoteAddr))
	metered := &httpguard.MeteredWriter{
		ResponseWriter: w,
		Reserve:        func(bytes int) (func(), bool) { return f.Answers.Reserve(reader, bytes) },
		Refuse: func(w http.ResponseWriter) {
			for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"} {
				w.Header().Del(name) // these describe the response that is not sent
			}
			f.Fail(w, r,
				writ.Errorf(writ.CodeRateLimited, "too many large answers are being sent at the same time").
					WithHint("read the answers, or try again in a second"))
		},
	}
	next.ServeHTTP(metered, r)
	metered.Begin()
}
