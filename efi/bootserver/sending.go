package bootserver

import (
	"fmt"
	"net/http"
	"time"
)

// sending is an answer with an image, or with a part of it. It tells up to which byte of the image it was written, and gives up if the machine takes
// nothing for a while. What was written may still be on its way: the kernel has a buffer of some hundred KiB.
type sending struct {
	http.ResponseWriter
	deadlines *http.ResponseController
	told      func(upTo int64) // nil if nobody is to know

	at    int64 // the next byte, -1 if this is no part of the image
	begun bool
}

// Unwrap is for http.ResponseController.
func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *sending) WriteHeader(status int) {
	s.begun, s.at = true, -1
	switch status {
	case http.StatusOK:
		s.at = 0
	case http.StatusPartialContent:
		var from, to, size int64
		if n, _ := fmt.Sscanf(s.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); n == 3 { // several ranges have none
			s.at = from
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (s *sending) Write(b []byte) (int, error) {
	if !s.begun {
		s.WriteHeader(http.StatusOK)
	}
	_ = s.deadlines.SetWriteDeadline(time.Now().Add(answerWithin))
	n, err := s.ResponseWriter.Write(b)
	if s.at >= 0 && n > 0 {
		s.at += int64(n)
		if s.told != nil {
			s.told(s.at)
		}
	}
	return n, err
}
