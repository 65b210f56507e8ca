package bootserver

import (
	"fmt"
	"net/http"
	"time"
)

// sending is the response with an image or a part of it. It reports the offset written so far, and times out if the
// machine stops reading. Written bytes may still be in flight: the kernel buffers a few hundred KiB.
type sending struct {
	http.ResponseWriter
	deadlines *http.ResponseController
	told      func(upTo int64) // may be nil

	at    int64 // offset of the next byte, -1 if the response is not a part of the image
	begun bool
}

// Unwrap supports http.ResponseController.
func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *sending) WriteHeader(status int) {
	s.begun, s.at = true, -1
	switch status {
	case http.StatusOK:
		s.at = 0
	case http.StatusPartialContent:
		var from, to, size int64
		// A response with several ranges has no such header.
		if n, _ := fmt.Sscanf(s.Header().Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); n == 3 {
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
