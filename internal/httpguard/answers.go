package httpguard

import (
	"errors"
	"net/http"
	"time"
)

// LargeAnswer is the minimum size of a write that MeteredWriter counts. Smaller writes fit into the buffers of their
// connection.
const LargeAnswer = 64 << 10

// errNoRoom means that slow readers hold the memory for answers.
var errNoRoom = errors.New("too many large answers are being sent")

// MeteredWriter counts the bytes of large answers until the client has read them. It sends the status with the first
// byte of the answer, so that it can still refuse an answer for which Reserve returns false.
type MeteredWriter struct {
	http.ResponseWriter
	Reserve func(bytes int) (release func(), ok bool)
	Refuse  func(w http.ResponseWriter) // writes another answer

	status  int // to be sent
	begun   bool
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (m *MeteredWriter) WriteHeader(status int) {
	switch {
	case m.begun || status < http.StatusOK:
		m.ResponseWriter.WriteHeader(status)
	case m.status == 0:
		m.status = status
	}
}

// Write implements io.Writer. If Reserve returns false, Write sends the answer of Refuse instead. If a part of the
// answer was sent before, Write breaks the connection.
func (m *MeteredWriter) Write(b []byte) (int, error) {
	if m.refused {
		return len(b), nil
	}
	if len(b) < LargeAnswer {
		m.Begin()
		return m.ResponseWriter.Write(b)
	}
	release, ok := m.Reserve(len(b))
	switch {
	case ok:
		defer release()
	case m.begun:
		_ = http.NewResponseController(m.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
		return 0, errNoRoom
	default:
		m.begun, m.refused = true, true
		m.Refuse(m.ResponseWriter)
		return len(b), nil
	}
	m.Begin()
	return m.ResponseWriter.Write(b)
}

// Begin sends the status if it was not sent before. Call it when the handler has returned.
func (m *MeteredWriter) Begin() {
	if !m.begun && m.status != 0 {
		m.ResponseWriter.WriteHeader(m.status)
	}
	m.begun = true
}

// FlushError is for http.ResponseController.
func (m *MeteredWriter) FlushError() error {
	m.Begin()
	return http.NewResponseController(m.ResponseWriter).Flush()
}

// Unwrap makes the other methods available to http.ResponseController.
func (m *MeteredWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
