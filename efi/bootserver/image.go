package bootserver

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"writ"
	"writ/efi/progress"
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

func (s *Server) answerImage(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("name") != s.name {
		s.refuse(w, r,
			writ.Errorf(writ.CodeNotFound, "unknown image").WithHint("request the boot script again, which names the current image"))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("ETag", `"`+s.digest+`"`)
	sending := &sending{ResponseWriter: w, deadlines: http.NewResponseController(w)}
	if mac := progress.MAC(r.URL.Query().Get("mac")); mac != "" && r.Method == http.MethodGet {
		sending.told = func(upTo int64) {
			s.note(r, mac, func(m *Machine) { m.load(s.digest, upTo, int64(len(s.Image)), s.Now()) })
		}
	}
	http.ServeContent(sending, r, "", time.Time{}, bytes.NewReader(s.Image))
}
