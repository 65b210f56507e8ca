package bootserver

import (
	"encoding/json"
	"net/http"
	"time"

	"writ"
	"writ/internal/httpguard"
	"writ/internal/limit"
)

// List is the response for operators.
type List struct {
	Image    string    `json:"image"` // digest of the served image
	Bytes    int64     `json:"bytes"`
	Began    time.Time `json:"began"` // start of the server; earlier events are unknown
	Machines []Row     `json:"machines"`
	// Trouble is the error of reading the assigned settings. The previous settings stay in force.
	Trouble string `json:"trouble,omitempty"`
}

// Row is a machine with advice for operators. Ages follow the server's clock.
type Row struct {
	Machine
	AgeSeconds    int64  `json:"age_seconds"`    // since it reached its step
	SilentSeconds int64  `json:"silent_seconds"` // since its last request
	Advice        string `json:"advice"`

	Assigned   string `json:"assigned,omitempty"`   // settings assigned to this machine
	Assignment string `json:"assignment,omitempty"` // state of these settings, such as AssignmentWaits
}

// answerList answers with the list. The memory for all lists that are being sent is bounded, even if operators read
// slowly.
func (s *Server) answerList(w http.ResponseWriter, r *http.Request) {
	metered := &httpguard.MeteredWriter{
		ResponseWriter: w,
		Reserve: func(bytes int) (func(),
			bool) {
			return s.answers.Reserve(limit.NetworkOf(r.RemoteAddr), bytes)
		},
		Refuse: func(w http.ResponseWriter) {
			s.refuse(w, r, writ.Errorf(writ.CodeRateLimited,
				"too many lists are being sent at the same time").WithHint("try again in a second"))
		},
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(metered).Encode(s.List())
}

// List returns the current state of all machines.
func (s *Server) List() List {
	l := List{Image: s.digest, Bytes: int64(len(s.Image)), Began: s.began, Machines: []Row{}}
	assigned, err := s.Assigned()
	if err != nil {
		l.Trouble = writ.AsError(err).Message
	}
	now := s.Now()
	seconds := func(t time.Time) int64 { return int64(max(now.Sub(t), 0) / time.Second) }
	for _, m := range s.machines.list() {
		own := assigned.of(m.MAC, m.Serial)
		state := m.assignmentState(own)
		l.Machines = append(l.Machines, Row{
			Machine: m, AgeSeconds: seconds(m.Since), SilentSeconds: seconds(m.Heard),
			Advice: m.Advice(now) + assignmentAdvice(state), Assigned: own, Assignment: state,
		})
	}
	l.Machines = assigned.withUnseen(l.Machines, seconds(s.began))
	return l
}
