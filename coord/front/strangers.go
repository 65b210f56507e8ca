package front

import (
	"net/http"

	"writ/internal/httpguard"
	"writ/internal/limit"
)

// strangersBodies limits the memory for rosters in simultaneous requests without a login. The limit has room for 14
// rosters of the largest size, 576 KiB. To read a roster takes about three times its size in memory.
const strangersBodies = 8 << 20

// Strangers limits the processors and the memory for requests without a login.
type Strangers struct {
	Turns  limit.Turns
	Bodies limit.Bodies
}

// serve answers a request when its turn comes.
func (s *Strangers) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, release := s.Bodies.Meter(r.RemoteAddr, r.Body)
	defer release()
	r.Body = body
	httpguard.InTurn(&s.Turns, next).ServeHTTP(w, r)
}
